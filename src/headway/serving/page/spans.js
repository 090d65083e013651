// A text with marked spans. The server counts characters as code points; JavaScript has UTF-16 units.
import {el, percent} from "./dom.js";

const COLOURS = 8;

// spans: [{start, end, label, score}], which do not overlap. colours: label -> number of the colour.
export function marked(text, spans, colours = new Map()) {
  const characters = Array.from(text);
  const between = (start, end) => characters.slice(start, end).join("");
  const parts = [];
  let last = 0;
  for (const {start, end, label, score} of [...spans].sort((a, b) => a.start - b.start)) {
    if (start < last) continue;
    parts.push(between(last, start));
    const name = label ? el("span", {class: "label"}, label) : null;
    parts.push(el("mark", {class: `span-${colours.get(label) ?? 0}`, title: score === undefined ? null : percent(score)}, between(start, end), name));
    last = end;
  }
  return el("div", {class: "output", dir: "auto"}, ...parts, between(last));
}

// Numbers the labels of spans in the order of their first appearance.
export function coloursOf(spans) {
  return new Map([...new Set(spans.map((span) => span.label))].map((label, n) => [label, n % COLOURS]));
}
