// Functions that make HTML elements. Text is never parsed as markup, and styles are set through the DOM,
// because the content security policy of the page forbids style attributes.
import {marked, termed} from "./terms.js";

export function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else if (name in made && name !== "list" && name !== "role") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

export function button(text, act, properties) {
  return el("button", {type: "button", on: {click: act}, ...properties}, text);
}

// Fills a select element with choices, [[value, label]], only when they have changed, to keep the focus.
export function refiller(select) {
  let before = "";
  return (choices, value) => {
    const now = JSON.stringify(choices);
    if (now !== before) select.replaceChildren(...choices.map(([v, words]) => el("option", {value: v}, words)));
    before = now;
    select.value = String(value);
  };
}

// A labelled select element. choices: [[value, label]].
export function choice(label, act) {
  const select = el("select", {on: {change: () => act(select.value)}});
  const element = marked(el("label", {class: "choice"}, el("span", {}, label), select), label);
  const refill = refiller(select);
  const show = (choices, value) => {
    refill(choices, value);
    element.hidden = choices.length < 2;
  };
  return {element, show};
}

// A labelled slider with its value as text, words(value).
export function slider(label, least, most, step, value, words, act) {
  const output = el("output", {}, words(value));
  const input = el("input", {
    type: "range", min: least, max: most, step,
    on: {input: () => { output.textContent = words(Number(input.value)); act(Number(input.value)); }},
  });
  input.value = value;
  return el("label", {class: "choice"}, el("span", {}, label), input, output);
}

export function tick(label, value, act) {
  const input = el("input", {type: "checkbox", checked: value, on: {change: () => act(input.checked)}});
  return el("label", {class: "choice tick"}, input, el("span", {}, label));
}

// A table. heads: labels of the columns; rows: lists of cells (text, or an element).
export function table(caption, heads, rows, properties) {
  const cell = (value, at) => el(at === 0 ? "th" : "td", at === 0 ? {scope: "row", dir: "auto"} : {}, value);
  return el(
    "table", properties || {},
    el("caption", {}, caption),
    el("thead", {}, el("tr", {}, heads.map((words) => el("th", {scope: "col"}, termed(words))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(cell)))),
  );
}

// A region that scrolls sideways, also by keyboard.
export function scroller(label, ...children) {
  return el("div", {class: "scroller", tabIndex: 0, role: "region", "aria-label": label}, ...children);
}
