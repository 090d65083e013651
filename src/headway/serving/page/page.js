// Every text of a model or a person becomes a text node, never HTML.

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const page = document.getElementById("page");
const state = { key: "", models: [], running: null };

async function send(path, body, signal) {
  const headers = { "content-type": "application/json" };
  if (state.key) headers.authorization = `Bearer ${state.key}`;
  const request = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  const reply = await fetch(path, { ...request, signal });
  if (reply.ok) return reply;
  let message = `${reply.status} ${reply.statusText}`;
  try {
    message = (await reply.json()).error.message;
  } catch {
    // the reply is not an error of this server; its status has to do
  }
  const error = new Error(message);
  error.status = reply.status;
  throw error;
}

function show(...children) {
  page.replaceChildren(element("header", {}, element("h1", {}, "Headway")), element("main", {}, ...children));
}

async function start() {
  try {
    state.models = (await (await send("/v1/models")).json()).data;
  } catch (error) {
    if (error.status !== 401) return show(problem(error.message));
    return askForKey();
  }
  const usable = state.models.filter((model) => formOf(model) !== null);
  if (!usable.length) return show(element("p", {}, "No model here can be used from a page."));
  const wanted = new URLSearchParams(location.hash.slice(1)).get("model");
  choose(usable, usable.find((model) => model.id === wanted) ?? usable[0]);
}

function askForKey() {
  const input = element("input", { type: "password", autocomplete: "current-password", id: "key" });
  const submit = (event) => {
    event.preventDefault();
    state.key = input.value.trim();
    start();
  };
  show(
    element("form", { onsubmit: submit }, element("label", { for: "key" }, "Key of this server", input),
      element("div", {}, element("button", { class: "primary" }, "Continue"))),
  );
  input.focus();
}

function choose(models, model) {
  history.replaceState(null, "", `#model=${encodeURIComponent(model.id)}`);
  const list = element("select", { id: "model", onchange: () => choose(models, models[list.selectedIndex]) },
    ...models.map((other) => element("option", { selected: other === model }, `${other.id}: ${other.kind}`)));
  show(element("label", { for: "model", class: "short" }, "Model", list), formOf(model));
}

function formOf(model) {
  if (model.routes.includes("/v1/chat/completions")) return chatForm(model);
  if (model.routes.includes("/v1/completions")) return completionForm(model);
  const route = model.routes.find((path) => model.fields[path]);
  if (route !== undefined) return verbForm(model, route);
  if (model.routes.includes("/embed")) return similarityForm(model);
  return null;
}

function problem(text) {
  return element("p", { class: "problem", role: "alert" }, text);
}

// A form with a button that runs `work(signal)`, one that stops it, and a place for its results.
function working(model, name, fields, work, textsOf) {
  const results = element("section", { "aria-live": "polite", "aria-label": "Results" });
  const run = element("button", { class: "primary" }, name);
  const stop = element("button", { type: "button", hidden: true, onclick: () => state.running?.abort() }, "Stop");
  const submit = async (event) => {
    event.preventDefault();
    state.running?.abort();
    const control = (state.running = new AbortController());
    stop.hidden = false;
    run.disabled = true;
    try {
      await work(results, control.signal);
    } catch (error) {
      if (error.name === "AbortError") results.append(element("p", { class: "soft" }, "stopped"));
      else results.append(problem(error.message));
    } finally {
      stop.hidden = true;
      run.disabled = false;
    }
  };
  const inside = element("button", { type: "button", class: "quiet", onclick: () => look(model, textsOf(), results) }, "Look inside");
  const form = element("form", { onsubmit: submit }, ...fields, element("div", { class: "row" }, run, stop, ...(textsOf ? [inside] : [])));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    if (event.key === "Escape") state.running?.abort();
  });
  return element("div", {}, form, results);
}

async function look(model, [text, second], results) {
  const address = `/inspect?${new URLSearchParams({ model: model.id, text, ...(second ? { second } : {}) })}`;
  if (!state.key) return void window.open(address, "_blank", "noopener");
  try {
    const blob = await (await send(address)).blob();
    element("a", { href: URL.createObjectURL(blob), download: `${model.id}.html` }).click();
  } catch (error) {
    results.append(problem(error.message));
  }
}

function area(label, id, text = "") {
  const input = element("textarea", { id, rows: 4, dir: "auto" });
  input.value = text;
  return [input, element("label", { for: id }, label, input)];
}

function number(label, id, value, step) {
  const input = element("input", { id, type: "number", value, step, min: 0 });
  return [input, element("label", { for: id, class: "short" }, label, input)];
}

// Reads server-sent events, and calls `take` with each of them.
async function events(reply, take) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n\n");
    rest = lines.pop();
    for (const line of lines) {
      const text = line.slice("data: ".length);
      if (text === "[DONE]") return;
      const parsed = JSON.parse(text);
      if (parsed.error) throw new Error(parsed.error.message);
      take(parsed);
    }
  }
}

