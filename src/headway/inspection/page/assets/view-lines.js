// Attention as lines from queries on the left to keys on the right: all lines of the pinned token, or of
// every token its largest weights up to a chosen fraction of its attention. All pairs would be unreadable.
import {choice, el, slider} from "./elements.js";
import {colourOf, css, headColour, theme, tokenColour} from "./colours.js";
import {drawPatch, isPatch} from "./patches.js";
import {surface, write} from "./surface.js";
import {nameOf, shorten} from "./tokens.js";
import {ruler} from "./view-matrix.js";
import {top} from "./weights.js";

const MOST = 2000; // lines
const EDGE = 8;

// Returns the largest weights of a row that sum to the fraction `mass` of the row: [{position, value}].
// Codes are counted instead of sorted, because there are only 256 of them.
export function untilMass(weights, row, mass) {
  const {codes, columns, table} = weights;
  const from = row * columns;
  const counts = new Uint32Array(256);
  let all = 0;
  for (let at = from; at < from + columns; at++) { counts[codes[at]]++; all += Math.abs(table[codes[at]]); }
  const left = new Uint32Array(256); // number of weights of each code that are taken
  let sum = 0;
  for (const code of Array.from(counts.keys()).filter((one) => counts[one] && table[one]).sort((a, b) => Math.abs(table[b]) - Math.abs(table[a]))) {
    if (sum >= mass * all) break;
    left[code] = Math.min(counts[code], Math.ceil((mass * all - sum) / Math.abs(table[code])));
    sum += left[code] * Math.abs(table[code]);
  }
  const edges = [];
  for (let position = 0; position < columns; position++) {
    const code = codes[from + position];
    if (left[code]) { left[code]--; edges.push({position, value: table[code]}); }
  }
  return edges;
}

const most = (edges, count) => (edges.length <= count ? edges : edges.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, count));

