"""The loss of masked tokens and next sentences; planted faults change it."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.data.padding import IGNORED, EncoderBatch
from headway.models import Bert, BertConfig
from headway.tasks.masked_language_modeling.masked_batches import MaskedBatch
from headway.tasks.masked_language_modeling.model import MaskedLanguageModelingObjective, judge

SMALL = BertConfig(
    model_dim=12, num_heads=3, ffn_dim=20, num_layers=2, max_length=9, vocabulary=17, dropout=0.0
)


def batch_of(rows: int = 5, length: int = 8, pairs: bool = True) -> MaskedBatch:
    torch.manual_seed(3)
    tokens = torch.randint(5, 17, (rows, length))
    keys = torch.arange(length) < torch.tensor([8, 5, 8, 6, 7])[:rows, None]
    types = (torch.arange(length) > 3).long().expand(rows, -1) * keys
    targets = torch.where(torch.rand(rows, length) < 0.4, tokens.flip(1), IGNORED)
    targets[~keys] = IGNORED
    elsewhere = torch.tensor([1, 0, 0, 1, 1])[:rows] if pairs else None
    return MaskedBatch(EncoderBatch(tokens, keys, types), targets, elsewhere)


def part(batch: MaskedBatch, first: int, last: int) -> MaskedBatch:
    framed = batch.framed
    return MaskedBatch(
        EncoderBatch(framed.tokens[first:last], framed.keys[first:last], framed.types[first:last]),
        batch.targets[first:last],
        batch.elsewhere[first:last],
    )


@pytest.fixture
def model():
    torch.manual_seed(1)
    model = Bert(SMALL)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def plain(model: Bert, batch: MaskedBatch):
    """Return both terms by definition: masked tokens over all positions, and pairs."""
    framed = batch.framed
    logits = model(framed.tokens, framed.keys, framed.types)
    words = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORED)
    hidden = model.encode(framed.tokens, framed.keys, framed.types)
    pairs = F.cross_entropy(model.next_sentence(model.pooler(hidden)), batch.elsewhere)
    return words * (batch.targets != IGNORED).sum(), pairs * len(batch.elsewhere)


def test_the_loss_equals_torchs_over_the_masked_positions_and_the_pairs(model):
    batch = batch_of()
    words, pairs = plain(model, batch)
    loss = MaskedLanguageModelingObjective(2.5)(model, batch)
    assert_close(loss.total, words + 2.5 * pairs)
    assert_close(loss.nats, words.detach())
    assert loss.count == int((batch.targets != IGNORED).sum()) and not loss.nats.requires_grad


def test_with_equal_numbers_of_masked_tokens_both_terms_are_means(model):
    batch = batch_of()
    per_sequence = float((batch.targets != IGNORED).sum()) / 5
    words, pairs = plain(model, batch)
    loss = MaskedLanguageModelingObjective(per_sequence)(model, batch)
    assert_close(loss.total / loss.count, words / loss.count + pairs / 5)


def test_without_pairs_the_loss_is_that_of_the_masked_tokens(model):
    batch = batch_of()
    loss = MaskedLanguageModelingObjective(2.5)(model, replace(batch, elsewhere=None))
    assert_close(loss.total, plain(model, batch)[0])
    assert judge(model, replace(batch, elsewhere=None)).follows is None


def gradient(model, *losses):
    model.zero_grad()
    sum(losses).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_micro_batches_of_any_size_add_up_to_the_full_batch(model):
    batch, objective = batch_of(), MaskedLanguageModelingObjective(1.5)
    whole = objective(model, batch)
    parts = [objective(model, part(batch, *cut)) for cut in ((0, 1), (1, 5))]
    assert sum(p.count for p in parts) == whole.count
    expected = gradient(model, whole.total)
    accumulated = gradient(model, *(p.total for p in parts))
    for name in expected:
        assert_close(accumulated[name], expected[name], rtol=1e-5, atol=1e-6)


def test_positions_that_are_not_masked_have_no_loss(model):
    """Only masked positions are targets: another target there changes the loss."""
    batch, objective = batch_of(), MaskedLanguageModelingObjective(1.0)
    masked = batch.targets != IGNORED
    changed = replace(batch, targets=torch.where(masked, (batch.targets + 1) % 17, IGNORED))
    assert objective(model, changed).total != objective(model, batch).total
    assert len(judge(model, batch).targets) == int(masked.sum())


FAULTS = {
    "labels swapped": lambda b: replace(b, elsewhere=1 - b.elsewhere),
    "types forgotten": lambda b: replace(b, framed=replace(b.framed, types=None)),
    "types swapped": lambda b: replace(b, framed=replace(b.framed, types=1 - b.framed.types)),
    "padding read": lambda b: replace(
        b, framed=replace(b.framed, keys=torch.ones_like(b.framed.keys))
    ),
    "loss over unmasked positions": lambda b: replace(
        b, targets=torch.where(b.targets == IGNORED, b.framed.tokens, b.targets)
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_change_the_loss(model, fault):
    batch = batch_of()
    right, wrong = (
        MaskedLanguageModelingObjective(1.0)(model, faulty).total.item()
        for faulty in (batch, FAULTS[fault](batch))
    )
    assert abs(right - wrong) > 1e-3


def test_pairs_and_masked_tokens_are_learned(model):
    """A few steps on one batch: both parts go down, so both have a gradient of the right sign."""
    batch, objective = batch_of(), MaskedLanguageModelingObjective(2.0)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        objective(model, batch).total.backward()
        optimizer.step()
    judged = judge(model, batch)
    assert judged.words.argmax(-1).eq(judged.targets).float().mean() > 0.9
    assert judged.follows.argmax(-1).tolist() == batch.elsewhere.tolist()
