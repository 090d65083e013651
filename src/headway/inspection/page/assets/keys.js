// Keys that work everywhere but in a field for text, and the help that lists them. Those that are a single
// character can be switched off, because speech input and a slip of the hand press them, too (WCAG 2.1.4);
// keys of a drawing work only while it has the focus. The browser remembers the choice, where it may.
import {el, tick} from "./elements.js";

const OFF = "headway.keys-off"; // name of the choice in the storage of the browser
const SINGLE = [
  ["f", "presenter mode on and off"],
  ["n", "next view"],
  ["p", "previous view"],
];
const OTHERS = [
  ["Escape", "end of the presenter mode"],
  ["arrows, Home, End", "move in the drawing that has the focus"],
  ["[ ]", "layer, in a drawing"],
  [", .", "head, in a drawing"],
];

// The storage of a page in a sandboxed frame raises an error instead of storing.
function stored(act) {
  try { return act(localStorage); } catch { return null; }
}

const rows = (keys) => keys.flatMap(([key, act]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, act)]);

// Returns the next or the previous view.
function beside(app, by) {
  const all = app.views.map((one) => one.id);
  return all[(all.indexOf(app.state.view) + by + all.length) % all.length];
}

// Returns the help, as an element.
export function keys(app) {
  let on = stored((storage) => storage.getItem(OFF)) === null;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (event.key === "Escape" && app.state.present) app.present(false);
    else if (!on) return;
    else if (event.key === "f") app.present(!app.state.present);
    else if (event.key === "n" || event.key === "p") app.set({view: beside(app, event.key === "n" ? 1 : -1)});
    else return;
    event.preventDefault();
  });
  document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement && app.state.present) app.set({present: false}); });
  const choose = (value) => {
    on = value;
    stored((storage) => (on ? storage.removeItem(OFF) : storage.setItem(OFF, "1")));
  };
  return el("details", {class: "keys"}, el("summary", {}, "Keys"),
    tick("Single-key shortcuts", on, choose), el("dl", {}, rows(SINGLE)), el("dl", {}, rows(OTHERS)));
}
