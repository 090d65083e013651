// Thumbnails of all attention maps. Rows are layers and columns are heads, or the heads are sorted by
// pattern, entropy or importance.
import {choice, el} from "./elements.js";
import {packed, packedName, ramp, stretched, theme} from "./colours.js";
import {kindOf} from "./head-kinds.js";
import {canvasOf} from "./heat.js";
import {tableOf} from "./weights.js";
import {surface, write} from "./surface.js";
import {number} from "./tokens.js";

const MARGIN = 46; // pixels: the names of the layers
const NAMED = 60; // pixels: the least width of a map whose head is named in words
const MAP = [18, 104, 220]; // pixels: the least width of a map, the usual one, and the largest of few
const SLICE = 12; // milliseconds of drawing per animation frame

// Returns the heads in their order, in sections with titles.
function sections(map, order) {
  const all = map.layers.flatMap((_, layer) => Array.from({length: map.heads}, (_, head) => ({layer, head})));
  if (order === "kind") {
    const groups = new Map();
    for (const one of all) {
      const [kind, score] = kindOf(map, one.layer, one.head);
      groups.set(kind, [...(groups.get(kind) || []), {...one, score}]);
    }
    const sorted = [...groups].sort((a, b) => (a[0] === "mixed") - (b[0] === "mixed") || b[1].length - a[1].length);
    return sorted.map(([kind, heads]) => ({title: `${kind} (${heads.length})`, heads: heads.sort((a, b) => b.score - a.score)}));
  }
  if (order === "entropy") return [{title: "by entropy, from focused to uniform", heads: all.sort((a, b) => value(map.entropy, a) - value(map.entropy, b))}];
  if (order === "importance") return [{title: `by importance: fall of ${map.metric || "the metric"} without the head`, heads: all.sort((a, b) => value(map.importance, b) - value(map.importance, a))}];
  return map.layers.map((_, layer) => ({title: `Layer ${layer + 1}`, heads: all.filter((one) => one.layer === layer), aside: true}));
}

const value = (table, {layer, head}) => table?.[layer]?.[head] ?? 0;

function badge(map, {layer, head}, order) {
  if (order === "entropy" && map.entropy) return number(value(map.entropy, {layer, head}));
  if (order === "importance" && map.importance) return number(value(map.importance, {layer, head}));
  if (map.patterns?.length) return kindOf(map, layer, head)[0];
  return map.entropy ? number(value(map.entropy, {layer, head})) : "";
}

