// The score of a search result: what Sphinx gives it, how much of the page is about the words of the query
// (frequency.js, made by docs/ranking.py), and the part of the site. Sphinx puts this into its search.
const PARTS = {start: 2, tour: 3, tasks: 2, howto: 2, glossary: -3, "reference/generated/api": -4, log: -4, features: -3};
const MOST = 12;

// Returns, from 0 to MOST, how much of a page is about the least frequent word of the query: BM25
// (Robertson and Zaragoza 2009, section 3.2) with k1 = 1.2 and b = 0.75, without the weight of the word.
function about(page) {
  if (typeof FREQUENCY === "undefined") return 0;
  const {pages, lengths, words} = FREQUENCY;
  const number = pages.indexOf(page);
  const mean = lengths.reduce((sum, length) => sum + length, 0) / lengths.length;
  const norm = 1.2 * (0.25 + 0.75 * lengths[number] / mean);
  const stemmer = new Stemmer();
  const query = splitQuery((new URLSearchParams(location.search).get("q") ?? "").toLowerCase());
  const stems = query.filter((word) => !stopwords.has(word)).map((word) => stemmer.stemWord(word));
  const counts = stems.map((stem) => (Object.hasOwn(words, stem) && words[stem][number]) || 1);
  return MOST * Math.min(...counts.map((count) => count / (count + norm)));
}

var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, , , , score, , kind]) => {
    if (kind !== "text") return score;
    const part = Object.keys(PARTS).find((name) => page === name || page.startsWith(`${name}/`));
    return score + (PARTS[part] ?? 0) + about(page);
  },
};
