// What is being looked at: one small object that all views share. It stands in the address, so that
// a link opens the same view again.

const NUMBERS = ["frame", "other", "layer", "head", "query", "key", "asked"];
const CHOICES = {scale: ["sqrt", "linear", "log"], colours: ["viridis", "cividis"], way: ["from", "to"]};

// layer, head: null until they are chosen; head -1 is the mean over the heads.
export const START = {
  view: "", frame: 0, other: 1, map: "", measure: "attention", layer: null, head: null, query: -1, key: -1, asked: 0,
  scale: "sqrt", colours: "viridis", perRow: false, way: "from", words: false,
};

export function readHash(hash) {
  const found = {};
  for (const [name, value] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(name in START)) continue;
    if (NUMBERS.includes(name)) { if (/^-?\d{1,7}$/.test(value)) found[name] = Number(value); }
    else if (CHOICES[name]) { if (CHOICES[name].includes(value)) found[name] = value; }
    else if (typeof START[name] === "boolean") found[name] = value === "true";
    else found[name] = value;
  }
  return found;
}

let later = 0;

// Not at every step: a browser takes only so many addresses a second.
export function writeHash(state) {
  clearTimeout(later);
  later = setTimeout(() => put(state), 200);
}

function put(state) {
  const said = Object.entries(state).filter(([name, value]) => value !== START[name] || name === "view");
  const hash = `#${new URLSearchParams(said)}`;
  // In a notebook's frame there is no address to write to.
  try { if (location.hash !== hash) history.replaceState(null, "", hash); } catch { return; }
}

const within = (value, low, high) => Math.min(Math.max(value, low), high);

// With a map, a layer and a head. Where none of them was chosen, or the frame has no map of that name,
// those that the document opens with; else the first ones stand for what was not chosen.
function chosen(state, {maps, opening}) {
  const free = state.map === "" && state.layer === null && state.head === null;
  const lost = state.map !== "" && !maps.some((one) => one.name === state.map);
  if ((free || lost) && opening) return {...state, ...opening};
  return {...state, layer: state.layer ?? 0, head: state.head ?? 0};
}

// The nearest state that the document has: a frame, a map, a layer, a head and tokens that exist.
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
