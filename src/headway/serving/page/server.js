// Requests to the server of this page: their errors in words for people, streams, and curl commands.

export const session = {key: ""};

// An input that cannot be sent. control: the element to correct.
export class Missing extends Error {
  constructor(message, control) {
    super(message);
    this.control = control;
  }
}

class Refusal extends Error {
  constructor(status, message, seconds) {
    super(message);
    this.status = status;
    this.seconds = seconds;
  }
}

// Sends a request; without a body, it is a GET. A body that is no form is sent as JSON.
export async function send(path, body, signal) {
  const headers = {};
  const isForm = body instanceof FormData; // the browser writes its type, with the boundary
  if (body !== undefined && !isForm) headers["content-type"] = "application/json";
  if (session.key) headers.authorization = `Bearer ${session.key}`;
  const reply = await fetch(path, {method: body === undefined ? "GET" : "POST", headers, body: body === undefined || isForm ? body : JSON.stringify(body), signal});
  if (reply.ok) return reply;
  let message = `${reply.status} ${reply.statusText}`;
  try {
    message = (await reply.json()).error.message;
  } catch {
    // the reply is not an error of this server, and has only a status
  }
  throw new Refusal(reply.status, message, Number(reply.headers.get("retry-after")));
}

const REASONS = {
  401: () => "The key is not the one of this server. Reload the page to enter it again.",
  413: (error) => `The input is too large: ${error.message}.`,
  429: (error) => `The server is busy with other requests. Try again in ${error.seconds || 1} s.`,
  500: () => "The server failed on this input. Its log names the reason.",
  503: () => "The server is shutting down, or the model does not respond.",
  504: () => "The answer took longer than the server allows. Try a shorter input.",
};

// What went wrong, for the person at the page.
export function explained(error) {
  if (error instanceof Missing) return error.message;
  if (error instanceof Refusal) return REASONS[error.status]?.(error) ?? error.message;
  if (error instanceof TypeError) return "The server does not answer. Check that headway serve still runs.";
  return error.message;
}

// Reads server-sent events, and calls take(event) with each of them.
export async function events(reply, take) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const text = block.slice("data: ".length);
      if (text === "[DONE]") return;
      const parsed = JSON.parse(text);
      if (parsed.error) throw new Error(parsed.error.message);
      take(parsed);
    }
  }
}

// A word of a POSIX shell: between single quotes every other character is literal.
function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

// The request as a command for a shell. file: its name, if the body is a file instead of JSON. form: the fields beside it, if
// the body is a form.
export function curl({path, body, form, file}) {
  if (form) {
    const fields = [...Object.entries(form).map(([name, value]) => `${name}=${value}`), `file=@${file}`];
    const key = session.key ? ['-H "Authorization: Bearer $(cat key.txt)"'] : [];
    return [`curl ${quoted(location.origin + path)}`, ...key, ...fields.map((field) => `-F ${quoted(field)}`)].join(" \\\n  ");
  }
  const query = file ? `?model=${encodeURIComponent(body.model)}` : "";
  const lines = [`curl ${quoted(location.origin + path + query)}`];
  if (session.key) lines.push('-H "Authorization: Bearer $(cat key.txt)"');
  lines.push(`-H 'Content-Type: application/${file ? "octet-stream" : "json"}'`);
  lines.push(file ? `--data-binary ${quoted(`@${file}`)}` : `-d ${quoted(JSON.stringify(body))}`);
  if (body.stream) lines.push("--no-buffer");
  return lines.join(" \\\n  ");
}
