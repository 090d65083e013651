// The same thing in words, beside every view: one sentence, spoken when it changes, and a table of
// the ten strongest. No colour is needed to read a map.
import {el} from "./elements.js";
import {amount, nameOf, number, quoted, shorten} from "./tokens.js";
import {colourOf, css} from "./colours.js";
import {termed} from "./terms.js";
import {top} from "./weights.js";

export function sentence({map, weights, queries, keys, state}) {
  if (state.way === "to" && state.key >= 0) {
    const best = top(weights.column(state.key), 4);
    const said = best.map(({place, value}) => `${quoted(queries, place)} ${amount(value, map)}`);
    return `${quoted(keys, state.key)} is attended to by ${said.join(", ") || "nobody"}.`;
  }
  const best = top(weights.row(state.query), 4);
  const said = best.map(({place, value}) => `${quoted(keys, place)} ${amount(value, map)}`);
  return `${quoted(queries, state.query)} attends to ${said.join(", ") || "nothing"}.`;
}

// {element, update(now)}: now as app.now() gives it.
export function reading(app) {
  const words = el("p", {class: "sentence", "aria-live": "polite", dir: "auto"});
  const body = el("tbody");
  const caption = el("caption");
  const heads = ["Token", "Position", "Weight"].map((words) => el("th", {scope: "col"}, termed(words)));
  const list = el("table", {class: "top"}, caption, el("thead", {}, el("tr", {}, heads)), body);
  const element = el("aside", {class: "reading", "aria-label": "In words"}, el("h2", {}, "In words"), words, list);
  const update = (now) => {
    if (!now || !now.weights) { words.textContent = now ? "Reading this layer …" : ""; return; }
    if (now.score) { scored(now); return; }
    const {map, weights, queries, keys, state} = now;
    const backwards = state.way === "to" && state.key >= 0;
    const side = backwards ? queries : keys;
    const best = top(backwards ? weights.column(state.key) : weights.row(state.query), 10);
    const said = sentence(now);
    if (words.textContent !== said) words.textContent = said;
    const pinned = backwards ? quoted(keys, state.key) : quoted(queries, state.query);
    caption.textContent = `The ten strongest weights ${backwards ? "on" : "of"} ${pinned}`;
    rows(best, side, (value) => amount(value, map), (value) => colourOf(value, weights.greatest, state, weights.signed));
  };
  const rows = (best, side, say, colour) => {
    const greatest = best.length ? Math.abs(best[0].value) : 1;
    body.replaceChildren(...best.map(({place, value}) => {
      const bar = el("span", {class: "bar", "aria-hidden": "true"});
      bar.style.width = `${(100 * Math.abs(value)) / greatest}%`;
      bar.style.backgroundColor = css(colour(value));
      const token = el("th", {scope: "row", dir: "auto"}, shorten(nameOf(side, place), 24));
      return el("tr", {}, token, el("td", {}, String(place + 1)), el("td", {class: "amount"}, el("span", {class: "figure"}, say(value)), el("span", {class: "lane"}, bar)));
    }));
  };
  // Scores of another kind than attention: they belong to the answer, not to one token.
  const scored = ({frame, score, state}) => {
    const side = frame.sides[score.side];
    const best = top(score.scores, 10);
    const said = best.slice(0, 4).map(({place, value}) => `${quoted(side, place)} ${number(value)}`);
    const sentence = `For ${score.of}, most was done by ${said.join(", ") || "nothing"}.`;
    if (words.textContent !== sentence) words.textContent = sentence;
    caption.textContent = `The ten greatest scores: ${score.measure}`;
    rows(best, side, number, (value) => colourOf(value, Math.abs(best[0].value), {...state, scale: "linear"}, true));
  };
  return {element, update};
}
