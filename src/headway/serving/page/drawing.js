// A drawing area for a pointer. The image has the ink and the ground of the images of the model.
import {el} from "./dom.js";

const SIZE = 224;
const WIDTH = 18; // of a line, in pixels

// bright: whether the ground of the model's images is bright. done(file): called after each line with the
// drawing as a PNG file.
export function drawing({bright}, done) {
  const [ground, ink] = bright ? ["#ffffff", "#000000"] : ["#000000", "#ffffff"];
  const canvas = el("canvas", {width: SIZE, height: SIZE, class: "pad", role: "img", "aria-label": "Drawing area for a pointer"});
  const context = canvas.getContext("2d");
  const clear = () => {
    context.fillStyle = ground;
    context.fillRect(0, 0, SIZE, SIZE);
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * SIZE) / box.width, ((event.clientY - box.top) * SIZE) / box.height];
  };
  const line = (from, to) => {
    Object.assign(context, {lineWidth: WIDTH, lineCap: "round", strokeStyle: ink});
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
  };
  let last = null;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = at(event);
    line(last, last);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    const next = at(event);
    line(last, next);
    last = next;
  });
  const end = () => {
    if (!last) return;
    last = null;
    canvas.toBlob((blob) => done(new File([blob], "drawing.png", {type: "image/png"})));
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  clear();
  return {element: canvas, clear};
}
