// The panel beside every view of weights: one sentence, which a screen reader announces, and a table of
// the ten largest weights. A map can so be read without colours.
import {el} from "./elements.js";
import {amount, nameOf, number, quoted, shorten} from "./tokens.js";
import {colourOf, css} from "./colours.js";
import {isPatch, thumbnailOf} from "./patches.js";
import {termed} from "./terms.js";
import {named, top} from "./weights.js";

export function sentence({map, weights, queries, keys, state}) {
  if (state.way === "to" && state.key >= 0) {
    const largest = named(weights.column(state.key), 4, map.normalised);
    const list = largest.map(({position, value}) => `${quoted(queries, position)} ${amount(value, map)}`);
    return `${quoted(keys, state.key)} is attended to by ${list.join(", ") || "no token"}.`;
  }
  const largest = named(weights.row(state.query), 4, map.normalised);
  const list = largest.map(({position, value}) => `${quoted(keys, position)} ${amount(value, map)}`);
  return `${quoted(queries, state.query)} attends to ${list.join(", ") || "no token"}.`;
}

// Returns {element, update(now)}; now is what app.now() returns.
export function reading(app) {
  const words = el("p", {class: "sentence", "aria-live": "polite", dir: "auto"});
  const body = el("tbody");
  const caption = el("caption");
  const heads = ["Token", "Position", "Weight"].map((words) => el("th", {scope: "col"}, termed(words)));
  const list = el("table", {class: "top"}, caption, el("thead", {}, el("tr", {}, heads)), body);
  const element = el("aside", {class: "reading", "aria-label": "In words"}, el("h2", {}, "In words"), words, list);
  const update = (now) => {
    if (!now || !now.weights) { words.textContent = now ? "Loading this layer …" : ""; return; }
    if (now.score) { scored(now); return; }
    const {map, weights, queries, keys, state} = now;
    const backwards = state.way === "to" && state.key >= 0;
    const side = backwards ? queries : keys;
    const best = top(backwards ? weights.column(state.key) : weights.row(state.query), 10);
    const text = sentence(now);
    if (words.textContent !== text) words.textContent = text;
    const pinned = backwards ? quoted(keys, state.key) : quoted(queries, state.query);
    caption.textContent = `The ten largest weights ${backwards ? "with key" : "of query"} ${pinned}`;
    rows(best, side, (value) => amount(value, map), (value) => colourOf(value, weights.greatest, state, weights.signed));
  };
  const rows = (best, side, say, colour) => {
    const greatest = best.length ? Math.abs(best[0].value) : 1;
    body.replaceChildren(...best.map(({position, value}) => {
      const bar = el("span", {class: "bar", "aria-hidden": "true"});
      bar.style.width = `${(100 * Math.abs(value)) / greatest}%`;
      bar.style.backgroundColor = css(colour(value));
      const picture = isPatch(side, position) ? thumbnailOf(side, position, () => app.redraw()) : "";
      const token = el("th", {scope: "row", dir: "auto"}, picture, shorten(nameOf(side, position), 24));
      return el("tr", {}, token, el("td", {}, String(position + 1)), el("td", {class: "amount"}, el("span", {class: "figure"}, say(value)), el("span", {class: "lane"}, bar)));
    }));
  };
  // Attributions belong to a prediction of the model, not to one query.
  const scored = ({frame, score, state}) => {
    const side = frame.sides[score.side];
    const best = top(score.scores, 10);
    const list = best.slice(0, 4).map(({position, value}) => `${quoted(side, position)} ${number(value)}`);
    const text = `For ${score.of}, the largest scores are ${list.join(", ") || "all 0"}.`;
    if (words.textContent !== text) words.textContent = text;
    caption.textContent = `The ten largest scores: ${score.measure}`;
    rows(best, side, number, (value) => colourOf(value, Math.abs(best[0].value), {...state, scale: "linear"}, true));
  };
  return {element, update};
}
