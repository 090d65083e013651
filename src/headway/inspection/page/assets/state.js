// The state that all views share: view, layer, head, query, key and so on. The address of the page holds
// it, so that a link opens the same view.

const NUMBERS = ["frame", "other", "layer", "head", "query", "key", "asked", "step", "at"];
const CHOICES = {scale: ["sqrt", "linear", "log"], colours: ["viridis", "cividis"], way: ["from", "to"], words: ["auto", "on", "off"]};

// layer, head: null until one is chosen; head -1 is the mean over the heads. query, key: positions of
// tokens, also while words are shown. step: the step of the picture of the model up to which it is drawn,
// -1 for all. at: step of the walkthrough. off: the head that is switched off, "map layer head". present:
// full screen without controls; bare: only the drawing, which plays by itself (for frames).
export const START = {
  view: "", frame: 0, other: 1, map: "", measure: "attention", layer: null, head: null, query: -1, key: -1, asked: 0,
  scale: "sqrt", colours: "viridis", perRow: false, way: "from", words: "auto",
  step: -1, at: 0, off: "", present: false, bare: false,
};

export function readHash(hash) {
  const state = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(name in START)) continue;
    if (NUMBERS.includes(name)) { if (/^-?\d{1,7}$/.test(value)) state[name] = Number(value); }
    else if (CHOICES[name]) { if (CHOICES[name].includes(value)) state[name] = value; }
    else if (typeof START[name] === "boolean") state[name] = value === "true" || value === "";
    else state[name] = value;
  }
  return state;
}

let later = 0;

// Delayed, because a browser limits the number of address changes per second.
export function writeHash(state) {
  clearTimeout(later);
  later = setTimeout(() => put(state), 200);
}

function put(state) {
  const entries = Object.entries(state).filter(([name, value]) => value !== START[name] || name === "view");
  const hash = `#${new URLSearchParams(entries)}`;
  // In the frame of a notebook the address cannot be changed.
  try { if (location.hash !== hash) history.replaceState(null, "", hash); } catch { return; }
}

const within = (value, low, high) => Math.min(Math.max(value, low), high);

// Returns the state with a map, a layer and a head. If none was chosen, or the frame has no map of that
// name, these are the defaults of the document; otherwise a missing layer or head is the first one.
function chosen(state, {maps, opening}) {
  const free = state.map === "" && state.layer === null && state.head === null;
  const lost = state.map !== "" && !maps.some((one) => one.name === state.map);
  if ((free || lost) && opening) return {...state, ...opening, query: state.query < 0 ? opening.query ?? -1 : state.query};
  return {...state, layer: state.layer ?? 0, head: state.head ?? 0};
}

// Returns the nearest valid state: frame, map, layer, head and tokens that exist in the document.
export function settled(state, session) {
  const frames = session.frames;
  const frame = within(state.frame, 0, Math.max(0, frames.length - 1));
  const other = within(state.other, 0, Math.max(0, frames.length - 1));
  if (!frames[frame]?.maps.length) return {...state, frame, other};
  state = chosen(state, frames[frame]);
  const map = session.map(frame, state);
  const [rows, columns] = map.shape;
  const {grid} = frames[frame].sides[map.queries];
  const first = grid ? 0 : map.causal ? rows - 1 : Math.min(1, rows - 1);
  return {
    ...state, frame, other, map: map.name,
    layer: within(state.layer, 0, map.layers.length - 1),
    head: within(state.head, -1, map.heads - 1),
    query: state.query < 0 ? first : within(state.query, 0, rows - 1),
    key: within(state.key, -1, columns - 1),
  };
}
