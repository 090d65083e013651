// Inside one head: how the weights of one query are computed. The products of query and key, one per
// dimension, add up to a score; the softmax turns scores into weights; a weight times the length of the
// projected value is the size of a contribution. (After the neuron view of Vig 2019.)
import {el, table} from "./elements.js";
import {colourOf, css, ramp, theme} from "./colours.js";
import {surface, write} from "./surface.js";
import {amount, nameOf, number, percent, quoted, shorten, shortNameOf} from "./tokens.js";
import {top} from "./weights.js";

const KEYS = 12;
const ROW = 30;
const ABOVE = 62;

export function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = scores.map((one) => Math.exp(one - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((one) => one / sum);
}

// Returns the vectors, products and scores of one query in one head, or null while they are loading.
export function insideOf(session, map, layer, head, query) {
  const vectors = map.vectors?.[layer];
  if (!vectors) return null;
  const [q, k, norms] = [session.floats(vectors.q), session.floats(vectors.k), session.floats(vectors.norms)];
  if (!q || !k || !norms) return null;
  const [rows, columns] = map.shape;
  const width = vectors.width;
  const from = (head * rows + query) * width;
  const vector = q.subarray(from, from + width);
  const scale = vectors.scale ?? 1;
  const keys = Array.from({length: columns}, (_, s) => k.subarray((head * columns + s) * width, (head * columns + s + 1) * width));
  const products = keys.map((one) => Float32Array.from(one, (value, at) => value * vector[at] * scale));
  const sums = products.map((one) => one.reduce((a, b) => a + b, 0));
  const allowed = map.causal ? query + 1 : columns;
  return {vector, keys, products, sums, width, scale, allowed, shares: softmax(sums.slice(0, allowed)), norms: norms.subarray(head * columns, (head + 1) * columns)};
}

export const head = {
  id: "head",
  title: "Inside a head",
  lead: "How a weight is computed: the products of the query q of the pinned token and each key k, one per dimension, add up to a score. The softmax turns scores into weights, and each weight multiplies a projected value.",
  wants: (frame, map) => Boolean(map.vectors),
  make(app) {
    const local = {now: null, inside: null, rows: []};
    const paint = (ctx, width) => {
      const {now, inside} = local;
      if (!now || !inside || !now.weights) return;
      const {queries, keys, map, state, weights} = now;
      const {soft, ink, pin, line} = theme();
      const left = Math.min(110, width * 0.2);
      const small = width < 520;
      const right = small ? 138 : 230;
      const digits = small ? 2 : 3;
      const strip = width - left - right - 12;
      const cell = strip / inside.width;
      const colours = ramp(state.colours, true);
      const strongest = (lists) => lists.reduce((most, list) => list.reduce((a, b) => Math.max(a, Math.abs(b)), most), 1e-9);
      const draw = (values, y, high, most) => values.forEach((value, at) => {
        ctx.fillStyle = css(colours[Math.round(127.5 + 127.5 * (value / most))]);
        ctx.fillRect(left + at * cell, y, cell + 0.4, high);
      });
      write(ctx, small ? "q" : `q of “${shorten(nameOf(queries, state.query), 14)}”`, left - 8, 14, {size: 12, colour: pin, bold: true, align: "right", width: left - 8});
      draw(inside.vector, 4, 20, strongest([inside.vector]));
      ctx.strokeStyle = line;
      ctx.strokeRect(left, 4, strip, 20);
      write(ctx, small ? "k, q × k" : "one column per dimension: k above, q × k below", left, 44, {size: 11, colour: soft, width: strip});
      const columns = [["score", 0], ["weight", 0.34], [small ? "× len." : "× length", 0.67]];
      for (const [name, at] of columns) write(ctx, name, width - right + 8 + at * (right - 8), 44, {size: 11, colour: soft, width: right / 3 - 4});
      const mostK = strongest(local.rows.map((s) => inside.keys[s]));
      const mostP = strongest(local.rows.map((s) => inside.products[s]));
      const mostScore = Math.max(...local.rows.map((s) => Math.abs(inside.sums[s])), 1e-9);
      const worth = (s) => weights.at(state.query, s) * inside.norms[s];
      const mostWorth = Math.max(...local.rows.map((s) => Math.abs(worth(s))), 1e-9);
      local.rows.forEach((s, at) => {
        const y = ABOVE + at * ROW;
        const strong = s === state.key;
        write(ctx, shorten(small ? shortNameOf(keys, s) : nameOf(keys, s), 18), left - 8, y + 10, {size: 13, colour: strong ? pin : ink, bold: strong, align: "right", width: left - 10});
        draw(inside.keys[s], y, 9, mostK);
        draw(inside.products[s], y + 11, 11, mostP);
        const share = weights.at(state.query, s);
        const values = [[inside.sums[s], mostScore, number(inside.sums[s], digits)], [share, weights.greatest, amount(share, map)], [worth(s), mostWorth, number(worth(s), digits)]];
        values.forEach(([value, most, text], which) => {
          const x = width - right + 8 + columns[which][1] * (right - 8);
          const long = (right / 3 - 10) * Math.min(1, Math.abs(value) / most);
          ctx.fillStyle = which === 0 ? css(colours[value < 0 ? 40 : 215]) : css(colourOf(Math.max(value, most * 0.2), most, state, false));
          ctx.fillRect(x, y + 15, long, 5);
          write(ctx, text, x, y + 6, {size: 11.5, colour: ink, width: right / 3 - 4});
        });
      });
    };
    const made = surface(app, {
      label: "Query and keys of the head. The up and down arrow keys choose the query, left and right the key.", paint, title: "query and keys",
      height: () => ABOVE + ROW * Math.max(1, local.rows.length) + 4,
      move: (dx, dy) => {
        if (dy) app.set({query: Math.max(0, app.state.query + dy)});
        else app.set({key: local.rows[Math.max(0, Math.min(local.rows.length - 1, local.rows.indexOf(app.state.key) + dx))]});
      },
      ends: (way) => app.set({query: way < 0 ? 0 : local.now.map.shape[0] - 1}),
      pin: () => app.set({view: "matrix"}),
      point: (x, y, kind) => {
        const s = local.rows[Math.floor((y - ABOVE) / ROW)];
        if (kind === "click" && s !== undefined) app.set({key: s, way: "from"});
      },
    });
    const sum = el("p", {class: "tip"});
    const rest = el("p", {class: "soft"});
    const details = el("div", {});
    const update = (now) => {
      local.now = now;
      const {map, state, weights, keys, queries} = now;
      const which = Math.max(0, state.head);
      local.inside = insideOf(app.session, map, state.layer, which, state.query);
      const {inside} = local;
      if (!inside || !weights) { sum.textContent = state.head < 0 ? "" : "Loading the vectors …"; return; }
      const shown = state.head < 0 ? app.session.weights(map, state.layer, 0) : weights;
      local.now = {...now, weights: shown};
      const best = top(shown.row(state.query), KEYS).map((one) => one.position);
      if (state.key >= 0 && state.key < inside.allowed && !best.includes(state.key)) best.push(state.key);
      local.rows = best;
      const s = state.key >= 0 && state.key < inside.allowed ? state.key : best[0] ?? 0;
      const parts = top(inside.products[s], 3).map((one) => `${number(one.value)} (dimension ${one.position + 1})`);
      sum.textContent = `${quoted(queries, state.query, 20)} · ${quoted(keys, s, 20)}: the ${inside.width} products, each times ${number(inside.scale)}, add up to ${number(inside.sums[s])}. The largest are ${parts.join(", ")}.`;
      const off = inside.shares.reduce((most, one, at) => Math.max(most, Math.abs(one - shown.at(state.query, at))), 0);
      rest.textContent = !map.normalised ? "" : off > 0.02
        ? `The softmax of these scores differs from the weights by up to ${percent(off)}: the rest is a bias (positions or mask) that is added before the softmax.`
        : "The softmax of these scores is equal to the weights shown here.";
      if (state.head < 0) rest.textContent += " Head 1 is shown, because a mean over heads has no query and keys.";
      const rows = best.map((at) => [shorten(nameOf(keys, at), 24), number(inside.sums[at]), amount(shown.at(state.query, at), map), number(inside.norms[at]), number(shown.at(state.query, at) * inside.norms[at])]);
      details.replaceChildren(el("details", {}, el("summary", {}, "As a table"), table("Scores and weights of the pinned token", ["Token", "Score", "Weight", "Length of the projected value", "Weight × length"], rows)));
      made.draw();
    };
    const data = () => {
      const {inside, now} = local;
      const rows = local.rows.map((s) => [now.keys.tokens[s], s + 1, inside.sums[s], now.weights.at(now.state.query, s), inside.norms[s], ...inside.products[s]]);
      return {columns: ["token", "position", "score", "share", "length", ...Array.from(inside.vector, (_, at) => `product ${at + 1}`)], rows};
    };
    return {element: el("div", {}, made.element, sum, rest, details), update, data};
  },
};
