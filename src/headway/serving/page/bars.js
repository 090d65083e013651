// Labels with their scores: a table whose rows have a bar.
import {el, percent} from "./dom.js";

// rows: [{label, score}]. words: formats a score. choose(n): called when a row is clicked or entered.
export function bars(caption, rows, {words = percent, choose} = {}) {
  return el("table", {class: "bars"},
    el("caption", {}, caption),
    el("thead", {class: "unseen"}, el("tr", {}, el("th", {scope: "col"}, "Label"), el("th", {scope: "col"}, "Score"))),
    el("tbody", {}, rows.map(({label, score}, n) => {
      const bar = el("span", {class: "bar", "aria-hidden": "true"});
      bar.style.setProperty("width", `${100 * Math.max(0, Math.min(1, score))}%`);
      const name = choose ? el("button", {type: "button", class: "quiet", on: {click: () => choose(n)}}, label) : label;
      return el("tr", {}, el("th", {scope: "row", dir: "auto"}, name), el("td", {}, el("span", {class: "track"}, bar), el("span", {class: "number"}, words(score))));
    })));
}
