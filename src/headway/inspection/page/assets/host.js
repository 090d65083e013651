// The notebook that shows this page in a frame: it is told what is selected in the page, and selects in it.
// The page says nothing before it was spoken to, and listens to the window around it only.
import {readHash} from "./state.js";

const NAMES = ["view", "frame", "map", "measure", "layer", "head", "query", "key"];

// Returns a function to call with the app whenever its state has been drawn.
export function host(app) {
  let last = null; // the last selection that the notebook was told, as JSON; null before it asks
  const tell = () => {
    if (last === null || !app.session) return;
    const selection = selected(app);
    const text = JSON.stringify(selection);
    if (text === last) return;
    last = text;
    parent.postMessage({headway: "selection", selection}, "*");
  };
  if (parent !== window) {
    addEventListener("message", ({source, data}) => {
      if (source !== parent || data?.headway !== "select" || !app.session) return;
      last ??= "";
      const wanted = Object.entries(data.selection || {}).filter(([name]) => NAMES.includes(name));
      app.set(readHash(new URLSearchParams(wanted).toString()));
    });
  }
  return tell;
}

function selected({state, session}) {
  const frame = session.frames[state.frame];
  const map = session.map(state.frame, state);
  const selection = Object.fromEntries(NAMES.map((name) => [name, state[name]]));
  if (!map) return {...selection, layer: null, head: null, query: null, key: null, query_token: null, key_token: null};
  const token = (side, position) => frame.sides[side].tokens[position] ?? null;
  return {
    ...selection, measure: map.measure,
    query_token: token(map.queries, state.query), key_token: token(map.keys, state.key),
  };
}
