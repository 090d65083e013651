// The parts of a model for the picture of the whole model: its stacks of layers, in the order in which they
// are computed, and the steps from the input to the prediction.

// Returns [{part, side, self, cross, layers, updates}]: for each stack of a frame the side whose tokens
// travel through it, its maps of attention (null if it has none) and its updates per layer.
export function stacksOf(frame) {
  const map = (name) => frame.maps.find((one) => one.name === name && one.measure === "attention") || null;
  const [encoder, decoder, cross] = ["encoder", "decoder", "cross"].map(map);
  const stacks = [];
  const stack = (part, side, self, other) => {
    const layers = Math.max(self?.layers.length || 0, other?.layers.length || 0);
    const updates = frame.updates?.[part];
    stacks.push({part, side, self, cross: other, layers, updates: updates?.length === layers ? updates : null});
  };
  if (encoder || cross) stack("encoder", encoder ? encoder.queries : cross.keys, encoder, null);
  if (decoder || cross) stack("decoder", decoder ? decoder.queries : cross.queries, decoder, cross);
  if (!stacks.length && frame.maps.length) stack(frame.maps[0].name, frame.maps[0].queries, frame.maps[0], null);
  return stacks;
}

// Returns the kinds of sublayers of a stack; a recurrent network with attention has no feed-forward layers.
export function kindsOf({self, cross}) {
  return [self && "self", cross && "cross", self && "feedforward"].filter(Boolean);
}

// Returns the steps from the input to the prediction: [{stack, layer, kind}]; kind is "input", "self",
// "cross", "feedforward" or "output".
export function stepsOf(stacks) {
  const steps = [];
  stacks.forEach(({self, cross, layers}, stack) => {
    steps.push({stack, layer: -1, kind: "input"});
    for (let layer = 0; layer < layers; layer++) {
      for (const kind of kindsOf({self, cross})) steps.push({stack, layer, kind});
    }
  });
  steps.push({stack: stacks.length - 1, layer: -1, kind: "output"});
  return steps;
}

// Returns the prediction that the model makes at a token of a stack, with its number, or null. Row t of
// the output of a decoder belongs to token t; other models name the positions at which they predict.
export function predictionAt(frame, stacks, stack, position) {
  if (stack !== stacks.length - 1) return null;
  const decodes = stacks[stack].part === "decoder";
  const at = decodes ? position : frame.predictions.findIndex((one) => one.position === position);
  return frame.predictions[at] ? {at, ...frame.predictions[at]} : null;
}

// Returns the number of the prediction at the chosen query, or null.
export function predictionAtQuery({frame, map, state}) {
  const stacks = stacksOf(frame);
  const {self, cross} = stacks.at(-1) || {};
  return map && [self?.name, cross?.name].includes(map.name) ? predictionAt(frame, stacks, stacks.length - 1, state.query)?.at ?? null : null;
}
