// Probabilities from logits, and the next token.

export function softmax(logits, temperature = 1) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Float64Array.from(logits, (one) => Math.exp((one - most) / temperature));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((one) => one / total);
}

// Returns the most probable token, or with a temperature above 0 a random one: random() is from 0 to 1.
export function chosen(logits, temperature, random) {
  if (!(temperature > 0)) return logits.reduce((best, one, at) => (one > logits[best] ? at : best), 0);
  const probabilities = softmax(logits, temperature);
  let rest = random();
  for (let token = 0; token < probabilities.length; token++) {
    rest -= probabilities[token];
    if (rest < 0) return token;
  }
  return probabilities.length - 1;
}

// Returns the `count` most probable entries: {ids, probabilities}, in descending order.
export function best(logits, count) {
  const probabilities = softmax(logits);
  const ids = [];
  for (let id = 0; id < probabilities.length; id++) {
    if (ids.length === count && probabilities[id] <= probabilities[ids[count - 1]]) continue;
    let at = ids.length;
    while (at > 0 && probabilities[ids[at - 1]] < probabilities[id]) at--;
    ids.splice(at, 0, id);
    if (ids.length > count) ids.pop();
  }
  return {ids, probabilities: ids.map((id) => probabilities[id])};
}

// Returns row `at` of an output of the shape ... T V, without the columns that no token has.
export function row(output, at, size) {
  const width = output.dims.at(-1);
  return output.data.subarray(at * width, at * width + (size ?? width));
}
