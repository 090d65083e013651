"""Exercise: greedy search."""

from headway.exercises.contract import Case, Exercise, Function, Mistake, Plug
from headway.exercises.inputs import TableModel


def _random(seed: int) -> tuple[object, ...]:
    return TableModel(6, seed), 1, 2, 4 + seed


def _decode(next_log_p: object, learner: Function, limits: list[int]) -> list[int]:
    tokens = learner(next_log_p, *limits)
    return [int(token) for token in tokens]


WORKED = TableModel(
    4, 0, {(0,): [0, 0.1, 0.6, 0.3], (0, 2): [0, 0.2, 0.1, 0.7], (0, 2, 3): [0, 0.9, 0.05, 0.05]}
)

EXERCISE = Exercise(
    name="greedy-search",
    equation="""
y_t = argmax over v of log P(v | <s> y_1 ... y_(t-1))
until y_t = </s>, or until there are max_length tokens.""",
    shapes=(
        "next_log_p: a function; next_log_p(tokens) is V log-probabilities of the next token,\n"
        "    where tokens is a list that begins with bos\n"
        "bos, eos: ids of <s> and </s>\nresult: list of token ids without bos and eos"
    ),
    signature="def greedy(next_log_p, bos: int, eos: int, max_length: int) -> list[int]:",
    body="""
tokens = [bos]
while len(tokens) <= max_length:
    token = int(next_log_p(tokens).argmax())
    if token == eos:
        break
    tokens.append(token)
return tokens[1:]""",
    imports="",
    hints=(
        "Begin with the list [bos]; each step appends one token.",
        "`int(next_log_p(tokens).argmax())` is the most probable token.",
        "Leave the loop at eos, or after max_length tokens; return the list without bos.",
    ),
    cases=(
        Case(
            rung="worked example",
            arguments=(WORKED, 0, 1, 5),
            expected=[2, 3],
            why="after <s> token 2 has 0.6, then token 3 has 0.7, then </s> (token 1) has 0.9",
        ),
        Case(
            rung="maximum length",
            arguments=(WORKED, 0, 1, 1),
            expected=[2],
            why="max_length = 1: one token, even without </s>",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake("the result contains bos: leave it out", {"tokens[1:]": "tokens"}),
        Mistake(
            "the result contains eos: leave it out",
            {
                ("    if token == eos:\n        break\n    tokens.append(token)"): (
                    "    tokens.append(token)\n    if token == eos:\n        break"
                )
            },
        ),
        Mistake("the search does not stop at eos", {"token == eos": "False"}),
        Mistake(
            "only the last token is passed to next_log_p; it needs all tokens so far",
            {"next_log_p(tokens)": "next_log_p(tokens[-1:])"},
        ),
        Mistake(
            "bos is not passed to next_log_p: the tokens must begin with it",
            {"next_log_p(tokens)": "next_log_p(tokens[1:])"},
        ),
        Mistake(
            "the least probable token is chosen: argmin instead of argmax", {"argmax": "argmin"}
        ),
        Mistake(
            "one token too few (off by one): max_length does not count bos",
            {"<= max_length": "< max_length"},
        ),
        Mistake(
            "one token too many (off by one): at most max_length tokens",
            {"<= max_length": "<= max_length + 1"},
        ),
    ),
    plug=Plug(part="the search that translates", decode=_decode),
)
