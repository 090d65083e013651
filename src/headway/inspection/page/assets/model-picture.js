// The picture of the whole model. Tokens are columns, and vectors travel upwards: through attention
// (circles), where they read from other columns, and through feed-forward layers (squares). Stronger
// colours are larger changes of the vector. The heads of each layer are at its left.
import {colourOf, css, headColour, inkOn, theme, tokenColour} from "./colours.js";
import {write} from "./surface.js";
import {nameOf, percent, shorten} from "./tokens.js";
import {drawPatch, isPatch} from "./patches.js";
import {kindsOf, predictionAt} from "./model-stacks.js";
import {top} from "./weights.js";

const NARROWEST = 15; // pixels: the least width of a column
const LAYER = [44, 230]; // pixels: the least and the largest height of a layer
const ENDS = 62; // pixels above and below a stack: tokens and predictions
const SMALLEST = 10; // pixels: the least size of a name
const LEAST = 0.08; // weights below are not drawn
const PALE = 0.14;

// Returns {stacks: [{x, y, width, height, column, layer, ...}], width, height}: where everything is.
// Stacks are side by side if there is room, otherwise the later one is above.
export function layout(stacks, frame, width, room) {
  const counts = stacks.map((one) => frame.sides[one.side].tokens.length);
  const strips = stacks.map((one) => stripWidth(one));
  const needed = counts.reduce((sum, count, at) => sum + strips[at] + count * 26 + 20, 0);
  const beside = stacks.length < 2 || needed <= width;
  const most = Math.max(...stacks.map((one) => one.layers), 1);
  const share = beside ? room : room / stacks.length;
  const layer = Math.max(LAYER[0], Math.min(LAYER[1], (share - 2 * ENDS - 8) / most));
  const free = width - strips.reduce((sum, one) => sum + one + 16, 0);
  const places = [];
  let x = 0;
  let y = 0;
  (beside ? stacks.map((_, at) => at) : stacks.map((_, at) => stacks.length - 1 - at)).forEach((at) => {
    const all = counts.reduce((a, b) => a + b, 0);
    const own = beside ? (free * counts[at]) / all : width - strips[at] - 16;
    const column = Math.max(NARROWEST, Math.min(96, own / counts[at]));
    const height = stacks[at].layers * layer + 2 * ENDS;
    const total = beside ? most * layer + 2 * ENDS : height;
    places[at] = {x: x + strips[at], left: x, y: y + total - ENDS, column, layer, count: counts[at], strip: strips[at], top: y + total - ENDS - stacks[at].layers * layer};
    if (beside) x += strips[at] + counts[at] * column + 16; else y += height;
  });
  const right = Math.max(...places.map((one) => one.x + one.count * one.column));
  return {places, width: Math.max(width, right + 4), height: beside ? most * layer + 2 * ENDS : y};
}

const headSize = (heads) => Math.max(5, Math.min(13, 96 / heads));
const stripWidth = ({self, cross}) => 30 + Math.max(self?.heads || 0, cross?.heads || 0) * headSize(Math.max(self?.heads || 1, cross?.heads || 1)) + 10;

// The heights of the parts of a layer, from its bottom, as fractions.
const LEVELS = {self: 0.36, cross: 0.58, feedforward: 0.82};
const levelOf = (stack, kind) => (kind === "self" && !stack.cross ? 0.45 : LEVELS[kind]);
export const heightOf = (place, stack, layer, kind) => place.y - (layer + levelOf(stack, kind)) * place.layer;
const columnOf = (place, at) => place.x + (at + 0.5) * place.column;

// Returns the boxes of all heads: [{stack, kind, layer, head, x, y, size}].
export function headBoxes(stacks, {places}) {
  return stacks.flatMap((stack, at) => ["self", "cross"].filter((kind) => stack[kind]).flatMap((kind) => {
    const size = headSize(stack[kind].heads);
    return Array.from({length: stack[kind].layers.length}, (_, layer) => Array.from({length: stack[kind].heads}, (_, head) => ({
      stack: at, kind, layer, head, size, x: places[at].left + 26 + head * size, y: heightOf(places[at], stack, layer, kind) - size / 2,
    }))).flat();
  }));
}

