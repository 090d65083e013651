// Generated text, token by token: each token shows its probability and the alternatives under the pointer,
// at a tap, or by the arrow keys.
import {bars} from "./bars.js";
import {el, percent} from "./dom.js";

const FAINT = [0.9, 0.5, 0.1]; // probabilities that separate the four tints

// The text of a stream. add(text, tokens): the next part; tokens: [{text, probability, top: [[text, probability]]}].
export function tokenText() {
  const element = el("div", {class: "output", dir: "auto", tabindex: 0, role: "group", "aria-label": "Output. The arrow keys show the probability of each token."});
  const card = el("div", {class: "card", hidden: true});
  const spoken = el("span", {class: "unseen", "aria-live": "polite"});
  const facts = new Map();
  let current = null;

  const hide = () => { card.hidden = true; current?.classList.remove("pinned"); current = null; };
  const show = (span) => {
    const tokens = facts.get(span);
    if (!tokens) return hide();
    current?.classList.remove("pinned");
    current = span;
    span.classList.add("pinned");
    card.replaceChildren(...tokens.map(described));
    card.hidden = false;
    place(card, span);
  };
  const step = (by) => {
    const spans = [...element.querySelectorAll(".token")];
    const next = spans[Math.max(0, Math.min(spans.length - 1, current ? spans.indexOf(current) + by : 0))];
    if (!next) return;
    show(next);
    spoken.textContent = facts.get(next).map((token) => `${visible(token.text)}: ${percent(token.probability)}`).join(", ");
  };
  element.addEventListener("pointerover", (event) => { if (event.target.matches(".token")) show(event.target); });
  element.addEventListener("click", (event) => { if (event.target.matches(".token")) show(event.target); });
  element.addEventListener("pointerleave", hide);
  element.addEventListener("blur", hide);
  element.addEventListener("keydown", (event) => {
    const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (event.key === "Escape") hide();
    if (by === undefined) return;
    event.preventDefault();
    step(by);
  });

  // The names of tokens join to the text, except for tokens that are parts of a character.
  const add = (text, tokens) => {
    const whole = tokens.map((token) => token.text).join("") === text;
    const parts = whole ? tokens.map((token) => [token.text, [token]]) : [[text, tokens]];
    for (const [part, members] of parts) {
      if (!part) continue;
      if (!members.length) { element.append(part); continue; }
      const least = Math.min(...members.map((token) => token.probability));
      const span = el("span", {class: `token tint-${FAINT.filter((bound) => least < bound).length}`}, part);
      facts.set(span, members);
      element.append(span);
    }
  };
  return {element, parts: [element, card, spoken], add};
}

function described({text, probability, top}) {
  const rows = top.map(([label, share]) => ({label: visible(label), score: share}));
  return el("div", {}, el("p", {}, el("code", {}, visible(text)), ` ${percent(probability)}`), rows.length ? bars("Alternatives", rows) : null);
}

// White space as signs.
function visible(text) {
  return text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣");
}

// Puts the card below an element, inside the window.
function place(card, span) {
  const box = (span.getClientRects()[0]) ?? span.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - card.offsetWidth - 8));
  const below = box.bottom + 6;
  const top = below + card.offsetHeight > innerHeight ? Math.max(8, box.top - card.offsetHeight - 6) : below;
  card.style.setProperty("left", `${left}px`);
  card.style.setProperty("top", `${top}px`);
}

// The tokens of a part of a stream, from the two forms of OpenAI's log-probabilities.
export function tokensOf(logprobs) {
  if (!logprobs) return [];
  if (logprobs.content) {
    return logprobs.content.map((item) => ({
      text: item.token,
      probability: Math.exp(item.logprob),
      top: item.top_logprobs.map((other) => [other.token, Math.exp(other.logprob)]),
    }));
  }
  return logprobs.tokens.map((text, n) => ({
    text,
    probability: Math.exp(logprobs.token_logprobs[n] ?? 0),
    top: Object.entries(logprobs.top_logprobs[n] ?? {}).map(([name, log]) => [name, Math.exp(log)]).sort((a, b) => b[1] - a[1]),
  }));
}
