// Head ablation: how the output changes without some heads. A served page runs the model; a file shows
// the importance of heads that was measured when it was written.
import {changes, deltaBars} from "./bars.js";
import {button, choice, el, scroller} from "./elements.js";
import {colourOf, css, inkOn} from "./colours.js";
import {nameOf, number, shorten} from "./tokens.js";

const NONE = [];

export const whatIf = {
  id: "what-if",
  title: "Head ablation",
  lead: "How much each head contributes: the fall of the metric if the output of that head is set to 0.",
  free: true,
  fits: (session, state) => Boolean(session.live || session.frames[state.frame]?.maps.some((one) => one.importance) || (!session.header.report?.film && pairs(session, state).length)),
  make(app) {
    const local = {now: null, off: new Map(), answer: null, busy: false, session: null};
    const position = choice("Position", (value) => { local.position = Number(value); draw(); });
    const results = el("div", {"aria-live": "polite"});
    const heads = el("div", {});
    const ask = button("Run without these heads", () => run(), {class: "primary"});
    const clear = button("All heads on", () => { local.off.clear(); local.answer = null; draw(); });
    const asks = el("div", {class: "buttons"}, ask, clear);
    const switched = (name, layer, head, off) => {
      const key = JSON.stringify([name, layer, head]);
      if (off) local.off.set(key, [name, layer, head]); else local.off.delete(key);
      ask.disabled = !local.off.size || local.busy;
    };
    const run = async () => {
      local.busy = true;
      ask.disabled = true;
      ask.textContent = "Running the model …";
      try {
        local.answer = await app.source.ask("without", {...app.input, heads: [...local.off.values()]});
      } catch (error) { app.failed(error); }
      local.busy = false;
      ask.textContent = "Run without these heads";
      draw();
    };
    // Rows are layers, columns are heads; a cell has the importance, and in a served page a checkbox.
    const headTable = (map) => {
      const live = app.session.live;
      const most = map.importance ? Math.max(...map.importance.flat().map(Math.abs), 1e-9) : 1;
      const cell = (layer, head) => {
        const value = map.importance?.[layer]?.[head];
        const td = el("td", {});
        if (value !== undefined) {
          const colour = colourOf(value, most, app.state, true);
          td.style.backgroundColor = css(colour);
          td.style.color = inkOn(colour);
          td.append(number(value, 2));
        }
        if (live) {
          const key = JSON.stringify([map.name, layer, head]);
          td.append(el("input", {
            type: "checkbox", checked: !local.off.has(key), "aria-label": `Layer ${layer + 1}, head ${head + 1} is on`,
            on: {change: (event) => switched(map.name, layer, head, !event.target.checked)},
          }));
        }
        return td;
      };
      const columns = Array.from({length: map.heads}, (_, at) => at);
      const caption = map.importance ? `${map.name}: fall of ${map.metric || "the metric"} without each head` : `${map.name}: heads that are on`;
      return scroller(caption, el("table", {class: "heads"}, el("caption", {}, caption),
        el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "Layer"), columns.map((at) => el("th", {scope: "col"}, String(at + 1))))),
        el("tbody", {}, map.layers.map((_, layer) => el("tr", {}, el("th", {scope: "row"}, String(layer + 1)), columns.map((head) => cell(layer, head)))))));
    };
    const strongest = (maps) => {
      const all = maps.filter((one) => one.importance).flatMap((map) => map.importance.flatMap((row, layer) => row.map((value, head) => ({token: `${map.name} ${layer + 1}.${head + 1}`, before: 0, after: -value}))));
      const best = all.sort((a, b) => Math.abs(b.after) - Math.abs(a.after)).slice(0, 12);
      if (!best.length) return NONE;
      return [el("h3", {}, "The most important heads"), el("p", {class: "soft"}, "Layer.head, and the change of the metric without that head; bars to the left are a fall."), deltaBars(best, number, true)];
    };
    const compared = (before, after, title) => {
      const both = before.predictions.map((one) => [one, after.predictions.find((two) => two.position === one.position)]).filter((pair) => pair[1]);
      if (!both.length) return [el("h3", {}, title), el("p", {dir: "auto"}, `${before.answer} → ${after.answer}`)];
      const side = before.sides[before.predictions_side];
      local.position = both.some((pair) => pair[0].position === local.position) ? local.position : both.at(-1)[0].position;
      position.show(both.map(([one]) => [one.position, `${one.position + 1} ${side ? shorten(nameOf(side, one.position), 16) : ""}`]), local.position);
      const [one, two] = both.find((pair) => pair[0].position === local.position);
      return [el("h3", {}, title), before.answer || after.answer ? el("p", {dir: "auto"}, before.answer === after.answer ? `The output is the same: ${before.answer}` : `${before.answer} → ${after.answer}`) : "", deltaBars(changes(one, two))];
    };
    const draw = () => {
      const {frame, state} = local.now;
      const maps = frame.maps.filter((one) => one.measure === "attention" && (one.importance || app.session.live));
      position.element.hidden = true;
      asks.hidden = !app.session.live;
      ask.disabled = !local.off.size || local.busy;
      heads.replaceChildren(...maps.map(headTable));
      const shown = [];
      if (local.answer) shown.push(...compared(local.answer.frames[0], local.answer.frames[1], "Without these heads"));
      else for (const other of pairs(app.session, state).slice(0, 1)) shown.push(...compared(frame, other, `From “${frame.label}” to “${other.label}”`));
      results.replaceChildren(...shown, ...strongest(maps));
    };
    const update = (now) => {
      if (local.session !== app.session) { local.session = app.session; local.off.clear(); local.answer = null; }
      local.now = now;
      draw();
    };
    const data = () => {
      const maps = local.now.frame.maps.filter((one) => one.importance);
      const rows = maps.flatMap((map) => map.importance.flatMap((row, layer) => row.map((value, head) => [map.name, layer + 1, head + 1, value])));
      return {columns: ["map", "layer", "head", "importance"], rows};
    };
    return {element: el("div", {class: "what-if"}, results, heads, asks), controls: [position.element], update, data};
  },
};

// Returns the compared frame if it has predictions at the same positions (an edited text, a checkpoint).
function pairs(session, state) {
  const frame = session.frames[state.frame];
  const other = session.frames[state.other];
  const positions = new Set(frame?.predictions.map((one) => one.position) || []);
  return other && other !== frame && other.predictions.some((one) => positions.has(one.position)) ? [other] : NONE;
}