// scene: {app, frame, stacks, steps, step, place (layout), pinned: [position per stack], focus: {stack,
// kind, layer, head} or null, off: {map, layer, head} or null, effect, chosen}
export function paintModel(ctx, scene) {
  const {stacks, place} = scene;
  stacks.forEach((stack, at) => streams(ctx, scene, stack, at));
  stacks.forEach((stack, at) => {
    lines(ctx, scene, stack, at);
    nodes(ctx, scene, stack, at);
  });
  ctx.globalAlpha = 1;
  stacks.forEach((stack, at) => tokens(ctx, scene, stack, at));
  heads(ctx, scene);
  predictions(ctx, scene);
  ctx.globalAlpha = 1;
  return place;
}

// Whether a part is computed before the step that is shown or in it.
export const reached = ({steps, step}, stack, layer, kind) => step < 0 || steps.findIndex((one) => one.stack === stack && one.layer === layer && one.kind === kind) <= step;

function streams(ctx, scene, stack, at) {
  const place = scene.place.places[at];
  const {line, pin, soft} = theme();
  const end = stack.layers ? place.top - 14 : place.y - 8;
  for (let token = 0; token < place.count; token++) {
    const pinned = scene.pinned[at] === token;
    ctx.strokeStyle = pinned ? pin : line;
    ctx.lineWidth = pinned ? 2.2 : 1.2;
    ctx.beginPath();
    ctx.moveTo(columnOf(place, token), place.y);
    ctx.lineTo(columnOf(place, token), end);
    ctx.stroke();
  }
  for (let layer = 0; layer < stack.layers; layer++) write(ctx, String(layer + 1), place.left + 16, heightOf(place, stack, layer, stack.self ? "self" : "cross"), {size: 11, colour: soft, align: "right"});
}

// The names of the tokens below their columns, turned if they are narrow; patches as small images.
function tokens(ctx, scene, stack, at) {
  const place = scene.place.places[at];
  const side = scene.frame.sides[stack.side];
  const {pin, ink, soft} = theme();
  const y = place.y + 8;
  let low = 26; // pixels below the stack: the title of the side, under the names of its tokens
  for (let token = 0; token < place.count; token++) {
    const x = columnOf(place, token);
    const pinned = scene.pinned[at] === token;
    const size = Math.min(22, place.column - 1);
    if (isPatch(side, token) && drawPatch(ctx, side, token - side.num_prefix_tokens, x - size / 2, y, size, () => scene.app.redraw())) {
      if (pinned) { ctx.strokeStyle = pin; ctx.lineWidth = 2; ctx.strokeRect(x - size / 2 - 1, y - 1, size + 2, size + 2); }
      continue;
    }
    const isTurned = label(ctx, nameOf(side, token), x, y + 6, place.column, pinned ? pin : tokenColour(side, token, ink), pinned, 1, Boolean(side.grid));
    if (isTurned) low = ENDS - 8;
  }
  const title = side.grid ? "patches of the image" : side.generated > 1 || stack.part !== "decoder" ? stack.side : "written so far";
  write(ctx, title, low < ENDS - 8 ? place.x : place.left, place.y + Math.max(low, 36), {size: 11, colour: soft, width: place.strip + place.count * place.column});
}

// Dims what is behind a name: y is its middle.
function ground(ctx, x, y, width, height) {
  const {fillStyle, globalAlpha} = ctx;
  ctx.fillStyle = theme().paper;
  ctx.globalAlpha = 0.75;
  ctx.fillRect(x, y - height / 2, width, height);
  Object.assign(ctx, {fillStyle, globalAlpha});
}

// Writes a name under (way 1) or above (way -1) a point, a little smaller if that makes it fit its column;
// otherwise it is turned, upright beside patches, which it would cover. Lines behind it are dimmed. Returns
// whether it is turned.
function label(ctx, text, x, y, column, colour, bold, way, upright = false) {
  const name = shorten(text, 14);
  const size = 13;
  ctx.font = `${bold ? "600 " : ""}${size}px sans-serif`;
  const wide = ctx.measureText(name).width;
  const scale = [...name].length <= 2 ? 1 : Math.min(1, (column - 3) / wide);
  if (size * scale >= SMALLEST) {
    ground(ctx, x - (wide * scale) / 2 - 1, y, wide * scale + 2, size + 2);
    write(ctx, name, x, y, {size: size * scale, colour, bold, align: "center"});
    return false;
  }
  ctx.save();
  ctx.translate(x, y - (way > 0 ? 4 : -4));
  ctx.rotate((way > 0 ? 1 : -1) * Math.PI / (upright ? 2 : 3.4));
  write(ctx, name, 0, 0, {size: 12, colour, bold, width: way > 0 ? 66 : 54});
  ctx.restore();
  return true;
}

