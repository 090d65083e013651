// Texts that a person wrote, checked before they are sent.
import {Missing} from "./server.js";

// The text of an area; throws Missing for an empty one. No text has NUL characters.
export function textOf(area, {trimmed = true, words = "Write a text first."} = {}) {
  const text = area.value.replaceAll("\0", "");
  if (!text.trim()) throw new Missing(words, area);
  return trimmed ? text.trim() : text;
}
