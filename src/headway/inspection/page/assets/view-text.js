// The text with each token tinted by the weight that the pinned query gives it, or, in the other
// direction, by the weight that it gives the pinned key. A screen reader can read this view.
import {button, choice, el} from "./elements.js";
import {colourOf, css, inkOn} from "./colours.js";
import {keyed} from "./surface.js";
import {amount, nameOf, number} from "./tokens.js";
import {joined} from "./weights.js";
import {wordsOf} from "./words.js";

const AT_ONCE = 600; // tokens that are shown together
const SLICE = 80; // tokens that are inserted per animation frame

// A paragraph with the tokens of one side. act(position): called when a token is chosen.
function paragraph(app, title, act) {
  const heading = el("h3", {});
  const text = el("p", {class: "tokens", tabIndex: 0, role: "application", "aria-roledescription": "text with a cursor", dir: "auto"});
  const earlier = button("… earlier", () => shift(-AT_ONCE), {class: "quiet"});
  const later = button("later …", () => shift(AT_ONCE), {class: "quiet"});
  const element = el("div", {class: "paragraph"}, heading, earlier, text, later);
  const local = {from: 0, length: 0, side: null, spans: [], pinned: -1, values: null};
  const shift = (by) => { local.from = Math.max(0, Math.min(local.from + by, local.length - 1)); local.moved = true; fill(); };
  const fill = () => {
    const {side, from} = local;
    local.spans = side.tokens.slice(from, from + AT_ONCE).map((_, at) => {
      const generated = side.generated !== null && side.generated !== undefined && from + at >= side.generated;
      return el("span", {class: generated ? "token output" : "token", dir: "auto"}, nameOf(side, from + at));
    });
    // The divider between the input and what the model generated.
    const first = local.spans.findIndex((one) => one.classList.contains("output"));
    if (first > 0) local.spans[first].classList.add("first");
    text.replaceChildren();
    append(local.spans, 0);
    earlier.hidden = from === 0;
    later.hidden = from + AT_ONCE >= local.length;
    tint();
  };
  // Many tokens are inserted in slices, so that the page stays responsive.
  const append = (spans, at) => {
    if (spans !== local.spans || at >= spans.length) return;
    text.append(...spans.slice(at, at + SLICE).flatMap((span) => [span, " "]));
    requestAnimationFrame(() => append(spans, at + SLICE));
  };
  const tint = () => {
    const {values, spans, from, pinned, look} = local;
    if (!look) return;
    spans.forEach((span, at) => {
      const value = values ? values[from + at] : null;
      const colour = values ? colourOf(value, local.most, {...look, scale: "linear"}, local.signed) : null;
      const ground = colour ? css(colour) : "";
      if (span.ground !== ground) {
        span.ground = ground;
        span.style.backgroundColor = ground;
        span.style.color = colour ? inkOn(colour) : "";
      }
      if (span.shown !== value) span.title = values ? local.say(value) : "";
      span.shown = value;
      span.classList.toggle("pinned", from + at === pinned);
    });
  };
  text.addEventListener("click", (event) => {
    const at = local.spans.indexOf(event.target);
    if (at >= 0) act(local.from + at);
  });
  const step = (by) => {
    const now = Math.max(0, local.pinned);
    act(Math.max(0, Math.min(now + by, local.length - 1)));
  };
  text.addEventListener("keydown", (event) => {
    const way = getComputedStyle(text).direction === "rtl" ? -1 : 1;
    keyed(app, event, {move: (dx, dy) => step(dx * way || dy * 10), ends: (end) => act(end < 0 ? 0 : local.length - 1), pin: () => app.set({view: "matrix"})});
  });
  const show = ({side, position, values, most, signed, look, say}) => {
    const same = local.side === side;
    const pinned = position;
    heading.textContent = title();
    text.setAttribute("aria-label", `${title()}. Arrow keys choose a token.`);
    Object.assign(local, {side, pinned, values, most, signed, look, say, length: side.tokens.length});
    text.style.fontSize = fitted(app, element, side);
    const outside = pinned >= 0 && (pinned < local.from || pinned >= local.from + AT_ONCE) && local.before !== pinned;
    local.before = pinned;
    if (outside) local.from = Math.max(0, pinned - AT_ONCE / 2);
    if (!same || outside) { if (!same && !outside) local.from = 0; fill(); } else tint();
  };
  return {element, show};
}

