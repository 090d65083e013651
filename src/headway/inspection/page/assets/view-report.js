// The report of a training run: film, learning curves, sample outputs, configuration and data; or a page of
// several runs, with tables and curves.
//
// header.report is null, or
//   {"film":    {"input": str or null, "reference": str or null, "steps": [int], "losses": [float or null]},
//    "tables":  [{"title": str, "columns": [str], "rows": [[cell]]}],    a cell: text, number, {"text", "href"};
//                                                                        the curves follow the first one
//    "curves":  [{"title": str, "lines": [{"name": str, "steps": [int], "values": [float or null]}]}],
//    "samples": [{"step": int, "items": [{"input": str, "output": str, "reference": str or null}]}],
//    "changed": [[NAME, value of the recipe, value]],
//    "config":  {NAME: value},          settings with dotted names: {"model.size": "tiny", ...}
//    "data":    {NAME: value},          facts about the data: {"train sentences": 120000, ...}
//    "result":  {NAME: value}}          final metrics: {"BLEU": 31.2, ...}
// Each part is optional.
import {curve} from "./curves.js";
import {el, scroller, slider, table} from "./elements.js";
import {number, shown, spaced} from "./tokens.js";
import {film} from "./view-time.js";

const formatted = (value) => (typeof value === "number" ? (Number.isInteger(value) ? value.toLocaleString("en-GB") : String(value)) : typeof value === "string" ? value : value === null || value === undefined ? "unset" : JSON.stringify(value));
const SHORT = 28; // characters of a value that stays on one line; longer ones break anywhere: they may be paths
function cell(value) {
  const text = value?.href ? value.text : formatted(value);
  return el(value?.href ? "a" : "span", {href: value?.href, class: text.length > SHORT ? "long" : "short"}, text);
}

function rowsTable(title, columns, rows) {
  return rows.length ? scroller(title, table(title, columns, rows.map((row) => row.map(cell)), {class: "facts-table"})) : "";
}

function factsTable(title, values) {
  return rowsTable(title, ["Name", "Value"], Object.entries(values || {}).map(([name, value]) => [spaced(name), value]));
}

// What was measured once has no curve.
function measuredOnce(curves) {
  const points = curves.flatMap(({title, lines}) => lines.flatMap(({name, steps, values}) => (values.length ? [[lines.length > 1 ? `${title} (${name})` : title, steps.at(-1), number(values.at(-1))]] : [])));
  return rowsTable("Measured once", ["Name", "Step", "Value"], points);
}

function settings({changed, config}) {
  if (!config) return "";
  const count = Object.keys(config).length;
  return el("section", {},
    el("h3", {}, "Settings"),
    changed?.length ? rowsTable("Settings that differ from the recipe", ["Setting", "Recipe", "This run"], changed) : el("p", {class: "soft"}, "All settings are those of the recipe, or follow from the data and the machine."),
    el("details", {}, el("summary", {}, `All ${count} settings`), rowsTable("Settings", ["Name", "Value"], Object.entries(config))));
}

function samples(all) {
  if (!all?.length) return "";
  const holder = el("div", {"aria-live": "polite"});
  const show = (at) => holder.replaceChildren(...all[at].items.map((one) => el("div", {class: "sample"},
    el("p", {class: "soft", dir: "auto"}, shown(one.input)), el("p", {dir: "auto"}, shown(one.output)),
    one.reference ? el("p", {class: "soft", dir: "auto"}, `reference: ${one.reference}`) : "")));
  show(all.length - 1);
  const steps = all.length > 1 ? slider("Step", 0, all.length - 1, 1, all.length - 1, (at) => String(all[at].step), show) : el("p", {class: "soft"}, `Step ${all[0].step}`);
  return el("section", {}, el("h3", {}, "Sample outputs during training"), steps, holder);
}

export const report = {
  id: "report",
  title: "Training",
  lead: "Learning curves, sample outputs, settings and data of the training.",
  free: true,
  fits: (session) => Boolean(session.header.report),
  make(app) {
    const local = {shown: null, curves: [], film: null};
    const element = el("div", {class: "report"});
    const update = () => {
      const {report} = app.header();
      if (local.shown !== report) {
        local.shown = report;
        const curves = report.curves || [];
        const [results, ...tables] = (report.tables || []).map((one) => rowsTable(one.title, one.columns, one.rows));
        const moves = ({lines}) => lines.some((line) => line.values.length > 1);
        local.film = report.film ? film(app, report.film) : null;
        local.curves = curves.filter(moves).map((one) => curve(app, one.title, one.lines));
        element.replaceChildren(
          local.film ? local.film.element : "",
          results || "",
          factsTable("Result", report.result),
          measuredOnce(curves.filter((one) => !moves(one))),
          el("div", {class: "curves"}, local.curves.map((one) => one.element)),
          ...tables, samples(report.samples), settings(report), factsTable("Data", report.data));
      }
      local.film?.update();
      for (const one of local.curves) one.draw();
    };
    const data = () => ({
      columns: ["curve", "line", "step", "value"],
      rows: (local.shown.curves || []).flatMap((one) => one.lines.flatMap((line) => line.steps.map((step, at) => [one.title, line.name, step, line.values[at]]))),
    });
    return {element, update, data};
  },
};
