// The report of a training: its curves, what it wrote as it learned, what it was told, what it read.
//
// header.report is null, or
//   {"curves":  [{"title": str, "lines": [{"name": str, "steps": [int], "values": [float or null]}]}],
//    "samples": [{"step": int, "items": [{"input": str, "output": str, "reference": str or null}]}],
//    "config":  {NAME: value},          settings, dotted names: {"model.size": "tiny", ...}
//    "data":    {NAME: value},          what was read: {"train sentences": 120000, ...}
//    "result":  {NAME: value}}          what came out: {"BLEU": 31.2, ...}
// Every part may be missing.
import {curve} from "./curves.js";
import {el, scroller, slider, table} from "./elements.js";
import {shown} from "./tokens.js";

const said = (value) => (typeof value === "number" ? (Number.isInteger(value) ? value.toLocaleString("en-GB") : String(value)) : typeof value === "string" ? value : JSON.stringify(value));

function facts(title, values) {
  const rows = Object.entries(values || {}).map(([name, value]) => [name, said(value)]);
  return rows.length ? scroller(title, table(title, ["Name", "Value"], rows, {class: "facts-table"})) : "";
}

function samples(all) {
  if (!all?.length) return "";
  const place = el("div", {"aria-live": "polite"});
  const show = (at) => place.replaceChildren(...all[at].items.map((one) => el("div", {class: "sample"},
    el("p", {class: "soft", dir: "auto"}, shown(one.input)), el("p", {dir: "auto"}, shown(one.output)),
    one.reference ? el("p", {class: "soft", dir: "auto"}, `should be: ${one.reference}`) : "")));
  show(all.length - 1);
  return el("section", {}, el("h3", {}, "What it wrote as it learned"), slider("Step", 0, all.length - 1, 1, all.length - 1, (at) => String(all[at].step), show), place);
}

export const report = {
  id: "report",
  title: "Training",
  lead: "How this model was trained: what fell and what rose, what it wrote on the way, with which settings, on which data.",
  free: true,
  fits: (session) => Boolean(session.header.report),
  make(app) {
    const local = {shown: null, curves: []};
    const element = el("div", {class: "report"});
    const update = () => {
      const {report: found} = app.header();
      if (local.shown !== found) {
        local.shown = found;
        local.curves = (found.curves || []).filter((one) => one.lines.some((line) => line.values.length)).map((one) => curve(app, one.title, one.lines));
        element.replaceChildren(facts("Result", found.result), el("div", {class: "curves"}, local.curves.map((one) => one.element)), samples(found.samples), el("div", {class: "curves"}, facts("Data", found.data), facts("Settings", found.config)));
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