// Returns a type size with which a text fills the drawing, within the limits of readable type.
function fitted(app, element, side) {
  const letters = side.tokens.reduce((sum, token) => sum + Math.min(24, token.length) + 2, 1);
  const area = Math.max(1, element.clientWidth || 600) * app.room() * app.zoom;
  return `${Math.max(1.05, Math.min(1.9 * app.zoom, Math.sqrt(area / letters / 3) / 16)).toFixed(2)}rem`;
}

export const text = {
  id: "text",
  title: "Text",
  lead: "Choose a token as the query. The other tokens are tinted by their attention weights; point at one to read its weight.",
  joins: "tokens",
  plays: true,
  wants: ({sides}, map) => !sides[map.queries].grid && !sides[map.keys].grid, // patches are no text
  make(app) {
    const local = {now: null, values: null};
    const way = choice("Direction", (value) => app.set({way: value, key: app.state.key < 0 ? 0 : app.state.key}));
    const asked = choice("Prediction", (value) => app.set({asked: Number(value)}));
    const first = paragraph(app, () => local.titles[0], (position) => app.pick(sameSide() && app.state.way === "to" ? {key: position} : {query: position, way: "from"}));
    const second = paragraph(app, () => local.titles[1], (position) => app.pick({key: position, way: "to"}));
    const note = el("p", {class: "soft"});
    const sameSide = () => local.now.map.queries === local.now.map.keys;
    const update = (now) => {
      local.now = now;
      const {map, weights, queries, keys, state, score} = now;
      const back = state.way === "to" && state.key >= 0;
      way.show(score ? [] : [["from", "keys that it attends to"], ["to", "queries that attend to it"]], state.way);
      const answers = now.frame.attributions.filter((one) => one.measure === state.measure && !now.frame.sides[one.side]?.grid);
      asked.show(score ? answers.map((one, at) => [at, one.position === undefined || one.position === null ? one.of : `${one.of} (position ${one.position + 1})`]) : [], answers.indexOf(score));
      if (score) return scored(now, score);
      const same = sameSide();
      local.titles = same ? [map.queries, ""] : [`${map.queries} (queries)`, `${map.keys} (keys)`];
      second.element.hidden = same;
      const values = weights && (back ? weights.column(state.key) : weights.row(state.query));
      local.values = values;
      note.textContent = values ? `The largest weight is ${amount(values.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0), map)}.` : "";
      const tinted = (side) => {
        const most = values ? values.reduce((a, b) => Math.max(a, Math.abs(b)), 0) : 1;
        return {side, values, most, signed: map.coding.kind === "signed", look: state, say: (value) => amount(value, map)};
      };
      const plain = (side) => ({...tinted(side), values: null});
      if (same) first.show({...tinted(keys), position: back ? state.key : state.query});
      else {
        first.show(back ? {...tinted(queries), position: -1} : {...plain(queries), position: state.query});
        second.show(back ? {...plain(keys), position: state.key} : {...tinted(keys), position: -1});
      }
      return undefined;
    };
    // Attributions of a prediction to the tokens, instead of attention weights.
    const scored = ({frame, state}, score) => {
      const words = state.words === "on" && wordsOf(frame.sides[score.side]);
      const side = words ? words.side : frame.sides[score.side];
      const values = words ? joined(score.scores, words.units) : score.scores;
      const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
      local.titles = [score.side, ""];
      local.values = values;
      note.textContent = `${score.measure}: the contribution of each token to the logit of ${score.of}. Orange raises it, blue lowers it.`;
      second.element.hidden = true;
      first.show({side, values, most, signed: true, look: state, say: number, position: -1});
    };
    const data = () => {
      const {frame, state, queries, keys, score} = local.now;
      const back = state.way === "to" && state.key >= 0;
      const side = score ? frame.sides[score.side] : back ? queries : keys;
      const values = score ? score.scores : local.values;
      return {columns: ["position", "token", score ? score.measure : "weight"], rows: side.tokens.map((token, at) => [at + 1, token, values[at]])};
    };
    return {element: el("div", {class: "texts"}, first.element, second.element, note), controls: [way.element, asked.element], update, data};
  },
};

