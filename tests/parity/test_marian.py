"""A whole translator compared with transformers' MarianMT, with the same weights."""

from dataclasses import replace
from itertools import groupby

import pytest
import torch
from bench.marian import Specials, to_marian
from torch.testing import assert_close

from headway.base.errors import UsageError
from headway.decoding import Bias, Forbidden, Limits
from headway.models import Translator, TranslatorConfig
from tests.fixtures.searches import beam_search, greedy_search

B, S, T, V = 3, 7, 5, 19
W, LENGTH = 3, 30
ENDS = 6.0  # added to the logit of </s>
SPECIALS = Specials(pad=0, bos=1, eos=2)
LONG = Limits(1, 2, [LENGTH], [Forbidden([[0], [1]]), Bias({2: ENDS})])
AVERAGE = {"beam": W, "num_best": W, "normalisation": "average"}
CONFIG = TranslatorConfig(
    model_dim=24,
    num_heads=3,
    ffn_dim=40,
    encoder_layers=2,
    decoder_layers=3,
    norm="post",
    source_vocabulary=V,
    target_vocabulary=V,
)


@pytest.fixture
def pair():
    model = Translator(CONFIG).eval()
    with torch.no_grad():  # zero biases would hide a forgotten one
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model, to_marian(model, SPECIALS)


@torch.no_grad()
def test_logits_equal_marians(pair):
    model, theirs = pair
    source, read = torch.randint(3, V, (B, S)), torch.randint(3, V, (B, T))
    keys = torch.arange(S) < torch.tensor([[S], [4], [6]])
    expected = theirs(input_ids=source, attention_mask=keys.long(), decoder_input_ids=read).logits
    assert_close(model(source, read, keys), expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_greedy_outputs_equal_marians_generate(pair):
    model, theirs = pair
    source = torch.randint(3, V, (B, S))
    ours = greedy_search(model, (source, None), Limits(1, 2, [8] * B, [Forbidden([[0], [1]])]))
    generated = theirs.generate(
        input_ids=source,
        attention_mask=torch.ones_like(source),
        num_beams=1,
        do_sample=False,
        max_new_tokens=9,  # Marian forces </s> at the last position
        bad_words_ids=[[0], [1]],
    )
    for hypothesis, row in zip(ours, generated.tolist(), strict=True):
        words = row[1:]
        assert list(hypothesis.tokens) == (words[: words.index(2)] if 2 in words else words)


@torch.no_grad()
def test_beams_that_stop_early_equal_marians_generate_with_its_default():
    """All W outputs and their scores are equal, unless one of two other differences explains it: an
    ending that is not among the W best candidates finishes here but not there, and an output of
    maximum length ends at no cost there."""
    equal = exact_differs = 0
    for seed in range(24):
        torch.manual_seed(seed)
        model, source = Translator(CONFIG).eval(), torch.randint(3, V, (1, S))
        model.output.weight.mul_(3)
        candidates = []
        (outputs,) = beam_search(
            model,
            (source, None),
            LONG,
            **AVERAGE,
            early_stopping=True,
            observe=candidates.append,
        )
        theirs = to_marian(model, SPECIALS)
        theirs.final_logits_bias[:, [0, 1, 2]] = torch.tensor([-1e9, -1e9, ENDS])
        generated = theirs.generate(
            input_ids=source,
            attention_mask=torch.ones_like(source),
            num_beams=W,
            num_return_sequences=W,
            do_sample=False,
            max_new_tokens=LENGTH + 1,
            return_dict_in_generate=True,
            output_scores=True,
        )
        words = [row[1 : row.index(2)] for row in generated.sequences.tolist()]
        scores = pytest.approx(generated.sequences_scores.tolist(), abs=1e-4)
        if [list(h.tokens) for h in outputs] != words or [h.score for h in outputs] != scores:
            steps = [list(step) for _, step in groupby(candidates, lambda c: len(c.before))]
            late_endings = any(c.ends for step in steps for c in step[W:])
            assert late_endings or len(steps) > LENGTH, seed
            continue
        equal += 1
        (exact,) = beam_search(model, (source, None), LONG, **AVERAGE)
        exact_differs += exact != outputs
        if equal > 3 and exact_differs > 1:
            return
    raise AssertionError(f"{equal} equal, of which {exact_differs} differ from exact search")


def test_a_pre_norm_model_is_refused():
    with pytest.raises(UsageError):
        to_marian(Translator(replace(CONFIG, norm="pre")), SPECIALS)
