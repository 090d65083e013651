// Bar charts of probabilities and of their changes, as HTML lists that a screen reader can read.
import {el} from "./elements.js";
import {percent, shown} from "./tokens.js";

// items: [{token, value}], values are probabilities.
export function bars(items, properties) {
  return el("ol", {class: "bars", ...properties}, items.map(({token, value}) => {
    const bar = el("span", {class: "bar", "aria-hidden": "true"});
    bar.style.width = `${100 * Math.min(1, Math.abs(value))}%`;
    return el("li", {}, el("span", {class: "token-name", dir: "auto"}, shown(token)), el("span", {class: "track"}, bar), el("span", {class: "figure"}, percent(value)));
  }));
}

// items: [{token, before, after}]: bars to the left for a decrease, to the right for an increase.
// alone: whether only the change is written, without the values before and after.
export function deltaBars(items, say = percent, alone = false) {
  const most = items.reduce((a, one) => Math.max(a, Math.abs(one.after - one.before)), 1e-9);
  return el("ol", {class: alone ? "bars deltas alone" : "bars deltas"}, items.map(({token, before, after}) => {
    const by = after - before;
    const bar = el("span", {class: by < 0 ? "bar less" : "bar more", "aria-hidden": "true"});
    bar.style.width = `${(50 * Math.abs(by)) / most}%`;
    return el("li", {}, el("span", {class: "token-name", dir: "auto"}, shown(token)), el("span", {class: "track"}, bar),
      alone ? "" : el("span", {class: "figure"}, `${say(before)} → ${say(after)}`), el("span", {class: alone ? "figure" : "soft figure"}, `${by > 0 ? "+" : ""}${say(by)}`));
  }));
}

// Compares two predictions at one position: every token that is in either of them.
export function changes(before, after) {
  const value = (prediction, token) => prediction.probabilities[prediction.tokens.indexOf(token)] ?? 0;
  const tokens = [...new Set([...before.tokens, ...after.tokens])];
  return tokens.map((token) => ({token, before: value(before, token), after: value(after, token)}))
    .sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before)).slice(0, 12);
}

