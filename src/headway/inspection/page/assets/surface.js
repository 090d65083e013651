// A canvas with the right size and resolution and with keyboard control: arrow keys move, Home and End
// move to the ends, Enter pins, [ ] change the layer and , . the head. Its content can be painted on
// another context, which is how views are saved as PNG and SVG.

const MOVES = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

// label: accessible name; paint(ctx, width, height); height(width) -> pixels.
// move(dx, dy), ends(direction), pin(), key(event): keyboard events; point(x, y, kind): pointer events,
// where kind is "hover", "leave" or "click".
export function surface(app, {label, paint, height, move, ends, pin, key, point, title}) {
  const canvas = document.createElement("canvas");
  const frame = document.createElement("div");
  frame.className = "surface";
  frame.append(canvas);
  canvas.setAttribute("aria-label", label);
  if (move) {
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-roledescription", title || "map with a cursor");
    canvas.addEventListener("keydown", (event) => keyed(app, event, {move, ends, pin, key}));
  } else {
    canvas.setAttribute("role", "img");
  }
  const size = {width: 0, height: 0};
  const draw = () => {
    const zoom = app.zoom || 1;
    const width = Math.floor(frame.clientWidth / zoom);
    if (!width) return;
    const tall = Math.max(1, Math.round(height(width)));
    const sharp = (globalThis.devicePixelRatio || 1) * zoom;
    if (canvas.width !== Math.round(width * sharp) || canvas.height !== Math.round(tall * sharp)) {
      canvas.width = Math.round(width * sharp);
      canvas.height = Math.round(tall * sharp);
    }
    canvas.style.height = `${tall * zoom}px`;
    Object.assign(size, {width, height: tall});
    const ctx = canvas.getContext("2d");
    ctx.setTransform(sharp, 0, 0, sharp, 0, 0);
    ctx.clearRect(0, 0, width, tall);
    paint(ctx, width, tall);
  };
  canvas.repaint = (ctx) => paint(ctx, size.width, size.height);
  if (point) {
    const listener = (kind) => (event) => {
      const box = canvas.getBoundingClientRect();
      point((event.clientX - box.left) / (app.zoom || 1), (event.clientY - box.top) / (app.zoom || 1), kind, event);
    };
    canvas.addEventListener("pointermove", listener("hover"));
    canvas.addEventListener("pointerleave", listener("leave"));
    canvas.addEventListener("click", listener("click"));
  }
  new ResizeObserver(() => { if (Math.floor(frame.clientWidth / (app.zoom || 1)) !== size.width) draw(); }).observe(frame);
  return {element: frame, canvas, draw, size};
}

export function keyed(app, event, {move, ends, pin, key}) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const {state} = app;
  if (MOVES[event.key]) move(...MOVES[event.key]);
  else if (event.key === "Home") ends(-1);
  else if (event.key === "End") ends(1);
  else if (event.key === "Enter" || event.key === " ") pin();
  else if (event.key === "[") app.set({layer: state.layer - 1});
  else if (event.key === "]") app.set({layer: state.layer + 1});
  else if (event.key === ",") app.set({head: Math.max(-1, state.head - 1)});
  else if (event.key === ".") app.set({head: state.head + 1});
  else if (!(key && key(event))) return;
  event.preventDefault();
}

export const FONT = 'system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif';

// Writes text on a canvas and shortens it to the width.
export function write(ctx, text, x, y, {size = 12, colour, align = "left", bold = false, width = Infinity} = {}) {
  ctx.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
  ctx.fillStyle = colour;
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  let cut = text;
  if (width < Infinity && ctx.measureText(text).width > width) {
    const signs = [...text];
    let low = 0;
    let high = Math.min(signs.length, Math.ceil(width / 2));
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (ctx.measureText(signs.slice(0, middle).join("") + "…").width <= width) low = middle;
      else high = middle - 1;
    }
    cut = low ? signs.slice(0, low).join("") + "…" : "";
  }
  ctx.fillText(cut, x, y);
}
