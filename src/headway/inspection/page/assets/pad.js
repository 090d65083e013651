// A drawing area for a pointer: the drawing becomes the input image. Without a pointer, an image file can
// be chosen instead (live.js).
import {button, el} from "./elements.js";

const SIZE = 168;

// done(address): called with the drawing as a PNG in a data address. bright: whether the ground of the
// model's images is bright, and the ink dark.
export function pad(done, {bright = true} = {}) {
  const [ground, ink] = bright ? ["#ffffff", "#10131a"] : ["#000000", "#ffffff"];
  const canvas = el("canvas", {width: SIZE, height: SIZE, class: "pad", role: "img", "aria-label": "Drawing area for a pointer"});
  const ctx = canvas.getContext("2d");
  const clear = () => { ctx.fillStyle = ground; ctx.fillRect(0, 0, SIZE, SIZE); };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * SIZE) / box.width, ((event.clientY - box.top) * SIZE) / box.height];
  };
  let last = null;
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); last = at(event); });
  canvas.addEventListener("pointerup", () => { last = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    const next = at(event);
    Object.assign(ctx, {lineWidth: 13, lineCap: "round", strokeStyle: ink});
    ctx.beginPath();
    ctx.moveTo(...last);
    ctx.lineTo(...next);
    ctx.stroke();
    last = next;
  });
  clear();
  const use = button("Use the drawing", () => done(canvas.toDataURL("image/png")));
  return el("div", {class: "drawing"}, canvas, el("div", {class: "buttons"}, use, button("Clear", clear)));
}
