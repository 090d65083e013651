// The source of the views in an exported page: instead of a server, the model in the page answers.
import {answer} from "./answers.js";
import {documentOf, emptyDocument} from "./document.js";
import {inflater} from "./inflate.js";
import {configure, openModel} from "./opening.js";
import {addressOf, normalised, sized} from "./pixels.js";

export function servedSource() {
  const inflate = inflater();
  const block = (id) => inflate(document.getElementById(id).textContent);
  const source = {live: false, model: null, blocks: new Map(), block: async (id) => source.blocks.get(id)};
  source.header = async () => {
    const {ort} = globalThis.libraries;
    const [binary, loader] = await Promise.all([block("runtime-wasm"), block("runtime-loader")]);
    configure(ort, binary, URL.createObjectURL(new Blob([loader], {type: "text/javascript"})));
    const described = JSON.parse(new TextDecoder().decode(await block("description")));
    const graphs = {};
    for (const name of described.graphs) graphs[name] = await block(`graph-${name}`);
    source.model = await openModel(globalThis.libraries, described, graphs);
    for (const element of document.querySelectorAll("script.block")) element.remove(); // their memory
    const [text] = described.examples;
    if (text === undefined) return emptyDocument(described, described.modality === "image" ? "Choose an image." : "Type a text.");
    return source.look({text}).catch((error) => emptyDocument(described, error.message)); // such as an example that is too long
  };
  // Answers an input, {text} or {image}; options as in `answer`. Returns the header of its document.
  source.look = async (input, options = {}) => {
    const {model} = source;
    const {described, network} = model;
    const image = input.image && sized(input.image, described.image.reader);
    const pixels = image && network.numbers(normalised(image, described.image.reader), [1, image.channels, image.height, image.width]);
    const answered = await answer(model, {text: input.text, pixels}, options);
    const made = documentOf(model, answered, input, image ? addressOf(image) : null);
    source.blocks = made.blocks;
    return made.header;
  };
  return source;
}

export const fileSource = servedSource;
