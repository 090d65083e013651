// Functions that make HTML elements. Text is never parsed as markup, and styles are set through the DOM,
// because the content security policy of the page forbids style attributes.

export function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function button(text, act, properties) {
  return el("button", {type: "button", on: {click: act}, ...properties}, text);
}

// A labelled control. help: a sentence below it.
export function labelled(label, control, help) {
  return el("label", {for: control.id}, el("span", {class: "name"}, label), control, help ? el("span", {class: "soft"}, help) : null);
}

export function textArea(id, rows, placeholder) {
  return el("textarea", {id, rows, placeholder, dir: "auto"});
}

export function numberField(id, value, {least = 0, most, step = 1} = {}) {
  return el("input", {id, type: "number", value, step, min: least, max: most});
}

export function selectField(id, values, chosen) {
  return el("select", {id}, ...values.map(([value, words]) => el("option", {value, selected: value === chosen}, words)));
}

export function percent(share) {
  const number = 100 * share;
  return `${number > 0 && number < 0.1 ? "< 0.1" : number.toFixed(number < 10 ? 1 : 0)} %`;
}

// A button that copies a text. Without permission for the clipboard, the text is selected instead.
export function copyButton(label, textOf, shown) {
  const made = button(label, async () => {
    try {
      await navigator.clipboard.writeText(textOf());
      made.textContent = "Copied";
      setTimeout(() => { made.textContent = label; }, 1500);
    } catch {
      getSelection().selectAllChildren(shown());
    }
  }, {class: "quiet"});
  return made;
}
