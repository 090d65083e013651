// The graphs of a model, computed by onnxruntime-web: one step of one sequence at a time.

// graphs: name -> bytes of an ONNX file.
export async function networkOf(ort, graphs) {
  const sessions = {};
  for (const [name, bytes] of Object.entries(graphs)) sessions[name] = await ort.InferenceSession.create(bytes, {executionProviders: ["wasm"]});
  let last = Promise.resolve();
  // A session computes one step after the other; `fetched` is a prefix of the names of the outputs, or all.
  const run = (name, inputs, isFetched = () => true) => {
    const session = sessions[name];
    const known = Object.fromEntries(Object.entries(inputs).filter(([input]) => session.inputNames.includes(input)));
    last = last.catch(() => {}).then(() => session.run(known, session.outputNames.filter(isFetched)));
    return last;
  };
  return {run, integers: (values) => new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]), numbers: (values, shape) => new ort.Tensor("float32", values, shape)};
}

const isStep = (name) => name === "logits" || name.startsWith("present");

// A decoder that has read some tokens. cache: {kinds, layers, heads, width} of its keys and values.
export class Decoding {
  constructor(network, name, cache, source = {}) {
    Object.assign(this, {network, name, source, read: 0, past: {}});
    for (let layer = 0; layer < cache.layers; layer++) {
      for (const kind of cache.kinds) this.past[`past_key_values.${layer}.${kind}`] = network.numbers(new Float32Array(), [1, cache.heads, 0, cache.width]);
    }
  }

  // Reads further tokens. Returns the outputs: logits of the tokens; with `all`, attention weights, too.
  async step(tokens, all = false) {
    const count = this.read + tokens.length;
    const {integers} = this.network;
    const inputs = {
      input_ids: integers(tokens), attention_mask: integers(new Array(count).fill(1)),
      position_ids: integers(tokens.map((_, at) => this.read + at)), ...this.source, ...this.past,
    };
    const outputs = await this.network.run(this.name, inputs, all ? undefined : isStep);
    for (const [name, value] of Object.entries(outputs)) if (name.startsWith("present")) this.past[name.replace("present", "past_key_values")] = value;
    this.read = count;
    return outputs;
  }
}
