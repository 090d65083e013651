// The input form, shown only if a server runs the model: a text, an optional second text and target, or
// an image. The document that the server returns replaces the current one.
import {button, el} from "./elements.js";
import {pad} from "./pad.js";
import {shorten} from "./tokens.js";

const LARGEST = 8 * 2 ** 20; // bytes of an image file

export function liveBar(app) {
  const first = el("textarea", {rows: 2, "aria-label": "Text", placeholder: "Type a sentence", dir: "auto"});
  const second = el("input", {type: "text", "aria-label": "Second text", placeholder: "second text (optional)", dir: "auto"});
  const target = el("input", {type: "text", "aria-label": "Target", placeholder: "target text (optional; if empty, the model generates it)", dir: "auto"});
  const image = el("input", {type: "file", accept: "image/png,image/jpeg,image/webp,image/gif,image/bmp,image/tiff,audio/wav", "aria-label": "Image"});
  const status = el("p", {class: "soft", "aria-live": "polite"});
  const local = {image: null, busy: false, again: false, timer: 0};
  const typed = () => {
    const body = {text: first.value};
    if (second.value) body.second = second.value;
    if (target.value) body.target = target.value;
    if (local.image) body.image = local.image;
    return body;
  };
  const run = async () => {
    clearTimeout(local.timer);
    if (local.busy) { local.again = true; return; }
    local.busy = true;
    status.textContent = "Running the model …";
    try {
      const body = typed();
      const header = await app.source.ask("look", body);
      app.input = body;
      app.open(header);
      status.textContent = "";
    } catch (error) {
      status.textContent = error.message;
    }
    local.busy = false;
    if (local.again) { local.again = false; run(); }
  };
  const read = (file) => {
    if (!file) return;
    if (file.size > LARGEST) { status.textContent = "The image file is larger than 8 MB; choose a smaller one."; return; }
    const reader = new FileReader();
    reader.onload = () => { local.image = reader.result; run(); };
    reader.readAsDataURL(file);
  };
  image.addEventListener("change", () => read(image.files[0]));
  first.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); run(); }
  });
  // The model runs half a second after the last change of the text.
  first.addEventListener("input", () => { clearTimeout(local.timer); local.timer = setTimeout(run, 500); });
  const examples = el("div", {class: "chips", role: "group", "aria-label": "Held-out examples"});
  const drawing = pad((address) => { local.image = address; run(); });
  const pictures = el("div", {class: "pictures-input"}, el("label", {}, "Image ", image), drawing);
  const more = el("details", {}, el("summary", {}, "More inputs"), el("div", {class: "more"}, second, target, pictures));
  const element = el("div", {class: "live", hidden: true}, first, button("Run", run, {class: "primary"}), examples, more, status);
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => { event.preventDefault(); read(event.dataTransfer.files[0]); });
  const open = () => {
    element.hidden = !(app.session.live);
    const {modality} = app.header();
    pictures.hidden = modality === "text";
    first.hidden = second.hidden = modality === "image";
    examples.replaceChildren(...(app.header().examples || []).map((text) => button(shorten(text, 60), () => { first.value = text; second.value = target.value = ""; run(); }, {class: "chip", dir: "auto", title: text})));
    examples.hidden = !examples.childElementCount;
    const frame = app.session.frames[0];
    if (!app.input && frame && typeof frame.model.input === "string") first.value = frame.model.input;
    app.input ||= {text: first.value};
  };
  return {element, open};
}
