// One head over the frames of a document, for example the checkpoints of a training run on the same input:
// it shows how a pattern forms.
import {button, el, slider} from "./elements.js";
import {heat} from "./heat.js";
import {theme} from "./colours.js";
import {surface, write} from "./surface.js";

const LABEL = 20;
const GAP = 10;

// Returns the frames that have the map of a state, for the same tokens, in order: [{at, map}].
export function framesWith(session, state) {
  const now = session.map(state.frame, state);
  if (!now) return [];
  const tokensOf = (at, map) => session.frames[at].sides[map.keys].tokens.join("\n");
  const tokens = tokensOf(state.frame, now);
  const candidates = session.frames.map((_, at) => ({at, map: session.map(at, state)}));
  const fits = (map) => map && map.name === now.name && map.measure === now.measure && map.layers.length > state.layer && map.heads > state.head;
  return candidates.filter(({at, map}) => fits(map) && tokensOf(at, map) === tokens);
}

export const overTime = {
  id: "time",
  title: "Over time",
  lead: "The same head in every checkpoint, for the same input. Move the slider or use the arrow keys to see how a pattern forms.",
  fits: (session, state) => framesWith(session, state).length > 2,
  make(app) {
    const local = {now: null, boxes: [], timer: 0};
    const calm = matchMedia("(prefers-reduced-motion: reduce)");
    const go = (by) => {
      const all = framesWith(app.session, app.state);
      const current = all.findIndex((one) => one.at === app.state.frame);
      const next = all[Math.max(0, Math.min(all.length - 1, current + by))];
      if (next) app.set({frame: next.at});
      return current + by < all.length - 1;
    };
    const stop = () => { clearInterval(local.timer); local.timer = 0; play.textContent = "Play"; };
    const play = button("Play", () => {
      if (local.timer) { stop(); return; }
      if (!framesWith(app.session, app.state).some((one) => one.at > app.state.frame)) app.set({frame: 0});
      play.textContent = "Stop";
      local.timer = setInterval(() => { if (!play.isConnected || !go(1)) stop(); }, calm.matches ? 1500 : 600);
    });
    const scrub = el("div", {class: "scrub"});
    let made = null;
    const layout = (width) => {
      const all = framesWith(app.session, app.state);
      const [rows, columns] = local.now.map.shape;
      const perLine = Math.max(1, Math.min(all.length, Math.floor((width + GAP) / ((width < 500 ? 90 : 140) + GAP))));
      const wide = Math.min(220, (width + GAP) / perLine - GAP);
      const high = Math.min(wide * 1.5, Math.max(24, (wide * rows) / columns));
      return {all, perLine, wide, high, lines: Math.ceil(all.length / perLine)};
    };
    const paint = (ctx, width) => {
      if (!local.now) return;
      const {state} = local.now;
      const {soft, pin, masked, line} = theme();
      const {all, perLine, wide, high} = layout(width);
      local.boxes = all.map(({at, map}, n) => {
        const box = {x: (n % perLine) * (wide + GAP), y: Math.floor(n / perLine) * (high + LABEL + GAP) + LABEL, width: wide, height: high};
        const weights = app.session.weights(map, state.layer, state.head);
        const chosen = at === state.frame;
        write(ctx, app.session.frames[at].label, box.x, box.y - 10, {size: 12, colour: chosen ? pin : soft, bold: chosen, width: wide});
        if (weights) heat(ctx, weights, {top: 0, left: 0, bottom: weights.rows, right: weights.columns}, box, state, map.causal);
        else { ctx.fillStyle = masked; ctx.fillRect(box.x, box.y, wide, high); }
        ctx.strokeStyle = chosen ? pin : line;
        ctx.lineWidth = chosen ? 2.5 : 1;
        ctx.strokeRect(box.x, box.y, wide, high);
        return {...box, at};
      });
    };
    made = surface(app, {
      label: "The head in every checkpoint. Arrow keys choose a checkpoint.", paint, title: "checkpoints",
      height: (width) => { if (!local.now) return 1; const {lines, high} = layout(width); return lines * (high + LABEL + GAP) + 4; },
      move: (dx, dy) => go(dx || dy), ends: (way) => go(way * app.session.frames.length), pin: () => app.set({view: "matrix"}),
      point: (x, y, kind) => {
        const box = local.boxes.find((one) => x >= one.x && x <= one.x + one.width && y >= one.y - LABEL && y <= one.y + one.height);
        if (kind === "click" && box) app.set({frame: box.at});
      },
    });
    const update = (now) => {
      local.now = now;
      const all = framesWith(app.session, now.state);
      const current = Math.max(0, all.findIndex((one) => one.at === now.state.frame));
      if (scrub.dataset.count !== String(all.length)) {
        scrub.dataset.count = all.length;
        scrub.replaceChildren(slider("Checkpoint", 0, all.length - 1, 1, current, (at) => app.session.frames[framesWith(app.session, app.state)[at]?.at]?.label || "", (at) => app.set({frame: framesWith(app.session, app.state)[at].at})));
      }
      scrub.querySelector("input").value = current;
      scrub.querySelector("output").textContent = now.frame.label;
      made.draw();
    };
    const data = () => {
      const {state, keys} = local.now;
      const rows = framesWith(app.session, state).map(({at, map}) => {
        const weights = app.session.weights(map, state.layer, state.head);
        return [app.session.frames[at].label, ...(weights && state.query < weights.rows ? weights.row(state.query) : [])];
      });
      return {columns: ["frame", ...keys.tokens], rows};
    };
    return {element: el("div", {}, scrub, made.element), controls: [play], update, data};
  },
};
