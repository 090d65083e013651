// What the theme leaves out: code that scrolls sideways is reachable by keyboard, and the switches
// of the navigation say whether they are on.
document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("pre, .table-wrapper, .math")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
  for (const toggle of document.querySelectorAll("input[role=switch]")) {
    const show = () => toggle.setAttribute("aria-checked", String(toggle.checked));
    toggle.addEventListener("change", show);
    show();
  }
});
