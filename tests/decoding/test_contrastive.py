"""Contrastive search and DoLa, compared with their equations computed without a cache."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from headway.base.errors import UsageError
from headway.blocks.hidden_states import record_hidden_states
from headway.decoding import MostProbable, Sampling, open_rows, run, sample_search
from headway.decoding.contrastive import contrastive_steps
from headway.decoding.layer_contrast import GAP, PLAUSIBLE, contrasted, layer_contrast
from headway.decoding.rule import PartialOutput
from headway.decoding.rules import Forbidden, NoRepeat
from tests.fixtures.searches import greedy_search
from tests.fixtures.zoo import BOS, EOS, MODELS, PAD, limits, some_rows

GPTS = [name for name in MODELS if name.startswith("gpt")]
RULES = [Forbidden([[PAD], [BOS]])]


def prompts(count, seed):
    """Prompts of different lengths; one has a single token."""
    return [[BOS, *row[:length]] for length, row in enumerate(some_rows(count, seed))]


def searched(model, ids, alpha, count, most=7):
    sampling = Sampling(eos=EOS, max_tokens=most, rules=RULES)
    rows = open_rows(model, ids, [[0]] * len(ids), sampling)
    for _ in contrastive_steps(model, rows, sampling, alpha, count):
        pass
    return rows


@torch.no_grad()
def by_the_equation(model, prompt, alpha, count, most=7):
    """The equation, with the whole text read again for every candidate."""
    tokens = list(prompt)
    for _ in range(most):
        logits = model(torch.tensor([tokens]))[0, -1]
        logits[[PAD, BOS]] = -torch.inf
        best = logits.softmax(-1).topk(count)
        before = model.hidden(torch.tensor([tokens]))[0]
        values = []
        for p, token in zip(best.values, best.indices.tolist(), strict=True):
            vector = model.hidden(torch.tensor([[*tokens, token]]))[0, -1]
            similarity = cosine_similarity(before, vector[None], dim=-1).max()
            values.append((1 - alpha) * p - alpha * similarity)
        token = int(best.indices[int(torch.stack(values).argmax())])
        if token == EOS:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


@pytest.mark.turns(3)
@pytest.mark.parametrize("alpha", [0.3, 0.9])
@pytest.mark.parametrize("name", GPTS)
def test_a_batch_has_the_outputs_of_the_equation(name, alpha):
    model = MODELS[name].build()
    ids = prompts(5, seed=1)
    for prompt, row in zip(ids, searched(model, ids, alpha, 3), strict=True):
        assert row.tokens == by_the_equation(model, prompt, alpha, 3)


def test_without_a_weight_it_is_greedy_search():
    model = MODELS["gpt"].build()
    ids = prompts(4, seed=2)
    sampling = Sampling(eos=EOS, max_tokens=7, rules=[*RULES, MostProbable()])
    greedy = open_rows(model, ids, [[0]] * 4, sampling)
    run(model, sample_search(model, greedy, sampling))
    rows = searched(model, ids, 0.0, 4)
    assert [row.tokens for row in rows] == [row.tokens for row in greedy]
    for row, other in zip(rows, greedy, strict=True):
        assert row.log_probabilities == pytest.approx(other.log_probabilities, abs=1e-4)
        assert row.reason == other.reason


def test_an_output_ends_at_the_end_of_the_context():
    model = MODELS["gpt"].build()
    rows = searched(model, [[BOS, *[5] * 27], [BOS, *[5] * 31]], 0.5, 3, most=50)
    assert [len(row.tokens) for row in rows] == [4, 0] or rows[0].reason == "end"
    assert rows[1].reason == "context"


def test_recurrent_networks_are_refused():
    model = MODELS["rnn"].build()
    with pytest.raises(UsageError, match="Transformer decoder"):
        next(contrastive_steps(model, searched_rows(), Sampling(eos=EOS, max_tokens=3), 0.5, 3))
    with pytest.raises(UsageError, match="at least two layers"), layer_contrast(model, "low"):
        pass


def searched_rows():
    model = MODELS["gpt"].build()
    return open_rows(model, [[BOS]], [[0]], Sampling(eos=EOS, max_tokens=3))


@torch.no_grad()
def dola_by_hand(model, tokens, layers):
    """The scores after a whole text, with the equations for one distribution at a time."""
    with record_hidden_states(model.decoder) as hidden:
        last = model(torch.tensor([tokens]))[0, -1].softmax(-1)
    best, chosen = -1.0, last
    for layer in layers:
        early = model.output(model.decoder.norm(hidden[layer]))[0, -1].softmax(-1)
        middle = (last + early) / 2
        divergence = sum((p * (p / middle).log()).sum() / 2 for p in (last, early)).item()
        if divergence > best:
            best, chosen = divergence, early
    scores = last.log() - chosen.log()
    return torch.where(last >= PLAUSIBLE * last.max(), scores, last.log() - GAP)


@pytest.mark.parametrize(
    ("name", "half", "layers"),
    [
        ("gpt", "low", [1]),
        ("gpt", "high", [1]),
        ("gpt modern", "low", [1]),
        ("gpt post-norm", "low", [0, 1]),
    ],
)
def test_the_scores_of_each_step_are_those_of_dola(name, half, layers):
    model = MODELS[name].build()
    with torch.no_grad():
        for parameter in model.output.parameters():
            parameter.mul_(20)  # so that some tokens are implausible
    tokens = [BOS, 4, 7, 5, 5, 9]
    with layer_contrast(model, half) as contrast, torch.inference_mode():
        state = contrast.start(torch.tensor([tokens[:2]]))
        for end in range(3, len(tokens) + 1):
            scores, state = contrast.step(torch.tensor([tokens[end - 1 : end]]), state)
            expected = dola_by_hand(model, tokens[:end], layers)
            assert torch.allclose(scores[0, -1], expected, atol=1e-3)
            assert (expected < -GAP / 2).any()


@pytest.mark.parametrize("name", ["gpt post-norm", "translator", "captioner"])
def test_a_contrast_works_in_every_search_and_leaves_the_model_as_it_was(name):
    family = MODELS[name]
    model, rows = family.build(), some_rows(3, seed=4)
    inputs = family.inputs(rows)
    before = [h.tokens for h in greedy_search(model, inputs, limits(rows))]
    with layer_contrast(model, "low") as contrast:
        contrasted = [h.tokens for h in greedy_search(contrast, inputs, limits(rows))]
        alone = [
            greedy_search(contrast, family.inputs([row]), limits([row]))[0].tokens for row in rows
        ]
    assert contrasted == alone
    assert [h.tokens for h in greedy_search(model, inputs, limits(rows))] == before


def test_rules_that_forbid_all_plausible_tokens_leave_the_others_in_order_of_probability():
    last = torch.tensor([[[0.0, 9.0, 1.0, 2.0]]])
    early = torch.tensor([[[[0.0, 2.0, 1.0, 3.0]]]])
    scores = contrasted(last, early)[:, -1]
    assert scores.softmax(-1).tolist() == [[0.0, 1.0, 0.0, 0.0]]
    allowed = Forbidden([[1]])(scores, [PartialOutput()])
    expected = last[0].masked_fill(torch.tensor([[False, True, False, False]]), -torch.inf)
    assert torch.allclose(allowed.softmax(-1), expected.softmax(-1), atol=1e-3)


def test_texts_without_a_repeated_token_can_be_written_by_contrast():
    model = MODELS["gpt"].build()
    with torch.no_grad():
        model.output.weight.mul_(20)  # so that few tokens are plausible
    sampling = Sampling(eos=EOS, max_tokens=7, rules=[*RULES, NoRepeat(1), MostProbable()])
    rows = open_rows(model, [[BOS]], [[0]], sampling)
    with layer_contrast(model, "low") as contrast:
        run(contrast, sample_search(contrast, rows, sampling))
    assert len(set(rows[0].tokens)) == len(rows[0].tokens) > 1


def test_the_layer_that_differs_most_is_chosen_where_probabilities_vanish():
    last = torch.tensor([[[0.0, -300.0, -1.0]]])
    swapped = torch.tensor([[[-1.0, -300.0, 0.0]]])
    scores = contrasted(last, torch.stack([last, swapped]))
    assert torch.allclose(scores[0, 0, [0, 2]], torch.tensor([1.0, -1.0]))
