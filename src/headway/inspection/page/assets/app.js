// The application: the document, the current view, and the one state that all views share. A change of
// the state is drawn once, before the next animation frame.
import {el} from "./elements.js";
import {forgetTheme} from "./colours.js";
import {host} from "./host.js";
import {keys} from "./keys.js";
import {player} from "./player.js";
import {fileSource, servedSource} from "./source.js";
import {Session} from "./session.js";
import {START, readHash, settled, writeHash} from "./state.js";
import {shell} from "./shell.js";
import {views} from "./views.js";
import {canJoin, wordAt, wordsOf} from "./words.js";

const BELOW = 76; // pixels below a drawing: the buttons that save it
const LEAST = 320; // pixels: the least height of a drawing
const LARGER = 1.45; // type of the presenter mode

class App {
  constructor(source) {
    this.source = source;
    this.state = {...START, ...readHash(location.hash)};
    this.made = new Map(); // id of a view -> what its make() returned
    this.waiting = false;
    this.preview = null; // a head that the pointer is on: it is shown instead of the chosen one
    this.tell = host(this);
    this.player = player(this);
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
    this.preview = null;
    this.shell ||= shell(this);
    this.shell.open();
    this.set({});
  }

  get views() {
    const {session, state} = this;
    const frame = session.frames[state.frame];
    const ofTokens = frame?.maps.filter((map) => map.measure !== "similarity"); // of whole texts: the film shows it
    return views.filter((view) => (view.wants ? ofTokens?.some((map) => view.wants(frame, map)) : view.fits(session, state)));
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

  // Shows a head as long as the pointer is on it, in every view, without choosing it.
  peek(head) {
    this.preview = head;
    this.redraw();
  }

  // Chooses a query or a key of what is shown: words, if tokens are joined, otherwise tokens.
  pick(patch) {
    const shown = this.shownSides();
    const token = (side, at) => (at < 0 ? at : shown[side].units ? shown[side].units[Math.min(at, shown[side].units.length - 1)][0] : at);
    this.set({
      ...patch,
      ...(patch.query === undefined ? {} : {query: token("queries", Math.max(0, patch.query))}),
      ...(patch.key === undefined ? {} : {key: token("keys", patch.key)}),
    });
  }

  // Returns the chosen query and key as positions in what is shown.
  cursor() {
    const {queries, keys} = this.shownSides();
    const at = (side, position) => (side.units ? wordAt(side.units, position) : position);
    return {query: at(queries, this.state.query), key: at(keys, this.state.key)};
  }

  // Returns the sides of the chosen map as they are shown, with `units` if tokens are joined into words.
  shownSides() {
    const {state, session} = this;
    const frame = session.frames[state.frame];
    const map = session.map(state.frame, state);
    const [queries, keys] = [frame.sides[map.queries], frame.sides[map.keys]];
    if (!this.joins(queries, keys)) return {map, queries: {side: queries}, keys: {side: keys}};
    return {map, queries: wordsOf(queries), keys: wordsOf(keys)};
  }

  joins(queries, keys) {
    const {joins} = views.find((one) => one.id === this.state.view) || {};
    const {words} = this.state;
    return Boolean(joins) && (words === "on" || (words === "auto" && joins === "words")) && canJoin(queries, keys);
  }

  // Returns the height in pixels that a drawing may fill.
  room() {
    const body = this.root.querySelector(".body");
    const above = body ? body.getBoundingClientRect().top + scrollY : 0;
    return Math.max(this.state.bare ? 100 : LEAST, innerHeight - above - (this.state.bare || this.state.present ? 12 : BELOW)) / this.zoom;
  }

  get zoom() {
    return this.state.present ? LARGER : 1;
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
    const scores = scoresOf(frame, state);
    const score = scores[state.asked] || scores[0] || null;
    const {queries, keys} = this.shownSides();
    const {layer, head} = {...state, ...this.preview};
    const shown = {...state, layer, head, ...this.cursor()};
    const shape = queries.units ? [queries.units.length, keys.units.length] : map.shape;
    const weights = this.weightsOf(map, layer, head);
    return {frame, state: shown, score, queries: queries.side, keys: keys.side, weights, map: queries.units ? {...map, shape} : map};
  }

  // Returns the weights of a head between tokens, or between words if tokens are joined.
  weightsOf(map, layer, head) {
    const {queries, keys} = this.shownSides();
    return queries.units ? this.session.joined(map, layer, head, queries.units, keys.units) : this.session.weights(map, layer, head);
  }

  view() {
    const view = views.find((one) => one.id === this.state.view);
    if (view && !this.made.has(view.id)) this.made.set(view.id, {id: view.id, view, ...view.make(this)});
    return view && this.made.get(view.id);
  }

  draw() {
    writeHash(this.state);
    const {classList} = document.documentElement;
    classList.toggle("bare", this.state.bare);
    classList.toggle("presenter", this.state.present);
    const made = this.view();
    const now = this.now();
    this.shell.show(made, now);
    if (made && (now?.map || made.view.free)) made.update(now);
    this.player.follow();
    this.tell();
  }

  // The presenter mode: the whole screen, larger type, no controls.
  present(on) {
    this.set({present: on});
    const {fullscreenElement, documentElement} = document;
    if (on && documentElement.requestFullscreen) documentElement.requestFullscreen().catch(() => {}); // a frame may not
    else if (!on && fullscreenElement) document.exitFullscreen();
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
  const help = keys(app);
  try {
    app.open(await source.header());
    root.append(help);
  } catch (error) {
    root.replaceChildren(el("p", {class: "problem", role: "alert"}, `The page could not be loaded: ${error.message || error}`));
    throw error;
  }
}

start();
