"""Each rule compared with its definition in plain Python and with transformers, and its limits."""

import math

import pytest
import torch
import transformers.generation.logits_process as theirs
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.decoding import (
    Bias,
    Forbidden,
    FrequencyPenalty,
    MinLength,
    MinP,
    MostProbable,
    NoRepeat,
    PartialOutput,
    Prefix,
    PresencePenalty,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    Typical,
    WithinVocabulary,
)
from tests.fixtures.written_language import apply_rules

INF = math.inf
V = 9


def softmax(row):
    top = max(row)
    parts = [math.exp(x - top) for x in row]
    return [x / sum(parts) for x in parts]


def keep(row, tokens):
    return [x if i in tokens else -INF for i, x in enumerate(row)]


def fewest(row, key, mass):
    """Keep the fewest tokens in descending order of `key`, and all that are tied with the last."""
    p, total, allowed = softmax(row), 0.0, []
    for i in sorted(range(len(row)), key=lambda i: -key[i]):
        if total >= mass and key[i] != key[allowed[-1]]:
            break
        allowed.append(i)
        total += p[i]
    return keep(row, allowed)


def typical(row, mass):
    p = softmax(row)
    entropy = -sum(x * math.log(x) for x in p if x)
    return fewest(row, [-abs(-math.log(x) - entropy) if x else -INF for x in p], mass)


def repetition(row, tokens, value):
    return [(x / value if x > 0 else x * value) if i in tokens else x for i, x in enumerate(row)]


def no_repeat(row, tokens, size):
    runs = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
    last = tuple(tokens[len(tokens) - size + 1 :]) if len(tokens) >= size - 1 else None
    return [-INF if last is not None and (*last, i) in runs else x for i, x in enumerate(row)]


WORDS = ((4,), (1, 2), (3, 1, 0), (2, 2))

# name: (rule, plain Python twin of (row, prompt, tokens), transformers' twin or None)
TWINS = {
    "temperature": (
        Temperature(0.7),
        lambda row, prompt, tokens: [x / 0.7 for x in row],
        theirs.TemperatureLogitsWarper(0.7),
    ),
    "top-k": (
        TopK(3),
        lambda row, prompt, tokens: keep(row, [i for i in range(V) if row[i] >= sorted(row)[-3]]),
        theirs.TopKLogitsWarper(3),
    ),
    "top-p": (
        TopP(0.8),
        lambda row, prompt, tokens: fewest(row, softmax(row), 0.8),
        theirs.TopPLogitsWarper(0.8),
    ),
    "min-p": (
        MinP(0.2),
        lambda row, prompt, tokens: keep(
            row, [i for i, p in enumerate(softmax(row)) if p >= 0.2 * max(softmax(row))]
        ),
        theirs.MinPLogitsWarper(0.2),
    ),
    "typical": (
        Typical(0.6),
        lambda row, prompt, tokens: typical(row, 0.6),
        theirs.TypicalLogitsWarper(0.6),
    ),
    "repetition": (
        RepetitionPenalty(1.3),
        lambda row, prompt, tokens: repetition(row, prompt + tokens, 1.3),
        theirs.RepetitionPenaltyLogitsProcessor(1.3),
    ),
    "frequency": (
        FrequencyPenalty(0.4),
        lambda row, prompt, tokens: [x - 0.4 * tokens.count(i) for i, x in enumerate(row)],
        None,
    ),
    "presence": (
        PresencePenalty(-0.4),
        lambda row, prompt, tokens: [x + 0.4 * (i in tokens) for i, x in enumerate(row)],
        None,
    ),
    "no repeat of one": (
        NoRepeat(1),
        lambda row, prompt, tokens: no_repeat(row, prompt + tokens, 1),
        theirs.NoRepeatNGramLogitsProcessor(1),
    ),
    "no repeat of two": (
        NoRepeat(2),
        lambda row, prompt, tokens: no_repeat(row, prompt + tokens, 2),
        theirs.NoRepeatNGramLogitsProcessor(2),
    ),
    "no repeat of three": (
        NoRepeat(3),
        lambda row, prompt, tokens: no_repeat(row, prompt + tokens, 3),
        theirs.NoRepeatNGramLogitsProcessor(3),
    ),
    "bias": (
        Bias({2: 1.5, 7: -INF, 0: -2.0}),
        lambda row, prompt, tokens: [
            x + {2: 1.5, 7: -INF, 0: -2.0}.get(i, 0) for i, x in enumerate(row)
        ],
        theirs.SequenceBiasLogitsProcessor([[[2], 1.5], [[7], -INF], [[0], -2.0]]),
    ),
    "forbidden": (
        Forbidden(WORDS),
        lambda row, prompt, tokens: [
            -INF if any((*prompt, *tokens, i)[-len(w) :] == w for w in WORDS) else x
            for i, x in enumerate(row)
        ],
        theirs.NoBadWordsLogitsProcessor([list(w) for w in WORDS]),
    ),
    "most probable": (
        MostProbable(),
        lambda row, prompt, tokens: keep(row, [row.index(max(row))]),
        None,
    ),
    "prefix": (
        Prefix([[5, 6, 7, 8]] * 3),
        lambda row, prompt, tokens: (
            [0.0 if i == 5 + len(tokens) else -INF for i in range(V)] if len(tokens) < 4 else row
        ),
        None,
    ),
    "within": (
        WithinVocabulary(6),
        lambda row, prompt, tokens: keep(row, range(6)),
        None,
    ),
    "min length": (
        MinLength(4, 2),
        lambda row, prompt, tokens: [
            -INF if i == 2 and len(tokens) < 4 else x for i, x in enumerate(row)
        ],
        None,
    ),
}


