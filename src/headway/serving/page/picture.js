// The input of a model of images or sounds: a file that is chosen, dropped or pasted, with a preview, or a drawing.
import {button, el} from "./dom.js";
import {drawing} from "./drawing.js";
import {Missing} from "./server.js";

// described: {channels, bright, padded} of the model's images, or {noun, accept, kind} of other files: in words, for the
// dialog of the browser, and the type of what may be pasted. changed(): called after each new image.
// file() of the result: the file of the image; it throws Missing without one.
export function picture(described, changed) {
  const {channels, padded, bright} = described ?? {};
  const {noun, accept, kind} = {
    noun: padded ? "an image or a sound" : "an image", // the spectrogram of a sound is padded, not scaled
    accept: padded ? "image/*,audio/wav" : "image/*",
    kind: "image/",
    ...described,
  };
  const input = el("input", {type: "file", id: "file", class: "unseen", accept});
  const preview = el("div", {class: "preview"});
  const local = {file: null, drawn: null, address: null};

  const take = (file) => {
    if (!file) return;
    Object.assign(local, {file, drawn: null});
    pad?.clear();
    if (local.address) URL.revokeObjectURL(local.address);
    local.address = URL.createObjectURL(file);
    preview.replaceChildren(file.type.startsWith("image/") ? el("img", {src: local.address, alt: `The image ${file.name}`}) : el("p", {}, file.name));
    changed();
  };
  input.addEventListener("change", () => { take(input.files[0]); input.value = ""; });
  // Grey images are those of drawings: of digits, letters, garments.
  const pad = channels === 1 && !padded ? drawing({bright}, (file) => {
    Object.assign(local, {file, drawn: file});
    preview.replaceChildren();
    changed();
  }) : null;
  const choose = el("div", {class: "drop"}, preview, el("label", {for: "file", class: "button"}, `Choose ${noun}`), input,
    el("p", {class: "soft"}, "or drop or paste one here"));
  choose.addEventListener("dragover", (event) => { event.preventDefault(); choose.classList.add("over"); });
  choose.addEventListener("dragleave", () => choose.classList.remove("over"));
  choose.addEventListener("drop", (event) => {
    event.preventDefault();
    choose.classList.remove("over");
    take(event.dataTransfer.files[0]);
  });
  const paste = (event) => {
    if (!choose.isConnected) return document.removeEventListener("paste", paste);
    take([...event.clipboardData.files].find((file) => file.type.startsWith(kind)));
  };
  document.addEventListener("paste", paste);
  const clear = () => {
    pad.clear();
    if (local.file === local.drawn) local.file = null;
    local.drawn = null;
  };
  const save = () => {
    if (local.drawn) el("a", {href: URL.createObjectURL(local.drawn), download: local.drawn.name}).click();
  };
  const buttons = () => el("div", {class: "row"}, button("Clear", clear), button("Save the drawing", save, {class: "quiet"}));
  const element = el("div", {class: "pictures"}, pad ? el("div", {class: "draw"}, pad.element, el("p", {class: "soft"}, "Draw here, with the pointer or a finger."), buttons()) : null, choose);
  const file = () => {
    if (local.file) return local.file;
    throw new Missing(pad ? "Draw something or choose an image first." : `Choose ${noun} first.`, input);
  };
  return {element, file};
}

export async function inBase64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let start = 0; start < bytes.length; start += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(text);
}
