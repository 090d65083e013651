// The frame around every view: title, list of views, controls, the caution about attention weights, the
// view itself and the panel "In words".
import {button, choice, el, refiller} from "./elements.js";
import {liveBar} from "./live.js";
import {reading} from "./reading.js";
import {savingBar} from "./saving.js";
import {marked} from "./terms.js";
import {tooltip} from "./tooltip.js";

const OF_WEIGHTS = new Set(["text", "alignment", "image", "grid", "matrix", "lines", "head", "time", "compare"]);
const PAPER = "https://arxiv.org/abs/1902.10186";
const ABOUT = {
  attention: "the fraction of each value in the weighted sum",
  "value-weighted": "attention times the length of the projected value",
  rollout: "attention multiplied through all layers, with residual connections",
  "gradient x input": "the first-order effect of each token on a logit",
};

// A labelled select element for a number, with buttons for the previous and the next one.
function stepper(label, act) {
  const select = el("select", {"aria-label": label, on: {change: () => act(Number(select.value))}});
  const less = button("‹", () => act(Number(select.value) - 1), {"aria-label": `Previous ${label.toLowerCase()}`});
  const more = button("›", () => act(Number(select.value) + 1), {"aria-label": `Next ${label.toLowerCase()}`});
  const element = marked(el("div", {class: "choice stepper"}, el("span", {}, label), less, select, more), label);
  const refill = refiller(select);
  const show = (choices, value) => {
    refill(choices, value);
    less.disabled = value <= choices[0][0];
    more.disabled = value >= choices.at(-1)[0];
    element.hidden = choices.length < 2;
  };
  return {element, show};
}

// Returns the view that shows attributions: image or text.
function viewOf(frame, measure) {
  const {side} = frame.attributions.find((one) => one.measure === measure);
  return frame.sides[side]?.grid ? "image" : "text";
}

