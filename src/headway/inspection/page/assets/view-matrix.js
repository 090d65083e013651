// The attention map of one head: rows are queries, columns are keys. Zoom and drag to read single cells;
// the cross shows the pinned pair, and masked cells are grey.
import {button, el} from "./elements.js";
import {colourOf, inkOn, theme, tokenColour} from "./colours.js";
import {heat} from "./heat.js";
import {drawPatch, isPatch} from "./patches.js";
import {surface, write} from "./surface.js";
import {amount, nameOf, percent, quoted, shorten} from "./tokens.js";
import {scaleBar} from "./scale-bar.js";

const TOP = 74;
const LEFT = 92;
const LARGE = 2048 * 2048; // cells that are drawn from the map itself
const COARSER = 4;
const LARGEST = 84; // pixels: the largest cell
const PATCH = 14; // pixels: a patch as the name of a row or a column
const READ = 11; // pixels: the smallest distance between two names

// Returns the part of the map that is shown: all of it, unless it is zoomed in.
function windowOf(local, rows, columns) {
  const zoom = Math.min(Math.max(local.zoom, 1), Math.max(rows, columns) / 4, 4096);
  const down = Math.max(1, Math.min(rows, Math.ceil(rows / Math.max(1, zoom))));
  const across = Math.max(1, Math.min(columns, Math.ceil(columns / Math.max(1, zoom))));
  const top = Math.round(Math.min(Math.max(local.middle[0] * rows - down / 2, 0), rows - down));
  const left = Math.round(Math.min(Math.max(local.middle[1] * columns - across / 2, 0), columns - across));
  return {top, left, bottom: top + down, right: left + across};
}

