// What each kind of model does with an input: its answer, and the outputs of one pass over everything that
// it has read and written, in which the attention weights are.
import {chosen, row} from "./choosing.js";
import {Decoding} from "./network.js";

const GREEDY = {temperature: 0, tokens: 24, random: Math.random, written: () => true};

// Returns {ids: side -> {values, generated}, outputs, text, written, rows, positions}: row `rows[i]` of the
// logits predicts position `positions[i]`. options: temperature, tokens, random; written(ids): called after
// each token, and ends the output by returning false.
export function answer(model, input, options = {}) {
  return KINDS[model.described.kind](model, input, {...GREEDY, ...options});
}

async function write(model, {text}, options) {
  const {described, network} = model;
  const prompt = described.begin.concat(model.source.encode(text));
  const {room} = described;
  fits(prompt.length, room);
  const open = () => new Decoding(network, "model", described.cache);
  const ids = await continued(open(), prompt, Math.min(options.tokens, room - prompt.length), described, options);
  const all = prompt.concat(ids);
  const outputs = await open().step(all, true);
  return {
    ids: {text: side(all, ids.length ? prompt.length : null)}, outputs, text: model.source.decode(ids), written: ids,
    rows: all.map((_, at) => at), positions: all.map((_, at) => at + 1),
  };
}

async function translate(model, {text}, options) {
  const {described, network} = model;
  const source = described.begin.concat(model.source.encode(text), described.finish);
  fits(source.length, described.room);
  const mask = network.integers(source.map(() => 1));
  const encoded = await network.run("encoder_model", {input_ids: network.integers(source), attention_mask: mask});
  const given = {encoder_hidden_states: encoded.last_hidden_state, encoder_attention_mask: mask};
  const most = Math.min(described.target_room - 1, 3 * source.length + 20);
  const rest = await decoded(model, given, most, encoded, options);
  return {...rest, ids: {source: side(source), ...rest.ids}};
}

async function caption(model, {pixels}, options) {
  const {network, described} = model;
  const encoded = await network.run("encoder_model", {pixel_values: pixels});
  const made = await decoded(model, {encoder_hidden_states: encoded.last_hidden_state}, described.target_room - 1, encoded, options);
  return {...made, text: made.text.trim()};
}

// Writes with a decoder that has a source.
async function decoded(model, given, most, encoded, options) {
  const {described, network} = model;
  const open = () => new Decoding(network, "decoder_model_merged", described.cache, given);
  const start = [described.start];
  const ids = await continued(open(), start, most, described, {...options, temperature: 0});
  const read = start.concat(ids);
  const outputs = {...encoded, ...await open().step(read, true)};
  const sides = {read: side(read, 1), target: side([...ids, described.ends[0]], 0)};
  const rows = read.map((_, at) => at);
  return {ids: sides, outputs, written: ids, text: model.target.decode(ids), rows, positions: rows};
}

// Returns the tokens that a decoder writes after a prompt, without the one that ends them.
async function continued(decoding, prompt, most, {ends, forbidden, size}, {temperature, random, written}) {
  const ids = [];
  let next = prompt;
  while (ids.length < most) {
    const {logits} = await decoding.step(next);
    const scores = Float32Array.from(row(logits, next.length - 1, size));
    for (const token of forbidden) scores[token] = -Infinity;
    const token = chosen(scores, temperature, random);
    if (ends.includes(token)) break;
    ids.push(token);
    next = [token];
    if (await written(ids) === false) break;
  }
  return ids;
}

// Reads a text, in which [MASK] is a token, with an encoder.
async function read(model, {text}) {
  const {described, network} = model;
  const parts = described.mask ? text.split(described.mask.text) : [text];
  const coded = parts.map((part, at) => model.source.encode(at < parts.length - 1 ? part.trimEnd() : part));
  let inner = coded.reduce((ids, part) => [...ids, described.mask.id, ...part]);
  const space = described.room - described.begin.length - described.finish.length;
  if (described.truncates) inner = inner.slice(0, space);
  const ids = described.begin.concat(inner, described.finish);
  fits(ids.length, described.room);
  const inputs = {input_ids: network.integers(ids), attention_mask: network.integers(ids.map(() => 1)), token_type_ids: network.integers(ids.map(() => 0))};
  return {ids, outputs: await network.run("model", inputs)};
}

async function fill(model, input) {
  const {ids, outputs} = await read(model, input);
  const {mask} = model.described;
  const positions = ids.flatMap((id, at) => (id === mask.id ? [at] : []));
  if (!positions.length) throw new Error(`Write ${mask.text} for each word that the model is to fill in.`);
  return {ids: {text: side(ids)}, outputs, rows: positions, positions};
}

async function classify(model, input) {
  const {ids, outputs} = await read(model, input);
  return {ids: {text: side(ids)}, outputs, rows: [0], positions: [model.described.readAtEnd ? ids.length - 1 : 0]};
}

async function classifyImage(model, {pixels}) {
  return {ids: {}, outputs: await model.network.run("model", {pixel_values: pixels}), rows: [0], positions: [0]};
}

const side = (values, generated = null) => ({values, generated});

function fits(count, room) {
  if (count > room) throw new Error(`The text has ${count.toLocaleString("en")} tokens, but the model can read at most ${room.toLocaleString("en")}; shorten it.`);
}

const KINDS = {write, translate, caption, fill, classify, "classify image": classifyImage};
