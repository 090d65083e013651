// A walkthrough of one real computation: each step in words, as an equation, and with the numbers that
// the model computed for this input.
import {button, el, scroller} from "./elements.js";
import {colourOf, css, inkOn} from "./colours.js";
import {printed} from "./equation.js";
import {marked} from "./terms.js";
import {number, shorten, shown} from "./tokens.js";

// A table of numbers with colours; of a larger matrix only the part in the document.
export function numbers(app, array) {
  const {name, shape, rows, columns, values} = array;
  const most = values.reduce((m, row) => row.reduce((a, b) => Math.max(a, Math.abs(b ?? 0)), m), 0);
  const signed = values.some((row) => row.some((one) => one < 0));
  const across = values[0]?.length || 0;
  const whole = shape.at(-1) === across && (shape.length < 2 || shape.at(-2) === values.length);
  const size = shape.join(" × ");
  const caption = el("caption", {}, el("strong", {}, name), ` ${size}${whole ? "" : `, shown: ${values.length} × ${across}`}`);
  const heads = Array.from({length: across}, (_, at) => el("th", {scope: "col", dir: "auto"}, columns[at] === undefined ? String(at + 1) : shorten(columns[at], 12)));
  const body = values.map((row, at) => el("tr", {}, el("th", {scope: "row", dir: "auto"}, rows[at] === undefined ? String(at + 1) : shorten(rows[at], 16)), row.map((value) => {
    const cell = el("td", {}, number(value));
    const colour = colourOf(value ?? 0, most, {...app.state, scale: "linear"}, signed);
    cell.style.backgroundColor = css(colour);
    cell.style.color = inkOn(colour);
    return cell;
  })));
  return scroller(`${name}, ${size}`, el("table", {class: "numbers"}, caption, el("thead", {}, el("tr", {}, el("td", {}), heads)), el("tbody", {}, body)));
}

export const walk = {
  id: "walk",
  title: "Walkthrough",
  lead: "One computation of this model, step by step, with the numbers that it computed for this input.",
  free: true,
  fits: (session) => session.header.walk.length > 0 || session.live,
  make(app) {
    const local = {steps: null};
    const list = el("ol", {class: "steps"});
    const title = el("h3", {tabIndex: -1});
    const text = el("p", {dir: "auto"});
    const equation = el("p", {class: "equation"});
    const source = el("p", {class: "soft source"});
    const arrays = el("div", {class: "arrays"});
    const back = button("‹ Back", () => go(now() - 1));
    const next = button("Next ›", () => go(now() + 1), {class: "primary"});
    const count = el("span", {class: "soft"});
    // A served page can compute the walkthrough of another token, layer or head.
    const again = button("Walk through the pinned token", async () => {
      const {frame, layer, head, query} = app.state;
      const map = app.session.map(frame, app.state)?.name;
      try {
        const {walk: steps} = await app.source.ask("walk", {...app.input, map, layer, head: Math.max(0, head), position: query});
        app.header().walk = steps;
        app.set({at: 0});
      } catch (error) { app.failed(error); }
    });
    const step = el("section", {class: "step", "aria-live": "polite"}, title, text, equation, arrays, source);
    const now = () => Math.max(0, Math.min(app.state.at, local.steps.length - 1));
    const go = (at) => { app.set({at: Math.max(0, Math.min(at, local.steps.length - 1))}); show(); title.focus({preventScroll: true}); };
    const show = () => {
      again.hidden = !app.session.live;
      element.hidden = !local.steps.length;
      if (!local.steps.length) return;
      const at = now();
      const one = local.steps[at];
      title.textContent = `${at + 1}. ${one.title}`;
      text.textContent = one.text;
      equation.replaceChildren(...printed(one.equation));
      equation.hidden = !one.equation;
      source.replaceChildren(...(one.source ? ["In the code: ", el("code", {}, one.source)] : []));
      arrays.replaceChildren(...one.arrays.map((array) => numbers(app, array)));
      count.textContent = `Step ${at + 1} of ${local.steps.length}`;
      back.disabled = at === 0;
      next.disabled = at === local.steps.length - 1;
      [...list.children].forEach((item, n) => {
        if (n === at) item.firstChild.setAttribute("aria-current", "step");
        else item.firstChild.removeAttribute("aria-current");
      });
      const item = list.children[at]; // on a narrow page the steps are one line
      list.scrollLeft = item.offsetLeft - list.offsetLeft - (list.clientWidth - item.offsetWidth) / 2;
    };
    const update = () => {
      const {walk: steps} = app.header();
      if (local.steps !== steps) {
        local.steps = steps;
        list.replaceChildren(...steps.map((one, at) => el("li", {}, marked(button(shown(one.title), () => go(at)), one.title))));
      }
      show();
    };
    const data = () => {
      const one = local.steps[now()] || {arrays: []};
      const rows = one.arrays.flatMap((array) => array.values.map((row, at) => [array.name, array.rows[at] ?? at + 1, ...row]));
      return {columns: ["array", "row", "values"], rows};
    };
    const element = el("div", {class: "walk"}, list, el("div", {}, step, el("div", {class: "buttons"}, back, next, count)));
    return {element, controls: [again], update, data};
  },
};
