// The frame around every view: title and output, with a mark that opens the caution about attention
// weights; list of views, the grid of heads, the view itself, and the panel "In words".
import {button, choice, el, tick} from "./elements.js";
import {liveBar} from "./live.js";
import {minigrid} from "./minigrid.js";
import {plays} from "./player.js";
import {reading} from "./reading.js";
import {savingBar} from "./saving.js";
import {marked} from "./terms.js";
import {visible} from "./tokens.js";
import {tooltip} from "./tooltip.js";
import {canJoin} from "./words.js";

const OF_WEIGHTS = new Set(["text", "alignment", "image", "grid", "matrix", "lines", "head", "time", "compare"]);
const COUNTED = new Set(["layers", "heads", "parameters"]);
const PAPER = "https://arxiv.org/abs/1902.10186";
const ABOUT = {
  attention: "the fraction of each value in the weighted sum",
  "value-weighted": "attention times the length of the projected value",
  rollout: "attention multiplied through all layers, with residual connections",
  "gradient x input": "the first-order effect of each token on a logit",
};

// Returns a property of a model in words: "4 layers", "width 128".
function fact(name, value) {
  if (name === "kind") return value;
  if (typeof value !== "number") return `${name} ${value}`;
  const count = value.toLocaleString("en-GB");
  return COUNTED.has(name) ? `${count} ${value === 1 ? name.slice(0, -1) : name}` : `${name} ${count}`;
}

// Returns the view that shows attributions: image or text.
function viewOf(frame, measure) {
  const {side} = frame.attributions.find((one) => one.measure === measure);
  return frame.sides[side]?.grid ? "image" : "text";
}

export function shell(app) {
  const title = el("h1", {dir: "auto"});
  const summary = el("p", {class: "facts"});
  const output = el("span", {class: "output", dir: "auto"});
  const answer = el("p", {class: "answer"}, el("span", {class: "soft"}, "Output"), " ", output);
  const notes = el("ul", {class: "notes"});
  const nav = el("nav", {"aria-label": "Views"});
  const frame = choice("Model and input", (value) => app.set({frame: Number(value)}));
  const map = choice("Attention", (value) => app.set({map: value}));
  const heads = minigrid(app);
  const measures = el("div", {class: "measures", role: "group", "aria-label": "Measure"});
  const why = el("span", {class: "soft about"});
  const paper = el("a", {href: PAPER, rel: "noreferrer", target: "_blank"}, "attention is not an explanation");
  const offers = el("span", {});
  const note = el("details", {class: "caution"}, el("summary", {"aria-label": "Caution about attention weights", title: "Caution"}, "?"),
    el("p", {}, "Caution: ", paper, ". A weight is the fraction of a value in a sum; it does not say why the model made a prediction. ", offers));
  const problem = el("p", {class: "problem", role: "alert", hidden: true});
  const heading = el("h2", {id: "view-title", class: "unseen"});
  const lead = el("p", {class: "lead"});
  const tools = el("div", {class: "buttons"});
  const words = tick("Join tokens into words", false, (value) => app.set({words: value ? "on" : "off"}));
  const play = button("Play", () => app.player.toggle(), {class: "play"});
  const present = button("Present", () => app.present(true), {title: "Full screen, larger type, no controls (key f; Escape ends it)"});
  const bar = el("div", {class: "tools"}, play, tools, words);
  const masthead = el("div", {class: "masthead"}, title, app.framed ? null : present, note);
  const body = el("div", {class: "body"});
  const inWords = reading(app);
  const saving = savingBar(app, () => app.view());
  const stage = el("section", {class: "stage", "aria-labelledby": "view-title"}, heading, lead, bar, body, saving);
  const rail = el("div", {class: "controls", role: "group", "aria-label": "Model, layer and head"}, frame.element, map.element, heads.element, measures, why);
  const live = liveBar(app);
  const main = el("main", {}, rail, stage, inWords.element);
  app.root.replaceChildren(el("header", {class: "top"}, masthead, summary, answer, notes, live.element), nav, problem, main, tooltip(app.root));
  let shown = null;

  const open = () => {
    const {header} = app.session;
    title.textContent = visible(header.title || "Inside a model");
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
    const current = [...nav.children].find((one) => one.dataset.view === state.view);
    if (!current || current.hasAttribute("aria-current")) return;
    nav.querySelector("[aria-current]")?.removeAttribute("aria-current");
    current.setAttribute("aria-current", "page"); // it is bold, and wider: the row is scrolled after that
    nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
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
    offers.textContent = alternatives.length ? `Compare it with ${alternatives.join(", ")}.` : "";
  };

  // The parts beside the drawing that only views of weights have.
  const around = (made, now) => {
    const {view} = app.state;
    const ofWeights = Boolean(now?.map) && OF_WEIGHTS.has(view);
    map.element.hidden = true;
    if (ofWeights) {
      const names = [...new Set(now.frame.maps.map((one) => one.name))];
      map.show(names.map((one) => [one, one]), now.map.name);
      heads.update(now);
      measured(now);
      inWords.update(now);
      const [queries, keys] = [now.frame.sides[now.map.queries], now.frame.sides[now.map.keys]];
      words.hidden = !made?.view.joins || !canJoin(queries, keys);
      words.querySelector("input").checked = app.joins(queries, keys);
    }
    if (!ofWeights) heads.element.hidden = words.hidden = true;
    measures.hidden = why.hidden = !ofWeights;
    note.hidden = !ofWeights && view !== "model";
    inWords.element.hidden = !ofWeights;
    rail.hidden = [...rail.children].every((one) => one.hidden);
    main.classList.toggle("alone", !ofWeights);
    saving.hidden = !made || (ofWeights && !now.weights);
  };

  const show = (made, now) => {
    const {state, session} = app;
    links(state);
    frame.show(session.frames.map((one, at) => [at, one.label]), state.frame);
    if (state.view === "report") frame.element.hidden = true; // its film chooses the moment
    const model = now ? Object.entries(now.frame.model).filter(([name]) => name !== "input").map(([name, value]) => fact(name, value)) : [];
    summary.textContent = model.join("  ·  ");
    output.textContent = visible(now?.frame.answer || "");
    answer.hidden = !now?.frame.answer;
    around(made, now);
    play.hidden = !plays(app);
    play.textContent = app.player.playing ? "Pause" : "Play";
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
  };

  const fail = (text) => { problem.hidden = false; problem.textContent = text; };
  return {open, show, fail};
}
