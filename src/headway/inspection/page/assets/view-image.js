// Attention of one token to the patches of an image: a spotlight on the image, with the original beside it.
// Below it: the tokens that are not patches; at its side the same for every head of the layer.
import {button, el, slider, tick} from "./elements.js";
import {canvasOf} from "./heat.js";
import {stretched, theme} from "./colours.js";
import {imageOf, isPatch, ofPatches} from "./patches.js";
import {surface, write} from "./surface.js";
import {nameOf, percent, shorten} from "./tokens.js";
import {Weights} from "./weights.js";

const BELOW = [90, 40]; // pixels below the image: its sentence and the heads, or in a frame only the sentence

// Draws the image with the weights as light: patches are the darker, the smaller their weight. The patches
// may cover only a part of the image.
export function spotlight(ctx, side, values, box, look, strength = 0.8) {
  const img = imageOf(side.image, look.ready);
  if (!img) return;
  ctx.imageSmoothingEnabled = true;
  ctx.drawImage(img, box.x, box.y, box.width, box.height);
  if (!values) return;
  const [rows, columns] = side.grid;
  const [high, wide] = side.size;
  const [reachHigh, reachWide] = side.reach || side.size;
  const size = [(box.height * reachHigh) / high / rows, (box.width * reachWide) / wide / columns];
  const patches = ofPatches(side, values);
  const most = look.greatest || patches.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  const shade = new ImageData(columns, rows);
  patches.forEach((value, at) => {
    const level = Math.abs(stretched(value / most, look.scale));
    shade.data.set([0, 0, 0, 255 * strength * (1 - level)], at * 4);
  });
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(canvasOf(shade), box.x, box.y, size[1] * columns, size[0] * rows);
}

