// The application: the document, the current view, and the one state that all views share. A change of
// the state is drawn once, before the next animation frame.
import {el} from "./elements.js";
import {forgetTheme} from "./colours.js";
import {host} from "./host.js";
import {fileSource, servedSource} from "./source.js";
import {Session} from "./session.js";
import {START, readHash, settled, writeHash} from "./state.js";
import {shell} from "./shell.js";
import {views} from "./views.js";

class App {
  constructor(source) {
    this.source = source;
    this.state = {...START, ...readHash(location.hash)};
    this.made = new Map(); // id of a view -> what its make() returned
    this.waiting = false;
    this.tell = host(this);
    this.failed = (error) => { this.shell?.fail(error.message || String(error)); };
  }

  header() {
    return this.session.header;
  }

  // Shows a document: the one in the page, or one that a server returned.
  open(header) {
    this.session = new Session(this.source, header, () => this.redraw(), this.failed);
    document.title = header.title ? `${header.title} · Headway` : "Headway";
    this.made.clear();
    this.shell ||= shell(this);
    this.shell.open();
    this.set({});
  }

  get views() {
    const {session, state} = this;
    const frame = session.frames[state.frame];
    return views.filter((view) => (view.wants ? frame?.maps.some((map) => view.wants(frame, map)) : view.fits(session, state)));
  }

  set(patch) {
    const before = this.state;
    let next = settled({...before, ...patch}, this.session);
    if (patch.query !== undefined && patch.way === undefined && patch.key === undefined) next.way = "from";
    this.state = next;
    const offered = this.views;
    if (!offered.some((view) => view.id === next.view)) this.state = {...next, view: offered[0]?.id || ""};
    this.agree(offered, patch);
    this.redraw();
  }

  // If the view cannot show the chosen map: a change of the view selects another map, and a change of
  // the map selects another view.
  agree(offered, patch) {
    const {state, session} = this;
    const frame = session.frames[state.frame];
    const view = offered.find((one) => one.id === state.view);
    const able = (one, map) => !one.wants || one.wants(frame, map);
    const map = session.map(state.frame, state);
    if (!view || !map || able(view, map)) return;
    const other = offered.find((one) => one.wants && able(one, map));
    if (!patch.view && (patch.map !== undefined || patch.measure !== undefined) && other) {
      this.state = {...state, view: other.id};
      return;
    }
    const maps = frame.maps.filter((one) => able(view, one));
    const {name, measure} = maps.find((one) => one.measure === state.measure) || maps[0];
    const attributed = frame.attributions.some((one) => one.measure === state.measure); // no map has it
    this.state = settled({...state, map: name, measure: attributed ? state.measure : measure}, session);
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      performance.mark("draw");
      try { this.draw(); } catch (error) { this.failed(error); throw error; }
      performance.measure("headway draw", "draw");
    });
  }

  // Returns what a view of weights needs; map and weights are null if the document has no map.
  now() {
    const {state, session} = this;
    const frame = session.frames[state.frame];
    const map = frame && session.map(state.frame, state);
    if (!map) return frame ? {frame, state, map: null, weights: null} : null;
    const weights = session.weights(map, state.layer, state.head);
    const scores = scoresOf(frame, state);
    const score = scores[state.asked] || scores[0] || null;
    return {frame, state, map, weights, score, queries: frame.sides[map.queries], keys: frame.sides[map.keys]};
  }

  view() {
    const view = views.find((one) => one.id === this.state.view);
    if (view && !this.made.has(view.id)) this.made.set(view.id, {id: view.id, view, ...view.make(this)});
    return view && this.made.get(view.id);
  }

  draw() {
    writeHash(this.state);
    const made = this.view();
    const now = this.now();
    this.shell.show(made, now);
    if (made && (now?.map || made.view.free)) made.update(now);
    this.tell();
  }
}

// Returns the attributions of the chosen measure, one per prediction: those of tokens in the view of the
// text, those of patches in the view of the image.
function scoresOf(frame, {view, measure}) {
  const shown = (side) => view === (frame.sides[side]?.grid ? "image" : "text");
  return frame.attributions.filter((one) => one.measure === measure && shown(one.side));
}

async function start() {
  const inFile = document.getElementById("header");
  const source = inFile ? fileSource(document) : servedSource("");
  const app = new App(source);
  const root = document.getElementById("page");
  app.root = root;
  app.framed = window !== window.parent; // inside another page, which has less room and explains the view
  document.documentElement.classList.toggle("framed", app.framed);
  const again = () => { forgetTheme(); if (app.session) app.redraw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  addEventListener("hashchange", () => { if (app.session) app.set({...START, ...readHash(location.hash)}); });
  addEventListener("resize", () => { if (app.session) app.redraw(); });
  try {
    app.open(await source.header());
  } catch (error) {
    root.replaceChildren(el("p", {class: "problem", role: "alert"}, `The page could not be loaded: ${error.message || error}`));
    throw error;
  }
}

start();
