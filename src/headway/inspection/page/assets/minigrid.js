// All heads of the chosen map at a glance: a row per layer, a column per head, and before them the mean
// over the heads. Stronger colours are sharper heads. Pointing at a head shows it in every view, a click
// chooses it; arrow keys move.
import {el} from "./elements.js";
import {css, ramp, theme} from "./colours.js";
import {surface, write} from "./surface.js";
import {termed} from "./terms.js";
import {kindOf} from "./head-kinds.js";

const EDGE = 16; // pixels for the numbers of layers and heads
const GAP = 5; // between the mean and the heads
const LARGEST = 26;

export function minigrid(app) {
  const local = {map: null, size: 0, width: 0, state: null};
  const layer = el("span", {});
  const head = el("span", {});
  const kind = el("span", {class: "soft kind"});
  const chosen = el("p", {class: "chosen"}, termed("Layer"), " ", layer, " · ", termed("Head"), head, kind);
  const height = (width) => {
    if (!local.map) return 1;
    const {heads, layers} = local.map;
    local.size = Math.max(5, Math.min(LARGEST, (width - EDGE - GAP) / (heads + (heads > 1 ? 1 : 0))));
    return EDGE + layers.length * Math.min(local.size, LARGEST) + 2;
  };
  const x = (at) => EDGE + (local.map.heads < 2 ? at * local.size : at < 0 ? 0 : GAP + (at + 1) * local.size);
  const y = (at) => EDGE + at * local.size;
  const paint = (ctx) => {
    const {map, size, state} = local;
    if (!map) return;
    const {soft, line, pin, wash} = theme();
    const colours = ramp(state.colours, false);
    const every = Math.max(1, Math.ceil(13 / size));
    for (let at = 0; at < map.heads; at += every) write(ctx, String(at + 1), x(at) + size / 2, 7, {size: 10, colour: at === state.head ? pin : soft, align: "center"});
    if (map.heads > 1 && size > 11) write(ctx, "x̄", x(-1) + size / 2, 7, {size: 10, colour: soft, align: "center"});
    map.layers.forEach((_, row) => {
      if (row % every === 0) write(ctx, String(row + 1), EDGE - 4, y(row) + size / 2, {size: 10, colour: row === state.layer ? pin : soft, align: "right"});
      for (let at = map.heads > 1 ? -1 : 0; at < map.heads; at++) {
        const entropy = at < 0 ? null : map.entropy?.[row]?.[at];
        ctx.fillStyle = entropy === null || entropy === undefined ? wash : css(colours[Math.round(230 * Math.max(0, 1 - entropy))]);
        ctx.fillRect(x(at) + 0.5, y(row) + 0.5, size - 1, size - 1);
        ctx.strokeStyle = line;
        ctx.lineWidth = 1;
        ctx.strokeRect(x(at) + 0.5, y(row) + 0.5, size - 1, size - 1);
      }
    });
    const outline = (one, colour) => { ctx.strokeStyle = colour; ctx.lineWidth = 2; ctx.strokeRect(x(one.head) + 0.5, y(one.layer) + 0.5, size - 1, size - 1); };
    if (app.preview) outline(app.preview, soft);
    outline(state, pin);
  };
  const under = (px, py) => {
    if (!local.map) return null;
    const row = Math.floor((py - EDGE) / local.size);
    const count = local.map.heads;
    if (row < 0 || row >= local.map.layers.length) return null;
    for (let at = count > 1 ? -1 : 0; at < count; at++) if (px >= x(at) && px < x(at) + local.size) return {layer: row, head: at};
    return null;
  };
  const made = surface(app, {
    label: "Layers and heads. Arrow keys choose a head.", paint, height, title: "grid of layers and heads",
    move: (dx, dy) => app.set({layer: app.state.layer + dy, head: Math.max(-1, app.state.head + dx)}),
    ends: (way) => app.set({head: way < 0 ? 0 : local.map.heads - 1}), pin: () => app.set({view: "matrix"}),
    point: (px, py, what) => {
      const one = what === "leave" ? null : under(px, py);
      if (what === "click") { if (one) { app.preview = null; app.set(one); } return; }
      if (JSON.stringify(one) !== JSON.stringify(app.preview)) app.peek(one);
    },
  });
  const element = el("div", {class: "mini"}, chosen, made.element);
  // now: what app.now() returns, of a view of weights.
  const update = (now) => {
    const {map, state} = now;
    Object.assign(local, {map, state: app.state});
    element.hidden = map.layers.length * map.heads < 2;
    layer.textContent = String(state.layer + 1);
    head.textContent = state.head < 0 ? ": mean" : ` ${state.head + 1}`;
    const [name] = state.head < 0 ? ["mixed"] : kindOf(map, state.layer, state.head);
    kind.textContent = name === "mixed" ? "" : ` · ${name}`;
    const label = `${map.layers.length} layers of ${map.heads} heads: layer ${app.state.layer + 1}, ${app.state.head < 0 ? "mean over heads" : `head ${app.state.head + 1}`} is chosen. Arrow keys choose a head.`;
    if (made.canvas.getAttribute("aria-label") !== label) made.canvas.setAttribute("aria-label", label);
    made.draw();
  };
  return {element, update};
}