export function shell(app) {
  const title = el("h1", {dir: "auto"});
  const summary = el("p", {class: "facts"});
  const answer = el("p", {class: "answer", dir: "auto"});
  const notes = el("ul", {class: "notes"});
  const nav = el("nav", {"aria-label": "Views"});
  const frame = choice("Model and input", (value) => app.set({frame: Number(value)}));
  const map = choice("Attention", (value) => app.set({map: value}));
  const layer = stepper("Layer", (value) => app.set({layer: value}));
  const head = stepper("Head", (value) => app.set({head: value}));
  const measures = el("div", {class: "measures", role: "group", "aria-label": "Measure"});
  const why = el("span", {class: "soft about"});
  const paper = el("a", {href: PAPER, rel: "noreferrer", target: "_blank"}, "attention is not an explanation");
  const note = el("p", {class: "caution"}, "Caution: ", paper, ". A weight is the fraction of a value in a sum; it does not say why the model made a prediction. ", el("span", {class: "offers"}));
  const problem = el("p", {class: "problem", role: "alert", hidden: true});
  const heading = el("h2", {id: "view-title"});
  const lead = el("p", {class: "lead"});
  const tools = el("div", {class: "tools"});
  const body = el("div", {class: "body"});
  const words = reading(app);
  const saving = savingBar(app, () => app.view());
  const stage = el("section", {class: "stage", "aria-labelledby": "view-title"}, heading, lead, tools, body, saving);
  const chosen = el("div", {class: "controls", role: "group", "aria-label": "Model, layer and head"}, frame.element, map.element, layer.element, head.element);
  const live = liveBar(app);
  const main = el("main", {}, stage, words.element);
  const above = el("div", {class: "beside"}, measures, why, app.framed ? null : note);
  app.root.replaceChildren(el("header", {class: "top"}, title, summary, answer, notes, live.element), nav, chosen, above, problem, main, ...(app.framed ? [note] : []), tooltip(app.root));
  let shown = null;

  const open = () => {
    const {header} = app.session;
    title.textContent = header.title || "Inside a model";
    notes.replaceChildren(...header.notes.map((one) => el("li", {}, one)));
    problem.hidden = true;
    live.open();
    shown = null;
  };

  const links = (state) => {
    const offered = app.views;
    if (nav.childElementCount !== offered.length || [...nav.children].some((one, at) => one.dataset.view !== offered[at].id)) {
      nav.replaceChildren(...offered.map((view) => {
        const one = marked(button(view.title, () => app.set({view: view.id})), view.title);
        one.dataset.view = view.id;
        return one;
      }));
    }
    for (const one of nav.children) {
      if (one.dataset.view === state.view) {
        if (!one.hasAttribute("aria-current")) nav.scrollLeft = one.offsetLeft - nav.offsetLeft - (nav.clientWidth - one.offsetWidth) / 2;
        one.setAttribute("aria-current", "page");
      }
      else one.removeAttribute("aria-current");
    }
  };

  const measured = (now) => {
    const of = now.frame.maps.filter((one) => one.name === now.map.name).map((one) => one.measure);
    const scores = now.frame.attributions.map((one) => one.measure);
    const all = [...new Set([...of, ...scores])];
    const current = all.includes(now.state.measure) ? now.state.measure : now.map.measure;
    const content = JSON.stringify([all, current]);
    if (measures.dataset.content === content) return;
    measures.dataset.content = content;
    measures.replaceChildren(...all.map((one) => marked(button(one, () => app.set(of.includes(one) ? {measure: one} : {measure: one, view: viewOf(now.frame, one)}), {"aria-pressed": String(one === current)}), one)));
    why.textContent = ABOUT[current] || "";
    const alternatives = all.filter((one) => one !== "attention");
    note.lastChild.textContent = alternatives.length ? `Compare it with ${alternatives.join(", ")}.` : "";
  };

  const show = (made, now) => {
    const {state, session} = app;
    links(state);
    const ofWeights = Boolean(now?.map) && OF_WEIGHTS.has(state.view);
    frame.show(session.frames.map((one, at) => [at, one.label]), state.frame);
    map.element.hidden = layer.element.hidden = head.element.hidden = true;
    if (now?.map) {
      const names = [...new Set(now.frame.maps.map((one) => one.name))];
      map.show(names.map((one) => [one, one]), now.map.name);
      layer.show(now.map.layers.map((name, at) => [at, `${at + 1}${/^\d+$/.test(name) ? "" : ` · ${name}`}`]), state.layer);
      head.show([[-1, "mean over heads"], ...Array.from({length: now.map.heads}, (_, at) => [at, String(at + 1)])], state.head);
      if (now.map.heads < 2) head.element.hidden = true;
      measured(now);
    }
    if (!ofWeights) map.element.hidden = layer.element.hidden = head.element.hidden = true;
    measures.hidden = why.hidden = !ofWeights;
    chosen.hidden = [...chosen.children].every((one) => one.hidden);
    const model = now ? Object.entries(now.frame.model).filter(([name]) => name !== "input").map(([name, value]) => `${name} ${typeof value === "number" ? value.toLocaleString("en-GB") : value}`) : [];
    summary.textContent = model.join("  ·  ");
    answer.textContent = now?.frame.answer ? `Output: ${now.frame.answer}` : "";
    words.element.hidden = !ofWeights;
    main.classList.toggle("alone", !ofWeights);
    if (made && shown !== made) {
      shown = made;
      heading.textContent = made.view.title;
      body.replaceChildren(made.element);
      tools.replaceChildren(...(made.controls || []));
    }
    if (made) {
      const other = made.view.leadOther && now?.map && !now.map.normalised;
      lead.textContent = other ? made.view.leadOther : made.view.lead;
    }
    if (ofWeights) words.update(now);
    saving.hidden = !made || (ofWeights && !now.weights);
  };

  const fail = (text) => { problem.hidden = false; problem.textContent = text; };
  return {open, show, fail};
}

