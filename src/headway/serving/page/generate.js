// Language models: the continuation of a text, and chat. Both are streams with the probabilities of tokens.
import {button, el, labelled, numberField, textArea} from "./dom.js";
import {textOf} from "./inputs.js";
import {events, send} from "./server.js";
import {tokenText, tokensOf} from "./tokens.js";

const ALTERNATIVES = 5;
const NOTE = "Underlined: less probable tokens. Point at a token, or tap it, for its probability and the alternatives.";

export function continuing(model) {
  const area = textArea("prompt", 4, "The beginning of a text");
  const rules = sampling(model);
  return {
    action: "Continue",
    note: NOTE,
    inputs: [labelled("Text to continue", area)],
    settings: rules.elements,
    examples: examplesOf(model, ["Once upon a time", "The"], area),
    look: () => [textOf(area)],
    read: () => textOf(area, {trimmed: false}),
    request: (prompt) => ({path: "/v1/completions", body: {model: model.id, prompt, ...rules.values(), logprobs: ALTERNATIVES, stream: true}}),
    run: ({inputs, request, results, signal}) => {
      const output = tokenText();
      output.element.append(el("span", {class: "given"}, inputs));
      results.replaceChildren(...output.parts);
      return stream(request, output, (choice) => choice.text, signal);
    },
  };
}

export function chatting(model) {
  const area = textArea("message", 2, "Write a message. Enter sends it, Shift+Enter starts a new line.");
  const rules = sampling(model);
  const system = textArea("system", 2, "Instructions that the model reads first, if its template has a place for them");
  let turns = [];
  const messages = (text) => [...(system.value.trim() ? [{role: "system", content: system.value.trim()}] : []), ...turns, {role: "user", content: text}];
  const task = {
    action: "Send",
    note: NOTE,
    keeps: true,
    enter: true,
    inputs: [labelled("Message", area)],
    settings: [labelled("Instructions", system), ...rules.elements],
    examples: [],
    look: () => [area.value.trim() || turns.at(-2)?.content || textOf(area)],
    read: () => textOf(area),
    request: (text) => ({path: "/v1/chat/completions", body: {model: model.id, messages: messages(text), ...rules.values(), logprobs: true, top_logprobs: ALTERNATIVES, stream: true}}),
    run: async ({inputs, request, results, signal}) => {
      const mine = el("div", {class: "turn mine", dir: "auto"}, el("span", {class: "unseen"}, "You: "), inputs);
      const output = tokenText();
      const theirs = el("div", {class: "turn"}, ...output.parts);
      results.append(mine, theirs);
      area.value = "";
      const answer = {text: ""};
      try {
        return await stream(request, output, (choice) => choice.delta.content ?? "", signal, answer);
      } catch (error) {
        if (!answer.text) { // nothing was answered: the message can be sent again
          mine.remove();
          theirs.remove();
          area.value = inputs;
        }
        throw error;
      } finally {
        if (answer.text) turns = [...turns, {role: "user", content: inputs}, {role: "assistant", content: answer.text}];
        theirs.scrollIntoView({block: "nearest"});
      }
    },
  };
  task.actions = [button("New conversation", () => {
    turns = [];
    document.querySelector(".results").replaceChildren();
    area.focus();
  }, {class: "quiet"})];
  return task;
}

function sampling(model) {
  const tokens = numberField("tokens", Math.min(100, model.max_model_len ?? 100), {least: 1});
  const temperature = numberField("temperature", 0.8, {step: 0.1, most: 10});
  const nucleus = numberField("nucleus", 1, {step: 0.05, most: 1});
  const values = () => ({max_tokens: Number(tokens.value), temperature: Number(temperature.value), ...(Number(nucleus.value) < 1 ? {top_p: Number(nucleus.value)} : {})});
  const elements = [
    labelled("Most tokens", tokens),
    labelled("Temperature", temperature, "0: always the most probable token; higher: more random"),
    labelled("Top-p", nucleus, "1: all tokens may be chosen; lower: only the most probable ones"),
  ];
  return {values, elements};
}

function examplesOf(model, usual, area) {
  return (model.examples.length ? model.examples : usual).map((text) => [text, () => { area.value = text; }]);
}

// Streams a text into `output`, and returns the words about its speed. answer.text: the text so far.
async function stream({path, body}, output, textIn, signal, answer = {text: ""}) {
  const begun = performance.now();
  let usage = null;
  let first = null;
  const reply = await send(path, {...body, stream_options: {include_usage: true}}, signal);
  await events(reply, (part) => {
    usage = part.usage ?? usage;
    if (!part.choices.length) return;
    const [choice] = part.choices;
    const text = textIn(choice);
    if (!text) return;
    first ??= performance.now() - begun;
    answer.text += text;
    output.add(text, tokensOf(choice.logprobs));
  });
  if (!answer.text) output.element.append(el("span", {class: "soft"}, "(the model ended the text at once)"));
  const seconds = (performance.now() - begun) / 1000;
  return usage ? [`${usage.completion_tokens} tokens`, `${Math.round(usage.completion_tokens / seconds)} tokens/s`, `first after ${Math.round(first ?? 0)} ms`] : [];
}
