// One map of weights, T x S, as codes of one byte: weight = scale (c / 255)^2, or with a sign
// scale * sign * ((c - 128) / 127)^2. Codes are stored and drawn; weights are read from a table.

export function tableOf(coding) {
  const table = new Float32Array(256);
  for (let code = 0; code < 256; code++) {
    const root = coding.kind === "sqrt" ? code / 255 : (code - 128) / 127;
    table[code] = Math.sign(root) * root * root * coding.scale;
  }
  return table;
}

export class Weights {
  constructor(codes, rows, columns, coding) {
    Object.assign(this, {codes, rows, columns, coding, table: tableOf(coding)});
    this.signed = coding.kind === "signed";
    this.most = null;
  }

  at(row, column) {
    return this.table[this.codes[row * this.columns + column]];
  }

  row(row) {
    return Float32Array.from(this.codes.subarray(row * this.columns, (row + 1) * this.columns), (c) => this.table[c]);
  }

  column(column) {
    return Float32Array.from({length: this.rows}, (_, row) => this.at(row, column));
  }

  // The largest absolute weight.
  get greatest() {
    if (this.most === null) this.most = Math.abs(this.table[farthest(this.codes, 0, this.codes.length, this.signed)]);
    return this.most;
  }
}

// Returns the code of the largest absolute weight in codes[from:to].
export function farthest(codes, from, to, signed) {
  let best = signed ? 128 : 0;
  if (!signed) for (let i = from; i < to; i++) { if (codes[i] > best) best = codes[i]; }
  else for (let i = from; i < to; i++) { if (Math.abs(codes[i] - 128) > Math.abs(best - 128)) best = codes[i]; }
  return best;
}

export function encoded(values, rows, columns, coding) {
  const codes = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const root = Math.sqrt(Math.min(1, Math.abs(values[i]) / coding.scale));
    codes[i] = coding.kind === "sqrt" ? 255 * root + 0.5 : 128 + Math.round(127 * Math.sign(values[i]) * root);
  }
  return new Weights(codes, rows, columns, coding);
}

// Returns the mean over the heads of a layer, computed in slices so that the page stays responsive.
export async function meanOver(codes, heads, rows, columns, coding, pause) {
  const cells = rows * columns;
  const table = tableOf(coding);
  const sums = new Float32Array(cells);
  for (let head = 0; head < heads; head++) {
    const from = head * cells;
    for (let i = 0; i < cells; i++) sums[i] += table[codes[from + i]];
    if (cells > 1 << 19) await pause();
  }
  for (let i = 0; i < cells; i++) sums[i] /= heads;
  return encoded(sums, rows, columns, coding);
}

// Max-pools blocks of `factor` x `factor` cells, for maps that are larger than the screen.
export async function pooled(weights, factor, pause) {
  const {codes, signed} = weights;
  const [rows, columns] = [Math.ceil(weights.rows / factor), Math.ceil(weights.columns / factor)];
  const small = new Uint8Array(rows * columns).fill(signed ? 128 : 0);
  const far = signed ? (code) => Math.abs(code - 128) : (code) => code;
  for (let row = 0; row < weights.rows; row++) {
    const to = Math.floor(row / factor) * columns;
    for (let column = 0, from = row * weights.columns; column < weights.columns; column++, from++) {
      const at = to + Math.floor(column / factor);
      if (far(codes[from]) > far(small[at])) small[at] = codes[from];
    }
    if ((row + 1) % Math.max(1, Math.floor((1 << 20) / weights.columns)) === 0) await pause();
  }
  return new Weights(small, rows, columns, weights.coding);
}

export function difference(a, b) {
  const values = new Float32Array(a.codes.length);
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    values[i] = b.table[b.codes[i]] - a.table[a.codes[i]];
    most = Math.max(most, Math.abs(values[i]));
  }
  return encoded(values, a.rows, a.columns, {kind: "signed", scale: most || 1});
}

// Returns the n largest absolute values of a list: [{position, value}], in descending order.
export function top(values, n) {
  const best = [];
  for (let position = 0; position < values.length; position++) {
    const size = Math.abs(values[position]);
    if (best.length === n && size <= Math.abs(best[n - 1].value)) continue;
    let at = best.length;
    while (at > 0 && Math.abs(best[at - 1].value) < size) at--;
    best.splice(at, 0, {position, value: values[position]});
    if (best.length > n) best.pop();
  }
  return best.filter((one) => one.value !== 0);
}

const LEAST = 0.001; // fractions below are printed as "<0.1 %"

// Returns the largest values that a sentence names: of fractions, only the first one if all are tiny.
export function named(values, n, isFraction) {
  return top(values, n).filter(({value}, at) => at === 0 || !isFraction || Math.abs(value) >= LEAST);
}

// Returns the weights of whole words: the sum over the tokens of each. words: positions of the tokens.
export function joined(values, words) {
  return Float32Array.from(words, (positions) => positions.reduce((sum, position) => sum + values[position], 0));
}
