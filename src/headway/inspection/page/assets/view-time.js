// The film of a training run, and one head over the frames of a document: they show how a pattern forms.
import {button, el, slider} from "./elements.js";
import {curve} from "./curves.js";
import {heat} from "./heat.js";
import {theme} from "./colours.js";
import {surface, write} from "./surface.js";
import {number, shorten, shown} from "./tokens.js";

const LABEL = 20;
const GAP = 10;
const READABLE = 11; // pixels of a row or column that has room for its token
const SLANT = -Math.PI / 3.2;
const PACE = 220; // milliseconds between two glimpses
const LARGEST = 56; // pixels of a cell
const SMALL = [46, 76]; // pixels of a head in the row of heads: the least and the largest

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

const all = (weights) => ({top: 0, left: 0, bottom: weights.rows, right: weights.columns});

// The place of a map with its tokens: rows at the left, columns at an angle above.
function placed(width, queries, keys) {
  const [rows, columns] = [queries.tokens.length, keys.tokens.length];
  const longest = (side) => Math.min(12, Math.max(...side.tokens.map((one) => [...shown(one)].length)));
  const left = Math.min(width * 0.3, 12 + 7 * longest(queries));
  const beyond = 12 + 4 * longest(keys); // the slanted token of the last column
  const cell = Math.min(LARGEST, (width - left - beyond) / columns, 420 / rows);
  const labelled = cell >= READABLE;
  const top = labelled ? 14 + 6 * longest(keys) : 4;
  const x = labelled ? left : 0;
  const size = labelled ? cell : Math.min((width - 4) / columns, 360 / rows);
  return {box: {x, y: top, width: size * columns, height: size * rows}, cell: size, labelled, left, high: top + size * rows + 14};
}

function paintMatrix(ctx, width, {map, queries, keys, state}, weights) {
  const {ink, line} = theme();
  const {box, cell, labelled, left} = placed(width, queries, keys);
  heat(ctx, weights, all(weights), box, state, map.causal);
  ctx.strokeStyle = line;
  ctx.lineWidth = 1;
  ctx.strokeRect(box.x, box.y, box.width, box.height);
  if (!labelled) return;
  queries.tokens.forEach((token, at) => write(ctx, shown(token), left - 6, box.y + (at + 0.5) * cell, {size: 12, colour: ink, align: "right", width: left - 8}));
  keys.tokens.forEach((token, at) => {
    ctx.save();
    ctx.translate(box.x + (at + 0.5) * cell, box.y - 5);
    ctx.rotate(SLANT);
    write(ctx, shorten(token, 13), 0, 0, {size: 12, colour: ink});
    ctx.restore();
  });
}

// Attention to an image: the image, and beside it the weights of the chosen query to the patches.
function paintImage(ctx, width, {keys, state}, weights, picture) {
  const side = Math.min((width - GAP) / 2, 300);
  const high = (side * keys.size[0]) / keys.size[1];
  ctx.imageSmoothingEnabled = false;
  if (picture.complete) ctx.drawImage(picture, 0, 4, side, high);
  const [rows, columns] = keys.grid;
  const patches = weights.codes.subarray(state.query * weights.columns + keys.num_prefix_tokens, (state.query + 1) * weights.columns);
  const grid = {codes: patches, rows, columns, table: weights.table, signed: weights.signed, greatest: Math.max(...Array.from(patches, (code) => Math.abs(weights.table[code])))};
  const reach = keys.reach || keys.size;
  heat(ctx, grid, all(grid), {x: side + GAP, y: 4, width: (side * reach[1]) / keys.size[1], height: (high * reach[0]) / keys.size[0]}, state, false);
  ctx.strokeStyle = theme().line;
  ctx.strokeRect(side + GAP, 4, side, high);
}

// The attention of one head at one moment. The last weights stay until those of the next frame are loaded.
function attention(app) {
  const local = {now: null, weights: null, picture: new Image()};
  local.picture.onload = () => made.draw();
  const ofImage = () => Boolean(local.now.keys.grid && local.now.keys.image);
  const paint = (ctx, width) => {
    if (!local.weights) return;
    if (ofImage()) paintImage(ctx, width, local.now, local.weights, local.picture);
    else paintMatrix(ctx, width, local.now, local.weights);
  };
  const height = (width) => {
    if (!local.now) return 1;
    const {keys, queries} = local.now;
    return ofImage() ? (Math.min((width - GAP) / 2, 300) * keys.size[0]) / keys.size[1] + 8 : placed(width, queries, keys).high;
  };
  const made = surface(app, {label: "Attention of the chosen head at this step", paint, height});
  const update = (now) => {
    local.now = now;
    const {map, weights} = now;
    if (weights && weights.rows === map.shape[0] && weights.columns === map.shape[1]) local.weights = weights;
    if (ofImage() && local.picture.src !== now.keys.image) local.picture.src = now.keys.image;
    made.draw();
  };
  return {element: made.element, update};
}