def some_logits(seed, rows=3):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(rows, V, generator=generator, dtype=torch.float64)


def some_outputs(seed, length, prompt=3, rows=3):
    """Return outputs of few distinct tokens, so that they repeat."""
    generator = torch.Generator().manual_seed(seed)
    token_ids = torch.randint(0, 5, (rows, prompt + length), generator=generator).tolist()
    return [PartialOutput(row[prompt:], row[:prompt], item) for item, row in enumerate(token_ids)]


@pytest.mark.parametrize("name", TWINS)
def test_a_rule_equals_its_definition(name):
    rule, definition, _ = TWINS[name]
    for seed in range(40):
        logits, outputs = some_logits(seed), some_outputs(seed, length=seed % 9)
        untouched = logits.clone()
        result = rule(logits, outputs)
        expected = [
            definition(row, list(w.prompt), w.tokens)
            for row, w in zip(logits.tolist(), outputs, strict=True)
        ]
        torch.testing.assert_close(result, torch.tensor(expected, dtype=result.dtype))
        assert torch.equal(logits, untouched), "the rule wrote into its input"


@pytest.mark.parametrize("name", [name for name in TWINS if TWINS[name][2] is not None])
def test_a_rule_equals_that_of_transformers(name):
    rule, _, their_rule = TWINS[name]
    for seed in range(40):
        logits, outputs = some_logits(seed), some_outputs(seed, length=seed % 9)
        ids = torch.tensor([w.seen for w in outputs])
        torch.testing.assert_close(rule(logits, outputs), their_rule(ids, logits.clone()))


@pytest.mark.parametrize("name", TWINS)
def test_a_rule_treats_each_row_independently(name):
    rule = TWINS[name][0]
    logits, outputs = some_logits(5, rows=3), some_outputs(5, 6)
    alone = [rule(logits[i : i + 1], outputs[i : i + 1]) for i in range(3)]
    assert torch.equal(rule(logits, outputs), torch.cat(alone))


