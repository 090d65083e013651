// Saves a view as PNG, as SVG, as a table (CSV) or as data (JSON). Files are made in the browser and
// downloaded; nothing is sent over the network.
import {button, el} from "./elements.js";
import {asPng, asSvg} from "./snapshot.js";

// A cell that begins like a formula is quoted, so that a spreadsheet does not run it.
const cell = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

export function csvOf({columns, rows}) {
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = el("a", {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// A row of buttons that save the view that current() returns: {id, element, data()}.
export function savingBar(app, current) {
  const name = (ending) => `${(app.header().title || "headway").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60)}-${current().id}.${ending}`;
  const table = () => {
    const {state} = app;
    const {columns, rows} = current().data();
    return {title: app.header().title, state, columns, rows};
  };
  const makers = {
    PNG: async () => save(await asPng(current().element), name("png")),
    SVG: async () => save(asSvg(current().element), name("svg")),
    CSV: async () => save(new Blob(["\ufeff", csvOf(current().data())], {type: "text/csv"}), name("csv")),
    JSON: async () => save(new Blob([JSON.stringify(table(), null, 1)], {type: "application/json"}), name("json")),
  };
  const act = (make) => () => make().catch(app.failed);
  return el(
    "div", {class: "saving", role: "group", "aria-label": "Save this view"},
    el("span", {class: "soft"}, "Save as"),
    Object.entries(makers).map(([kind, make]) => button(kind, act(make), {class: "quiet"})),
  );
}
