// Two frames (models, checkpoints or inputs) side by side, and their difference.
import {choice, el} from "./elements.js";
import {heat} from "./heat.js";
import {theme} from "./colours.js";
import {surface, write} from "./surface.js";
import {number, percent, quoted} from "./tokens.js";
import {difference, top} from "./weights.js";

const ABOVE = 24;

export const compare = {
  id: "compare",
  title: "Compare",
  lead: "The same head of two models, checkpoints or inputs, and the difference of their weights: orange where the second is larger, blue where it is smaller.",
  fits: (session) => session.frames.filter((frame) => frame.maps.length).length > 1,
  make(app) {
    const local = {now: null, other: null, change: null, key: ""};
    const other = choice("Compare with", (value) => app.set({other: Number(value)}));
    const words = el("p", {class: "tip", "aria-live": "polite"});
    const why = el("p", {class: "soft"});
    const three = (width, map) => {
      const stacked = width < 560;
      const wide = stacked ? Math.min(width, 320) : (width - 40) / 3;
      const high = Math.min(wide * 1.6, Math.max(24, (wide * map.shape[0]) / map.shape[1]));
      return {stacked, wide, high, at: (n) => (stacked ? {x: 0, y: ABOVE + n * (high + ABOVE + 8)} : {x: n * (wide + 20), y: ABOVE})};
    };
    const paint = (ctx, width) => {
      const {now} = local;
      if (!now) return;
      const {soft, pin, line, masked} = theme();
      const {wide, high, at} = three(width, now.map);
      const names = [now.frame.label, app.session.frames[now.state.other]?.label || "", "second − first"];
      const greatest = Math.max(now.weights?.greatest || 0, local.other?.greatest || 0);
      [now.weights, local.other, local.change].forEach((weights, n) => {
        const {x, y} = at(n);
        write(ctx, names[n], x, y - 12, {size: 13, colour: soft, bold: true, width: wide});
        const look = n < 2 ? {...now.state, greatest, perRow: false} : {...now.state, perRow: false};
        if (weights) heat(ctx, weights, {top: 0, left: 0, bottom: weights.rows, right: weights.columns}, {x, y, width: wide, height: high}, look, now.map.causal);
        else { ctx.fillStyle = masked; ctx.fillRect(x, y, wide, high); }
        ctx.strokeStyle = line;
        ctx.lineWidth = 1;
        ctx.strokeRect(x, y, wide, high);
        if (!weights || now.state.query >= weights.rows) return;
        ctx.strokeStyle = pin;
        ctx.strokeRect(x, y + (now.state.query * high) / weights.rows, wide, Math.max(2, high / weights.rows));
      });
    };
    const made = surface(app, {
      label: "Two maps and their difference. The up and down arrow keys choose a query.", paint, title: "two maps and their difference",
      height: (width) => { if (!local.now) return 1; const {stacked, high} = three(width, local.now.map); return (stacked ? 3 : 1) * (high + ABOVE + 8); },
      move: (dx, dy) => app.set({query: Math.max(0, app.state.query + dx + dy)}),
      ends: (way) => app.set({query: way < 0 ? 0 : local.now.map.shape[0] - 1}), pin: () => app.set({view: "matrix"}),
      point: (x, y, kind) => {
        if (kind !== "click") return;
        const {high, at} = three(made.size.width, local.now.map);
        for (let n = 0; n < 3; n++) {
          const box = at(n);
          if (y >= box.y && y < box.y + high) app.set({query: Math.floor(((y - box.y) / high) * local.now.map.shape[0])});
        }
      },
    });
    const update = (now) => {
      const {state, map, weights} = now;
      local.now = now;
      other.show(app.session.frames.map((frame, at) => [at, frame.label]), state.other);
      const second = app.session.map(state.other, {...state, measure: map.measure});
      const fits = second && second.name === map.name && second.layers.length > state.layer && second.heads > state.head;
      local.other = fits ? app.session.weights(second, state.layer, state.head) : null;
      const same = local.other && weights && local.other.rows === weights.rows && local.other.columns === weights.columns;
      const key = [state.frame, state.other, state.map, state.measure, state.layer, state.head, Boolean(same)].join(" ");
      if (key !== local.key) { local.key = key; local.change = same ? difference(weights, local.other) : null; }
      why.textContent = !fits ? "The other model has no map, layer or head of this name." : local.other && weights && !same ? "The two maps have different numbers of tokens, so that there is no difference per cell." : "";
      words.textContent = "";
      if (local.change) {
        const best = top(local.change.row(state.query), 3);
        const say = map.normalised ? percent : number;
        const list = best.map(({position, value}) => `${quoted(now.keys, position, 20)} ${value > 0 ? "+" : ""}${say(value)}`);
        words.textContent = `From the first to the second map, the attention of ${quoted(now.queries, state.query, 20)} changes most at ${list.join(", ") || "no token"}.`;
      }
      made.draw();
    };
    const data = () => {
      const {queries, keys} = local.now;
      if (!local.change) return {columns: ["from", "to", "difference"], rows: []};
      const rows = queries.tokens.flatMap((from, t) => keys.tokens.map((to, s) => [from, to, local.change.at(t, s)]).filter((one) => one[2]));
      return {columns: ["from", "to", "difference"], rows};
    };
    return {element: el("div", {}, made.element, words, why), controls: [other.element], update, data};
  },
};
