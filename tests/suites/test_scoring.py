"""Likelihoods are those of the definition, computed here token by token without a cache.

The definition is that of the Language Model Evaluation Harness, transcribed: both texts are encoded
together, and the tokens after those of the context are scored.
"""

import pytest
import torch

from headway.base.errors import DataError, HeadwayWarning
from headway.bundle import TextBundle
from headway.models import GPT, GPTConfig
from headway.suites.scoring import Scorer
from tests.fixtures.hf_gpt import Bytes
from tests.fixtures.random_weights import with_noise

SHAPE = {"model_dim": 12, "num_heads": 2, "ffn_dim": 20, "num_layers": 2, "vocabulary": 300}
POSITIONS = ["learned", "rotary", "alibi"]


TRUNCATED = pytest.mark.filterwarnings("ignore:.*lose their beginning")


def bundle_of(positions="learned", opening=True, max_length=24):
    torch.manual_seed(5)
    model = with_noise(GPT(GPTConfig(**SHAPE, positions=positions, max_length=max_length)))
    return TextBundle(model.eval(), Bytes(opening))


def defined(bundle, context, continuation):
    """log P(continuation | context) by one forward pass over the whole, and greedy agreement."""
    tokenizer, model = bundle.tokenizer, bundle.model
    spaces = len(context) - len(context.rstrip())
    if spaces:
        continuation, context = context[-spaces:] + continuation, context[:-spaces]
    if context:
        before = tokenizer.begin(context)
        after = tokenizer.begin(context + continuation)[len(before) :]
    else:
        before, after = [tokenizer.bos], tokenizer.encode(continuation)
    ids = (before + after)[-(model.config.max_length + 1) :][:-1]
    with torch.no_grad():
        log_p = model(torch.tensor([ids]))[0].log_softmax(-1)[-len(after) :]
    nats = sum(float(row[token]) for row, token in zip(log_p, after, strict=True))
    return nats, log_p.argmax(-1).tolist() == after


LONG = ("it's a lemon tree and a small red dog sees the fox", " tree")
ROWS = [
    [
        ("the old baker", " paints"),
        ("the old baker", " paints a lemon"),
        ("the old baker", " sees"),
    ],
    [("", "the dog sees"), ("", "a small red fox")],
    [("the baker sees the owl ", "and it is the baker's dog, isn't it? "), ("the ", "dog")],
    [LONG, ("the fox", " tree")],
    [("the", " dog")],
]


@TRUNCATED
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("opening", [True, False])
def test_likelihoods_equal_their_definition(positions, opening):
    bundle = bundle_of(positions, opening)
    for row, computed in zip(ROWS, Scorer(bundle).likelihoods(ROWS), strict=True):
        for (context, continuation), (nats, is_greedy) in zip(row, computed, strict=True):
            expected = defined(bundle, context, continuation)
            assert nats == pytest.approx(expected[0], abs=2e-5)
            assert is_greedy == expected[1]


@TRUNCATED
def test_a_row_does_not_depend_on_the_other_rows():
    scorer = Scorer(bundle_of())
    together = scorer.likelihoods(ROWS)
    for row, computed in zip(ROWS, together, strict=True):
        for one, other in zip(scorer.likelihoods([row])[0], computed, strict=True):
            assert one.nats == pytest.approx(other.nats, abs=2e-5)


def test_what_greedy_decoding_writes_is_greedy():
    bundle = bundle_of(max_length=48)
    scorer = Scorer(bundle)
    (best,) = bundle.generate(["the old"], temperature=0.0, max_tokens=1)[0]
    ids = [*bundle.tokenizer.begin("the old"), *best.tokens]
    text = bundle.tokenizer.decode(ids)
    if bundle.tokenizer.begin(text) == ids:
        assert scorer.likelihoods([[("the old", text[len("the old") :])]])[0][0].is_greedy


@pytest.mark.parametrize("max_length", [5, 7, 64])
def test_a_long_text_is_scored_in_windows_and_each_token_once(max_length):
    bundle = bundle_of(max_length=max_length)
    text = "the old baker paints a lemon tree and the small dog sees it"
    tokens = bundle.tokenizer.encode(text)
    expected = 0.0
    whole = [bundle.tokenizer.bos, *tokens]
    for begin in range(0, len(tokens), max_length):
        end = min(begin + max_length, len(tokens))
        ids = whole[max(0, end - max_length) : end]
        with torch.no_grad():
            log_p = bundle.model(torch.tensor([ids]))[0].log_softmax(-1)
        for offset in range(begin, end):
            expected += float(log_p[len(ids) - (end - offset), tokens[offset]])
    (nats,) = Scorer(bundle).texts([text])
    assert nats == pytest.approx(expected, abs=1e-4)


def test_a_continuation_without_tokens_or_beyond_the_context_is_refused():
    scorer = Scorer(bundle_of(max_length=4))
    with pytest.raises(DataError, match="0 tokens"):
        scorer.likelihoods([[("the fox", "")]])
    with pytest.raises(DataError, match="1 to 4"):
        scorer.likelihoods([[("the", " dog sees the red fox and the lemon tree")]])


def test_continuations_are_greedy_and_end_at_a_line_break():
    bundle = bundle_of(max_length=48)
    texts = Scorer(bundle).continuations(["the old baker", "a"], 6)
    expected = [
        best.text.split("\n")[0]
        for (best,) in bundle.generate(["the old baker", "a"], temperature=0.0, max_tokens=6)
    ]
    assert texts == expected


def test_prompts_that_lose_their_beginning_are_reported():
    with pytest.warns(HeadwayWarning, match="2 of 8 prompts have more tokens than the context"):
        Scorer(bundle_of(max_length=16)).likelihoods([[("the", " dog")] * 6, [LONG] * 2])
    with pytest.warns(HeadwayWarning, match="1 of 2 prompts"):
        Scorer(bundle_of(max_length=16)).continuations([LONG[0], "a"], 4)
