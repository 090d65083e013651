// The form of a task: inputs, examples, folded settings, one request at a time, and its results.
import {button, copyButton, el} from "./dom.js";
import {Missing, curl, explained, send, session} from "./server.js";

let running = null; // the AbortController of the request in progress; there is at most one

export function stop() {
  running?.abort();
}

// task: made by a function of tasks.js.
//   inputs, settings: elements. action: the label of the button. examples: [[label, fill]].
//   read(): returns the inputs, or throws Missing. request(inputs): {path, body, file}.
//   run({inputs, request, results, signal}): sends requests and shows the replies in `results`.
//   note: a sentence below the buttons. look(): the texts for the inspection page, or null. keeps: whether earlier results stay.
export function formOf(model, task) {
  const results = el("section", {class: "results", "aria-live": "polite", "aria-label": "Results"});
  const problems = el("div", {class: "problems"});
  const status = el("p", {class: "soft status", role: "status"});
  const run = el("button", {class: "primary"}, task.action);
  const halt = button("Stop", stop, {hidden: true});
  const look = task.look ? button("Look inside", () => open(), {class: "quiet"}) : null;
  const command = commandOf(task);

  const fail = (error) => {
    if (error instanceof Missing) {
      error.control.setAttribute("aria-invalid", "true");
      error.control.focus();
    }
    problems.replaceChildren(el("p", {class: "problem", role: "alert"}, explained(error)));
  };
  const reset = () => {
    problems.replaceChildren();
    status.textContent = "";
    for (const control of form.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
  };
  const submit = async (event) => {
    event?.preventDefault();
    if (running && event) return;
    stop(); // an example or a new image replaces the request in progress
    reset();
    let inputs;
    try {
      inputs = task.read();
    } catch (error) {
      return fail(error);
    }
    if (!task.keeps) results.replaceChildren();
    const control = (running = new AbortController());
    const begun = performance.now();
    run.disabled = true;
    halt.hidden = false;
    results.setAttribute("aria-busy", "true");
    status.textContent = "Working …";
    try {
      const words = await task.run({inputs, request: task.request(inputs), results, signal: control.signal});
      if (running === control) status.textContent = [`${((performance.now() - begun) / 1000).toFixed(1)} s`, ...(words ?? [])].join(" · ");
    } catch (error) {
      if (running !== control) return;
      status.textContent = error.name === "AbortError" ? "Stopped." : "";
      if (error.name !== "AbortError") fail(error);
    }
    if (running !== control) return;
    running = null;
    run.disabled = false;
    halt.hidden = true;
    results.removeAttribute("aria-busy");
    command.show();
  };
  const open = async () => {
    reset();
    try {
      await inspect(model, task.look());
    } catch (error) {
      fail(error);
    }
  };
  const chips = task.examples.map(([label, fill]) => button(label, () => { fill(); submit(); }, {class: "chip", dir: "auto"}));
  const form = el("form", {on: {submit, input: () => command.show()}, novalidate: true},
    ...task.inputs,
    chips.length ? el("div", {class: "chips", role: "group", "aria-label": "Examples"}, ...chips) : null,
    task.settings.length ? el("details", {class: "settings"}, el("summary", {}, "Settings"), el("div", {class: "fields"}, ...task.settings)) : null,
    el("div", {class: "row"}, run, halt, ...(task.actions ?? []), look),
    task.note ? el("p", {class: "soft"}, task.note) : null);
  form.addEventListener("keydown", (event) => {
    const sends = event.ctrlKey || event.metaKey || (task.enter && !event.shiftKey && event.target.matches("textarea") && !event.isComposing);
    if (event.key === "Enter" && sends) submit(event);
    if (event.key === "Escape") stop();
  });
  task.submit = submit;
  const above = task.keeps ? [results, problems, form, status] : [form, problems, status, results];
  return el("div", {class: `bench ${task.keeps ? "talk" : ""}`}, ...above, command.element);
}

// The request for the current inputs as a curl command, which can be copied.
function commandOf(task) {
  const code = el("code", {});
  const text = el("pre", {tabindex: 0, "aria-label": "curl command"}, code);
  const show = () => {
    if (!element.open) return;
    try {
      code.textContent = curl(task.request(task.read()));
    } catch (error) {
      code.textContent = `# ${explained(error)}`;
    }
  };
  const element = el("details", {class: "command", on: {toggle: () => show()}}, el("summary", {}, "The request as a curl command"),
    text, copyButton("Copy", () => code.textContent, () => code));
  return {element, show};
}

async function inspect(model, [text, second]) {
  const address = `/inspect?${new URLSearchParams({model: model.id, text, ...(second ? {second} : {})})}`;
  if (!session.key) return void window.open(address, "_blank", "noopener");
  const blob = await (await send(address)).blob();
  el("a", {href: URL.createObjectURL(blob), download: `${model.id}.html`}).click();
}
