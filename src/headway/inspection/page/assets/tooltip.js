// The definition of a marked term (terms.js), shown while the pointer is over the term or the keyboard
// focus is in it. As WCAG 1.4.13 requires, the pointer may move onto the tooltip, and Escape closes it.
import {el} from "./elements.js";
import {definitionOf} from "./terms.js";

const DELAY = 350; // milliseconds; labels that the pointer only crosses show nothing
const GAP = 6; // pixels between label and tooltip

// Returns the tooltip, an element for the end of `root`, which holds the marked terms.
export function tooltip(root) {
  const box = el("div", {class: "definition", role: "tooltip", id: "definition", hidden: true});
  const local = {term: null, described: null, timer: 0, pressed: null};
  const show = (term, described) => {
    hide();
    Object.assign(local, {term, described});
    described?.setAttribute("aria-describedby", box.id);
    box.textContent = definitionOf(term.dataset.term);
    box.hidden = false;
    const {left, bottom} = term.getBoundingClientRect();
    const frame = root.getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.offsetWidth - GAP;
    box.style.left = `${Math.max(GAP, Math.min(left, room)) - frame.left}px`;
    box.style.top = `${bottom + GAP - frame.top}px`;
  };
  const hide = () => {
    clearTimeout(local.timer);
    local.described?.removeAttribute("aria-describedby");
    Object.assign(local, {term: null, described: null});
    box.hidden = true;
  };
  const later = (act) => { clearTimeout(local.timer); local.timer = setTimeout(act, DELAY); };
  root.addEventListener("pointerover", (event) => {
    const term = event.target.closest("[data-term]");
    const moved = event.movementX || event.movementY; // otherwise the page moved under the pointer
    if (moved && !local.pressed?.contains(event.target)) local.pressed = null;
    if (local.pressed) return; // who has just pressed it wants what it does, not what it means
    if (event.target === box || (term && term === local.term)) clearTimeout(local.timer);
    else if (term) later(() => { if (term.isConnected) show(term, null); });
    else later(hide);
  });
  root.addEventListener("pointerleave", () => { local.pressed = null; later(hide); });
  root.addEventListener("pointerdown", (event) => {
    if (event.target === box) return;
    hide();
    local.pressed = event.target.closest("button, [data-term]:not(.term)");
  });
  root.addEventListener("focusin", ({target}) => {
    const term = target.closest("[data-term]");
    if (term && (target === term && target.matches(".term") || target.matches(":focus-visible"))) show(term, target);
  });
  root.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  return box;
}
