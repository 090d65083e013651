// Plays a view: token after token, and after the last token head after head. A view may have steps of its
// own before the next token: it then has advance(), which returns whether there was one.

const PACE = 1100; // milliseconds per step

export function player(app) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const local = {timer: 0, begun: false};
  const stop = () => { clearTimeout(local.timer); local.timer = 0; };
  const later = () => { local.timer = setTimeout(tick, app.view()?.pace?.() ?? PACE); };
  const tick = () => {
    if (!app.view()?.advance?.()) next(app);
    later();
  };
  const toggle = () => {
    if (local.timer) stop(); else { tick(); }
    app.redraw();
  };
  // A page in the bare mode begins to play by itself, unless the reader prefers no motion.
  const follow = () => {
    if (app.state.bare && !local.begun && !calm.matches) { local.begun = true; if (!local.timer) later(); }
    else if (!app.state.bare) local.begun = false;
    if (!plays(app) && local.timer) stop();
  };
  calm.addEventListener("change", () => { if (calm.matches) stop(); });
  return {toggle, follow, get playing() { return local.timer !== 0; }};
}

// Whether the view has tokens and heads to play.
export function plays(app) {
  return Boolean(app.view()?.view.plays && app.session.map(app.state.frame, app.state));
}

// Chooses the next query, or after the last one the first query of the next head.
function next(app) {
  const {map, queries} = app.shownSides();
  const {query} = app.cursor();
  const last = (queries.units || queries.side.tokens).length - 1;
  const first = Math.max(0, queries.side.generated ?? 0);
  if (query < last && !queries.side.grid) { app.pick({query: query + 1, way: "from"}); return; }
  const {layer, head} = app.state;
  const back = queries.side.grid ? {} : {query: first === last ? 0 : first};
  if (head + 1 < map.heads) app.pick({...back, head: head + 1, way: "from"});
  else app.pick({...back, head: 0, layer: (layer + 1) % map.layers.length, way: "from"});
}