export const matrix = {
  id: "matrix",
  title: "Matrix",
  lead: "Rows are queries, columns are keys; stronger colours are larger weights. Each row sums to 100 %.",
  leadOther: "Rows are queries, columns are keys; stronger colours are larger numbers. Here rows do not sum to 100 %.",
  joins: "tokens",
  plays: true,
  wants: () => true,
  make(app) {
    const local = {zoom: 1, middle: [0.5, 0.5], now: null, hover: null, box: null};
    const zoomed = (factor) => {
      const {rows, columns} = local.now.weights || {};
      if (!rows) return;
      const {query, key} = app.cursor();
      if (local.zoom === 1 && factor > 1) local.middle = [(query + 0.5) / rows, (Math.max(key, 0) + 0.5) / columns];
      local.zoom = Math.min(Math.max(local.zoom * factor, 1), Math.max(rows, columns) / 4 || 1);
      made.draw();
    };
    const fit = () => { local.zoom = 1; local.middle = [0.5, 0.5]; made.draw(); };
    // Draws the map; beyond 2,048 tokens a max-pooled one, unless zoomed in. Returns false while that is made.
    const drawn = (ctx, {map, weights, state}, shown, box) => {
      const {top, bottom, left, right} = shown;
      if ((bottom - top) * (right - left) <= LARGE) { heat(ctx, weights, shown, box, state, map.causal); return true; }
      const small = app.session.overview(map, state.layer, state.head, COARSER);
      const part = {top: Math.floor(top / COARSER), left: Math.floor(left / COARSER), bottom: Math.ceil(bottom / COARSER), right: Math.ceil(right / COARSER)};
      if (small) heat(ctx, small, part, box, state, map.causal);
      return Boolean(small);
    };
    const geometry = (width, {map}) => {
      const [rows, columns] = map.shape;
      const shown = windowOf(local, rows, columns);
      const small = width < 520;
      const left = small ? 58 : LEFT;
      const cell = Math.min((width - left - 8) / (shown.right - shown.left), LARGEST);
      const high = Math.max(Math.min(cell, (app.room() - TOP - 60) / (shown.bottom - shown.top)), Math.min(14, cell, 900 / (shown.bottom - shown.top)), Math.min(4, 420 / (shown.bottom - shown.top)));
      const height = high * (shown.bottom - shown.top);
      return {shown, left, box: {x: left, y: TOP, width: cell * (shown.right - shown.left), height}};
    };
    const paint = (ctx, width) => {
      const {now} = local;
      if (!now) return;
      const {map, weights, queries, keys, state} = now;
      const {box, shown, left} = geometry(width, now);
      const {soft, line, pin, masked} = theme();
      Object.assign(local, {box, shown});
      if (!weights) { ctx.fillStyle = masked; ctx.fillRect(box.x, box.y, box.width, box.height); return; }
      if (!drawn(ctx, now, shown, box)) { ctx.fillStyle = masked; ctx.fillRect(box.x, box.y, box.width, box.height); }
      const cell = [box.width / (shown.right - shown.left), box.height / (shown.bottom - shown.top)];
      made.canvas.dataset.cell = cell.map((one) => one.toFixed(3)).join(" "); // width and height, for tests
      if (cell[0] >= 30 && cell[1] >= 16) figures(ctx, now, shown, box, cell);
      ctx.strokeStyle = line;
      ctx.lineWidth = 1;
      ctx.strokeRect(box.x - 0.5, box.y - 0.5, box.width + 1, box.height + 1);
      const cursor = local.hover || state;
      const centre = (at, axis) => (axis ? box.x + (at - shown.left + 0.5) * cell[0] : box.y + (at - shown.top + 0.5) * cell[1]);
      const patch = (side, at, x, y) => isPatch(side, at) && drawPatch(ctx, side, at - side.num_prefix_tokens, x - PATCH / 2, y - PATCH / 2, PATCH, () => made.draw());
      const row = (at, strong) => patch(queries, at, left - 8 - PATCH / 2, centre(at, 0)) || write(ctx, shorten(nameOf(queries, at), 20), left - 8, centre(at, 0), {size: 11.5, colour: strong ? pin : tokenColour(queries, at, soft), bold: strong, align: "right", width: left - 10});
      const column = (at, strong) => {
        if (patch(keys, at, centre(at, 1), TOP - 4 - PATCH / 2)) return;
        ctx.save();
        ctx.translate(centre(at, 1), TOP - 7);
        ctx.rotate(-Math.PI / 3.2);
        write(ctx, shorten(nameOf(keys, at), 20), 0, 0, {size: 11.5, colour: strong ? pin : tokenColour(keys, at, soft), bold: strong, width: 78});
        ctx.restore();
      };
      ruler(shown.top, shown.bottom, cell[1], cursor.query, row);
      ruler(shown.left, shown.right, cell[0], cursor.key, column);
      ctx.fillStyle = pin;
      if (cursor.query >= shown.top && cursor.query < shown.bottom) outline(ctx, pin, box.x, centre(cursor.query, 0) - cell[1] / 2, box.width, cell[1]);
      if (cursor.key >= shown.left && cursor.key < shown.right) outline(ctx, pin, centre(cursor.key, 1) - cell[0] / 2, box.y, cell[0], box.height);
    };
    const cellAt = (x, y) => {
      const {box, shown} = local;
      if (!box || x < box.x || y < box.y || x >= box.x + box.width || y >= box.y + box.height) return null;
      const key = shown.left + Math.floor(((x - box.x) / box.width) * (shown.right - shown.left));
      const query = shown.top + Math.floor(((y - box.y) / box.height) * (shown.bottom - shown.top));
      return {query, key};
    };
    const tip = el("p", {class: "tip"});
    const describe = (cell) => {
      const {map, weights, queries, keys} = local.now;
      if (!cell || !weights) { tip.textContent = "Point at a cell, or use the arrow keys."; return; }
      const hidden = map.causal && cell.key > cell.query;
      const from = quoted(queries, cell.query, 30);
      const to = quoted(keys, cell.key, 30);
      tip.textContent = hidden ? `${from} → ${to}: masked, because the key comes later than the query.` : `${from} → ${to}: ${amount(weights.at(cell.query, cell.key), map)}`;
    };
    const follow = () => {
      const {rows, columns} = local.now.weights || {rows: 1, columns: 1};
      const shown = windowOf(local, rows, columns);
      const {query, key} = app.cursor();
      if (query < shown.top || query >= shown.bottom) local.middle[0] = (query + 0.5) / rows;
      if (key >= 0 && (key < shown.left || key >= shown.right)) local.middle[1] = (key + 0.5) / columns;
    };
    const move = (dx, dy) => {
      const {query, key} = app.cursor();
      app.pick({query: query + dy, key: Math.max(0, key + dx)});
    };
    const made = surface(app, {
      label: "Attention matrix. Arrow keys move the cross, Home and End move along the row, plus and minus zoom, square brackets change the layer, comma and full stop the head, Enter shows the query in the text.",
      paint, move, title: "attention matrix",
      height: (width) => (local.now ? geometry(width, local.now).box.height + TOP + 6 : 1),
      ends: (way) => app.pick({key: way < 0 ? 0 : local.now.map.shape[1] - 1}),
      pin: () => app.set({view: "text"}),
      key: (event) => {
        if (event.key === "+" || event.key === "=") zoomed(1.6);
        else if (event.key === "-") zoomed(1 / 1.6);
        else if (event.key === "0") fit();
        else return false;
        return true;
      },
      point: (x, y, kind, event) => {
        const cell = kind === "leave" ? null : cellAt(x, y);
        if (kind === "hover" && event.buttons === 1 && local.zoom > 1) { drag(event); return; }
        if (kind === "click") { if (cell && !local.dragged) app.pick(cell); local.dragged = 0; return; }
        if (JSON.stringify(cell) === JSON.stringify(local.hover)) return;
        local.hover = cell;
        describe(cell || (app.state.key >= 0 ? app.cursor() : null));
        made.draw();
      },
    });
    const drag = (event) => {
      const {box, shown} = local;
      local.middle[1] -= ((event.movementX / box.width) * (shown.right - shown.left)) / local.now.map.shape[1];
      local.middle[0] -= ((event.movementY / box.height) * (shown.bottom - shown.top)) / local.now.map.shape[0];
      local.dragged = 1;
      made.draw();
    };
    made.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== made.canvas) return;
      event.preventDefault();
      const cell = cellAt(event.offsetX, event.offsetY);
      const {rows, columns} = local.now.weights || {};
      if (cell && rows) local.middle = [(cell.query + 0.5) / rows, (cell.key + 0.5) / columns];
      zoomed(event.deltaY < 0 ? 1.25 : 0.8);
    }, {passive: false});
    const bar = scaleBar(app);
    const zooms = el("span", {class: "buttons", role: "group", "aria-label": "Zoom"},
      button("−", () => zoomed(1 / 1.6), {"aria-label": "Zoom out"}), button("+", () => zoomed(1.6), {"aria-label": "Zoom in"}), button("Whole map", fit));
    const update = (now) => {
      local.now = now;
      follow();
      describe(now.state.key >= 0 ? now.state : null);
      bar.update(now);
      made.draw();
    };
    const data = () => {
      const {weights, queries, keys} = local.now;
      const rows = Array.from({length: weights.rows}, (_, at) => [queries.tokens[at], ...weights.row(at)]);
      return {columns: ["token", ...keys.tokens], rows};
    };
    return {element: el("div", {}, made.element, tip, bar.element), controls: [zooms, bar.controls], update, data};
  },
};

