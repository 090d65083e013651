// Tasks whose reply is one prediction: classes, tags, answers, masked words, captions, similar sentences.
import {bars} from "./bars.js";
import {button, el, labelled, numberField, selectField, textArea} from "./dom.js";
import {textOf} from "./inputs.js";
import {inBase64, picture} from "./picture.js";
import {Missing, send} from "./server.js";
import {coloursOf, marked} from "./spans.js";

async function ask({path, body}, signal) {
  return (await send(path, body, signal)).json();
}

function chips(model, usual, area) {
  return (model.examples.length ? model.examples : usual).map((text) => [text, () => { area.value = text; }]);
}

// The labels of one reply: with --top, several; of a regression, a number.
function classes(reply) {
  const rows = reply.flat();
  if (rows.length === 1 && rows[0].label === "number") return el("p", {class: "headline"}, rows[0].score.toFixed(3));
  return el("div", {}, el("p", {class: "headline", dir: "auto"}, rows[0].label), bars("Probability of each label", rows));
}

const WANTED = () => numberField("top", 10, {least: 1});

export function classifyingText(model, route) {
  const area = textArea("text", 4, "A text");
  const second = model.fields[route].some((field) => field.name === "second") ? textArea("second", 3, "For a model of text pairs only") : null;
  const top = WANTED();
  return {
    action: "Classify",
    inputs: [labelled("Text", area)],
    settings: [labelled("Labels to show", top), ...(second ? [labelled("Second text", second)] : [])],
    examples: chips(model, ["What is the capital of France?", "A film that nobody should miss."], area),
    look: () => [textOf(area), second?.value.trim()],
    read: () => (second?.value.trim() ? {text: textOf(area), second: second.value.trim()} : textOf(area)),
    request: (inputs) => ({path: route, body: {model: model.id, inputs, parameters: {top_k: Number(top.value)}}}),
    run: async ({request, results, signal}) => results.replaceChildren(classes(await ask(request, signal))),
  };
}

// A task of images: they are sent in base64, and the curl command sends the file itself.
function ofImage(model, route, rest) {
  const task = {
    examples: [],
    look: null,
    read: () => source.file(),
    request: (file) => ({path: route, body: {model: model.id}, file: file.name}),
    ...rest,
    run: async ({inputs, results, signal}) => {
      const body = {model: model.id, inputs: await inBase64(inputs), ...rest.fields()};
      results.replaceChildren(rest.show(await ask({path: route, body}, signal)));
    },
  };
  const source = picture(model.image, () => task.submit());
  task.inputs = [source.element];
  return task;
}

export function classifyingImage(model, route) {
  const top = WANTED();
  return ofImage(model, route, {
    action: "Classify",
    settings: [labelled("Labels to show", top)],
    fields: () => ({parameters: {top_k: Number(top.value)}}),
    show: classes,
  });
}

export function captioning(model, route) {
  const beam = numberField("beam", "", {least: 1, most: 64});
  const every = model.languages.join(",");
  const language = model.languages.length > 1 ? selectField("language", [[every, "all"], ...model.languages.map((code) => [code, code])], every) : null;
  return ofImage(model, route, {
    action: "Caption",
    settings: [...(language ? [labelled("Language", language)] : []), labelled("Beam width", beam, "If empty, the one of the model")],
    // only the full form has the captions in all languages
    fields: () => ({form: "full", parameters: {...(language ? {language: language.value} : {}), ...(beam.value ? {beam: Number(beam.value)} : {})}}),
    show: (reply) => el("ul", {class: "captions"}, ...reply.captions.map((caption) => el("li", {dir: "auto", lang: caption.language},
      caption.text, language ? el("span", {class: "label"}, caption.language) : null))),
  });
}

export function answering(model, route) {
  const question = textArea("question", 2, "A question that the context answers");
  const context = textArea("context", 7, "The text that has the answer");
  const top = numberField("top", 3, {least: 1});
  const fill = (one, other) => () => { question.value = one; context.value = other; };
  return {
    action: "Answer",
    inputs: [labelled("Question", question), labelled("Context", context)],
    settings: [labelled("Answers to show", top)],
    examples: [
      ["Who waves?", fill("Who waves?", "On Sundays the market is empty. The old baker waves to the children, who play at the fountain.")],
      ["When was it finished?", fill("When was the bridge finished?", "The first stone of the bridge was laid in 1871. After two floods had delayed the work, it was finished in 1879 and opened by the mayor.")],
    ],
    look: () => [textOf(question), textOf(context)],
    read: () => ({question: textOf(question, {words: "Write a question first."}), context: textOf(context, {trimmed: false, words: "Write the context first: the text that has the answer."})}),
    request: (inputs) => ({path: route, body: {model: model.id, inputs, parameters: {top_k: Number(top.value)}}}),
    run: async ({inputs, request, results, signal}) => {
      const answers = [await ask(request, signal)].flat();
      const place = el("div", {class: "wide"});
      const choose = (n) => place.replaceChildren(marked(inputs.context, answers[n]?.answer ? [answers[n]] : []));
      const rows = answers.map((item) => ({label: item.answer || "(no answer in the context)", score: item.score}));
      choose(0);
      results.replaceChildren(el("p", {class: "headline", dir: "auto"}, rows[0]?.label ?? "No answer."), place, ...(rows.length > 1 ? [bars("Answers; press one to mark it", rows, {choose})] : []));
    },
  };
}

