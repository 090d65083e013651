// Where the page's data comes from. Two sources, one face:
//   header() -> Promise<object>, block(id) -> Promise<Uint8Array>, and of a server only
//   ask(verb, body) -> Promise<header>: "look", "without", "walk".
import {inflater} from "./inflate.js";

// The data stands in the page itself, in elements that may still be on their way in.
export function fileSource(document) {
  const inflate = inflater();
  const element = async (id) => {
    for (;;) {
      const found = document.getElementById(id);
      // The parser fills an element in pieces: one that has a neighbour is whole.
      if (found && (found.nextSibling || document.readyState !== "loading")) return found;
      if (document.readyState !== "loading") throw new Error(`block ${id} is not in this page`);
      await new Promise((done) => setTimeout(done, 15));
    }
  };
  return {
    live: false,
    header: async () => JSON.parse((await element("header")).textContent),
    block: async (id) => inflate((await element(id)).textContent),
  };
}

// The data is asked for, of the server that the page came from.
export function servedSource(root) {
  const inflate = inflater();
  const checked = async (answer) => {
    if (answer.ok) return answer;
    const told = await answer.json().catch(() => null);
    throw new Error((told && (told.error || told.detail)) || `the server says ${answer.status}`);
  };
  return {
    live: true,
    header: async () => (await checked(await fetch(`${root}api/header`))).json(),
    block: async (id) => {
      const answer = await checked(await fetch(`${root}api/block/${encodeURIComponent(id)}`));
      return inflate(new Uint8Array(await answer.arrayBuffer()));
    },
    ask: async (verb, body) => {
      const sent = {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
      return (await checked(await fetch(`${root}api/${verb}`, sent))).json();
    },
  };
}