// Every head that the film has, small; a click chooses the one that is shown large.
function rowOfHeads(app) {
  const local = {now: null, boxes: []};
  const heads = ({map}) => map.layers.flatMap((_, layer) => Array.from({length: map.heads}, (_, head) => ({layer, head})));
  const sizeIn = (width) => Math.max(SMALL[0], Math.min(SMALL[1], (width + 6) / local.now.map.heads - 6));
  const perLine = (width) => Math.max(1, Math.min(local.now.map.heads, Math.floor((width + 6.5) / (sizeIn(width) + 6))));
  const paint = (ctx, width) => {
    if (!local.now) return;
    const {map, state} = local.now;
    const {line, pin} = theme();
    const side = sizeIn(width);
    local.boxes = heads(local.now).map(({layer, head}, at) => {
      const box = {x: (at % perLine(width)) * (side + 6) + 2, y: Math.floor(at / perLine(width)) * (side + 6) + 2, width: side - 2, height: side - 2};
      const weights = app.session.weights(map, layer, head);
      if (weights) heat(ctx, weights, all(weights), box, state, map.causal);
      const chosen = layer === state.layer && (head === state.head || state.head < 0);
      ctx.strokeStyle = chosen ? pin : line;
      ctx.lineWidth = chosen ? 2.5 : 1;
      ctx.strokeRect(box.x, box.y, box.width, box.height);
      return {...box, layer, head};
    });
  };
  const step = (by) => {
    const list = heads(local.now);
    const at = list.findIndex((one) => one.layer === app.state.layer && one.head === Math.max(0, app.state.head));
    app.set(list[Math.max(0, Math.min(list.length - 1, at + by))]);
  };
  const made = surface(app, {
    label: "Heads by layer. Arrow keys choose a head.", paint, title: "row of heads",
    height: (width) => (local.now ? Math.ceil(heads(local.now).length / perLine(width)) * (sizeIn(width) + 6) + 4 : 1),
    move: (dx, dy) => step(dx || dy), ends: (way) => step(way * 1e6), pin: () => app.set({view: "matrix"}),
    point: (x, y, kind) => {
      const box = local.boxes.find((one) => x >= one.x && x <= one.x + one.width && y >= one.y && y <= one.y + one.height);
      if (kind === "click" && box) app.set({layer: box.layer, head: box.head});
    },
  });
  return {element: made.element, update: (now) => { local.now = now; made.draw(); }};
}

// The output of the model, with the words that it shares with the reference in bold.
function written(output, reference) {
  const known = new Set((reference || "").split(/\s+/));
  return output.split(/(\s+)/).map((word) => (word.trim() && known.has(word) ? el("b", {}, word) : word));
}

// The title of the map that is shown: a head of an attention layer, or a measure of another kind.
function titleOf({map, state}) {
  if (map.measure !== "attention") return `${map.measure[0].toUpperCase()}${map.measure.slice(1)}: ${map.name}`;
  return `Attention: ${map.name}, layer ${state.layer + 1}, ${state.head < 0 ? "mean over heads" : `head ${state.head + 1}`}`;
}

// The mean losses of the steps between two moments; the first moment is before the first step.
function lossOf({steps, losses}) {
  const known = steps.map((step, at) => [step, losses[at]]).filter(([, loss]) => Number.isFinite(loss));
  return {name: "loss", steps: known.map(([step]) => step), values: known.map(([, loss]) => loss)};
}