// Names along an axis: all if there is space, otherwise as many as fit, and always the chosen one.
export function ruler(from, to, size, chosen, name) {
  const every = Math.max(1, Math.ceil(READ / size));
  for (let at = from; at < to; at++) {
    const near = every > 1 && chosen >= from && chosen < to && Math.abs(at - chosen) * size < READ;
    if (at === chosen || (!near && (at - from) % every === 0)) name(at, at === chosen);
  }
}

function outline(ctx, colour, x, y, width, height) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x, y, width, height);
}

function figures(ctx, {map, weights, state}, shown, box, cell) {
  for (let t = shown.top; t < shown.bottom; t++) {
    for (let s = shown.left; s < shown.right; s++) {
      if (map.causal && s > t) continue;
      const value = weights.at(t, s);
      if (Math.abs(value) < weights.greatest * 0.005) continue;
      const colour = colourOf(value, state.perRow ? Math.max(...weights.row(t).map(Math.abs)) : weights.greatest, state, weights.signed);
      const text = map.normalised ? percent(value).slice(0, -2) : amount(value, map);
      write(ctx, text, box.x + (s - shown.left + 0.5) * cell[0], box.y + (t - shown.top + 0.5) * cell[1], {size: 11, colour: inkOn(colour), align: "center"});
    }
  }
}
