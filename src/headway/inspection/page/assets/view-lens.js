// The logit lens (nostalgebraist 2020): what each layer's vectors would already say, if the model
// stopped there. Read a column downwards: a guess forms.
import {bars} from "./bars.js";
import {button, el, scroller} from "./elements.js";
import {colourOf, css, inkOn} from "./colours.js";
import {nameOf, percent, shorten, shown} from "./tokens.js";

const AT_ONCE = 40; // places in the table

export const lens = {
  id: "lens",
  title: "Layer by layer",
  lead: "What the model would say if it stopped after each layer (the logit lens). Read downwards: from layer to layer a guess forms. Stronger colour means surer; choose a cell to see the alternatives.",
  free: true,
  fits: (session, state) => Boolean(session.frames[state.frame]?.lens),
  make(app) {
    const local = {now: null, from: 0, chosen: null};
    const place = el("div", {});
    const detail = el("div", {class: "detail", "aria-live": "polite"});
    const earlier = button("‹ earlier", () => { local.from -= AT_ONCE; draw(); });
    const later = button("later ›", () => { local.from += AT_ONCE; draw(); });
    const open = (layer, at, guess) => {
      local.chosen = {layer, at};
      const {lens: found} = local.now.frame;
      detail.replaceChildren(el("h3", {}, `After ${layerName(found.layers[layer])}, at place ${guess.place + 1}`), bars(guess.tokens.map((token, n) => ({token, value: guess.probabilities[n]}))));
      for (const one of place.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one.dataset.cell === `${layer} ${at}`));
    };
    const draw = () => {
      const {frame, state} = local.now;
      const found = frame.lens;
      const side = frame.sides[found.side];
      const count = found.guesses[0]?.length || 0;
      local.from = Math.max(0, Math.min(local.from, Math.max(0, count - AT_ONCE)));
      const range = Array.from({length: Math.min(AT_ONCE, count - local.from)}, (_, at) => local.from + at);
      earlier.hidden = local.from === 0;
      later.hidden = local.from + AT_ONCE >= count;
      const heads = range.map((at) => el("th", {scope: "col", dir: "auto"}, shorten(nameOf(side, found.guesses[0][at].place), 14)));
      const rows = found.layers.map((name, layer) => el("tr", {}, el("th", {scope: "row"}, layerName(name)), range.map((at) => {
        const guess = found.guesses[layer][at];
        const colour = colourOf(guess.probabilities[0] || 0, 1, {...state, scale: "linear"}, false);
        const one = button(shorten(guess.tokens[0] ?? "", 12), () => open(layer, at, guess), {class: "cell", dir: "auto", title: `${shown(guess.tokens[0] ?? "")} ${percent(guess.probabilities[0] || 0)}`});
        one.dataset.cell = `${layer} ${at}`;
        one.style.backgroundColor = css(colour);
        one.style.color = inkOn(colour);
        return el("td", {}, one);
      })));
      const grid = el("table", {class: "lens"}, el("caption", {}, "The likeliest token after each layer"), el("thead", {}, el("tr", {}, el("td", {}), heads)), el("tbody", {}, rows));
      place.replaceChildren(scroller("Guesses of each layer", grid));
    };
    const update = (now) => {
      const again = local.now?.frame !== now.frame;
      local.now = now;
      draw();
      if (again) detail.replaceChildren();
    };
    const data = () => {
      const found = local.now.frame.lens;
      const rows = found.layers.flatMap((name, layer) => found.guesses[layer].flatMap((one) => one.tokens.map((token, at) => [name, one.place + 1, token, one.probabilities[at]])));
      return {columns: ["layer", "place", "token", "probability"], rows};
    };
    return {element: el("div", {}, el("div", {class: "buttons"}, earlier, later), place, detail), update, data};
  },
};

const layerName = (name) => (/^\d+$/.test(name) ? `layer ${name}` : name);