// Returns {element, update()}. about: `report.film` of the header, for which frame i is glimpse i.
export function film(app, about) {
  const local = {timer: 0, opened: false};
  const last = about.steps.length - 1;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const stop = () => { clearInterval(local.timer); local.timer = 0; play.textContent = "Play"; };
  const start = () => {
    if (app.state.frame >= last) app.set({frame: 0});
    play.textContent = "Pause";
    local.timer = setInterval(() => {
      if (!play.isConnected || app.state.frame >= last) stop();
      else app.set({frame: app.state.frame + 1});
    }, PACE);
  };
  const play = button("Play", () => (local.timer ? stop() : start()), {class: "primary"});
  const says = (at) => `step ${about.steps[at].toLocaleString("en-GB")}${Number.isFinite(about.losses[at]) ? ` · loss ${number(about.losses[at])}` : ""}`;
  const scrub = slider("", 0, last, 1, 0, says, (at) => { stop(); app.set({frame: at}); });
  const [input, label] = [scrub.querySelector("input"), scrub.querySelector("output")];
  input.setAttribute("aria-label", "Moment of the training");
  Object.assign(scrub.style, {flex: "1 1 18rem"});
  Object.assign(input.style, {flex: "1", minWidth: "6rem"});
  Object.assign(label.style, {minWidth: "10.5rem"});
  const line = lossOf(about);
  const loss = line.steps.length > 1 ? curve(app, "Loss", [line], {log: true}) : null;
  const [large, heads] = [attention(app), rowOfHeads(app)];
  const title = el("h4", {});
  const maps = el("figure", {class: "curve"}, title, large.element, heads.element);
  const output = el("p", {dir: "auto", style: {"white-space": "pre-wrap", "min-height": "4.5em"}});
  const said = el("div", {class: "sample"},
    about.input ? el("p", {class: "soft", dir: "auto", style: {"white-space": "pre-wrap"}}, about.input) : "", output,
    about.reference ? el("p", {class: "soft", dir: "auto"}, `reference: ${about.reference}`) : "");
  output.hidden = !app.session.frames.some((one) => one.answer); // an encoder may have none
  said.hidden = output.hidden && !about.input && !about.reference;
  const beside = el("div", {}, said, loss ? loss.element : "");
  const element = el("section", {}, el("h3", {}, "Watch it learn"), el("div", {class: "tools"}, play, scrub), el("div", {class: "curves"}, maps, beside));
  const update = () => {
    const now = app.now();
    if (!local.opened) {
      local.opened = true;
      if (app.state.frame === 0) { if (calm) app.set({frame: last}); else start(); }
    }
    const at = Math.min(app.state.frame, last);
    input.value = at;
    label.textContent = says(at);
    output.replaceChildren(...written(now.frame.answer, about.reference));
    maps.hidden = !now.map;
    if (now.map) {
      title.textContent = titleOf(now);
      large.update(now);
      heads.element.hidden = now.map.layers.length * now.map.heads < 2;
      heads.update(now);
    }
    loss?.mark(about.steps[at]);
  };
  return {element, update};
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
      const frames = framesWith(app.session, app.state);
      const current = frames.findIndex((one) => one.at === app.state.frame);
      const next = frames[Math.max(0, Math.min(frames.length - 1, current + by))];
      if (next) app.set({frame: next.at});
      return current + by < frames.length - 1;
    };
    const stop = () => { clearInterval(local.timer); local.timer = 0; play.textContent = "Play"; };
    const play = button("Play", () => {
      if (local.timer) { stop(); return; }
      if (!framesWith(app.session, app.state).some((one) => one.at > app.state.frame)) app.set({frame: 0});
      play.textContent = "Stop";
      local.timer = setInterval(() => { if (!play.isConnected || !go(1)) stop(); }, calm.matches ? 1500 : PACE);
    });
    const scrub = el("div", {class: "scrub"});
    const large = attention(app);
    let made = null;
    const layout = (width) => {
      const frames = framesWith(app.session, app.state);
      const [rows, columns] = local.now.map.shape;
      const perLine = Math.max(1, Math.min(frames.length, Math.floor((width + GAP) / ((width < 500 ? 90 : 140) + GAP))));
      const wide = Math.min(220, (width + GAP) / perLine - GAP);
      const high = Math.min(wide * 1.5, Math.max(24, (wide * rows) / columns));
      return {frames, perLine, wide, high, lines: Math.ceil(frames.length / perLine)};
    };
    const paint = (ctx, width) => {
      if (!local.now) return;
      const {state} = local.now;
      const {soft, pin, masked, line} = theme();
      const {frames, perLine, wide, high} = layout(width);
      local.boxes = frames.map(({at, map}, n) => {
        const box = {x: (n % perLine) * (wide + GAP), y: Math.floor(n / perLine) * (high + LABEL + GAP) + LABEL, width: wide, height: high};
        const weights = app.session.weights(map, state.layer, state.head);
        const chosen = at === state.frame;
        write(ctx, app.session.frames[at].label, box.x, box.y - 10, {size: 12, colour: chosen ? pin : soft, bold: chosen, width: wide});
        if (weights) heat(ctx, weights, all(weights), box, state, map.causal);
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
      const frames = framesWith(app.session, now.state);
      const current = Math.max(0, frames.findIndex((one) => one.at === now.state.frame));
      if (scrub.dataset.count !== String(frames.length)) {
        scrub.dataset.count = frames.length;
        scrub.replaceChildren(slider("Checkpoint", 0, frames.length - 1, 1, current, (at) => app.session.frames[framesWith(app.session, app.state)[at]?.at]?.label || "", (at) => app.set({frame: framesWith(app.session, app.state)[at].at})));
      }
      scrub.querySelector("input").value = current;
      scrub.querySelector("output").textContent = now.frame.label;
      large.update(now);
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
    return {element: el("div", {}, scrub, large.element, made.element), controls: [play], update, data};
  },
};
