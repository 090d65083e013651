// The pattern of a head (head_patterns.py).

const SURE = 0.35; // a head with smaller scores for all patterns is "mixed"

// Returns the pattern with the largest score of a head: [name, score].
export function kindOf(map, layer, head) {
  const scores = Object.entries(map.patterns?.[layer]?.[head] || {});
  const best = scores.reduce((a, b) => (b[1] > a[1] ? b : a), ["mixed", 0]);
  return best[1] >= SURE ? best : ["mixed", best[1]];
}
