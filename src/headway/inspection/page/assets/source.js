// Sources of the data of a page. Both have the same interface:
//   header() -> Promise<object>, block(id) -> Promise<Uint8Array>, and only with a server
//   ask(verb, body) -> Promise<header>; verb is "look", "without" or "walk".
import {inflater} from "./inflate.js";

// Reads the data from the page itself, whose elements may still be loading.
export function fileSource(document) {
  const inflate = inflater();
  const element = async (id) => {
    for (;;) {
      const script = document.getElementById(id);
      // The parser fills an element in parts: one that has a next sibling is complete.
      if (script && (script.nextSibling || document.readyState !== "loading")) return script;
      if (document.readyState !== "loading") throw new Error(`data block ${id} is missing from this page; write the page again`);
      await new Promise((done) => setTimeout(done, 15));
    }
  };
  return {
    live: false,
    header: async () => JSON.parse((await element("header")).textContent),
    block: async (id) => inflate((await element(id)).textContent),
  };
}

// Requests the data from the server of the page.
export function servedSource(root) {
  const inflate = inflater();
  const checked = async (response) => {
    if (response.ok) return response;
    const problem = await response.json().catch(() => null);
    throw new Error((problem && (problem.error || problem.detail)) || `the server returned status ${response.status}`);
  };
  return {
    live: true,
    header: async () => (await checked(await fetch(`${root}api/header`))).json(),
    block: async (id) => {
      const response = await checked(await fetch(`${root}api/block/${encodeURIComponent(id)}`));
      return inflate(new Uint8Array(await response.arrayBuffer()));
    },
    ask: async (verb, body) => {
      const request = {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
      return (await checked(await fetch(`${root}api/${verb}`, request))).json();
    },
  };
}
