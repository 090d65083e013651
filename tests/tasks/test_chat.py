"""A language model learns from the answers of conversations, and from nothing else."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headway.base.errors import DataError, UsageError
from headway.bundle import TextBundle
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.dialogues import Dialogue, Turn
from headway.interop import ChatTemplate
from headway.tasks.chat.task import CHAT
from headway.tasks.dialogue_packing import PackedDialogues, packed, rows_of
from headway.tasks.dialogue_questions import questions_of
from headway.tasks.dialogue_store import (
    CUT,
    NO_ANSWER,
    fitted_length,
    with_vocabulary,
    write_dialogues,
)
from headway.tasks.target_mask import TEMPLATE, OwnRenderer, with_role_tokens
from headway.training import TextObjective
from tests.fixtures.dialogues import TALKS, language_model


@pytest.fixture(scope="module")
def bundle():
    chat = language_model()
    tokenizer = with_role_tokens(chat.tokenizer)
    model = with_vocabulary(chat.model, tokenizer.size).double()
    template = ChatTemplate(by_name={"default": TEMPLATE})
    return TextBundle(model, tokenizer, replace(chat.settings, template=template))


def encoded(bundle, folder, dialogues=TALKS, length=60, bad_rows=NONE_LEFT_OUT):
    renderer, size = OwnRenderer(bundle.tokenizer), bundle.tokenizer.size
    return write_dialogues(dialogues, renderer, size, length, folder / "d", bad_rows)


def gradients(model, batches):
    """Return the loss and the gradients of batches, divided once by the number of targets."""
    model.zero_grad()
    losses = [TextObjective()(model, batch) for batch in batches]
    count = sum(loss.count for loss in losses)
    total = torch.stack([loss.total for loss in losses]).sum() / count
    total.backward()
    return total.item(), count, [p.grad.clone() for p in model.parameters()]


def assert_equal_gradients(first, second):
    assert first[1] == second[1] and abs(first[0] - second[0]) < 1e-12
    for a, b in zip(first[2], second[2], strict=True):
        assert (a - b).abs().max() < 1e-12


def test_packed_conversations_train_as_unpacked_ones_and_accumulated_as_at_once(bundle, tmp_path):
    dialogues = encoded(bundle, tmp_path)
    indices = range(len(dialogues))
    alone = gradients(bundle.model, [packed(dialogues, [[i]]) for i in indices])
    together = gradients(bundle.model, [packed(dialogues, [[0, 1, 2], [3, 4]])])
    assert_equal_gradients(alone, together)
    assert_equal_gradients(alone, gradients(bundle.model, [packed(dialogues, [[4, 2, 1, 0, 3]])]))


def test_the_loss_is_that_of_the_answers_computed_token_by_token(bundle, tmp_path):
    """The reference is written from the definition: no mask, no shift, no packing."""
    renderer, total, count = OwnRenderer(bundle.tokenizer), 0.0, 0
    for talk in TALKS:
        for number, turn in enumerate(talk.turns):
            if turn.role != "assistant":
                continue
            before = renderer.prompt(talk.turns[:number])
            for token in [*bundle.tokenizer.encode(turn.content), bundle.tokenizer.eos]:
                with torch.no_grad():
                    log_p = bundle.model(torch.tensor([before]))[0, -1].log_softmax(-1)
                total, count, before = total - log_p[token].item(), count + 1, [*before, token]
    dialogues = encoded(bundle, tmp_path)
    mean, targets, _ = gradients(bundle.model, [packed(dialogues, [[0, 1], [2, 3, 4]])])
    assert targets == count and abs(mean - total / count) < 1e-12
    assert abs(CHAT.evaluate(bundle, dialogues)["nats"] - total / count) < 1e-12


@pytest.mark.parametrize("shift", [-1, 1])
def test_a_mask_that_is_off_by_one_changes_the_loss(bundle, tmp_path, shift):
    """What the test above would not notice, it would not guard."""
    dialogues = encoded(bundle, tmp_path)
    right = gradients(bundle.model, [packed(dialogues, [[0, 1], [2, 3, 4]])])[0]
    moved = replace(dialogues, is_target=np.roll(dialogues.is_target, shift))
    assert abs(gradients(bundle.model, [packed(moved, [[0, 1], [2, 3, 4]])])[0] - right) > 1e-4


def test_rows_without_targets_are_left_out_and_counted(bundle, tmp_path):
    silent = Dialogue((Turn("user", "a dog"),), "chat.jsonl:9")
    read_only = Dialogue((Turn("user", "a"), Turn("assistant", "b", 0)), "chat.jsonl:10")
    dialogues = encoded(bundle, tmp_path, [TALKS[0], silent, read_only, *TALKS[1:]])
    assert len(dialogues) == len(TALKS)
    assert dialogues.skipped == {NO_ANSWER: 2, CUT: 0} and dialogues.truncated == 0


def test_truncation_keeps_a_target_or_leaves_the_row_out(bundle, tmp_path):
    length = len(OwnRenderer(bundle.tokenizer).prompt(TALKS[0].turns[:1]))
    dialogues = encoded(bundle, tmp_path, length=length)
    assert dialogues.skipped[CUT] > 0 and dialogues.truncated > 0
    assert len(dialogues) + dialogues.skipped[CUT] == len(TALKS)
    for index in range(len(dialogues)):
        tokens, is_target = dialogues.sequence(index)
        assert len(tokens) <= length + 1 and is_target[1:].any()
    # the first token of the first answer is the only target that is left of it
    assert dialogues.sequence(0)[1].nonzero()[0].tolist() == [length]


def test_no_conversation_with_an_answer_is_an_error_that_counts_the_others(bundle, tmp_path):
    silent = Dialogue((Turn("user", "a dog"),), "chat.jsonl:9")
    with pytest.raises(DataError, match="no conversation has an answer to learn: 1 without"):
        encoded(bundle, tmp_path, [silent])


def test_a_conversation_that_cannot_be_rendered_is_left_out_if_the_policy_allows(bundle, tmp_path):
    tool = Dialogue((Turn("tool", "42"), Turn("assistant", "a")), "chat.jsonl:3")
    bad_rows = BadRows.of("skip:1")
    assert len(encoded(bundle, tmp_path, [tool, *TALKS], bad_rows=bad_rows)) == len(TALKS)
    assert "chat.jsonl:3" in bad_rows.lines()[0]


def test_each_epoch_has_each_conversation_once_in_sequences_with_room(bundle, tmp_path):
    lengths = encoded(bundle, tmp_path).lengths
    order = PackedDialogues(lengths, 2, 64, seed=1)
    for epoch in range(3):
        rows = [row for batch in order(epoch) for row in batch]
        assert sorted(i for row in rows for i in row) == list(range(len(lengths)))
        assert all(sum(lengths[row]) <= 64 for row in rows) and len(rows) < len(lengths)
    assert order(0) == order(0) != order(1)
    assert order.batches_per_epoch == len(order(0))


@pytest.mark.parametrize(("shortest", "longest"), [(35, 68), (7, 20), (2, 128)])
def test_sequences_of_a_batch_are_about_equally_full_and_need_no_room_beyond(shortest, longest):
    lengths, room = np.random.default_rng(0).integers(shortest, longest, 4000), 128
    order = PackedDialogues(lengths, 16, room, seed=1)
    if_all_had_room = 1 - lengths.sum() / sum(len(batch) * room for batch in order(0))
    assert 0 <= order.padding < if_all_had_room / 8


def test_many_conversations_leave_few_sequences_open():
    lengths = np.full(500, 40)
    rows = rows_of(range(500), lengths, 100)
    assert sorted(i for row in rows for i in row) == list(range(500)) and len(rows) == 250


def test_new_tokens_leave_the_old_predictions_as_they_are(bundle):
    before = language_model()
    after = with_vocabulary(before.model, before.tokenizer.size + 3)
    tokens = torch.tensor([[4, 9, 2, 7]])
    old = after(tokens)[..., : before.tokenizer.size]
    assert torch.equal(old, before.model(tokens)) and len(after.output.weight) == old.shape[-1] + 3
    assert after.output.weight is after.embedding.tokens.weight


def test_the_last_question_of_a_conversation_is_asked(bundle, tmp_path):
    dialogues = encoded(bundle, tmp_path)
    questions = questions_of(dialogues, bundle.tokenizer.ends, None)
    renderer = OwnRenderer(bundle.tokenizer)
    for question, talk in zip(questions, TALKS, strict=True):
        assert question.prompt == renderer.prompt(talk.turns[:-1])
        assert bundle.tokenizer.decode(question.answer) == talk.turns[-1].content
    scores = CHAT.evaluate(bundle, dialogues)
    assert scores["exact"] == 0 and scores.counts["answers"] == len(TALKS)


def test_a_length_beyond_the_models_positions_is_refused():
    assert fitted_length(None, 256, None) == 256 and fitted_length(None, 256, 64) == 64
    with pytest.raises(UsageError, match=r"length=100 is more than the 64 positions"):
        fitted_length(100, 256, 64)
