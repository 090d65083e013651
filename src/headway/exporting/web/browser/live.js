// The input of an exported page: a text, or an image that is chosen or drawn. The model in the page answers.
import {button, el, slider} from "./elements.js";
import {pad} from "./pad.js";
import {pixelsOf} from "./pixels.js";
import {shorten} from "./tokens.js";

const ACTIONS = {write: "Write on", translate: "Translate", fill: "Fill in", classify: "Classify", "classify image": "Classify", caption: "Caption"};
const HELP = {
  write: "The model writes on from here.", translate: "One sentence.", classify: "The text to classify.",
  fill: (described) => `A text with ${described.mask.text} for each word to fill in.`,
};

export function liveBar(app) {
  const {source} = app;
  const {described} = source.model;
  const isText = described.modality === "text";
  const state = {image: null, busy: false, stopped: false, temperature: 0, tokens: described.length ?? 0};
  const status = el("p", {class: "soft status", "aria-live": "polite"});
  const partial = el("p", {class: "answer partial", dir: "auto", hidden: true});

  const run = async () => {
    if (state.busy) { state.stopped = true; return; }
    const input = isText ? {text: area.value} : {image: state.image};
    if (isText && !area.value.trim()) { status.textContent = "Write a text first."; area.focus(); return; }
    if (!isText && !state.image) { status.textContent = "Draw or choose an image first."; return; }
    Object.assign(state, {busy: true, stopped: false});
    action.textContent = "Stop";
    status.textContent = "";
    const begun = performance.now();
    let count = 0;
    const written = async (ids) => {
      count = ids.length;
      partial.hidden = false;
      partial.textContent = `${described.kind === "write" ? area.value : ""}${source.model.target.decode(ids)} …`;
      await new Promise((done) => setTimeout(done)); // the browser draws, and hears the button
      return !state.stopped;
    };
    try {
      const header = await source.look(input, {temperature: state.temperature, tokens: state.tokens, written});
      const seconds = (performance.now() - begun) / 1000;
      app.open(header);
      const time = seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${seconds.toFixed(1)} s`;
      status.textContent = count ? `${count} tokens in ${time}, in this browser.` : `${time}, in this browser.`;
    } catch (error) {
      status.textContent = error.message;
    }
    partial.hidden = true;
    state.busy = false;
    action.textContent = ACTIONS[described.kind];
  };

  const action = button(ACTIONS[described.kind], run, {class: "primary"});
  const help = HELP[described.kind];
  const area = el("textarea", {rows: 2, id: "text", "aria-label": "Text", placeholder: typeof help === "function" ? help(described) : help, dir: "auto"});
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); run(); }
  });
  const examples = el("div", {class: "chips", role: "group", "aria-label": "Examples"}, described.examples.map((text) =>
    button(shorten(text, 60), () => { area.value = text; run(); }, {class: "chip", dir: "auto", title: text})));
  const settings = described.kind === "write" ? el("div", {class: "settings"},
    slider("Temperature", 0, 1.5, 0.1, 0, (one) => (one ? one.toFixed(1) : "0: the most probable token"), (one) => { state.temperature = one; }),
    slider("New tokens", 1, Math.max(1, Math.min(200, described.room - 1)), 1, state.tokens, String, (one) => { state.tokens = one; })) : null;
  const element = el("div", {class: "live"}, isText ? area : pictures(described, (image) => { state.image = image; run(); }),
    el("div", {class: "row"}, action, status), settings, isText && described.examples.length ? examples : null, partial);
  area.value = described.examples[0] ?? "";
  return {element, open: () => {}};
}

// The input of a model of images. done(image): called with the pixels of a file or of a drawing.
function pictures(described, done) {
  const input = el("input", {type: "file", accept: "image/*", "aria-label": "Image file"});
  input.addEventListener("change", async () => { if (input.files[0]) done(await pixelsOf(input.files[0])); });
  const draws = described.image.reader.mean.length === 1; // grey images are those of drawings
  const drawn = async (address) => done(await pixelsOf(await (await blobOf(address))));
  return el("div", {class: "pictures-input"}, draws ? pad(drawn, described.image) : null, el("label", {}, "Image ", input));
}

// The bytes of a data address, which the policy of the page does not let it request.
async function blobOf(address) {
  const bytes = Uint8Array.from(atob(address.split(",")[1]), (one) => one.charCodeAt(0));
  return new Blob([bytes], {type: "image/png"});
}
