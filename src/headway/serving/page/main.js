// The page of the model server: the models, and for each of them the forms of what it can do.
import {el, selectField} from "./dom.js";
import {formOf, stop} from "./form.js";
import {chatting, continuing} from "./generate.js";
import {answering, captioning, classifyingImage, classifyingText, comparing, filling, tagging} from "./predict.js";
import {explained, send, session} from "./server.js";
import {transcribing} from "./transcribe.js";
import {translating} from "./translate.js";

// Route -> name of the form and the function that makes it. A model has those of its routes, in this order.
const FORMS = [
  ["/v1/chat/completions", "Chat", chatting],
  ["/v1/completions", "Continue", continuing],
  ["/translate", "Translate", translating],
  ["/classify", "Classify", (model, route) => (takesFiles(model, route) ? classifyingImage : classifyingText)(model, route)],
  ["/caption", "Caption", captioning],
  ["/v1/audio/transcriptions", "Transcribe", transcribing],
  ["/answer", "Answer", answering],
  ["/tag", "Tag", tagging],
  ["/fill", "Fill", filling],
  ["/embed", "Compare", comparing],
];

function takesFiles(model, route) {
  return model.fields[route][0].kind === "file";
}

const page = document.getElementById("page");

function show(head, ...children) {
  page.replaceChildren(el("header", {}, el("h1", {}, "Headway"), ...head), el("main", {}, ...children));
}

async function start() {
  let models;
  try {
    models = (await (await send("/v1/models")).json()).data;
  } catch (error) {
    if (error.status === 401) return askForKey(Boolean(session.key));
    return show([], el("p", {class: "problem", role: "alert"}, explained(error)));
  }
  const usable = models.filter((model) => formsOf(model).length);
  if (!usable.length) return show([], el("p", {}, "No model here has a form on this page."));
  const wanted = new URLSearchParams(location.hash.slice(1));
  choose(usable, usable.find((model) => model.id === wanted.get("model")) ?? usable[0], wanted.get("form"));
}

function formsOf(model) {
  return FORMS.filter(([route]) => model.routes.includes(route) && (route !== "/fill" || model.mask));
}

function askForKey(again) {
  const input = el("input", {type: "password", autocomplete: "current-password", id: "key"});
  const submit = (event) => {
    event.preventDefault();
    session.key = input.value.trim();
    start();
  };
  show([], el("form", {class: "key", on: {submit}}, el("label", {for: "key"}, "Key of this server", input),
    again ? el("p", {class: "problem", role: "alert"}, "This is not the key of this server.") : null,
    el("div", {}, el("button", {class: "primary"}, "Continue"))));
  input.focus();
}

// Shows a model, with the named form, or else with its first.
function choose(models, model, name) {
  stop();
  const forms = formsOf(model);
  const chosen = forms.find((form) => form[1] === name) ?? forms[0];
  const [route, title, make] = chosen;
  const hash = new URLSearchParams({model: model.id, ...(forms.length > 1 ? {form: title} : {})});
  history.replaceState(null, "", `#${hash}`);
  document.title = `${model.id} · Headway`;
  const list = selectField("model", models.map((other) => [other.id, other.id]), model.id);
  list.addEventListener("change", () => choose(models, models[list.selectedIndex]));
  const facts = [model.kind, `on ${model.device}`, model.max_model_len ? `at most ${model.max_model_len.toLocaleString("en")} tokens` : null].filter(Boolean);
  const which = models.length > 1 ? el("label", {for: "model"}, el("span", {class: "unseen"}, "Model"), list) : el("strong", {}, model.id);
  const head = el("div", {class: "which"}, which, el("span", {class: "soft"}, facts.join(" · ")));
  const tabs = forms.length < 2 ? null : el("nav", {class: "tabs", "aria-label": "Forms"}, ...forms.map(([, words]) =>
    el("button", {type: "button", "aria-current": words === title ? "page" : null, on: {click: () => choose(models, model, words)}}, words)));
  show([head], ...(tabs ? [tabs] : []), formOf(model, make(model, route)));
}

start();
