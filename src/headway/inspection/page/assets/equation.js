// Equations as they are printed: "x_i" with a subscript, variables in italics, functions upright.
import {el} from "./elements.js";

const PART = /_(?:\{[^}]*\}|[\p{L}\p{N}]+)|\p{L}+|[^_\p{L}]+|_/gu;

// Returns an equation as elements, whose text is the equation as it was written.
export function printed(equation) {
  return (equation.match(PART) || []).map((part) => {
    if (part.length > 1 && part.startsWith("_")) return el("span", {}, el("span", {class: "unseen"}, "_"), el("sub", {}, part.slice(1).replace(/^\{|\}$/g, "")));
    return /^(?![ΣΠ])\p{L}$/u.test(part) ? el("i", {}, part) : part;
  });
}
