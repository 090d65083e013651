// The score of a search result: what Sphinx gives it, how often the words occur on the page
// (frequency.js, made by docs/ranking.py), and the part of the site. Sphinx puts this into its search.
const PARTS = {start: 4, tour: 4, tasks: 3, howto: 3, glossary: 3, reference: 0, log: -6, notebooks: 0, features: -3};

// Returns the smallest number of occurrences on a page among the words of the query.
function occurrences(page) {
  if (typeof FREQUENCY === "undefined") return 1;
  const number = FREQUENCY.pages.indexOf(page);
  const query = new URLSearchParams(location.search).get("q") ?? "";
  const stemmer = new Stemmer();
  const words = splitQuery(query.toLowerCase()).filter((word) => !stopwords.has(word));
  const found = words.map((word) => stemmer.stemWord(word));
  return Math.min(...found.map((word) => (Object.hasOwn(FREQUENCY.words, word) && FREQUENCY.words[word][number]) || 1));
}

var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, , , , score, , kind]) => {
    const part = PARTS[page.split("/")[0]] ?? 0;
    return score + part + (kind === "object" ? 0 : 3 * Math.log2(occurrences(page)));
  },
};