export const image = {
  id: "image",
  title: "Image",
  lead: "The attention of the chosen token to the patches of the image: the darker a patch, the smaller its weight. The original is beside it. The small images show every head of the layer.",
  plays: true,
  wants: ({sides}, map) => Boolean(sides[map.keys].image && sides[map.keys].grid),
  make(app) {
    const local = {now: null, strength: 0.8, shared: false, boxes: [], main: null};
    const strength = slider("Shade", 0.2, 1, 0.05, 0.8, percent, (one) => { local.strength = one; draw(); });
    const shared = tick("One scale for all heads", false, (one) => { local.shared = one; draw(); });
    const look = () => ({...app.state, ready: draw});
    const draw = () => { main.draw(); heads.draw(); };
    const shape = (width, side) => {
      const beside = width >= 300; // room for the original at the right
      const wide = Math.min(beside ? (width - 12) * 0.66 : width, ((app.room() - BELOW[app.state.bare ? 1 : 0]) * side.size[1]) / side.size[0]);
      return {x: 0, y: 0, width: wide, height: (wide * side.size[0]) / side.size[1], beside};
    };
    const patchBox = (side, at, box) => {
      const [rows, columns] = side.grid;
      const reach = side.reach || side.size;
      const high = (box.height * reach[0]) / side.size[0] / rows;
      const wide = (box.width * reach[1]) / side.size[1] / columns;
      const patch = at - side.num_prefix_tokens;
      return [(patch % columns) * wide, Math.floor(patch / columns) * high, wide, high];
    };
    const paint = (ctx, width) => {
      const {now} = local;
      if (!now) return;
      const {keys, weights, state, queries} = now;
      local.main = shape(width, keys);
      main.canvas.dataset.image = local.main.width.toFixed(3); // for tests
      const scores = now.score && now.frame.sides[now.score.side] === keys && Float32Array.from(now.score.scores, Math.abs);
      spotlight(ctx, keys, scores || (weights && weights.row(state.query)), local.main, look(), local.strength);
      const {width: wide, height: high, beside} = local.main;
      if (beside) {
        const small = Math.min(wide, width - wide - 12);
        spotlight(ctx, keys, null, {x: wide + 12, y: 0, width: small, height: (small * high) / wide}, look());
      }
      ctx.lineWidth = 2.5;
      ctx.strokeStyle = theme().pin;
      if (queries === keys && isPatch(keys, state.query)) ctx.strokeRect(...patchBox(keys, state.query, local.main));
      ctx.lineWidth = 1.5;
      if (isPatch(keys, state.key) && state.key !== state.query) ctx.strokeRect(...patchBox(keys, state.key, local.main));
    };
    const patchAt = (x, y) => {
      const side = local.now.keys;
      const [, , wide, high] = patchBox(side, side.num_prefix_tokens, local.main);
      const [column, row] = [Math.floor(x / wide), Math.floor(y / high)];
      return row < 0 || column < 0 || row >= side.grid[0] || column >= side.grid[1] ? -1 : side.num_prefix_tokens + row * side.grid[1] + column;
    };
    const selfAttention = () => local.now.queries === local.now.keys;
    const choose = (position) => app.set(selfAttention() ? {query: position} : {key: position});
    const main = surface(app, {
      label: "Image with attention weights. Arrow keys choose a patch, or the word if words attend to the image.", paint, title: "image of patches",
      height: (width) => (local.now ? shape(width, local.now.keys).height : 1),
      move: (dx, dy) => {
        const {keys} = local.now;
        const {state} = app; // newer than the state that was drawn, if keys are pressed fast
        if (!selfAttention()) { app.set({query: Math.max(0, state.query + dx + dy)}); return; }
        const next = state.query + dx + dy * (isPatch(keys, state.query) ? keys.grid[1] : 1);
        if (next >= 0 && next < keys.tokens.length) app.set({query: next});
      },
      ends: (way) => app.set({query: way < 0 ? 0 : local.now.map.shape[0] - 1}),
      pin: () => app.set({view: "matrix"}),
      point: (x, y, kind) => {
        const position = kind === "leave" ? -1 : patchAt(x, y);
        if (kind === "click" && position >= 0) choose(position);
        const {weights, state, map} = local.now;
        main.canvas.title = position >= 0 && weights && map ? `${nameOf(local.now.keys, position)}: ${percent(weights.at(state.query, position))}` : "";
      },
    });
    const small = (width) => {
      const {map, keys} = local.now;
      const perRow = map.heads <= 4 ? 2 : Math.min(map.heads, 6);
      const side = Math.max(64, Math.min(170, width / perRow - 8));
      const perLine = Math.max(1, Math.floor((width + 8) / (side + 8)));
      return {side, perLine, high: (side * keys.size[0]) / keys.size[1] + 24};
    };
    const paintHeads = (ctx, width) => {
      const {now} = local;
      if (!now || now.map.heads < 2) return;
      const {map, keys, state} = now;
      const codes = app.session.bytes(map.blocks[state.layer]);
      const {side, perLine, high} = small(width);
      const {pin, soft} = theme();
      local.boxes = [];
      const cells = map.shape[0] * map.shape[1];
      const rows = Array.from({length: codes ? map.heads : 0}, (_, head) =>
        new Weights(codes.subarray(head * cells, (head + 1) * cells), ...map.shape, map.coding).row(state.query));
      const greatest = local.shared ? Math.max(...rows.map((row) => ofPatches(keys, row).reduce((a, b) => Math.max(a, b), 0))) : 0;
      rows.forEach((row, head) => {
        const box = {x: (head % perLine) * (side + 8), y: Math.floor(head / perLine) * high, width: side, height: high - 24};
        spotlight(ctx, keys, row, box, {...look(), greatest}, local.strength);
        if (head === state.head) { ctx.strokeStyle = pin; ctx.lineWidth = 3; ctx.strokeRect(box.x + 1, box.y + 1, side - 2, box.height - 2); }
        const on = ofPatches(keys, row).reduce((a, b) => a + b, 0);
        write(ctx, `head ${head + 1}${keys.num_prefix_tokens ? ` · ${percent(on)}` : ""}`, box.x, box.y + box.height + 11, {size: 11, colour: soft, width: side});
        local.boxes.push({...box, head});
      });
    };
    const heads = surface(app, {
      label: "The same image for every head of the layer", paint: paintHeads,
      height: (width) => (local.now && local.now.map.heads > 1 ? Math.ceil(local.now.map.heads / small(width).perLine) * small(width).high : 1),
      point: (x, y, kind) => {
        const box = local.boxes.find((one) => x >= one.x && x <= one.x + one.width && y >= one.y && y <= one.y + one.height);
        if (kind === "click" && box) app.set({head: box.head});
      },
    });
    const chips = el("div", {class: "chips", role: "group", "aria-label": "Queries"});
    const beside = el("p", {class: "soft"});
    const update = (now) => {
      local.now = now;
      const {keys, queries, weights, state} = now;
      const words = Array.from(queries.tokens, (_, at) => at).filter((at) => !isPatch(queries, at)).slice(0, 200);
      chips.replaceChildren(...words.map((at) =>
        button(shorten(nameOf(queries, at), 24), () => app.set({query: at}), {class: "chip", "aria-pressed": String(at === state.query), dir: "auto"})));
      const row = weights && weights.row(state.query);
      const others = Array.from(keys.tokens, (_, at) => at).filter((at) => !isPatch(keys, at));
      const extra = row ? others.map((at) => `${shorten(keys.tokens[at], 20)} ${percent(row[at])}`) : [];
      const total = row ? ofPatches(keys, row).reduce((a, b) => a + b, 0) : 0;
      beside.textContent = row ? `On patches: ${percent(total)}.${extra.length ? ` On other tokens: ${extra.slice(0, 8).join(", ")}.` : ""}` : "";
      draw();
    };
    const data = () => {
      const {keys, weights, state} = local.now;
      const row = weights.row(state.query);
      return {columns: ["position", "token", "weight"], rows: keys.tokens.map((_, at) => [at + 1, nameOf(keys, at), row[at]])};
    };
    return {element: el("div", {}, chips, el("div", {class: "pictures"}, el("div", {}, main.element, beside), el("div", {class: "every-head"}, heads.element))), controls: [strength, shared], update, data};
  },
};