export function tagging(model, route) {
  const area = textArea("text", 4, "A text");
  return {
    action: "Tag",
    inputs: [labelled("Text", area)],
    settings: [],
    examples: chips(model, ["Ada Lovelace met Charles Babbage in London.", "The Beatles played at Shea Stadium for the first time."], area),
    look: () => [textOf(area)],
    read: () => textOf(area, {trimmed: false}),
    request: (inputs) => ({path: route, body: {model: model.id, inputs}}),
    run: async ({inputs, request, results, signal}) => {
      const spans = (await ask(request, signal)).map((item) => ({...item, label: item.entity_group ?? item.entity}));
      const colours = coloursOf(spans);
      const rows = spans.map((span) => ({label: `${span.label}: ${span.word}`, score: span.score}));
      results.replaceChildren(marked(inputs, spans, colours), spans.length ? bars("Probability of each span", rows) : el("p", {class: "soft"}, "The model found nothing to tag."));
    },
  };
}

export function filling(model, route) {
  const area = textArea("text", 3, `A text with ${model.mask}`);
  const top = numberField("top", 5, {least: 1});
  const insert = button(`Insert ${model.mask}`, () => {
    area.setRangeText(model.mask, area.selectionStart, area.selectionEnd, "end");
    area.focus();
  });
  return {
    action: "Fill",
    actions: [insert],
    inputs: [labelled("Text", area, `The model predicts each ${model.mask}.`)],
    settings: [labelled("Words to show", top)],
    examples: chips(model, [`Paris is the ${model.mask} of France.`, `The ${model.mask} barked at the ${model.mask}.`], area),
    look: () => [textOf(area)],
    read: () => {
      const text = textOf(area);
      if (!text.includes(model.mask)) throw new Missing(`Put ${model.mask} where a word is missing.`, area);
      return text;
    },
    request: (inputs) => ({path: route, body: {model: model.id, inputs, parameters: {top_k: Number(top.value)}}}),
    run: async ({inputs, request, results, signal}) => {
      const reply = await ask(request, signal);
      const masks = Array.isArray(reply[0]) ? reply : [reply];
      const parts = inputs.split(model.mask);
      const text = el("div", {class: "output", dir: "auto"}, ...parts.flatMap((part, n) => (n ? [el("mark", {class: `span-${(n - 1) % 8}`}, masks[n - 1][0].token_str), part] : [part])));
      const tables = masks.map((words, n) => bars(masks.length > 1 ? `${model.mask} ${n + 1}` : model.mask, words.map((word) => ({label: word.token_str, score: word.score}))));
      results.replaceChildren(text, el("div", {class: "beside"}, ...tables));
    },
  };
}

export function comparing(model) {
  const first = textArea("first", 2, "A sentence");
  const others = textArea("others", 5, "Other sentences, one per line");
  const fill = () => {
    first.value = "How do I reset my password?";
    others.value = "I forgot my login and cannot get in.\nWhere can I buy fresh bread?\nThe account is locked, please help.\nIt rained all day.";
  };
  return {
    action: "Compare",
    inputs: [labelled("Sentence", first), labelled("Sentences to compare it with, one per line", others)],
    settings: [],
    examples: [["How do I reset my password?", fill]],
    look: () => [textOf(first)],
    read: () => ({source_sentence: textOf(first, {words: "Write a sentence first."}), sentences: textOf(others, {words: "Write sentences to compare it with."}).split("\n").filter((line) => line.trim())}),
    request: (inputs) => ({path: "/embed", body: {model: model.id, inputs}}),
    run: async ({inputs, request, results, signal}) => {
      const scores = await ask(request, signal);
      const rows = inputs.sentences.map((label, n) => ({label, score: scores[n]})).sort((a, b) => b.score - a.score);
      results.replaceChildren(bars("Cosine similarity, the most similar first", rows, {words: (score) => score.toFixed(2)}));
    },
  };
}
