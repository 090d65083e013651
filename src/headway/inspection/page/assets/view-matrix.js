// One head whole: every token that looks is a row, every token looked at a column. Zoom and move to
// read single cells; the cross marks the pinned pair, grey is what a token may not see.
import {button, el, tick} from "./elements.js";
import {colourOf, inkOn, theme} from "./colours.js";
import {heat} from "./heat.js";
import {surface, write} from "./surface.js";
import {amount, nameOf, percent, quoted, shorten} from "./tokens.js";
import {scaleBar} from "./scale-bar.js";

const TOP = 74;
const LEFT = 92;
const LARGE = 2048 * 2048; // cells that are drawn from the map itself
const COARSER = 4;
const READ = 11; // pixels that a name needs

// The largest window of the map that is shown: all of it, unless someone zoomed.
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
  lead: "A row is a token that looks, a column a token it looks at: the stronger the colour, the more of its attention goes there. Each row adds up to 100 %.",
  leadOther: "A row is a token that looks, a column a token it looks at: the stronger the colour, the larger the number, which here is no share of a whole.",
  wants: () => true,
  make(app) {
    const local = {zoom: 1, middle: [0.5, 0.5], now: null, hover: null, box: null};
    const zoomed = (factor) => {
      const {rows, columns} = local.now.weights || {};
      if (!rows) return;
      const {query, key} = app.state;
      if (local.zoom === 1 && factor > 1) local.middle = [(query + 0.5) / rows, (Math.max(key, 0) + 0.5) / columns];
      local.zoom = Math.min(Math.max(local.zoom * factor, 1), Math.max(rows, columns) / 4 || 1);
      made.draw();
    };
    const fit = () => { local.zoom = 1; local.middle = [0.5, 0.5]; made.draw(); };
    // Beyond 2,048 tokens a coarser map is drawn, until someone zooms in; false while it is made.
    const picture = (ctx, {map, weights, state}, seen, box) => {
      const {top, bottom, left, right} = seen;
      if ((bottom - top) * (right - left) <= LARGE) { heat(ctx, weights, seen, box, state, map.causal); return true; }
      const small = app.session.overview(map, state.layer, state.head, COARSER);
      const part = {top: Math.floor(top / COARSER), left: Math.floor(left / COARSER), bottom: Math.ceil(bottom / COARSER), right: Math.ceil(right / COARSER)};
      if (small) heat(ctx, small, part, box, state, map.causal);
      return Boolean(small);
    };
    const geometry = (width, {map}) => {
      const [rows, columns] = map.shape;
      const seen = windowOf(local, rows, columns);
      const small = width < 520;
      const left = small ? 58 : LEFT;
      const cell = Math.min((width - left - 8) / (seen.right - seen.left), 44);
      const high = Math.max(Math.min(cell, 44), Math.min(4, 420 / (seen.bottom - seen.top)));
      const height = Math.min(high * (seen.bottom - seen.top), 900);
      return {seen, left, box: {x: left, y: TOP, width: cell * (seen.right - seen.left), height}};
    };
    const paint = (ctx, width) => {
      const {now} = local;
      if (!now) return;
      const {map, weights, queries, keys, state} = now;
      const {box, seen, left} = geometry(width, now);
      const {soft, line, pin, masked} = theme();
      Object.assign(local, {box, seen});
      if (!weights) { ctx.fillStyle = masked; ctx.fillRect(box.x, box.y, box.width, box.height); return; }
      if (!picture(ctx, now, seen, box)) { ctx.fillStyle = masked; ctx.fillRect(box.x, box.y, box.width, box.height); }
      const cell = [box.width / (seen.right - seen.left), box.height / (seen.bottom - seen.top)];
      if (cell[0] >= 30 && cell[1] >= 16) figures(ctx, now, seen, box, cell);
      ctx.strokeStyle = line;
      ctx.lineWidth = 1;
      ctx.strokeRect(box.x - 0.5, box.y - 0.5, box.width + 1, box.height + 1);
      const mark = local.hover || state;
      const place = (at, axis) => (axis ? box.x + (at - seen.left + 0.5) * cell[0] : box.y + (at - seen.top + 0.5) * cell[1]);
      const row = (at, strong) => write(ctx, shorten(nameOf(queries, at), 20), left - 8, place(at, 0), {size: 11.5, colour: strong ? pin : soft, bold: strong, align: "right", width: left - 10});
      const column = (at, strong) => {
        ctx.save();
        ctx.translate(place(at, 1), TOP - 7);
        ctx.rotate(-Math.PI / 3.2);
        write(ctx, shorten(nameOf(keys, at), 20), 0, 0, {size: 11.5, colour: strong ? pin : soft, bold: strong, width: 78});
        ctx.restore();
      };
      ruler(seen.top, seen.bottom, cell[1], mark.query, row);
      ruler(seen.left, seen.right, cell[0], mark.key, column);
      ctx.fillStyle = pin;
      if (mark.query >= seen.top && mark.query < seen.bottom) outline(ctx, pin, box.x, place(mark.query, 0) - cell[1] / 2, box.width, cell[1]);
      if (mark.key >= seen.left && mark.key < seen.right) outline(ctx, pin, place(mark.key, 1) - cell[0] / 2, box.y, cell[0], box.height);
    };
    const cellAt = (x, y) => {
      const {box, seen} = local;
      if (!box || x < box.x || y < box.y || x >= box.x + box.width || y >= box.y + box.height) return null;
      const key = seen.left + Math.floor(((x - box.x) / box.width) * (seen.right - seen.left));
      const query = seen.top + Math.floor(((y - box.y) / box.height) * (seen.bottom - seen.top));
      return {query, key};
    };
    const tip = el("p", {class: "tip"});
    const told = (cell) => {
      const {map, weights, queries, keys} = local.now;
      if (!cell || !weights) { tip.textContent = "Point at a cell, or use the arrow keys. + and − zoom, [ ] change the layer, , . the head, Enter reads the row in the text."; return; }
      const hidden = map.causal && cell.key > cell.query;
      const from = quoted(queries, cell.query, 30);
      const to = quoted(keys, cell.key, 30);
      tip.textContent = hidden ? `${from} may not see ${to}: it comes later.` : `${from} → ${to}: ${amount(weights.at(cell.query, cell.key), map)}`;
    };
    const follow = () => {
      const {rows, columns} = local.now.weights || {rows: 1, columns: 1};
      const seen = windowOf(local, rows, columns);
      const {query, key} = app.state;
      if (query < seen.top || query >= seen.bottom) local.middle[0] = (query + 0.5) / rows;
      if (key >= 0 && (key < seen.left || key >= seen.right)) local.middle[1] = (key + 0.5) / columns;
    };
    const move = (dx, dy) => app.set({query: Math.max(0, app.state.query + dy), key: Math.max(0, app.state.key + dx)});
    const made = surface(app, {
      label: "Matrix of attention. Arrows move the cross, Home and End go along the row, plus and minus zoom, Enter reads the row in the text.",
      paint, move, title: "attention matrix",
      height: (width) => (local.now ? geometry(width, local.now).box.height + TOP + 6 : 1),
      ends: (way) => app.set({key: way < 0 ? 0 : local.now.map.shape[1] - 1}),
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
        if (kind === "click") { if (cell && !local.dragged) app.set(cell); local.dragged = 0; return; }
        if (JSON.stringify(cell) === JSON.stringify(local.hover)) return;
        local.hover = cell;
        told(cell || (app.state.key >= 0 ? app.state : null));
        made.draw();
      },
    });
    const drag = (event) => {
      const {box, seen} = local;
      local.middle[1] -= ((event.movementX / box.width) * (seen.right - seen.left)) / local.now.map.shape[1];
      local.middle[0] -= ((event.movementY / box.height) * (seen.bottom - seen.top)) / local.now.map.shape[0];
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
    const rowwise = tick("Colours per row", app.state.perRow, (perRow) => app.set({perRow}));
    const zooms = el("span", {class: "buttons", role: "group", "aria-label": "Zoom"},
      button("−", () => zoomed(1 / 1.6), {"aria-label": "Zoom out"}), button("+", () => zoomed(1.6), {"aria-label": "Zoom in"}), button("Whole map", fit));
    const update = (now) => {
      local.now = now;
      follow();
      told(now.state.key >= 0 ? now.state : null);
      bar.update(now);
      made.draw();
    };
    const data = () => {
      const {weights, queries, keys} = local.now;
      const rows = Array.from({length: weights.rows}, (_, at) => [queries.tokens[at], ...weights.row(at)]);
      return {columns: ["token", ...keys.tokens], rows};
    };
    return {element: el("div", {}, made.element, tip, bar.element), controls: [zooms, rowwise, bar.controls], update, data};
  },
};

// Names beside a side: all where there is room, else as many as fit, and always the marked one.
export function ruler(from, to, size, marked, name) {
  const every = Math.max(1, Math.ceil(READ / size));
  for (let at = from; at < to; at++) {
    const near = every > 1 && marked >= from && marked < to && Math.abs(at - marked) * size < READ;
    if (at === marked || (!near && (at - from) % every === 0)) name(at, at === marked);
  }
}

function outline(ctx, colour, x, y, width, height) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(x, y, width, height);
}

function figures(ctx, {map, weights, state}, seen, box, cell) {
  for (let t = seen.top; t < seen.bottom; t++) {
    for (let s = seen.left; s < seen.right; s++) {
      if (map.causal && s > t) continue;
      const value = weights.at(t, s);
      if (Math.abs(value) < weights.greatest * 0.005) continue;
      const colour = colourOf(value, state.perRow ? Math.max(...weights.row(t).map(Math.abs)) : weights.greatest, state, weights.signed);
      const text = map.normalised ? percent(value).slice(0, -2) : amount(value, map);
      write(ctx, text, box.x + (s - seen.left + 0.5) * cell[0], box.y + (t - seen.top + 0.5) * cell[1], {size: 11, colour: inkOn(colour), align: "center"});
    }
  }
}
