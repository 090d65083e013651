// A sheet to draw on: what is drawn becomes the picture that the model looks at. Whoever draws with no
// pointer gives a file instead, beside it.
import {button, el} from "./elements.js";

const SIZE = 168;

// done(address): the drawing as a PNG in a data address.
export function pad(done) {
  const canvas = el("canvas", {width: SIZE, height: SIZE, class: "pad", role: "img", "aria-label": "Sheet to draw on with a pointer"});
  const ctx = canvas.getContext("2d");
  const clear = () => { ctx.fillStyle = "#ffffff"; ctx.fillRect(0, 0, SIZE, SIZE); };
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
    Object.assign(ctx, {lineWidth: 9, lineCap: "round", strokeStyle: "#10131a"});
    ctx.beginPath();
    ctx.moveTo(...last);
    ctx.lineTo(...next);
    ctx.stroke();
    last = next;
  });
  clear();
  const look = button("Look at the drawing", () => done(canvas.toDataURL("image/png")));
  return el("div", {class: "drawing"}, canvas, el("div", {class: "buttons"}, look, button("Clean sheet", clear)));
}