// Streams a text into `place`; returns it, with a line of timings below.
async function stream(path, body, place, textIn, signal) {
  const begun = performance.now();
  let first = null;
  let text = "";
  let usage = null;
  const timing = element("p", { class: "soft" }, "…");
  place.after(timing);
  const finish = () => {
    const seconds = (performance.now() - begun) / 1000;
    const tokens = usage ? `${usage.completion_tokens} tokens, ` : "";
    const speed = usage && seconds > 0 ? `${(usage.completion_tokens / seconds).toFixed(1)} tokens/s, ` : "";
    timing.textContent = `${tokens}${speed}first after ${Math.round(first ?? 0)} ms, ${seconds.toFixed(1)} s`;
  };
  try {
    const reply = await send(path, { ...body, stream: true, stream_options: { include_usage: true } }, signal);
    await events(reply, (part) => {
      usage = part.usage ?? usage;
      const added = part.choices.length ? textIn(part.choices[0]) : "";
      if (!added) return;
      first ??= performance.now() - begun;
      text += added;
      place.append(added);
    });
  } finally {
    finish();
  }
  return text;
}

function sampling() {
  const [tokens, tokensLabel] = number("Most tokens", "tokens", 100, 1);
  const [temperature, temperatureLabel] = number("Temperature", "temperature", 0.8, 0.1);
  const values = () => ({ max_tokens: Number(tokens.value), temperature: Number(temperature.value) });
  return [values, element("div", { class: "row" }, tokensLabel, temperatureLabel)];
}

function completionForm(model) {
  const [input, label] = area("Text to continue", "prompt");
  const [values, row] = sampling();
  const work = (results, signal) => {
    const place = element("div", { class: "turn", dir: "auto" }, input.value);
    results.replaceChildren(place);
    const body = { model: model.id, prompt: input.value, ...values() };
    return stream("/v1/completions", body, place, (choice) => choice.text, signal);
  };
  return working(model, "Continue", [label, row], work, () => [input.value]);
}

function chatForm(model) {
  const [input, label] = area("Message", "message");
  const [values, row] = sampling();
  const messages = [];
  const work = async (results, signal) => {
    messages.push({ role: "user", content: input.value });
    const mine = element("div", { class: "turn mine", dir: "auto" }, input.value);
    const place = element("div", { class: "turn", dir: "auto" });
    results.append(mine, place);
    const body = { model: model.id, messages, ...values() };
    input.value = "";
    const text = await stream("/v1/chat/completions", body, place, (choice) => choice.delta.content, signal);
    messages.push({ role: "assistant", content: text });
  };
  return working(model, "Send", [label, row], work, () => [input.value || (messages.at(-2)?.content ?? "")]);
}

async function inBase64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let start = 0; start < bytes.length; start += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(text);
}

function capital(name) {
  return name[0].toUpperCase() + name.slice(1);
}

function verbForm(model, route) {
  const fields = model.fields[route];
  const inputs = new Map();
  const labels = fields.map((field) => {
    if (field.kind === "file") {
      const input = element("input", { id: field.name, type: "file", required: field.required });
      inputs.set(field.name, input);
      return element("label", { for: field.name }, capital(field.name), input);
    }
    const [input, label] = area(capital(field.name), field.name);
    inputs.set(field.name, input);
    return label;
  });
  const work = async (results, signal) => {
    const given = {};
    for (const field of fields) {
      const input = inputs.get(field.name);
      if (field.kind === "file") given[field.name] = await inBase64(input.files[0]);
      else if (input.value || field.required) given[field.name] = input.value;
    }
    const begun = performance.now();
    const reply = await (await send(route, { model: model.id, inputs: given }, signal)).json();
    const time = element("p", { class: "soft" }, `${Math.round(performance.now() - begun)} ms`);
    results.replaceChildren(rendered(reply), time);
  };
  const texts = () => fields.map((field) => inputs.get(field.name).value);
  return working(model, capital(route.slice(1)), labels, work, fields[0].kind === "file" ? null : texts);
}

function similarityForm(model) {
  const [first, firstLabel] = area("Sentence", "first");
  const [others, othersLabel] = area("Sentences to compare it with, one on each line", "others");
  const work = async (results, signal) => {
    const sentences = others.value.split("\n").filter((line) => line.trim());
    const inputs = { source_sentence: first.value, sentences };
    const scores = await (await send("/embed", { model: model.id, inputs }, signal)).json();
    const rows = sentences.map((label, n) => ({ label, score: scores[n] }));
    results.replaceChildren(rendered(rows.sort((a, b) => b.score - a.score)));
  };
  return working(model, "Compare", [firstLabel, othersLabel], work, null);
}

// Any JSON: one text as a text, lists of objects as a table, numbers named score as bars.
function rendered(value) {
  while (Array.isArray(value) && value.length === 1) value = value[0];
  if (value === null || typeof value !== "object") return element("div", { class: "turn", dir: "auto" }, String(value));
  const rows = Array.isArray(value) ? value : [value];
  if (rows.length && rows.every((row) => typeof row === "object" && !Array.isArray(row))) {
    const keys = [...new Set(rows.flatMap(Object.keys))];
    if (rows.length === 1 && keys.length === 1) return rendered(rows[0][keys[0]]);
    return element("table", {},
      element("thead", {}, element("tr", {}, ...keys.map((key) => element("th", { scope: "col" }, key)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...keys.map((key) => cell(key, row[key]))))));
  }
  return element("div", {}, ...rows.map(rendered));
}

function cell(key, value) {
  if (key !== "score" || typeof value !== "number") return element("td", { dir: "auto" }, String(value ?? ""));
  const bar = element("span", { class: "bar", "aria-hidden": "true" });
  bar.style.width = `${Math.max(0, Math.min(1, value)) * 8}rem`;
  return element("td", {}, value.toFixed(4), " ", bar);
}

start();
