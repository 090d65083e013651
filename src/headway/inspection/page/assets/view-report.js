// The report of a training run: learning curves, sample outputs, configuration and data.
//
// header.report is null, or
//   {"curves":  [{"title": str, "lines": [{"name": str, "steps": [int], "values": [float or null]}]}],
//    "samples": [{"step": int, "items": [{"input": str, "output": str, "reference": str or null}]}],
//    "config":  {NAME: value},          settings with dotted names: {"model.size": "tiny", ...}
//    "data":    {NAME: value},          facts about the data: {"train sentences": 120000, ...}
//    "result":  {NAME: value}}          final metrics: {"BLEU": 31.2, ...}
// Each part is optional.
import {curve} from "./curves.js";
import {el, scroller, slider, table} from "./elements.js";
import {shown} from "./tokens.js";

const formatted = (value) => (typeof value === "number" ? (Number.isInteger(value) ? value.toLocaleString("en-GB") : String(value)) : typeof value === "string" ? value : JSON.stringify(value));

function factsTable(title, values) {
  const rows = Object.entries(values || {}).map(([name, value]) => [name, formatted(value)]);
  return rows.length ? scroller(title, table(title, ["Name", "Value"], rows, {class: "facts-table"})) : "";
}

function samples(all) {
  if (!all?.length) return "";
  const holder = el("div", {"aria-live": "polite"});
  const show = (at) => holder.replaceChildren(...all[at].items.map((one) => el("div", {class: "sample"},
    el("p", {class: "soft", dir: "auto"}, shown(one.input)), el("p", {dir: "auto"}, shown(one.output)),
    one.reference ? el("p", {class: "soft", dir: "auto"}, `reference: ${one.reference}`) : "")));
  show(all.length - 1);
  return el("section", {}, el("h3", {}, "Sample outputs during training"), slider("Step", 0, all.length - 1, 1, all.length - 1, (at) => String(all[at].step), show), holder);
}

export const report = {
  id: "report",
  title: "Training",
  lead: "How this model was trained: learning curves, sample outputs, settings and data.",
  free: true,
  fits: (session) => Boolean(session.header.report),
  make(app) {
    const local = {shown: null, curves: []};
    const element = el("div", {class: "report"});
    const update = () => {
      const {report} = app.header();
      if (local.shown !== report) {
        local.shown = report;
        local.curves = (report.curves || []).filter((one) => one.lines.some((line) => line.values.length)).map((one) => curve(app, one.title, one.lines));
        element.replaceChildren(factsTable("Result", report.result), el("div", {class: "curves"}, local.curves.map((one) => one.element)), samples(report.samples), el("div", {class: "curves"}, factsTable("Data", report.data), factsTable("Settings", report.config)));
      }
      for (const one of local.curves) one.draw();
    };
    const data = () => ({
      columns: ["curve", "line", "step", "value"],
      rows: (local.shown.curves || []).flatMap((one) => one.lines.flatMap((line) => line.steps.map((step, at) => [one.title, line.name, step, line.values[at]]))),
    });
    return {element, update, data};
  },
};
