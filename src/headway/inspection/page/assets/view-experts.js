// Mixtures of experts: which expert reads which token, in colours and numbers; how many tokens each reads,
// what it reads most in held-out text, and how the predictions change without it.
import {bars} from "./bars.js";
import {button, choice, el, scroller} from "./elements.js";
import {headColour} from "./colours.js";
import {nameOf, number, percent, quoted, shorten, shown} from "./tokens.js";

const FIRST = 6; // tokens of an expert that the table shows
const AT_ONCE = 600; // tokens that are shown

export const experts = {
  id: "experts",
  title: "Experts",
  lead: "Which expert reads which token, by colour and number: a token goes to the most probable experts of each layer. Choose an expert: its tokens are outlined, and you see what it reads most and what changes without it.",
  free: true,
  fits: (session, state) => Boolean(session.frames[state.frame]?.mixtures.length),
  make(app) {
    const local = {now: null, at: 0, expert: 0};
    const layer = choice("Layer", (value) => { local.at = Number(value); draw(); });
    const text = el("p", {class: "tokens routed", dir: "auto"});
    const holder = el("div", {});
    const balance = el("p", {class: "soft"});
    const detail = el("div", {class: "detail", "aria-live": "polite"});

    const drawText = (mixture, side) => {
      text.style.setProperty("--chosen", headColour(local.expert, mixture.total));
      text.replaceChildren(...mixture.chosen.slice(0, AT_ONCE).map((chosen, at) => {
        const span = el("span", {class: chosen.includes(local.expert) ? "token read" : "token", title: readersOf(mixture, at)}, nameOf(side, at), el("sub", {}, String(chosen[0] + 1)));
        span.style.setProperty("--expert", headColour(chosen[0], mixture.total));
        return span;
      }).flatMap((span) => [span, " "]));
    };

    const drawTable = (mixture) => {
      const loads = loadsOf(mixture);
      const held = mixture.held_out.length > 0;
      const heads = ["Expert", "Reads here", ...(held ? ["Reads in held-out text", "Reads most there"] : []), ...(mixture.effects.length ? ["Changed predictions without it"] : [])];
      const rows = loads.map((load, at) => {
        const name = button(String(at + 1), () => { local.expert = at; draw(); }, {class: "expert", "aria-pressed": String(at === local.expert), "aria-label": `Expert ${at + 1}`});
        name.style.setProperty("--expert", headColour(at, mixture.total));
        const there = held ? [percent(mixture.held_out[at].load), mixture.held_out[at].tokens.slice(0, FIRST).map(([token]) => shorten(token, 12)).join("  ")] : [];
        const changed = mixture.effects.length ? [`${Object.keys(mixture.effects[at].changed).length} of ${mixture.effects[at].probabilities.length}`] : [];
        return [name, percent(load), ...there, ...changed];
      });
      const [first, ...others] = heads;
      holder.replaceChildren(scroller("Experts of this layer", el("table", {class: "experts"},
        el("caption", {class: "unseen"}, "The experts of this layer"),
        el("thead", {}, el("tr", {}, el("th", {scope: "col"}, first), others.map((one) => el("th", {scope: "col"}, one)))),
        el("tbody", {}, rows.map(([name, ...cells]) => el("tr", {}, el("th", {scope: "row"}, name), cells.map((one) => el("td", {}, one))))))));
    };

    const drawDetail = (mixture, frame) => {
      const {expert} = local;
      const parts = [el("h3", {}, `Expert ${expert + 1} of layer ${mixture.layer}`)];
      const most = mixture.held_out[expert]?.tokens || [];
      if (most.length) {
        parts.push(el("p", {class: "soft"}, "Tokens that it reads most beyond its load in held-out text. A bar is the fraction of the occurrences of the token that this expert reads."));
        parts.push(bars(most.map(([token, , fraction]) => ({token, value: fraction}))));
      }
      const effect = mixture.effects[expert];
      if (effect) {
        const side = frame.sides[frame.predictions_side];
        const changed = Object.entries(effect.changed).map(([at, token]) => {
          const before = frame.predictions[at];
          return el("li", {dir: "auto"}, `at position ${before.position + 1}, ${quoted(side, before.position)}: ${shown(before.tokens[0])} → ${shown(token)}`);
        });
        parts.push(el("p", {}, `Without this expert the mean log-probability of the predictions falls by ${number(mixture.falls[expert], 2)}. ${changed.length ? "Other predictions:" : "No prediction changes."}`));
        if (changed.length) parts.push(el("ul", {class: "falls"}, changed.slice(0, 12)));
      }
      detail.replaceChildren(...parts);
    };

    const draw = () => {
      const {frame} = local.now;
      const {mixtures} = frame;
      local.at = Math.min(local.at, mixtures.length - 1);
      const mixture = mixtures[local.at];
      local.expert = Math.min(local.expert, mixture.total - 1);
      layer.show(mixtures.map((one, at) => [at, String(one.layer)]), local.at);
      drawText(mixture, frame.sides[mixture.side]);
      drawTable(mixture);
      const greatest = mixtures.map((one) => Math.max(...loadsOf(one)) * one.total);
      balance.textContent = `Balance in this text: the expert with the largest load reads ${greatest.map((one) => number(one, 2)).join(", ")} times the mean, from the first to the last of these layers.`;
      drawDetail(mixture, frame);
    };
    const update = (now) => {
      local.now = now;
      draw();
    };
    const data = () => {
      const {mixtures, sides} = local.now.frame;
      const rows = mixtures.flatMap((one) => one.chosen.flatMap((chosen, at) => chosen.map((expert, rank) => [one.layer, at + 1, sides[one.side].tokens[at], expert + 1, one.weights[at][rank]])));
      return {columns: ["layer", "position", "token", "expert", "weight"], rows};
    };
    return {element: el("div", {class: "experts"}, text, holder, balance, detail), controls: [layer.element], update, data};
  },
};

// The fraction of the choices of the router that are each expert, over the tokens of the text.
function loadsOf(mixture) {
  const counts = new Array(mixture.total).fill(0);
  for (const chosen of mixture.chosen) for (const expert of chosen) counts[expert] += 1;
  const all = mixture.chosen.length * mixture.chosen[0].length;
  return counts.map((count) => count / all);
}

const readersOf = (mixture, at) => mixture.chosen[at].map((expert, rank) => `expert ${expert + 1}: ${percent(mixture.weights[at][rank])}`).join(", ");
