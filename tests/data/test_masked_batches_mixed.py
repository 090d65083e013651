"""Masked sequences of several corpora; in the first epochs second texts come from any of them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from headway.data.masked_batches import MaskedBatches
from headway.data.sentence_pairs import SAME_CORPUS, CorpusMixture
from headway.text import EncoderTokenizer
from tests.fixtures.masked_documents import (
    LENGTH,
    STORIES,
    corpus_of,
    document_of,
    epoch_of,
    source_of,
    take,
    truth,
)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Return sources of three corpora of different lengths; second texts may come from any."""
    folder, tokenizer = tmp_path_factory.mktemp("several"), EncoderTokenizer.train(STORIES, 130)
    birds = [story.replace("one", "wing").replace("two", "nest") for story in STORIES]
    fish = " ".join(story.replace("one", "fin").replace("two", "sea") for story in STORIES)
    corpora = [
        corpus_of(STORIES, tokenizer, folder / "stories"),
        corpus_of(birds[:8], tokenizer, folder / "birds"),
        corpus_of([fish], tokenizer, folder / "fish"),
    ]
    anywhere = CorpusMixture.among(corpora, 0.5)
    return [
        replace(source_of(each, tokenizer, mixed=2), number=number, anywhere=anywhere)
        for number, each in enumerate(corpora)
    ]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_second_texts_come_from_any_corpus_by_its_fraction_if_allowed(several, number):
    source, corpora = several[number], several[0].anywhere.corpora
    counts, count = Counter(), 0
    for version in range(40):
        for first, first_end, second, end, not_next, number_of_corpus in source.plan(
            version, mixed=True
        ).tolist():
            count += 1
            if not not_next:
                assert second == first_end and number_of_corpus == SAME_CORPUS
                continue
            assert number_of_corpus != number  # its own corpus is SAME_CORPUS
            there = source.corpus if number_of_corpus == SAME_CORPUS else corpora[number_of_corpus]
            assert second < end <= len(there)
            assert document_of(there, second) == document_of(there, end - 1)
            if number_of_corpus == SAME_CORPUS and len(there.documents) > 2:
                assert document_of(there, second) != document_of(there, first)
            counts[number if number_of_corpus == SAME_CORPUS else number_of_corpus] += 1
    total = sum(counts.values())
    assert abs(total - count / 2) < 3 * (count / 4) ** 0.5 and total > 300
    tokens = np.array([each.tokens for each in corpora]) ** 0.5
    for number_of_corpus, share in enumerate(tokens / tokens.sum()):
        assert (
            abs(counts[number_of_corpus] - share * total) < 4 * (total * share * (1 - share)) ** 0.5
        )
    # without leave, and for evaluation, all are of its own corpus
    assert (source.plan(0)[:, 5] == SAME_CORPUS).all()


def test_the_second_text_is_the_planned_one(several):
    source, corpora, corpora_of_seconds = several[1], several[0].anywhere.corpora, set()
    plan = source.plan(3, mixed=True)
    for index, (a, b, c, d, _, number_of_corpus) in enumerate(plan.tolist()):
        shown, types, targets = source.row(plan, index, 3)
        ids, place = np.array(truth(shown, targets)), np.array(types)
        first, second = ids[place == 0][1:-1].tolist(), ids[place == 1][:-1].tolist()
        there = source.corpus if number_of_corpus == SAME_CORPUS else corpora[number_of_corpus]
        for part, text in ((first, source.corpus.run(a, b)), (second, there.run(c, d))):
            whole = text.tolist()  # cut at its ends where both are too long
            cuts = [whole[i : i + len(part)] for i in range(len(whole) - len(part) + 1)]
            assert part in cuts
        assert len(shown) <= LENGTH
        corpora_of_seconds.add(number_of_corpus)
    assert corpora_of_seconds == {SAME_CORPUS, 0, 2}


def test_only_the_first_epochs_are_mixed_and_can_start_at_any_batch(several):
    rows = MaskedBatches(several)
    mixed = []
    for epoch in range(4):
        plans = rows._of(epoch).plans
        mixed.append(any((plan[:, 5] != SAME_CORPUS).any() for each in plans for plan in each))
    assert mixed == [True, True, False, False]
    given = take(rows, rows.batches_per_epoch + 3)
    epoch, position = given[1][:2]
    again = take(MaskedBatches(several), len(given) - 2, epoch, position)
    for a, b in zip(given[2:], again, strict=True):
        assert a[:2] == b[:2] and a[2].framed.tokens.equal(b[2].framed.tokens)
        assert a[2].elsewhere.equal(b[2].elsewhere)
    alone = [replace(each, anywhere=None) for each in several]
    assert epoch_of(MaskedBatches(alone), 0) != epoch_of(rows, 0)
    assert epoch_of(MaskedBatches(alone), 2) == epoch_of(rows, 2)
