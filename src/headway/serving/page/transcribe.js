// Recordings of speech: the text, and its segments with times.
import {el, labelled, selectField} from "./dom.js";
import {picture} from "./picture.js";
import {send} from "./server.js";

const ROUTES = {transcribe: "/v1/audio/transcriptions", translate: "/v1/audio/translations"};

function clock(seconds) {
  const minutes = Math.floor(seconds / 60);
  return `${minutes}:${(seconds % 60).toFixed(2).padStart(5, "0")}`;
}

function formData(fields, file) {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  data.append("file", file, file.name);
  return data;
}

export function transcribing(model) {
  const codes = model.languages;
  const language = codes.length ? selectField("language", [["", "detected"], ...codes.map((code) => [code, code])], "") : null;
  const work = model.routes.includes(ROUTES.translate) ? selectField("work", [["transcribe", "as spoken"], ["translate", "in English"]], "transcribe") : null;
  const sound = el("audio", {controls: true, class: "wide", "aria-label": "The recording"});
  const task = {
    action: "Transcribe",
    examples: [],
    look: null,
    settings: [...(language ? [labelled("Spoken language", language)] : []), ...(work ? [labelled("Text", work)] : [])],
    read: () => source.file(),
    request: (file) => ({
      path: ROUTES[work?.value ?? "transcribe"],
      form: {model: model.id, response_format: "verbose_json", ...(language?.value ? {language: language.value} : {})},
      file: file.name,
    }),
    run: async ({inputs, request, results, signal}) => {
      const reply = await (await send(request.path, formData(request.form, inputs), signal)).json();
      sound.src = URL.createObjectURL(inputs);
      const rows = reply.segments.map((segment) => el("tr", {}, el("th", {scope: "row"},
        el("button", {type: "button", class: "quiet", on: {click: () => { sound.currentTime = segment.start; sound.play(); }}}, `${clock(segment.start)} – ${clock(segment.end)}`)),
      el("td", {dir: "auto", lang: reply.language}, segment.text)));
      results.replaceChildren(el("p", {class: "output", dir: "auto", lang: reply.language}, reply.text || "(no words)"), sound,
        el("table", {class: "lines times", "aria-label": "Segments with times"}, el("tbody", {}, ...rows)));
      return [...(reply.language ? [`language ${reply.language}`] : []), `${reply.duration.toFixed(1)} s of sound`];
    },
  };
  const source = picture({noun: "a recording (WAV)", accept: "audio/wav,.wav", kind: "audio/"}, () => task.submit());
  task.inputs = [source.element];
  return task;
}
