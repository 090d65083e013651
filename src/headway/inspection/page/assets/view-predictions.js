// The most probable predictions at a position, with their probabilities: next tokens, or the token
// behind a mask.
import {bars} from "./bars.js";
import {button, el} from "./elements.js";
import {predictionAtQuery} from "./model-stacks.js";
import {nameOf, percent, quoted, shorten} from "./tokens.js";

export const predictions = {
  id: "predictions",
  title: "Predictions",
  lead: "The most probable predictions at each position. Choose a position; a darker dot means a more probable first prediction.",
  free: true,
  fits: (session, state) => Boolean(session.frames[state.frame]?.predictions.length),
  make(app) {
    const local = {at: 0, now: null};
    const positions = el("div", {class: "chips", role: "group", "aria-label": "Positions"});
    const title = el("h3", {});
    const list = el("div", {"aria-live": "polite"});
    const show = () => {
      const {frame} = local.now;
      const side = frame.sides[frame.predictions_side];
      local.at = Math.min(local.at, frame.predictions.length - 1);
      const prediction = frame.predictions[local.at];
      title.textContent = side ? `At position ${prediction.position + 1}, ${quoted(side, prediction.position)}` : `At position ${prediction.position + 1}`;
      list.replaceChildren(bars(prediction.tokens.map((token, at) => ({token, value: prediction.probabilities[at]}))));
      [...positions.children].forEach((one, at) => one.setAttribute("aria-pressed", String(at === local.at)));
    };
    const update = (now) => {
      if (local.now?.frame !== now.frame) {
        const {frame} = now;
        const side = frame.sides[frame.predictions_side];
        local.at = predictionAtQuery(now) ?? frame.predictions.length - 1;
        positions.replaceChildren(...frame.predictions.slice(0, 400).map((prediction, at) => {
          const sure = el("span", {class: "sure", "aria-hidden": "true"});
          sure.style.opacity = 0.15 + 0.85 * (prediction.probabilities[0] || 0);
          const words = side ? shorten(nameOf(side, prediction.position), 20) : String(prediction.position + 1);
          return button([sure, words], () => { local.at = at; show(); }, {class: "chip", dir: "auto", title: `${prediction.tokens[0]} ${percent(prediction.probabilities[0] || 0)}`});
        }));
      }
      local.now = now;
      show();
    };
    const data = () => ({
      columns: ["position", "token", "probability"],
      rows: local.now.frame.predictions.flatMap((one) => one.tokens.map((token, at) => [one.position + 1, token, one.probabilities[at]])),
    });
    return {element: el("div", {}, positions, title, list), update, data};
  },
};