function nodes(ctx, scene, stack, at) {
  const place = scene.place.places[at];
  const {line, paper, pin} = theme();
  const {state} = scene.app;
  for (let layer = 0; layer < stack.layers; layer++) {
    for (const kind of kindsOf(stack)) {
      const y = heightOf(place, stack, layer, kind);
      const done = reached(scene, at, layer, kind);
      const update = stack.updates?.[layer]?.[kind === "self" ? "attention" : kind];
      const chosen = scene.chosen && scene.chosen.stack === at && scene.chosen.layer === layer && scene.chosen.kind === kind;
      for (let token = 0; token < place.count; token++) {
        const x = columnOf(place, token);
        const radius = Math.min(6.5, place.column / 3) * (scene.pinned[at] === token ? 1.25 : 1);
        ctx.fillStyle = done && update ? css(colourOf(Math.min(1, update[token]), 1, {...state, scale: "sqrt"}, false)) : paper;
        ctx.strokeStyle = chosen || scene.pinned[at] === token ? pin : done ? theme().soft : line;
        ctx.lineWidth = chosen ? 2 : 1;
        ctx.beginPath();
        if (kind === "feedforward") ctx.rect(x - radius, y - radius, 2 * radius, 2 * radius); else ctx.arc(x, y, radius, 0, 2 * Math.PI);
        if (kind !== "feedforward") ctx.closePath();
        ctx.fill();
        ctx.stroke();
      }
    }
  }
}

// What a head reads: lines from the columns of the keys to the circle of the query. Without a head under
// the pointer these are the lines of the pinned token, in the colours of all heads.
function lines(ctx, scene, stack, at) {
  const {app, focus} = scene;
  for (const kind of ["self", "cross"]) {
    const map = stack[kind];
    if (!map) continue;
    for (let layer = 0; layer < map.layers.length; layer++) {
      if (!reached(scene, at, layer, kind)) continue;
      const only = focus && focus.stack === at && focus.kind === kind && focus.layer === layer ? focus.head : null;
      if (focus && only === null) continue;
      for (let head = 0; head < map.heads; head++) {
        if (only !== null && only !== head) continue;
        const weights = app.session.weights(map, layer, head);
        if (!weights) continue;
        const rows = only === null ? [scene.pinned[at]] : Array.from({length: map.shape[0]}, (_, row) => row);
        for (const row of rows) if (row >= 0 && row < weights.rows) ofQuery(ctx, scene, {at, stack, kind, layer, head, row, weights, alone: only !== null});
      }
    }
  }
  ctx.globalAlpha = 1;
}

function ofQuery(ctx, scene, {at, stack, kind, layer, head, row, weights, alone}) {
  const {places} = scene.place;
  const place = places[at];
  const source = kind === "cross" ? places[0] : place;
  const from = kind === "cross" ? source.top - 14 : place.y - layer * place.layer - 2;
  const y = heightOf(place, stack, layer, kind);
  const x = columnOf(place, row);
  const {map, layer: chosenLayer, head: chosenHead} = scene.app.state;
  const chosen = stack[kind].name === map && chosenLayer === layer && chosenHead === head;
  const off = scene.off && scene.off.map === stack[kind].name && scene.off.layer === layer && scene.off.head === head;
  if (off) return;
  ctx.strokeStyle = headColour(head, stack[kind].heads);
  for (const {position, value} of top(weights.row(row), alone ? 3 : 4)) {
    const share = Math.abs(value) / (stack[kind].normalised ? 1 : weights.greatest || 1);
    if (share < LEAST) continue;
    const pinned = scene.pinned[at] === row;
    ctx.globalAlpha = Math.min(1, (0.2 + 0.75 * share) * (alone && !pinned ? 0.55 : 1));
    ctx.lineWidth = (0.6 + 3.2 * share) * (chosen || (alone && pinned) ? 1.5 : 1);
    const s = columnOf(source, position);
    ctx.beginPath();
    ctx.moveTo(s, from);
    ctx.bezierCurveTo(s, (from + y) / 2, x, (from + y) / 2, x, y);
    ctx.stroke();
  }
}

