"""Losses of tagging and question answering, and that micro-batches of any size agree."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.data.word_targets import WordSequence, WordTargets
from headway.models import Bert, BertConfig, BertQuestionAnswering, BertTagger
from headway.tasks.question_answering.task import AnsweringObjective
from headway.tasks.question_answering.windows import AnswerTexts, Window
from headway.tasks.tagging.task import TaggingObjective

CONFIG = BertConfig(
    model_dim=24, num_heads=3, ffn_dim=40, num_layers=2, max_length=12, vocabulary=19
)
TAGGED = WordTargets(
    [
        WordSequence([1, 5, 6, 7, 2], [1, 3]),
        WordSequence([1, 8, 2], [1]),
        WordSequence([1, 9, 9, 9, 9, 4, 2], [1]),
    ],
    [[2, 0], [3], [1]],
)
ANSWERS = AnswerTexts(
    [
        Window([1, 5, 2, 6, 7, 8, 2], 3, 0, 3),
        Window([1, 5, 5, 2, 9, 2], 4, 0, 1),
        Window([1, 5, 2, 6, 7, 8, 9, 9, 2], 3, 2, 5),
    ],
    [(3, 5), (0, 0), (6, 6)],
)


def tagger():
    return BertTagger(Bert(CONFIG), 4).eval(), TaggingObjective(), TAGGED


def answerer():
    return BertQuestionAnswering(Bert(CONFIG)).eval(), AnsweringObjective(), ANSWERS


def test_a_tag_is_predicted_at_the_first_token_of_its_word_only():
    model, objective, texts = tagger()
    loss = objective(model, texts.batch([0, 1, 2], 0))
    expected = 0.0
    for row, tags in zip(texts.rows, texts.targets, strict=True):
        tokens = torch.tensor([row.ids])
        logits = model(tokens, torch.ones_like(tokens, dtype=torch.bool))[0]
        for position, tag in zip(row.firsts, tags, strict=True):
            expected -= logits[position].log_softmax(-1)[tag]
    assert loss.count == 4
    assert_close(loss.total, expected, rtol=0, atol=1e-5)
    assert not loss.nats.requires_grad


def test_the_answer_loss_is_the_mean_of_start_and_end_over_the_tokens_of_the_window():
    model, objective, texts = answerer()
    loss = objective(model, texts.batch([0, 1, 2], 0))
    expected = torch.zeros(())
    for window, (begin, end) in zip(texts.windows, texts.targets, strict=True):
        tokens, types = torch.tensor([window.ids]), torch.tensor([window.types])
        logits = model(tokens, torch.ones_like(tokens, dtype=torch.bool), types)
        expected += F.cross_entropy(logits[..., 0], torch.tensor([begin])) / 2
        expected += F.cross_entropy(logits[..., 1], torch.tensor([end])) / 2
    assert loss.count == 3
    assert_close(loss.total, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("make", [tagger, answerer])
def test_single_sequences_give_the_gradient_of_the_whole_batch(make):
    model, objective, texts = make()

    def gradients(parts):
        model.zero_grad()
        losses = [objective(model, texts.batch(part, pad)) for pad, part in enumerate(parts)]
        sum(loss.total for loss in losses).backward()
        return [p.grad.clone() for p in model.parameters()], sum(loss.count for loss in losses)

    whole, count = gradients([[0, 1, 2]])
    accumulated, again = gradients([[2], [0], [1]])
    assert count == again
    for expected, gradient in zip(whole, accumulated, strict=True):
        assert_close(gradient, expected, rtol=0, atol=1e-6)
