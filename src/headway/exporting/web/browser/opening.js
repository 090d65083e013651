// Opens the model that is embedded in the page.
import {networkOf} from "./network.js";
import {tokenizerOf} from "./tokenizing.js";

// libraries: {ort, Tokenizer}; graphs: name -> bytes of an ONNX file. Returns the model for `answer`.
export async function openModel({ort, Tokenizer}, described, graphs) {
  const network = await networkOf(ort, graphs);
  const read = (name) => described.tokenizers[name] && tokenizerOf(described.tokenizers[name], Tokenizer);
  const source = read("source");
  return {described, network, source, target: described.tokenizers.target ? read("target") : source};
}

// One thread: threads need headers of a server.
export function configure(ort, binary, address) {
  Object.assign(ort.env.wasm, {numThreads: 1, wasmBinary: binary, wasmPaths: {mjs: address}});
  ort.env.logLevel = "error";
}
