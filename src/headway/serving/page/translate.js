// Translation: each line of the text is translated alone, and its translation stands beside it.
import {copyButton, el, labelled, numberField, selectField, textArea} from "./dom.js";
import {textOf} from "./inputs.js";
import {explained, send} from "./server.js";

const AT_ONCE = 4; // requests in progress

export function translating(model, route) {
  const area = textArea("text", 5, "One sentence per line");
  const beam = numberField("beam", "", {least: 1, most: 64});
  const target = model.languages.length > 1 ? selectField("to", model.languages.map((code) => [code, code])) : null;
  const examples = model.examples.length ? model.examples : ["The children play in the garden.", "I do not know."];
  const parameters = () => ({...(target ? {to: target.value} : {}), ...(beam.value ? {beam: Number(beam.value)} : {})});
  const request = (text) => ({path: route, body: {model: model.id, inputs: text, ...(Object.keys(parameters()).length ? {parameters: parameters()} : {})}});
  return {
    action: "Translate",
    inputs: [labelled("Text", area, "Each line is translated alone."), ...(target ? [labelled("Language", target)] : [])],
    settings: [labelled("Beam width", beam, "If empty, the one of the model. 1: the most probable token at each step")],
    examples: examples.map((text) => [text, () => { area.value = text; }]),
    look: () => [linesOf(textOf(area))[0].trim()],
    read: () => linesOf(textOf(area)),
    request: (lines) => {
      const written = lines.filter((line) => line.trim());
      return request(written.length > 1 ? written : written[0]);
    },
    run: async ({inputs, results, signal}) => {
      const cells = inputs.map(() => el("td", {dir: "auto"}));
      const rows = inputs.map((line, n) => el("tr", {}, el("th", {scope: "row", dir: "auto"}, line), cells[n]));
      const body = el("tbody", {}, ...rows);
      const heads = el("thead", {class: "unseen"}, el("tr", {}, el("th", {scope: "col"}, "Text"), el("th", {scope: "col"}, "Translation")));
      const text = () => cells.map((cell) => cell.textContent).join("\n");
      results.replaceChildren(el("table", {class: "lines"}, heads, body), copyButton("Copy the translations", text, () => body));
      let next = 0;
      const work = async () => {
        for (let n = next++; n < inputs.length; n = next++) {
          if (!inputs[n].trim()) continue;
          cells[n].textContent = "…";
          try {
            const [first] = [await (await send(route, request(inputs[n].trim()).body, signal)).json()].flat();
            cells[n].textContent = first.translation_text;
          } catch (error) {
            cells[n].textContent = "";
            if (error.name === "AbortError") throw error;
            cells[n].append(el("span", {class: "problem", role: "alert"}, explained(error)));
          }
        }
      };
      await Promise.all(Array.from({length: AT_ONCE}, work));
    },
  };
}

function linesOf(text) {
  return text.split(/\r?\n/);
}
