// Runs the model in Node, for the export that compares its outputs with those of Headway.
import {answer} from "./answers.js";
import {configure, openModel} from "./opening.js";
import {normalised, sized} from "./pixels.js";

// files: {wasm, loader, description, graphs: name -> file}; probes: {texts: side -> [text], inputs: [{text} or {image}]}.
export async function check(libraries, files, probes, read) {
  configure(libraries.ort, read(files.wasm), files.loader);
  const described = JSON.parse(read(files.description));
  const graphs = Object.fromEntries(Object.entries(files.graphs).map(([name, file]) => [name, new Uint8Array(read(file))]));
  const model = await openModel(libraries, described, graphs);
  const texts = {};
  for (const [side, all] of Object.entries(probes.texts)) {
    texts[side] = all.map((text) => {
      const ids = model[side].encode(text);
      return {ids, text: model[side].decode(ids)};
    });
  }
  const answers = [];
  for (const {text, image} of probes.inputs) {
    const small = image && sized({...image, data: Uint8ClampedArray.from(image.data)}, described.image.reader);
    const values = small && normalised(small, described.image.reader);
    const pixels = values && model.network.numbers(values, [1, small.channels, small.height, small.width]);
    const begun = performance.now();
    const {ids, outputs, written} = await answer(model, {text, pixels}, {tokens: probes.tokens});
    const seconds = (performance.now() - begun) / 1000;
    const maps = described.maps.map((map) => map.outputs.map((name) => plain(outputs[name])));
    answers.push({ids, written, seconds, logits: plain(outputs.logits), maps, pixels: values && [...values]});
  }
  return {texts, answers};
}

const plain = ({data, dims}) => ({values: [...data], shape: [...dims]});
