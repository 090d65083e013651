// The logit lens (nostalgebraist 2020): the prediction that the vectors of each layer would give with the
// final norm and output projection. A column shows how a prediction forms from layer to layer.
import {bars} from "./bars.js";
import {button, el, scroller} from "./elements.js";
import {colourOf, css, inkOn} from "./colours.js";
import {predictionAtQuery} from "./model-stacks.js";
import {nameOf, percent, quoted, shorten, shown} from "./tokens.js";

const AT_ONCE = 40; // positions in the table

export const lens = {
  id: "lens",
  title: "Logit lens",
  lead: "The most probable token if the final norm and the output projection are applied after each layer. Read downwards to see how a prediction forms; choose a cell for its alternatives.",
  free: true,
  fits: (session, state) => Boolean(session.frames[state.frame]?.lens),
  make(app) {
    const local = {now: null, from: 0, chosen: {layer: 0, at: 0}};
    const holder = el("div", {});
    const detail = el("div", {class: "detail", "aria-live": "polite"});
    const earlier = button("‹ earlier", () => { local.from -= AT_ONCE; draw(); });
    const later = button("later ›", () => { local.from += AT_ONCE; draw(); });
    // Shows the alternatives of the chosen cell.
    const open = () => {
      const {layer, at} = local.chosen;
      const {layers, predictions, side} = local.now.frame.lens;
      const prediction = predictions[layer][at];
      const position = `position ${prediction.position + 1}, ${quoted(local.now.frame.sides[side], prediction.position)}`;
      detail.replaceChildren(el("h3", {}, `After ${layerName(layers[layer])}, at ${position}`), bars(prediction.tokens.map((token, n) => ({token, value: prediction.probabilities[n]}))));
      for (const one of holder.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one.dataset.cell === `${layer} ${at}`));
    };
    const draw = () => {
      const {frame, state} = local.now;
      const {lens} = frame;
      const side = frame.sides[lens.side];
      const count = lens.predictions[0]?.length || 0;
      local.from = Math.max(0, Math.min(local.from, Math.max(0, count - AT_ONCE)));
      const range = Array.from({length: Math.min(AT_ONCE, count - local.from)}, (_, at) => local.from + at);
      earlier.hidden = local.from === 0;
      later.hidden = local.from + AT_ONCE >= count;
      const heads = range.map((at) => el("th", {scope: "col", dir: "auto", title: shown(side.tokens[lens.predictions[0][at].position] ?? "")}, el("span", {}, shorten(nameOf(side, lens.predictions[0][at].position), 10))));
      const rows = lens.layers.map((name, layer) => el("tr", {}, el("th", {scope: "row"}, layerName(name)), range.map((at) => {
        const prediction = lens.predictions[layer][at];
        const colour = colourOf(prediction.probabilities[0] || 0, 1, {...state, scale: "linear"}, false);
        const one = button(shorten(prediction.tokens[0] ?? "", 12), () => { local.chosen = {layer, at}; open(); }, {class: "cell", dir: "auto", title: `${shown(prediction.tokens[0] ?? "")} ${percent(prediction.probabilities[0] || 0)}`});
        one.dataset.cell = `${layer} ${at}`;
        one.style.backgroundColor = css(colour);
        one.style.color = inkOn(colour);
        return el("td", {}, one);
      })));
      const grid = el("table", {class: "lens"}, el("caption", {class: "unseen"}, "The most probable token after each layer"), el("thead", {}, el("tr", {}, el("td", {}), heads)), el("tbody", {}, rows));
      holder.replaceChildren(scroller("Predictions of each layer", grid));
    };
    const update = (now) => {
      const {lens} = now.frame;
      const again = local.now?.frame !== now.frame;
      if (again) {
        const last = lens.predictions[0].length - 1;
        const own = predictionAtQuery(now);
        const column = own === null ? -1 : lens.predictions[0].findIndex((one) => one.position === now.frame.predictions[own].position);
        local.chosen = {layer: lens.layers.length - 1, at: column < 0 ? last : column};
        local.from = Math.max(0, Math.min(local.chosen.at - AT_ONCE / 2, last));
      }
      local.now = now;
      const before = holder.firstChild?.scrollLeft || 0;
      draw();
      open();
      const cell = holder.querySelector("button[aria-pressed='true']");
      holder.firstChild.scrollLeft = again && cell ? cell.offsetLeft - holder.clientWidth / 2 : before;
    };
    const data = () => {
      const {lens} = local.now.frame;
      const rows = lens.layers.flatMap((name, layer) => lens.predictions[layer].flatMap((one) => one.tokens.map((token, at) => [name, one.position + 1, token, one.probabilities[at]])));
      return {columns: ["layer", "position", "token", "probability"], rows};
    };
    return {element: el("div", {}, el("div", {class: "buttons"}, earlier, later), holder, detail), update, data};
  },
};

const layerName = (name) => (/^\d+$/.test(name) ? `layer ${name}` : name);
