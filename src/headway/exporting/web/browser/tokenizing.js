// Texts become ids, and ids texts, as in the tokenizer that the model was trained with.

// described: {engine, leading} for the library `Tokenizer`, or {characters}; special: ids without text.
export function tokenizerOf(described, Tokenizer) {
  const special = new Set(described.special);
  const ofText = (ids) => ids.filter((id) => !special.has(id));
  if (described.characters !== undefined) return ofCharacters([...described.characters], ofText);
  const library = new Tokenizer(described.engine, {clean_up_tokenization_spaces: false});
  return {
    encode: (text) => library.encode(text, {add_special_tokens: false}).ids,
    decode: (ids) => {
      const kept = ofText(ids);
      const text = kept.length ? library.decode(kept, {skip_special_tokens: true}) : "";
      return described.leading && text.startsWith(" ") ? text.slice(1) : text; // the space before the first word
    },
  };
}

// Ids of characters begin at 1; the id 0 ends a text.
function ofCharacters(characters, ofText) {
  const ids = new Map(characters.map((character, at) => [character, at + 1]));
  const idOf = (character) => {
    if (ids.has(character)) return ids.get(character);
    throw new Error(`The character ${JSON.stringify(character)} is not in the vocabulary of the model; remove it.`);
  };
  return {
    encode: (text) => [...text].map(idOf),
    decode: (tokens) => ofText(tokens).map((id) => characters[id - 1]).join(""),
  };
}
