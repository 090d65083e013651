"""Exercise: beam search."""

from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import TableModel


def _random(seed: int) -> tuple[object, ...]:
    return TableModel(5, 20 + seed), 1, 2, 2 + seed % 3, 4 + seed % 2


def _decode(next_log_p: object, learner: Function, limits: list[int]) -> list[int]:
    bos, eos, max_length = limits
    return [int(token) for token in learner(next_log_p, bos, eos, 3, max_length)]


WORKED = TableModel(
    4,
    0,
    {
        (0,): [0, 0, 0.6, 0.4],
        (0, 2): [0, 0.4, 0.3, 0.3],
        (0, 3): [0, 0.9, 0.05, 0.05],
    },
)
LONG = TableModel(
    3,
    0,
    {
        (0,): [0, 0.4, 0.6],
        (0, 2): [0, 0.1, 0.9],
        (0, 2, 2): [0, 0.9, 0.1],
    },
)

EXERCISE = Exercise(
    name="beam-search",
    equation="""
Live prefixes: at first <s> with score 0. Each step: extend every live prefix by every token,
score = sum of the log-probabilities; keep the `width` best of all extensions. Those that end with
</s> are finished, the others stay live. Stop if none is live, or after max_length steps.
The result is the best by score of all finished and live prefixes.""",
    shapes=(
        "next_log_p: a function; next_log_p(tokens) is V log-probabilities of the next token,\n"
        "    where tokens is a list that begins with bos\n"
        "width: number of extensions that are kept\n"
        "result: list of token ids without bos and eos"
    ),
    signature=(
        "def beam_search(next_log_p, bos: int, eos: int, width: int, max_length: int) -> list[int]:"
    ),
    body="""
live, finished = [(0.0, [bos])], []
for _ in range(max_length):
    candidates = []
    for score, tokens in live:
        for token, log_p in enumerate(next_log_p(tokens).tolist()):
            candidates.append((score + log_p, tokens + [token]))
    kept = sorted(candidates, key=lambda c: c[0], reverse=True)[:width]
    finished += [c for c in kept if c[1][-1] == eos]
    live = [c for c in kept if c[1][-1] != eos]
    if not live:
        break
_, best = max(finished + live, key=lambda c: c[0])
return [token for token in best[1:] if token != eos]""",
    imports="",
    hints=(
        "Keep a list of pairs (score, tokens), at first [(0.0, [bos])].",
        "Collect the extensions of all live prefixes in one list, sort it, keep `width` of them.",
        "Finished prefixes go to a second list; only the others are extended.",
        "At the end compare finished and live prefixes by score.",
    ),
    cases=(
        Case(
            rung="worked example",
            arguments=(WORKED, 0, 1, 2, 3),
            expected=[3],
            why=(
                "greedy search takes token 2 (0.6), then </s> with 0.4: 0.24. Token 3 and </s> "
                "have 0.4 x 0.9 = 0.36, which is more"
            ),
        ),
        Case(
            rung="short output",
            arguments=(LONG, 0, 1, 2, 4),
            expected=[2, 2],
            why="</s> at once has 0.4; tokens 2, 2 and </s> have 0.6 x 0.9 x 0.9 = 0.49",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake(
            "this is greedy search: only one prefix is kept; keep `width`", {"[:width]": "[:1]"}
        ),
        Mistake(
            "the score is that of the last token only; add it to the score of the prefix",
            {"score + log_p": "log_p"},
        ),
        Mistake(
            "the search stops at the first finished prefix; a live one may still become better",
            {"if not live:": "if not live or finished:"},
        ),
        Mistake(
            "the score is divided by the length; compare sums of log-probabilities",
            {"live, key=lambda c: c[0])": "live, key=lambda c: c[0] / (len(c[1]) - 1))"},
        ),
        Mistake(
            "prefixes that end with eos are extended; they are finished",
            {
                "finished += [c for c in kept if c[1][-1] == eos]": "pass",
                "[c for c in kept if c[1][-1] != eos]": "kept",
            },
        ),
        Mistake("the result contains eos: leave it out", {" if token != eos": ""}),
        Mistake("the result contains bos: leave it out", {"best[1:]": "best"}),
        Mistake(
            "live prefixes of maximum length are ignored; compare them with the finished ones",
            {"max(finished + live": "max(finished or live"},
        ),
        Mistake(
            "the least probable prefixes are kept: sort in descending order", {", reverse=True": ""}
        ),
    ),
    plug=Plug(part="the search that translates, with width 3", decode=_decode),
)