export const grid = {
  id: "grid",
  title: "All heads",
  lead: "Each square is the attention map of one head: rows are queries, columns are keys, and stronger colours are larger weights. Choose a square to open it.",
  wants: () => true,
  make(app) {
    const local = {order: "layer", cells: [], now: null, thumbnails: new Map(), key: ""};
    const order = choice("Order", (chosen) => { local.order = chosen; draw(); });
    const layout = (width, {map, state}) => {
      const aside = local.order === "layer";
      const left = aside ? MARGIN : 0;
      const [h, w] = map.thumbnail;
      const fills = ((app.room() - 20) / map.layers.length - 24) * (w / h); // the width with which all layers fill the window
      const largest = aside ? Math.max(MAP[1], Math.min(MAP[2], fills)) : MAP[1];
      const wide = Math.max(MAP[0], Math.min(largest, (width - left) / Math.min(map.heads, 16) - 6));
      const perLine = Math.max(1, Math.floor((width - left + 6) / (wide + 6)));
      const tall = Math.max(14, Math.min(wide * 1.4, (wide * h) / w));
      const label = wide >= 50 ? 18 : 4;
      const cells = [];
      const titles = [];
      let y = aside ? 20 : 0;
      for (const part of sections(map, local.order)) {
        titles.push({text: aside ? `layer ${part.heads[0].layer + 1}` : part.title, y: aside ? y + tall / 2 : y + 10, x: 0});
        if (!aside) y += 24;
        part.heads.forEach((one, at) => cells.push({
          ...one, x: left + (at % perLine) * (wide + 6), y: y + Math.floor(at / perLine) * (tall + label + 4), wide, tall, label,
        }));
        y += Math.ceil(part.heads.length / perLine) * (tall + label + 4) + (aside ? 2 : 10);
      }
      return {cells, titles, height: y + 4, left, wide, perLine, state};
    };
    const paint = (ctx, width) => {
      const {now} = local;
      if (!now) return;
      const {map, state} = now;
      const {soft, ink, pin, line} = theme();
      const placed = layout(width, now);
      local.cells = placed.cells;
      made.canvas.dataset.cell = [placed.cells[0].wide, placed.cells[0].tall].map((one) => one.toFixed(3)).join(" "); // for tests
      const bytes = app.session.bytes(map.thumbnails);
      if (local.order === "layer") {
        for (let head = 0; head < Math.min(map.heads, placed.perLine); head++) {
          write(ctx, placed.wide < NAMED ? String(head + 1) : `head ${head + 1}`, placed.left + head * (placed.wide + 6) + placed.wide / 2, 9, {size: 11, colour: soft, align: "center"});
        }
      }
      for (const title of placed.titles) write(ctx, title.text, title.x, title.y, {size: local.order === "layer" ? 11 : 13, bold: local.order !== "layer", colour: local.order === "layer" ? soft : ink});
      const [h, w] = map.thumbnail;
      const table = bytes && colours(map, state);
      const key = [map.thumbnails, state.scale, state.colours, theme().paper].join(" ");
      if (local.key !== key) { local.key = key; local.thumbnails.clear(); }
      const begin = performance.now();
      let missing = false;
      for (const cell of placed.cells) {
        const box = {x: cell.x, y: cell.y, width: cell.wide, height: cell.tall};
        const small = bytes && cached(cell, () => {
          const from = (cell.layer * map.heads + cell.head) * h * w;
          return thumbnail(bytes.subarray(from, from + h * w), table, map, w, h);
        }, begin);
        ctx.imageSmoothingEnabled = false;
        if (small) ctx.drawImage(small, box.x, box.y, box.width, box.height);
        else missing ||= bytes;
        ctx.strokeStyle = line;
        ctx.lineWidth = 1;
        ctx.strokeRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
        if (cell.label > 10) write(ctx, badge(map, cell, local.order), cell.x + cell.wide / 2, cell.y + cell.tall + 9, {size: 11, colour: soft, align: "center", width: cell.wide + 4});
        if (cell.layer === state.layer && (cell.head === state.head || state.head < 0)) {
          ctx.strokeStyle = pin;
          ctx.lineWidth = 2;
          ctx.strokeRect(box.x - 1, box.y - 1, box.width + 2, box.height + 2);
        }
      }
      if (missing) requestAnimationFrame(() => made.draw());
    };
    // Thumbnails are made once, a few per animation frame, so that the page stays responsive.
    const cached = (cell, make, begin) => {
      const name = cell.layer * 4096 + cell.head;
      if (!local.thumbnails.has(name) && performance.now() - begin < SLICE) local.thumbnails.set(name, make());
      return local.thumbnails.get(name);
    };
    const at = (x, y) => local.cells.find((one) => x >= one.x - 3 && x <= one.x + one.wide + 3 && y >= one.y && y <= one.y + one.tall + one.label);
    const move = (dx, dy) => {
      const here = local.cells.find((one) => one.layer === app.state.layer && one.head === Math.max(0, app.state.head));
      if (!here) return;
      const away = (one) => {
        const [x, y] = [one.x - here.x, one.y - here.y];
        const forward = dx ? x * dx : y * dy;
        return forward > 1 ? forward + 3 * Math.abs(dx ? y : x) : Infinity;
      };
      const next = local.cells.reduce((best, one) => (away(one) < away(best) ? one : best), here);
      if (away(next) < Infinity) app.set({layer: next.layer, head: next.head});
    };
    const ends = (way) => {
      const one = local.cells.at(way < 0 ? 0 : -1);
      app.set({layer: one.layer, head: one.head});
    };
    const made = surface(app, {
      label: "Attention maps of all heads. Arrow keys choose a head, Enter opens it.", paint,
      height: (width) => (local.now ? layout(width, local.now).height : 1), move, ends, title: "grid of heads",
      pin: () => app.set({view: "matrix"}),
      point: (x, y, kind) => {
        const one = at(x, y);
        made.canvas.style.cursor = one ? "pointer" : "";
        made.canvas.title = one ? described(local.now.map, one) : "";
        if (kind === "click" && one) app.set({layer: one.layer, head: one.head, view: "matrix"});
      },
    });
    const status = el("p", {class: "unseen", "aria-live": "polite"});
    const draw = () => made.draw();
    const update = (now) => {
      local.now = now;
      const orders = [["layer", "by layer"]];
      if (now.map.patterns?.length) orders.push(["kind", "by pattern"]);
      if (now.map.entropy) orders.push(["entropy", "by entropy"]);
      if (now.map.importance) orders.push(["importance", "by importance"]);
      order.show(orders, local.order);
      const words = described(now.map, {layer: now.state.layer, head: Math.max(0, now.state.head)});
      if (status.textContent !== words) status.textContent = words;
      draw();
    };
    const data = () => {
      const {map} = local.now;
      const rows = map.layers.flatMap((name, layer) => Array.from({length: map.heads}, (_, head) => {
        const [kind, score] = kindOf(map, layer, head);
        return [name, layer + 1, head + 1, kind, score, map.entropy?.[layer]?.[head] ?? null, map.importance?.[layer]?.[head] ?? null];
      }));
      return {columns: ["name", "layer", "head", "kind", "score", "entropy", "importance"], rows};
    };
    return {element: el("div", {}, made.element, status), controls: [order.element], update, data};
  },
};

function described(map, {layer, head}) {
  const [kind, score] = kindOf(map, layer, head);
  const parts = [`Layer ${layer + 1}, head ${head + 1}`];
  if (map.patterns?.length) parts.push(kind === "mixed" ? "no clear pattern" : `${kind} ${number(score)}`);
  if (map.entropy?.[layer]?.[head] != null) parts.push(`entropy ${number(map.entropy[layer][head])}`);
  if (map.importance?.[layer]?.[head] != null) parts.push(`importance ${number(map.importance[layer][head])}`);
  return parts.join(", ") + ".";
}

function colours(map, state) {
  const all = ramp(state.colours, map.coding.kind === "signed").map(packed);
  return Uint32Array.from(tableOf(map.coding), (one) => {
    const level = stretched(one / map.coding.scale, state.scale);
    return all[Math.round(map.coding.kind === "signed" ? 127.5 + 127.5 * level : 255 * level)];
  });
}

function thumbnail(codes, table, map, w, h) {
  const image = new ImageData(w, h);
  const pixels = new Uint32Array(image.data.buffer);
  const masked = packedName("masked");
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const hidden = map.causal && Math.floor((x * map.shape[1]) / w) >= Math.ceil(((y + 1) * map.shape[0]) / h);
      pixels[y * w + x] = hidden ? masked : table[codes[y * w + x]];
    }
  }
  return canvasOf(image);
}
