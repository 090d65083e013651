// The line to type in: only where the page has a model behind it. A new text, a target to hold the
// model to, or a picture; what comes back is shown like any other document.
import {button, el} from "./elements.js";
import {pad} from "./pad.js";

const LARGEST = 8 * 2 ** 20; // bytes of a picture

export function liveBar(app) {
  const first = el("textarea", {rows: 2, "aria-label": "Text", placeholder: "Type a sentence", dir: "auto"});
  const second = el("input", {type: "text", "aria-label": "Second text", placeholder: "second text, if there is one", dir: "auto"});
  const target = el("input", {type: "text", "aria-label": "Target", placeholder: "answer to hold it to, if any", dir: "auto"});
  const picture = el("input", {type: "file", accept: "image/png,image/jpeg,image/webp", "aria-label": "Picture"});
  const status = el("p", {class: "soft", "aria-live": "polite"});
  const local = {picture: null, busy: false, again: false, timer: 0};
  const typed = () => {
    const body = {text: first.value};
    if (second.value) body.second = second.value;
    if (target.value) body.target = target.value;
    if (local.picture) body.picture = local.picture;
    return body;
  };
  const look = async () => {
    clearTimeout(local.timer);
    if (local.busy) { local.again = true; return; }
    local.busy = true;
    status.textContent = "Looking …";
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
    if (local.again) { local.again = false; look(); }
  };
  const read = (file) => {
    if (!file) return;
    if (file.size > LARGEST) { status.textContent = "A picture of more than 8 MB is not read."; return; }
    const reader = new FileReader();
    reader.onload = () => { local.picture = reader.result; look(); };
    reader.readAsDataURL(file);
  };
  picture.addEventListener("change", () => read(picture.files[0]));
  first.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); look(); }
  });
  // Typing is followed at a distance: half a second after the last letter.
  first.addEventListener("input", () => { clearTimeout(local.timer); local.timer = setTimeout(look, 500); });
  const drawing = pad((address) => { local.picture = address; look(); });
  const more = el("details", {}, el("summary", {}, "More to say"), el("div", {class: "more"}, second, target, el("label", {}, "Picture ", picture), drawing));
  const element = el("div", {class: "live", hidden: true}, first, button("Look", look, {class: "primary"}), more, status);
  element.addEventListener("dragover", (event) => event.preventDefault());
  element.addEventListener("drop", (event) => { event.preventDefault(); read(event.dataTransfer.files[0]); });
  const open = () => {
    element.hidden = !(app.session.live);
    const frame = app.session.frames[0];
    if (!app.input && frame && typeof frame.model.input === "string") first.value = frame.model.input;
    app.input ||= {text: first.value};
  };
  return {element, open};
}
