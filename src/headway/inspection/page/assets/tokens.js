// How a token is written: what cannot be seen gets a sign, what is too long gets an end.

const SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"};

export function shown(token) {
  if (token === "") return "∅";
  return /^\s+$/u.test(token) ? [...token].map((one) => SIGNS[one] || "␣").join("") : token;
}

export function shorten(token, most) {
  const signs = [...shown(token)];
  return signs.length > most ? signs.slice(0, most - 1).join("") + "…" : signs.join("");
}

export function percent(share) {
  const points = share * 100;
  if (points === 0) return "0\u00a0%";
  if (Math.abs(points) < 0.1) return points < 0 ? "−<0.1\u00a0%" : "<0.1\u00a0%";
  const text = Math.abs(points) >= 9.95 ? points.toFixed(0) : points.toFixed(1);
  return text.replace("-", "−") + "\u00a0%";
}

// digits: how many say something.
export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return String(value).replace("-", "−");
  if (size !== 0 && (size < 0.001 || size >= 1e5)) return value.toExponential(1).replace("-", "−");
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

// What a weight is called: a share is a percentage, everything else a number.
export function amount(value, map) {
  return map.normalised ? percent(value) : number(value);
}

// A token inside a sentence: in quotes, and kept apart from the direction that the sentence runs in.
export function quoted(side, place, most = 24) {
  return `“\u2068${shorten(nameOf(side, place), most)}\u2069”`;
}

// The name of a token, with its place where a patch has one.
export function nameOf(side, place) {
  const token = side.tokens[place];
  if (side.grid && place >= side.beside) {
    const at = place - side.beside;
    return `row ${Math.floor(at / side.grid[1]) + 1}, col ${(at % side.grid[1]) + 1}`;
  }
  return shown(token ?? "");
}
