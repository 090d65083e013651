"""A chat model learns to prefer better answers; the reference is computed once and stored."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headway.base.errors import DataError, UsageError
from headway.bundle import TextBundle
from headway.data.bad_rows import NONE_LEFT_OUT
from headway.data.dialogues import Preference, Turn
from headway.interop import ChatTemplate
from headway.tasks.dialogue_store import with_vocabulary
from headway.tasks.preference.config import PreferenceScoring
from headway.tasks.preference.data import (
    EncodedPairs,
    HeldOutPairs,
    fingerprint_of,
    read_pairs,
    write_pairs,
)
from headway.tasks.preference.task import PREFERENCE
from headway.tasks.rewards import REWARDS
from headway.tasks.sampled_answers import divergence, sampled
from headway.tasks.target_mask import TEMPLATE, OwnRenderer, with_role_tokens
from tests.fixtures.dialogues import language_model


def pair(question, better, worse):
    turns = Turn("assistant", better), Turn("assistant", worse)
    return Preference((Turn("user", question),), *turns, "pairs.jsonl:1")


PAIRS = [
    pair("the dog?", "a small dog", "the"),
    pair("a fox", "the red fox sees", "Hello Hello Hello"),
    pair("paints", "a lemon tree", "a lemon"),
]


@pytest.fixture(scope="module")
def chat():
    start = language_model()
    tokenizer = with_role_tokens(start.tokenizer)
    settings = replace(start.settings, template=ChatTemplate(by_name={"default": TEMPLATE}))
    return TextBundle(with_vocabulary(start.model, tokenizer.size), tokenizer, settings)


def moved(chat, by=0.05):
    """Return the model with slightly other weights."""
    model = with_vocabulary(chat.model, chat.config.vocabulary)
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn_like(parameter))
    return TextBundle(model, chat.tokenizer, chat.settings)


@pytest.fixture
def pairs(chat, tmp_path):
    return encoded(chat, tmp_path)


def encoded(chat, folder, length=60, rows=PAIRS):
    renderer = OwnRenderer(chat.tokenizer)
    return write_pairs(rows, renderer, chat, length, folder / "p", NONE_LEFT_OUT)


def test_the_stored_reference_is_that_of_the_model_token_by_token(chat, pairs):
    renderer = OwnRenderer(chat.tokenizer)
    for number, preference in enumerate(PAIRS):
        for side, answer in enumerate((preference.chosen, preference.rejected)):
            before, total = renderer.prompt(preference.prompt), 0.0
            assert side or pairs.prompt(number) == before
            for token in [*chat.tokenizer.encode(answer.content), chat.tokenizer.eos]:
                with torch.no_grad():
                    log_p = chat.model(torch.tensor([before]))[0, -1].log_softmax(-1)
                total, before = total + log_p[token].item(), [*before, token]
            assert pairs.reference[number, side] == pytest.approx(total, abs=1e-4)


def test_a_mask_that_is_off_by_one_gives_another_reference(chat, pairs):
    batch = pairs.batch([0, 1, 2])
    sides = (replace(side, is_target=np.roll(side.is_target, 1)) for side in pairs.sides)
    shifted = replace(pairs, sides=tuple(sides))
    assert not torch.equal(batch.targets, shifted.batch([0, 1, 2]).targets)


def test_a_batch_has_all_better_answers_and_then_all_worse_ones(chat, pairs):
    batch = pairs.batch([2, 0])
    decoded = [
        chat.tokenizer.decode([token for token in row.tolist() if token != -1])
        for row in batch.targets
    ]
    assert decoded == ["a lemon tree", "a small dog", "a lemon", "the"]
    assert batch.reference.tolist() == [
        *pairs.reference[[2, 0], 0].tolist(),
        *pairs.reference[[2, 0], 1].tolist(),
    ]


def test_another_reference_does_not_open_the_stored_data(chat, pairs, tmp_path):
    fingerprint = fingerprint_of(OwnRenderer(chat.tokenizer), moved(chat))
    with pytest.raises(DataError, match="reference model"):
        EncodedPairs.open(tmp_path / "p", fingerprint, chat.tokenizer.size)


def test_pairs_that_are_too_long_are_left_out_and_counted(chat, tmp_path):
    shortest = min(encoded(chat, tmp_path).lengths) - 1
    (tmp_path / "short").mkdir()
    few = encoded(chat, tmp_path / "short", shortest)
    assert len(few) == 1 and few.skipped == 2
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="no pair of answers is left: 3 have more than"):
        encoded(chat, tmp_path / "none", shortest - 1)


def test_the_reference_itself_has_no_margin_no_divergence_and_equal_answers(chat, pairs):
    scores = PREFERENCE.evaluate(chat, HeldOutPairs(pairs, chat), PreferenceScoring(sample=1))
    assert abs(scores["margin"]) < 1e-4 and abs(scores["kl"]) < 1e-4
    assert scores["length"] == scores["length_before"]
    (sample,) = scores.samples
    assert sample["reference"] == sample["output"] and "the dog?" in sample["prompt"]


def test_margins_are_the_gains_of_better_over_worse_answers(chat, pairs):
    other = moved(chat)
    scores = PREFERENCE.evaluate(other, HeldOutPairs(pairs, chat))
    batch = pairs.batch(range(3))
    gains = []
    for row in range(6):
        places = batch.targets[row] != -1
        with torch.no_grad():
            log_p = other.model(batch.tokens[row : row + 1])[0].log_softmax(-1)
        gains.append(log_p[places, batch.targets[row][places]].sum() - batch.reference[row])
    margins = torch.stack(gains[:3]) - torch.stack(gains[3:])
    assert scores["margin"] == pytest.approx(margins.mean().item(), abs=1e-4)
    assert scores["accuracy"] == pytest.approx((margins > 0).float().mean().item())
    assert scores["chosen"] - scores["rejected"] == pytest.approx(scores["margin"])


def test_the_divergence_is_that_of_the_answers_under_both_models(chat, pairs):
    other = moved(chat, 0.3)
    prompts = [pairs.prompt(0)] * 64
    answers = [answer for (answer,) in sampled(other, prompts, 4)]
    assert divergence(other, chat, answers) > 0 == divergence(chat, chat, answers)
    assert all(len(answer.tokens) <= 5 for answer in answers)


def test_a_model_without_its_reference_is_not_evaluated_on_pairs(chat, tmp_path):
    with pytest.raises(UsageError, match="model before training, which is unknown"):
        read_pairs(chat, [tmp_path / "pairs.jsonl"], None, PreferenceScoring())


def test_a_judge_compares_the_sampled_answers_with_those_of_the_reference(chat, pairs):
    held_out = HeldOutPairs(pairs, chat)
    with REWARDS.registered("text", lambda problem, text: float(len(text))):
        assert (
            PREFERENCE.evaluate(chat, held_out, PreferenceScoring(judge="text"))["win_rate"] == 0.5
        )
    with REWARDS.registered("answer", lambda problem, text: float(problem.answer != "the red fox")):
        assert (
            PREFERENCE.evaluate(chat, held_out, PreferenceScoring(judge="answer"))["win_rate"]
            == 0.5
        )
    assert [chat.tokenizer.decode(pairs.answer(i)).strip() for i in range(3)] == [
        pair.chosen.content for pair in PAIRS
    ]
    assert "win_rate" not in PREFERENCE.evaluate(chat, held_out, PreferenceScoring())
