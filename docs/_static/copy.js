// A button on every block of commands and code that copies it.
document.addEventListener("DOMContentLoaded", () => {
  const said = document.createElement("div");
  Object.assign(said, {className: "visually-hidden", role: "status"});
  document.body.append(said);
  for (const block of document.querySelectorAll(".highlight-bash .highlight, .highlight-python .highlight")) {
    const code = block.querySelector("pre");
    const button = document.createElement("button");
    Object.assign(button, {className: "copy", type: "button", textContent: "copy"});
    button.setAttribute("aria-label", "Copy this code");
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(code.textContent.trimEnd()); }
      catch { // no permission: the text is selected, for the keys of the system
        getSelection().selectAllChildren(code);
        said.textContent = "The code is selected";
        return;
      }
      button.textContent = "copied";
      said.textContent = "Copied";
      setTimeout(() => { button.textContent = "copy"; said.textContent = ""; }, 1500);
    });
    block.append(button);
  }
});
