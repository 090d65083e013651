// Labels that are terms of the glossary. `SENTENCES` maps each name of a term, in lower case, to its
// definition; writer.py makes that module from glossary.json.
import {SENTENCES} from "./sentences.js";

// Returns the definition of a label, or null for a label that is not a term.
export function definitionOf(label) {
  const name = label.toLowerCase();
  return Object.hasOwn(SENTENCES, name) ? SENTENCES[name] : null;
}

// Marks an element whose label is a term: tooltip.js shows the definition of what is marked.
export function marked(element, label) {
  if (definitionOf(label) !== null) element.dataset.term = label;
  return element;
}

// Returns a label that has no control of its own; a term can be focused, to be read from the keyboard.
export function termed(label) {
  if (definitionOf(label) === null) return label;
  const element = marked(document.createElement("span"), label);
  Object.assign(element, {className: "term", tabIndex: 0, textContent: label});
  return element;
}
