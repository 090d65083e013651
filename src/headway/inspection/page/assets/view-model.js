// One picture of the whole model: how the tokens of this input travel through its layers to the
// prediction. It plays step by step; each part leads to its numbers, its equation and its line of code.
import {button, el} from "./elements.js";
import {printed} from "./equation.js";
import {headBoxes, heightOf, layout, paintModel} from "./model-picture.js";
import {kindsOf, predictionAt, stacksOf, stepsOf} from "./model-stacks.js";
import {surface} from "./surface.js";
import {nameOf, number, percent, quoted, shorten} from "./tokens.js";
import {named, top} from "./weights.js";

const NAMES = {input: "Input", self: "Self-attention", cross: "Cross-attention", feedforward: "Feed-forward layer", output: "Prediction"};
const ABOUT = {
  input: "Each token becomes a vector.",
  self: "Each token reads from the other tokens of its side, with several heads at once, and adds what it read to its vector.",
  cross: "Each token of the output reads from the tokens of the input, and adds what it read to its vector.",
  feedforward: "Each vector is changed on its own, without any other token.",
  output: "The last vectors become probabilities of the next token, of a class or of a masked word.",
};
const STEPS = {input: ["Embedding", "Patches"], self: ["Scores", "Queries, keys, values"], cross: ["Scores", "Queries, keys, values"], feedforward: ["Feed-forward"], output: ["Logits"]};
const PER_TOKEN = 5200; // milliseconds for all steps of one token
const PACE = [130, 650]; // milliseconds per step: the shortest and the longest

