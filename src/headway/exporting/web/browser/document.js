// The document of an answer, in the form that the views draw: sides, attention maps, predictions.
import {best, row} from "./choosing.js";
import {encoded} from "./weights.js";

const ROOTS = {kind: "sqrt", scale: 1};
const SIDE = 64; // rows and columns of a thumbnail
const MOST = 8; // predictions per position

// address: of the image as the model sees it. Returns {header, blocks: id -> bytes}.
export function documentOf(model, answered, input, address = null) {
  const {described} = model;
  const blocks = new Map();
  const sides = sidesOf(model, answered, address);
  const maps = described.maps.map((map) => mapOf(map, answered.outputs, blocks));
  const predictions = predictionsOf(model, answered);
  const text = answered.text ?? predictions.map((one) => one.tokens[0]).join(", ");
  const last = maps.findLast((map) => sides[map.keys].image) || maps.find((map) => map.queries !== map.keys) || maps[0];
  const frame = {
    label: described.title, model: {...described.facts, input: input.text ?? ""}, answer: text, sides, maps,
    opening: {map: last.name, layer: last.layers.length - 1, head: -1, query: openingQuery(sides[last.queries], predictions)},
    predictions, predictions_side: described.predicts, lens: null, attributions: [], beam: [], effects: {}, updates: {},
  };
  const header = {
    format: "headway-inspection", version: 1, title: described.title, notes: [], live: false, examples: described.examples,
    modality: described.modality, frames: [frame], walk: [], report: null,
  };
  return {header, blocks};
}

// The document before any input.
export function emptyDocument({title, examples, modality}, note) {
  return {format: "headway-inspection", version: 1, title, notes: [note], live: false, examples, modality, frames: [], walk: [], report: null};
}

function openingQuery(side, predictions) {
  if (side.grid) return 0;
  return side.generated === null ? predictions[0]?.position ?? 0 : Math.max(0, side.generated - (side.generated > 0 ? 1 : 0));
}

function sidesOf({described}, {ids}, address) {
  return Object.fromEntries(described.sides.map((name) => {
    if (name === "image") return [name, {...described.image.side, image: address, words: [], generated: null}];
    const {strings, begins, special} = described.tokens[name];
    const {values, generated} = ids[name];
    const plain = {image: null, size: null, grid: null, reach: null, num_prefix_tokens: 0};
    return [name, {...plain, tokens: values.map((id) => strings[id]), words: wordsOf(values, begins, new Set(special)), generated}];
  }));
}

// A word begins at the tokens that `begins` names; a special token is a word of its own.
function wordsOf(ids, begins, special) {
  const words = [];
  ids.forEach((id, at) => {
    const separate = special.has(id) || (at > 0 && special.has(ids[at - 1]));
    if (!words.length || begins[id] === "1" || separate) words.push([at]);
    else words.at(-1).push(at);
  });
  return words;
}

function mapOf({name, queries, keys, causal, outputs, layers}, values, blocks) {
  const [, heads, rows, columns] = values[outputs[0]].dims;
  const cells = rows * columns;
  const coded = outputs.map((output) => encoded(values[output].data, heads * rows, columns, ROOTS).codes);
  const ids = coded.map((codes, layer) => {
    const id = `${name} ${layer}`;
    blocks.set(id, codes);
    return id;
  });
  const small = [Math.min(SIDE, rows), Math.min(SIDE, columns)];
  const thumbnails = coded.map((codes) => thumbnailsOf(codes, heads, rows, columns, small));
  blocks.set(`${name} small`, Uint8Array.from(thumbnails.flatMap((one) => [...one])));
  const entropy = outputs.map((output) => Array.from({length: heads}, (_, head) => entropyOf(values[output].data.subarray(head * cells, (head + 1) * cells), rows, columns, causal)));
  return {
    name, measure: "attention", queries, keys, layers, heads, shape: [rows, columns], causal, normalised: true, blocks: ids, coding: ROOTS,
    thumbnails: `${name} small`, thumbnail: small, entropy, patterns: [], importance: null, metric: "", vectors: null,
  };
}

// Max-pools the maps of all heads.
function thumbnailsOf(codes, heads, rows, columns, [high, wide]) {
  const small = new Uint8Array(heads * high * wide);
  for (let line = 0; line < heads * rows; line++) {
    const head = Math.floor(line / rows);
    const y = block(line % rows, rows, high);
    for (let column = 0; column < columns; column++) {
      const at = (head * high + y) * wide + block(column, columns, wide);
      small[at] = Math.max(small[at], codes[line * columns + column]);
    }
  }
  return small;
}

// The part that position `at` of `length` is in, if part p begins at the position floor(p * length / parts).
const block = (at, length, parts) => Math.ceil(((at + 1) * parts) / length) - 1;

// The mean over the queries of -sum a log a / log n, n being the number of keys of a query; null if each has
// one key only.
function entropyOf(weights, rows, columns, causal) {
  let total = 0;
  let counted = 0;
  for (let query = 0; query < rows; query++) {
    const keys = causal ? Math.min(columns, query + 1) : columns;
    if (keys < 2) continue;
    let sum = 0;
    for (let key = 0; key < keys; key++) {
      const weight = weights[query * columns + key];
      if (weight > 0) sum -= weight * Math.log(weight);
    }
    total += sum / Math.log(keys);
    counted++;
  }
  return counted ? total / counted : null;
}

function predictionsOf({described}, {outputs, rows, positions}) {
  const names = described.labels || described.tokens[described.predicts].words;
  return rows.map((at, n) => {
    const {ids, probabilities} = best(row(outputs.logits, at, described.size), MOST);
    return {position: positions[n], tokens: ids.map((id) => names[id]), probabilities};
  });
}