export const lines = {
  id: "lines",
  title: "Lines",
  lead: "Queries are on the left, keys on the right; thicker lines are larger weights. Point at a token to see only its lines.",
  joins: "tokens",
  plays: true,
  wants: () => true,
  make(app) {
    const local = {now: null, mode: "one", mass: 0.6, hover: -1, drawn: [], box: null};
    const mode = choice("Lines of", (value) => { local.mode = value; made.draw(); });
    const mass = slider("Lines up to", 0.1, 0.99, 0.01, 0.6, (one) => `${Math.round(one * 100)} % of the attention`, (one) => { local.mass = one; made.draw(); });
    const rowHeight = (longest) => Math.min(44, Math.max(13, (app.room() - 2 * EDGE) / longest), Math.max(3, 1500 / longest), Math.max(0.2, 2400 / longest));
    const paint = (ctx, width) => {
      const {now} = local;
      if (!now || !now.weights) return;
      const {map, weights, queries, keys, state} = now;
      const [rows, columns] = map.shape;
      const size = rowHeight(Math.max(rows, columns));
      const side = Math.min(190, width * 0.3);
      const type = Math.max(13, Math.min(19, size * 0.55));
      const {soft, pin, ink} = theme();
      const query = local.hover >= 0 ? local.hover : state.query;
      const y = (at) => EDGE + (at + 0.5) * size;
      local.box = {size, side, width};
      let chosen = [query];
      if (local.mode === "all" && local.hover < 0) chosen = Array.from({length: rows}, (_, at) => at);
      const perQuery = Math.max(1, Math.floor(MOST / chosen.length));
      const all = local.mode === "heads" ? ofHeads(now, query) : chosen.flatMap((from) => {
        const edges = local.mode === "all"
          ? most(untilMass(weights, from, local.mass), perQuery)
          : top(weights.row(from), 200).filter((one) => Math.abs(one.value) > weights.greatest * 0.004);
        return edges.map((one) => ({from, to: one.position, value: one.value}));
      }).sort((a, b) => Math.abs(a.value) - Math.abs(b.value)).slice(-MOST);
      local.drawn = all;
      const alone = chosen.length === 1;
      const greatest = alone ? Math.max(...all.map((one) => Math.abs(one.value)), 1e-9) : weights.greatest;
      for (const one of all) {
        const share = Math.abs(one.value) / greatest;
        ctx.globalAlpha = alone ? 0.35 + 0.65 * share : 0.15 + 0.75 * share;
        ctx.strokeStyle = one.head === undefined ? css(colourOf(Math.sign(one.value) * Math.max(share, 0.3), 1, state, weights.signed)) : headColour(one.head, map.heads);
        ctx.lineWidth = 0.6 + (alone ? 7 : 4) * share;
        ctx.beginPath();
        ctx.moveTo(side + 6, y(one.from));
        ctx.bezierCurveTo(width / 2, y(one.from), width / 2, y(one.to), width - side - 6, y(one.to));
        ctx.stroke();
      }
      ctx.globalAlpha = 1;
      const patch = (side, at, x) => isPatch(side, at) && drawPatch(ctx, side, at - side.num_prefix_tokens, x, y(at) - size / 2, Math.min(size, 22), () => made.draw());
      ruler(0, rows, size, query, (at, strong) => patch(queries, at, side - 22) || write(ctx, shorten(nameOf(queries, at), 24), side, y(at), {size: type, colour: strong ? pin : tokenColour(queries, at, ink), bold: strong, align: "right", width: side - 4}));
      const best = alone && all.length ? all.at(-1).to : -1;
      const attended = new Set(all.map((one) => one.to));
      ruler(0, columns, size, best, (at, strong) => patch(keys, at, width - side) || write(ctx, shorten(nameOf(keys, at), 24), width - side, y(at), {size: type, colour: tokenColour(keys, at, strong || (attended.has(at) && alone) ? ink : soft), bold: strong, width: side - 4}));
    };
    // The lines of one query in every head of the layer; the chosen head is on top.
    const ofHeads = ({map, state}, query) => {
      const order = Array.from({length: map.heads}, (_, head) => head).sort((a, b) => (a === state.head) - (b === state.head));
      return order.flatMap((head) => {
        const weights = app.weightsOf(map, state.layer, head);
        return weights ? top(weights.row(query), 6).filter((one) => Math.abs(one.value) > weights.greatest * 0.04).map((one) => ({from: query, to: one.position, value: one.value, head})) : [];
      });
    };
    const queryAt = (y) => {
      if (!local.box) return -1;
      const at = Math.floor((y - EDGE) / local.box.size);
      return at >= 0 && at < local.now.map.shape[0] ? at : -1;
    };
    const step = (by) => app.pick({query: app.cursor().query + by});
    const made = surface(app, {
      label: "Attention as lines. The up and down arrow keys choose the query, Enter shows it in the text.", paint, title: "lines of attention",
      height: () => {
        const [rows, columns] = local.now?.map.shape || [1, 1];
        return 2 * EDGE + Math.max(rows, columns) * rowHeight(Math.max(rows, columns));
      },
      move: (dx, dy) => step(dx + dy), ends: (way) => app.pick({query: way < 0 ? 0 : local.now.map.shape[0] - 1}),
      pin: () => app.set({view: "text"}),
      point: (x, y, kind) => {
        const at = kind === "leave" ? -1 : queryAt(y);
        if (kind === "click" && at >= 0) app.pick({query: at});
        const next = kind === "hover" && x < (local.box?.width || 0) / 2 ? at : -1;
        if (next !== local.hover) { local.hover = next; made.draw(); }
      },
    });
    const update = (now) => {
      local.now = now;
      mode.show([["one", "the pinned token"], ["all", "every token"], ...(now.map.heads > 1 ? [["heads", "all heads, a colour each"]] : [])], local.mode);
      mass.hidden = local.mode !== "all";
      made.draw();
      mass.hidden = local.mode !== "all";
    };
    mode.element.addEventListener("change", () => { mass.hidden = local.mode !== "all"; });
    const data = () => {
      const {queries, keys} = local.now;
      const rows = [...local.drawn].reverse().map((one) => [one.from + 1, queries.tokens[one.from], one.to + 1, keys.tokens[one.to], one.value]);
      return {columns: ["from position", "from", "to position", "to", "weight"], rows};
    };
    return {element: el("div", {}, made.element), controls: [mode.element, mass], update, data};
  },
};
