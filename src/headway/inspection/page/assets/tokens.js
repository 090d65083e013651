// Formats tokens and numbers: whitespace is made visible, long tokens are shortened.

const SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"};

const CONTROL = /[\u0000-\u001f]/g; // shown as the signs of Unicode for them: U+2400 and the following ones
const NEXT = "…"; // a position after the last token, for which a model predicts

// Control characters are always shown as signs, spaces only where there is nothing else.
export function shown(token) {
  if (token === "") return "∅";
  const text = token.replace(CONTROL, (one) => SIGNS[one] || String.fromCharCode(0x2400 + one.charCodeAt(0)));
  return /^\s+$/u.test(token) ? [...text].map((one) => (/\s/u.test(one) ? "␣" : one)).join("") : text;
}

// Returns a text in which line breaks and tabs are signs; an empty one stays empty.
export function visible(text) {
  return text && shown(text);
}

// The space before a word says only where the word begins, which a label need not say.
export function shorten(token, most) {
  const text = shown(token);
  const signs = [...(text.trimStart() || text)];
  return signs.length > most ? signs.slice(0, most - 1).join("") + "…" : signs.join("");
}

const METRICS = {bleu: "BLEU", chrf: "chrF", cider: "CIDEr-D", f1: "F1", macro_f1: "macro F1", lr: "learning rate", matthews: "Matthews correlation", top5: "top-5 accuracy"};

// Returns the name of a measurement, or a title that ends in one, in words: "best_step" is the best step.
export function spaced(name) {
  const at = name.lastIndexOf(": ") + 1;
  const last = name.slice(at).trim();
  return (at ? `${name.slice(0, at)} ` : "") + (METRICS[last] ?? last.replaceAll("_", " "));
}

export function percent(share) {
  const points = share * 100;
  if (points === 0) return "0\u00a0%";
  if (Math.abs(points) < 0.1) return points < 0 ? "−<0.1\u00a0%" : "<0.1\u00a0%";
  const text = Math.abs(points) >= 9.95 ? points.toFixed(0) : points.toFixed(1);
  return text.replace("-", "−") + "\u00a0%";
}

// digits: the number of significant digits.
export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return String(value).replace("-", "−");
  if (size !== 0 && (size < 0.001 || size >= 1e5)) return value.toExponential(1).replace("-", "−");
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

// Formats a weight: as a percentage if the weights of a query sum to 1, otherwise as a number.
export function amount(value, map) {
  return map.normalised ? percent(value) : number(value);
}

// Formats a token inside a sentence: in quotes, with its own writing direction.
export function quoted(side, position, most = 24) {
  return `“\u2068${shorten(nameOf(side, position), most)}\u2069”`;
}

// Returns the name of a token where room is scarce: a patch is "2, 1" instead of "row 2, col 1".
export function shortNameOf(side, position) {
  const name = nameOf(side, position);
  return name === side.tokens[position] ? name : name.replace(/^row (\d+), col (\d+)$/, "$1, $2");
}

// Returns the name of a token; that of a patch is its row and column.
export function nameOf(side, position) {
  const token = side.tokens[position];
  const at = position - side.num_prefix_tokens;
  if (side.grid && at >= 0 && at < side.grid[0] * side.grid[1]) {
    return `row ${Math.floor(at / side.grid[1]) + 1}, col ${(at % side.grid[1]) + 1}`;
  }
  return shown(token ?? NEXT);
}