@given(st.lists(st.integers(-3, 3), min_size=V, max_size=V), st.floats(0.01, 1))
def test_tokens_tied_with_the_last_kept_token_are_kept(values, mass):
    """Integers are often tied; the kept tokens must be closed under ties."""
    logits, outputs = torch.tensor([values], dtype=torch.float64), [PartialOutput()]
    for rule in (TopP(mass), Typical(mass), MinP(mass), TopK(1 + round(mass * 7))):
        allowed = rule(logits, outputs)[0].isfinite()
        assert bool(allowed.any())
        for value in set(values):
            assert len({bool(allowed[i]) for i in range(V) if values[i] == value}) == 1
    total = sum(
        softmax(values)[i] for i in range(V) if bool(TopP(mass)(logits, outputs)[0, i] > -INF)
    )
    assert total >= mass - 1e-9


def test_a_rule_that_keeps_everything_changes_nothing():
    logits, outputs = some_logits(0), [PartialOutput() for _ in range(3)]
    logits[0, 4] = -INF
    rules = (TopK(V), TopK(10**6), TopP(1.0), Typical(1.0), MinP(0.0), Temperature(1.0))
    rules += (RepetitionPenalty(2.0), NoRepeat(1), NoRepeat(4), Forbidden([]), Bias({}))
    for rule in rules:
        assert torch.equal(rule(logits, outputs), logits), rule


def test_top_p_is_exact_in_a_large_vocabulary_with_a_flat_distribution():
    """The kept tokens are more than the first top-k of the implementation."""
    logits = torch.linspace(0, 1, 5000, dtype=torch.float64)[None].flip(1)
    for mass in (0.001, 0.5, 0.999):
        p = logits.softmax(-1)[0]
        count = int((p.cumsum(0) < mass).sum()) + 1
        assert int(TopP(mass)(logits, [PartialOutput()]).isfinite().sum()) == count


def test_a_token_without_probability_is_not_restored_by_another_rule():
    logits, outputs = some_logits(1), some_outputs(1, 6)
    logits[:, [0, 3]] = -INF
    for name, (rule, _, _) in TWINS.items():
        if name != "prefix":  # a prefix forces its tokens in any case
            assert bool((rule(logits, outputs)[:, [0, 3]] == -INF).all()), name


def test_forbidding_every_token_is_an_error_that_names_the_rules():
    outputs = [PartialOutput(), PartialOutput([1, 2])]
    logits = some_logits(2, rows=2)
    every = Forbidden([[token] for token in range(V)])
    with pytest.raises(UsageError, match=r"every token is forbidden after tokens \[\].*Forbidden"):
        apply_rules([Temperature(2.0), every], logits, outputs)
    with pytest.raises(UsageError, match=r"after tokens \[1, 2\]"):
        apply_rules([Forbidden([[2, token] for token in range(V)])], logits, outputs)
    logits[1, 4] = math.nan
    with pytest.raises(DataError, match="not finite"):
        apply_rules([], logits, outputs)


def test_rules_apply_in_their_order():
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    first = apply_rules([Bias({3: 9.0}), TopK(1)], logits, [PartialOutput()])
    second = apply_rules([TopK(1), Bias({3: 9.0})], logits, [PartialOutput()])
    assert first.isfinite().tolist() == [[False, False, False, True]]
    assert second.isfinite().tolist() == [[True, False, False, False]]


@pytest.mark.parametrize(
    "build",
    [
        lambda: Temperature(0.0),
        lambda: Temperature(INF),
        lambda: TopK(0),
        lambda: TopP(0.0),
        lambda: TopP(1.1),
        lambda: MinP(-0.1),
        lambda: Typical(0.0),
        lambda: RepetitionPenalty(0.0),
        lambda: FrequencyPenalty(math.nan),
        lambda: NoRepeat(0),
        lambda: Bias({3: INF}),
        lambda: Forbidden([[1], []]),
    ],
)
def test_a_rule_with_an_invalid_value_is_refused(build):
    with pytest.raises(ValueError, match="must be"):
        build()


@pytest.mark.parametrize("rule", [Bias({V: 1.0}), Forbidden([[1, -1]]), Prefix([[V]])])
def test_a_token_outside_the_vocabulary_is_refused(rule):
    with pytest.raises(ValueError, match="outside the vocabulary of 9"):
        rule(some_logits(0, rows=1), [PartialOutput()])
