// Tokens joined into words, for all views alike: a joined side has one entry per word, and the weight of
// a word is the sum over its tokens as keys and the mean over its tokens as queries (Clark et al. 2019,
// section 3).
import {shown} from "./tokens.js";
import {encoded} from "./weights.js";

const MOST = 1 << 20; // cells of a map whose tokens are joined

const sides = new WeakMap(); // side -> {side, units}

// Returns the positions of the tokens of each word; tokens outside words are words of their own.
function unitsOf(side) {
  const first = new Map((side.words || []).map((positions) => [positions[0], positions]));
  const inside = new Set((side.words || []).flat());
  return side.tokens.flatMap((_, at) => (first.has(at) ? [first.get(at)] : inside.has(at) ? [] : [[at]]));
}

// Returns {side, units}: the side with one token per word, and the positions of the tokens of each.
export function wordsOf(side) {
  if (!sides.has(side)) {
    const units = unitsOf(side);
    // "##" says that a token continues a word, which needs no saying inside a joined word.
    const tokens = units.map((positions) => positions.map((position, n) => (n ? side.tokens[position].replace(/^##/, "") : side.tokens[position])).join(""));
    const generated = side.generated === null || side.generated === undefined ? null : units.findIndex((one) => one[0] >= side.generated);
    const joined = {...side, tokens: tokens.map((one) => shown(one.trim() || one)), generated: generated === -1 ? null : generated};
    sides.set(side, {side: side.grid ? side : joined, units: side.grid ? side.tokens.map((_, at) => [at]) : units});
  }
  return sides.get(side);
}

// Whether a side has words of several tokens.
export function hasParts(side) {
  return !side.grid && wordsOf(side).units.length < side.tokens.length;
}

export function canJoin(queries, keys) {
  return (hasParts(queries) || hasParts(keys)) && queries.tokens.length * keys.tokens.length <= MOST;
}

// Returns the position of the word that contains a token; -1 for -1.
export function wordAt(units, position) {
  return position < 0 ? position : units.findIndex((one) => one.includes(position));
}

export function joinedWeights(weights, queries, keys) {
  const values = new Float32Array(queries.length * keys.length);
  queries.forEach((rows, t) => {
    for (const row of rows) {
      keys.forEach((columns, s) => { for (const column of columns) values[t * keys.length + s] += weights.at(row, column) / rows.length; });
    }
  });
  const {coding} = weights;
  const scale = coding.kind === "sqrt" ? coding.scale : values.reduce((most, one) => Math.max(most, Math.abs(one)), 0) || 1;
  return encoded(values, queries.length, keys.length, {...coding, scale});
}
