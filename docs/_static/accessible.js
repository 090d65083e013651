// What the theme leaves out: code that scrolls sideways is reachable by keyboard, and the switches
// and headings of the navigation have their state and level.
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("pre, .table-wrapper, .math")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
  for (const caption of document.querySelectorAll("[role=heading]:not([aria-level])")) {
    caption.setAttribute("aria-level", "2");
  }
  for (const toggle of document.querySelectorAll("input[role=switch]")) {
    const show = () => toggle.setAttribute("aria-checked", String(toggle.checked));
    toggle.addEventListener("change", show);
    show();
  }
});
