// What the model thought could stand at a place, with how sure it was: next words, or the word
// behind a mask.
import {bars} from "./bars.js";
import {button, el} from "./elements.js";
import {nameOf, percent, quoted, shorten} from "./tokens.js";

export const guesses = {
  id: "guesses",
  title: "Guesses",
  lead: "What the model found likely at each place, the best first. Choose a place; a fuller dot says it was surer.",
  free: true,
  fits: (session, state) => Boolean(session.frames[state.frame]?.guesses.length),
  make(app) {
    const local = {at: 0, now: null};
    const places = el("div", {class: "chips", role: "group", "aria-label": "Places"});
    const title = el("h3", {});
    const list = el("div", {"aria-live": "polite"});
    const show = () => {
      const {frame} = local.now;
      const side = frame.sides[frame.guesses_side];
      local.at = Math.min(local.at, frame.guesses.length - 1);
      const guess = frame.guesses[local.at];
      title.textContent = side ? `At place ${guess.place + 1}, ${quoted(side, guess.place)}` : `At place ${guess.place + 1}`;
      list.replaceChildren(bars(guess.tokens.map((token, at) => ({token, value: guess.probabilities[at]}))));
      [...places.children].forEach((one, at) => one.setAttribute("aria-pressed", String(at === local.at)));
    };
    const update = (now) => {
      if (local.now?.frame !== now.frame) {
        const {frame} = now;
        const side = frame.sides[frame.guesses_side];
        local.at = frame.guesses.length - 1;
        places.replaceChildren(...frame.guesses.slice(0, 400).map((guess, at) => {
          const sure = el("span", {class: "sure", "aria-hidden": "true"});
          sure.style.opacity = 0.15 + 0.85 * (guess.probabilities[0] || 0);
          const words = side ? shorten(nameOf(side, guess.place), 20) : String(guess.place + 1);
          return button([sure, words], () => { local.at = at; show(); }, {class: "chip", dir: "auto", title: `${guess.tokens[0]} ${percent(guess.probabilities[0] || 0)}`});
        }));
      }
      local.now = now;
      show();
    };
    const data = () => ({
      columns: ["place", "token", "probability"],
      rows: local.now.frame.guesses.flatMap((one) => one.tokens.map((token, at) => [one.place + 1, token, one.probabilities[at]])),
    });
    return {element: el("div", {}, places, title, list), update, data};
  },
};
