// Draws a map of weights, one cell per weight. If cells are smaller than pixels, a pixel shows the
// largest of its weights, so that no single large weight is lost (max-pooling).
import {packed, packedName, ramp, stretched} from "./colours.js";
import {farthest} from "./weights.js";

const scratch = {canvas: null};

// Returns the colour of each code; `greatest` is the weight with the strongest colour.
function lookUp(weights, greatest, look) {
  const colours = ramp(look.colours, weights.signed).map(packed);
  return Uint32Array.from(weights.table, (value) => {
    const level = stretched(greatest ? value / greatest : 0, look.scale);
    return colours[Math.round(weights.signed ? 127.5 + 127.5 * level : 255 * Math.max(0, level))];
  });
}

// window: {top, bottom, left, right} in cells; box: {x, y, width, height} on the canvas.
// look: {colours, scale, perRow}; causal: cells to the right of the diagonal, later keys, are greyed.
export function heat(ctx, weights, window, box, look, causal) {
  const across = window.right - window.left;
  const down = window.bottom - window.top;
  const finer = globalThis.devicePixelRatio || 1;
  const width = Math.max(1, Math.min(across, Math.ceil(box.width * finer)));
  const height = Math.max(1, Math.min(down, Math.ceil(box.height * finer)));
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const masked = packedName("masked");
  const exact = width === across && height === down;
  const whole = lookUp(weights, look.greatest || weights.greatest, look);
  const tables = new Map();
  const {codes, columns, signed} = weights;
  const starts = Int32Array.from({length: width + 1}, (_, x) => window.left + Math.floor(x * across / width));
  for (let y = 0; y < height; y++) {
    const first = window.top + Math.floor(y * down / height);
    const last = window.top + Math.max(Math.floor((y + 1) * down / height), Math.floor(y * down / height) + 1);
    let table = whole;
    if (look.perRow) {
      const best = farthest(codes, first * columns, last * columns, signed);
      if (!tables.has(best)) tables.set(best, lookUp(weights, Math.abs(weights.table[best]), look));
      table = tables.get(best);
    }
    if (exact) {
      const allowed = causal ? Math.max(0, Math.min(across, first + 1 - window.left)) : across;
      const row = first * columns + window.left;
      for (let x = 0; x < allowed; x++) pixels[y * width + x] = table[codes[row + x]];
      pixels.fill(masked, y * width + allowed, (y + 1) * width);
      continue;
    }
    for (let x = 0; x < width; x++) {
      const from = starts[x];
      if (causal && from > last - 1) { pixels[y * width + x] = masked; continue; }
      let best = signed ? 128 : 0;
      for (let row = first; row < last; row++) {
        const one = farthest(codes, row * columns + from, row * columns + starts[x + 1], signed);
        if (signed ? Math.abs(one - 128) > Math.abs(best - 128) : one > best) best = one;
      }
      pixels[y * width + x] = table[best];
    }
  }
  scratch.canvas = canvasOf(image, scratch.canvas || undefined);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(scratch.canvas, box.x, box.y, box.width, box.height);
}

export function canvasOf(image, canvas = document.createElement("canvas")) {
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
