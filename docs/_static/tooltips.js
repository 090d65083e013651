// The definition of a term of the glossary, shown while the pointer is over the term or the keyboard focus
// is on it. As WCAG 1.4.13 requires, the pointer may move onto the definition, and Escape closes it.
document.addEventListener("DOMContentLoaded", () => {
  const GAP = 6; // pixels between term and definition
  const DELAY = 250; // milliseconds; a term that the pointer only crosses shows nothing
  const box = document.createElement("div");
  Object.assign(box, {className: "definition", id: "definition", role: "tooltip", hidden: true});
  document.body.append(box);
  let shown = null, timer = 0;
  const hide = () => {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = null;
    box.hidden = true;
  };
  const show = (term) => {
    hide();
    shown = term;
    term.setAttribute("aria-describedby", box.id);
    box.textContent = term.dataset.definition;
    box.hidden = false;
    const {left, top, bottom} = term.getBoundingClientRect();
    const room = document.documentElement.clientWidth - box.offsetWidth - GAP;
    const fits = bottom + GAP + box.offsetHeight < innerHeight;
    box.style.left = `${Math.max(GAP, Math.min(left, room))}px`;
    box.style.top = `${fits ? bottom + GAP : top - GAP - box.offsetHeight}px`;
  };
  const later = (act) => { clearTimeout(timer); timer = setTimeout(act, DELAY); };
  document.addEventListener("pointerover", ({target}) => {
    const term = target.closest?.("a.term");
    if (target === box || (term && term === shown)) clearTimeout(timer);
    else if (term) later(() => show(term));
    else if (shown || timer) later(hide);
  });
  document.addEventListener("focusin", ({target}) => { if (target.matches("a.term")) show(target); });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, {passive: true});
  document.addEventListener("keydown", ({key}) => { if (key === "Escape") hide(); });
});