export const model = {
  id: "model",
  title: "Model",
  lead: "Tokens travel upwards. Circles are attention, squares feed-forward layers; stronger colours are larger changes. Point at a head to see what it reads, click a part for its numbers.",
  plays: true,
  fits: (session, state) => Boolean(session.frames[state.frame]?.maps.some((one) => one.measure === "attention")),
  make(app) {
    const local = {now: null, stacks: [], steps: [], focus: null, place: null, part: null, effects: new Map(), asked: ""};
    const card = el("aside", {class: "part", "aria-label": "The chosen part"});
    const status = el("p", {class: "tip", "aria-live": "polite"});
    // The pinned token of each stack: the chosen query, and in the other stack what belongs to it.
    const pinned = () => {
      const {frame, state, map} = local.now;
      const own = local.stacks.findIndex((one) => one.self?.name === map.name || one.cross?.name === map.name);
      return local.stacks.map((stack, at) => {
        if (at === own) return Math.min(state.query, frame.sides[stack.side].tokens.length - 1);
        const {cross} = local.stacks.at(-1);
        const weights = cross && at < own && app.session.weights(cross, cross.layers.length - 1, -1);
        return weights ? top(weights.row(Math.min(state.query, weights.rows - 1)), 1)[0]?.position ?? -1 : -1;
      });
    };
    const off = () => {
      const [map, layer, head] = app.state.off.split(" ");
      return head === undefined ? null : {map, layer: Number(layer), head: Number(head)};
    };
    // The predictions without the head that is switched off: from the file, or from the server.
    const effect = () => {
      const one = off();
      if (!one) return null;
      const {frame} = local.now;
      const stored = frame.effects?.[one.map]?.[one.layer]?.[one.head];
      if (stored) return stored;
      const key = `${app.state.frame} ${app.state.off}`;
      if (app.session.live && local.asked !== key) { local.asked = key; ask(one, key); }
      return local.effects.get(key) || null;
    };
    const ask = async (one, key) => {
      try {
        const {frames: [before, after]} = await app.source.ask("without", {...app.input, heads: [[one.map, one.layer, one.head]]});
        const changed = {};
        const probabilities = before.predictions.map((prediction, at) => {
          const other = after.predictions[at];
          if (other && other.tokens[0] !== prediction.tokens[0]) changed[at] = other.tokens[0];
          return other?.probabilities[other.tokens.indexOf(prediction.tokens[0])] ?? 0;
        });
        local.effects.set(key, {changed, probabilities});
        app.redraw();
      } catch (error) { app.failed(error); }
    };
    const scene = () => ({
      app, frame: local.now.frame, stacks: local.stacks, steps: local.steps, step: app.state.step, place: local.place, pinned: pinned(),
      focus: local.focus || focusOf(app.preview), off: off(), effect: effect(), chosen: local.part,
    });
    const focusOf = (head) => {
      if (!head || head.head < 0) return null;
      const stack = Math.max(0, local.stacks.findIndex((one) => one.self?.name === app.state.map || one.cross?.name === app.state.map));
      return {stack, kind: local.stacks[stack].self?.name === app.state.map ? "self" : "cross", ...head};
    };
    const placed = (width) => layout(local.stacks, local.now.frame, width, app.room() - 30);
    const paint = (ctx, width) => {
      if (!local.now?.map) return;
      local.place = placed(width);
      paintModel(ctx, scene());
    };
    const headAt = (x, y) => headBoxes(local.stacks, local.place).find((one) => x >= one.x && x < one.x + one.size && Math.abs(y - one.y - one.size / 2) <= one.size / 2 + 2);
    const tokenAt = (x, y) => {
      for (const [stack, place] of local.place.places.entries()) {
        const at = Math.floor((x - place.x) / place.column);
        if (at < 0 || at >= place.count || y > place.y + 62 || y < place.top - 62) continue;
        const parts = kindsOf(local.stacks[stack]);
        const all = Array.from({length: local.stacks[stack].layers}, (_, layer) => parts.map((kind) => ({kind, layer}))).flat();
        const near = all.find(({kind, layer}) => Math.abs(y - heightOf(place, local.stacks[stack], layer, kind)) <= 9);
        const end = y > place.y ? {kind: "input", layer: -1} : y < place.top && stack === local.stacks.length - 1 ? {kind: "output", layer: -1} : null;
        return {stack, at, part: near || end};
      }
      return null;
    };
    const choose = (stack, part, position) => {
      local.part = {stack, ...part};
      const one = local.stacks[stack];
      const map = part.kind === "cross" ? one.cross : one.self || one.cross;
      const patch = {layer: part.layer < 0 ? app.state.layer : part.layer, ...(part.head === undefined ? {} : {head: part.head}), ...(position === undefined ? {} : {query: position, way: "from"})};
      app.set(map ? {...patch, map: map.name, measure: "attention"} : patch);
    };
    const go = (by) => {
      const {step} = app.state;
      const last = local.steps.length - 1;
      const next = step < 0 ? (by > 0 ? 0 : last) : step + by;
      app.set({step: next > last || next < 0 ? -1 : next});
    };
    const made = surface(app, {
      label: "Picture of the model. The up and down arrow keys step through the computation, left and right choose a token, space plays, x switches the chosen head off.", paint, title: "picture of the model",
      height: (width) => (local.now?.map ? placed(width).height : 1),
      move: (dx, dy) => { if (dy) go(-dy); else app.set({query: Math.max(0, app.state.query + dx), way: "from"}); },
      ends: (way) => app.set({step: way < 0 ? 0 : -1}), pin: () => app.player.toggle(),
      key: ({key}) => {
        if (key !== "x" || app.state.head < 0 || !switches()) return false;
        switchHead();
        return true;
      },
      point: (x, y, kind) => {
        if (!local.place) return;
        const head = kind === "leave" ? null : headAt(x, y);
        const token = kind === "leave" || head ? null : tokenAt(x, y);
        made.canvas.style.cursor = head || token ? "pointer" : "";
        if (kind === "click") {
          if (head) choose(head.stack, head);
          else if (token) choose(token.stack, token.part || local.part || {kind: "input", layer: -1}, token.at);
          return;
        }
        if (JSON.stringify(head || null) !== JSON.stringify(local.focus)) { local.focus = head || null; made.draw(); }
      },
    });
    // Whether the page can show the model without the chosen head.
    const switches = () => {
      const {map, layer, head} = app.state;
      return Boolean(head >= 0 && (local.now.frame.effects?.[map]?.[layer]?.[head] || (app.session.live && local.now.frame.predictions.length)));
    };
    const switchHead = () => {
      const {map, layer, head, off: before} = app.state;
      const name = `${map} ${layer} ${head}`;
      app.set({off: before === name ? "" : name});
    };
    const described = () => {
      const {frame, state, map} = local.now;
      const {kind, layer} = current();
      const stack = local.stacks[current().stack];
      const side = frame.sides[stack.side];
      const at = pinned()[current().stack];
      const update = stack.updates?.[layer]?.[kind === "self" ? "attention" : kind]?.[at];
      const parts = [];
      if ((kind === "self" || kind === "cross") && stack[kind]) {
        const keys = frame.sides[stack[kind].keys];
        const head = stack[kind].name === map.name && state.layer === layer ? state.head : -1;
        const weights = app.session.weights(stack[kind], layer, head);
        if (weights && at >= 0) {
          const best = named(weights.row(Math.min(at, weights.rows - 1)), 3, stack[kind].normalised).map((one) => `${quoted(keys, one.position, 16)} ${percent(one.value)}`);
          const output = predictionAt(frame, local.stacks, current().stack, at)?.tokens[0];
          const which = output === undefined ? "" : `, which predicts “\u2068${shorten(output, 16)}\u2069”,`;
          parts.push(`${head < 0 ? "On average over its heads" : `With head ${head + 1}`}, ${quoted(side, at, 16)}${which} reads ${best.join(", ")}.`);
        }
      }
      if (update !== undefined) parts.push(`The vector of ${quoted(side, at, 16)} changes by ${update < 2 ? `${percent(update)} of` : `${number(update, 2)} times`} its length.`);
      const prediction = predictionAt(frame, local.stacks, local.stacks.length - 1, pinned().at(-1));
      if (kind === "output" && prediction) parts.push(`${prediction.tokens.slice(0, 3).map((token, n) => `“${shorten(token, 16)}” ${percent(prediction.probabilities[n])}`).join(", ")}.`);
      return parts.join(" ");
    };
    // The part that the card describes: that of the step, the chosen one, or the chosen head.
    const current = () => {
      if (app.state.step >= 0) return local.steps[Math.min(app.state.step, local.steps.length - 1)];
      if (local.part) return local.part;
      const stack = Math.max(0, local.stacks.findIndex((one) => one.self?.name === app.state.map || one.cross?.name === app.state.map));
      return {stack, layer: app.state.layer, kind: local.stacks[stack].cross?.name === app.state.map ? "cross" : "self"};
    };
    const fill = () => {
      const {state, map, frame} = local.now;
      const part = current();
      const stack = local.stacks[part.stack];
      const attends = Boolean(stack[part.kind]);
      const steps = app.header().walk;
      const found = STEPS[part.kind].map((title) => steps.findIndex((one) => one.title === title)).find((at) => at >= 0);
      const one = found === undefined ? null : steps[found];
      const at = (view) => () => app.set({view, ...(attends ? {map: stack[part.kind].name, layer: part.layer} : {})});
      const links = [
        attends ? button("Matrix", at("matrix")) : null,
        attends && map.vectors ? button("Inside the head", at("head")) : null,
        one ? button("The numbers, step by step", () => app.set({view: "walk", at: found})) : null,
      ];
      const name = `${map.name} ${state.layer} ${app.state.head}`;
      const isOff = app.state.off === name;
      const result = effect();
      const changes = result ? broken(frame, result) : [];
      card.replaceChildren(
        el("h3", {}, part.layer < 0 ? NAMES[part.kind] : `Layer ${part.layer + 1}: ${NAMES[part.kind].toLowerCase()}`),
        el("p", {}, ABOUT[part.kind]),
        el("p", {class: "now"}, described()),
        one?.equation ? el("p", {class: "equation"}, printed(one.equation)) : "",
        one?.source ? el("p", {class: "soft"}, "In the code: ", el("code", {}, one.source)) : "",
        el("div", {class: "buttons"}, links),
        switches() || app.state.off ? el("div", {class: "ablation"},
          switches() ? button(isOff ? `Head ${app.state.head + 1} on again` : `Switch head ${app.state.head + 1} of layer ${state.layer + 1} off`, switchHead, {"aria-pressed": String(isOff)}) : button("All heads on", () => app.set({off: ""})),
          ...changes) : "",
      );
      const text = `${part.layer < 0 ? NAMES[part.kind] : `Layer ${part.layer + 1}, ${NAMES[part.kind].toLowerCase()}`}. ${described()}`;
      if (app.state.step >= 0 && status.textContent !== text && !app.player.playing) status.textContent = text;
    };
    const update = (now) => {
      if (local.now?.frame !== now.frame) {
        const stacks = stacksOf(now.frame);
        Object.assign(local, {stacks, steps: stepsOf(stacks), part: null, focus: null, asked: ""});
        local.effects.clear();
      }
      local.now = now;
      const frames = local.stacks.map((one) => now.frame.sides[one.side].tokens.length);
      made.element.style.minWidth = `${Math.max(...frames) * 15 + 150}px`;
      made.draw();
      reveal();
      fill();
    };
    // Scrolls to the pinned token, if the picture is wider than its frame.
    const reveal = () => {
      const at = pinned();
      const key = at.join(" ");
      if (!local.place || key === local.revealed || scroll.scrollWidth <= scroll.clientWidth) return;
      local.revealed = key;
      const stack = at.findLastIndex((one) => one >= 0);
      const place = local.place.places[stack];
      const x = (place.x + at[stack] * place.column) * app.zoom;
      if (x < scroll.scrollLeft + 40 || x > scroll.scrollLeft + scroll.clientWidth - 90) scroll.scrollLeft = x - scroll.clientWidth * 0.6;
    };
    const advance = () => {
      const {step} = app.state;
      if (step >= local.steps.length - 1) return nextToken();
      app.set({step: step + 1});
      return true;
    };
    // After the last step, the next token of the output starts at the input of its stack.
    const nextToken = () => {
      const stack = local.stacks.at(-1);
      const side = local.now.frame.sides[stack.side];
      const map = stack.cross || stack.self;
      const decodes = stack.part === "decoder";
      const query = app.state.map === map.name ? app.state.query + 1 : 0;
      const start = decodes ? local.steps.findIndex((one) => one.stack === local.stacks.length - 1) : 0;
      const first = decodes ? Math.max(0, (side.generated ?? 1) - 1) : 0;
      const targets = decodes ? null : local.now.frame.predictions.map((one) => one.position);
      const next = targets?.length ? targets[(targets.indexOf(app.state.query) + 1) % targets.length] : query >= side.tokens.length ? first : query;
      app.set({map: map.name, measure: "attention", query: next, way: "from", step: start, layer: app.state.layer});
      return true;
    };
    const data = () => {
      const rows = local.stacks.flatMap((stack) => (stack.updates || []).flatMap((parts, layer) => Object.entries(parts).flatMap(([name, values]) => values.map((value, at) => [stack.part, layer + 1, name, at + 1, nameOf(local.now.frame.sides[stack.side], at), value]))));
      return {columns: ["stack", "layer", "sublayer", "position", "token", "relative change"], rows};
    };
    const pace = () => Math.max(PACE[0], Math.min(PACE[1], PER_TOKEN / local.steps.length));
    const scroll = el("div", {class: "scroller", role: "region", "aria-label": "Picture of the model"}, made.element);
    return {element: el("div", {class: "model"}, scroll, card, status), update, data, advance, pace};
  },
};

// Returns what changes without the head: the predictions that lose most.
function broken(frame, {probabilities, changed}) {
  const falls = frame.predictions.map((one, at) => ({at, one, by: (one.probabilities[0] ?? 0) - (probabilities[at] ?? 0)}));
  const worst = falls.sort((a, b) => b.by - a.by).slice(0, 4).filter((one) => one.by > 0.005);
  if (!worst.length) return [el("p", {class: "now"}, "Without this head, the predictions stay the same.")];
  return [el("p", {class: "soft"}, "Without this head:"), el("ul", {class: "falls"}, worst.map(({at, one}) => el("li", {},
    el("bdi", {}, shorten(one.tokens[0], 16)), ` ${percent(one.probabilities[0])} → ${percent(probabilities[at])}`,
    changed[at] === undefined ? "" : el("strong", {}, `, now “${shorten(changed[at], 16)}”`))))];
}