// Returns [[kind, title]] for the heads of the last layer: both kinds are named if there is room between them.
function titlesOf({self, cross}, {layer}) {
  if (self && cross && (LEVELS.cross - LEVELS.self) * layer > 30) return [["self", "self-attention"], ["cross", "cross-attention"]];
  return self || cross ? [[cross ? "cross" : "self", "heads"]] : [];
}

function heads(ctx, scene) {
  const {line, pin, wash, less, soft} = theme();
  const {state} = scene.app;
  scene.stacks.forEach((stack, at) => {
    const place = scene.place.places[at];
    const titles = titlesOf(stack, place);
    for (const [kind, title] of titles) {
      const y = heightOf(place, stack, stack[kind].layers.length - 1, kind) - 17;
      ground(ctx, place.left + 24, y, ctx.measureText(title).width + 4, 13);
      write(ctx, title, place.left + 26, y, {size: 11, colour: soft});
    }
  });
  for (const {stack, kind, layer, head, x, y, size} of headBoxes(scene.stacks, scene.place)) {
    const map = scene.stacks[stack][kind];
    const off = scene.off && scene.off.map === map.name && scene.off.layer === layer && scene.off.head === head;
    ctx.globalAlpha = reached(scene, stack, layer, kind) ? 1 : PALE * 2;
    ctx.fillStyle = off ? wash : headColour(head, map.heads);
    ctx.fillRect(x + 0.5, y, size - 1, size);
    const chosen = map.name === state.map && layer === state.layer && head === state.head;
    ctx.strokeStyle = off ? less : chosen ? pin : line;
    ctx.lineWidth = chosen || off ? 2 : 1;
    if (chosen || off) ctx.strokeRect(x - 0.5, y - 1, size + 1, size + 2);
    if (off) { ctx.beginPath(); ctx.moveTo(x, y); ctx.lineTo(x + size, y + size); ctx.stroke(); }
  }
  ctx.globalAlpha = 1;
}

// The most probable prediction above each column, and after each layer above the pinned one (logit lens).
function predictions(ctx, scene) {
  const {frame, stacks, place} = scene;
  const at = stacks.length - 1;
  const stack = stacks[at];
  const box = place.places[at];
  const {pin, soft, less, output} = theme();
  ctx.globalAlpha = reached(scene, at, -1, "output") ? 1 : PALE;
  for (let token = 0; token < box.count; token++) {
    const prediction = predictionAt(frame, stacks, at, token);
    if (!prediction) continue;
    const changed = scene.effect?.changed[prediction.at];
    const pinned = scene.pinned[at] === token;
    const colour = changed === undefined ? (pinned ? pin : output) : less;
    label(ctx, changed ?? prediction.tokens[0] ?? "", columnOf(box, token), box.top - 26, box.column, colour, pinned || changed !== undefined, -1);
    if (pinned) {
      ground(ctx, columnOf(box, token) - 16, box.top - 52, 32, 13); // the turned name of its neighbour
      write(ctx, percent(scene.effect ? scene.effect.probabilities[prediction.at] ?? 0 : prediction.probabilities[0]), columnOf(box, token), box.top - 52, {size: 11, colour: soft, align: "center"});
    }
  }
  const pinned = predictionAt(frame, stacks, at, scene.pinned[at]);
  const {lens} = frame;
  if (!pinned || !lens || lens.predictions.length !== stack.layers + 1) { ctx.globalAlpha = 1; return; }
  for (let layer = 0; layer < stack.layers; layer++) {
    if (!reached(scene, at, layer, "feedforward")) continue;
    const one = lens.predictions[layer + 1][pinned.at];
    if (!one) continue;
    const name = shorten(one.tokens[0] ?? "", 12);
    const y = box.y - (layer + 1) * box.layer;
    ctx.globalAlpha = 1;
    ctx.font = "12px sans-serif";
    const wide = ctx.measureText(name).width + 8;
    const right = columnOf(box, scene.pinned[at]) + 12;
    const x = right + wide <= place.width ? right : right - 24 - wide; // left of the last columns
    const colour = colourOf(one.probabilities[0], 1, {...scene.app.state, scale: "linear"}, false);
    ctx.fillStyle = css(colour);
    ctx.fillRect(x, y - 8, wide, 16);
    write(ctx, name, x + 4, y, {size: 12, colour: inkOn(colour)});
  }
  ctx.globalAlpha = 1;
}
