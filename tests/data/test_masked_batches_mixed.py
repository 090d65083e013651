"""Masked sequences of several corpora; in the first epochs second texts come from any of them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from headway.tasks.masked_language_modeling.sentence_pairs import CORPUS, SAME_CORPUS, CorpusMixture
from headway.text import EncoderTokenizer
from tests.fixtures.masked_documents import (
    LENGTH,
    STORIES,
    corpus_of,
    document_of,
    epoch_of,
    masked_batches,
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
        replace(source_of(source_corpus, tokenizer, mixed=2), number=number, anywhere=anywhere)
        for number, source_corpus in enumerate(corpora)
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
            second_corpus = (
                source.corpus if number_of_corpus == SAME_CORPUS else corpora[number_of_corpus]
            )
            assert second < end <= len(second_corpus)
            assert document_of(second_corpus, second) == document_of(second_corpus, end - 1)
            if number_of_corpus == SAME_CORPUS and len(second_corpus.documents) > 2:
                assert document_of(second_corpus, second) != document_of(second_corpus, first)
            counts[number if number_of_corpus == SAME_CORPUS else number_of_corpus] += 1
    total = sum(counts.values())
    assert abs(total - count / 2) < 3 * (count / 4) ** 0.5 and total > 300
    tokens = np.array([corpus.tokens for corpus in corpora]) ** 0.5
    for number_of_corpus, fraction in enumerate(tokens / tokens.sum()):
        assert (
            abs(counts[number_of_corpus] - fraction * total)
            < 4 * (total * fraction * (1 - fraction)) ** 0.5
        )
    # if not allowed, and for evaluation, all are from its own corpus
    assert (source.plan(0)[:, 5] == SAME_CORPUS).all()


def test_the_second_text_is_the_planned_one(several):
    source, corpora, corpora_of_seconds = several[1], several[0].anywhere.corpora, set()
    plan = source.plan(3, mixed=True)
    for index, (a, b, c, d, _, number_of_corpus) in enumerate(plan.tolist()):
        masked, types, targets = source.row(plan[index], index, 3)
        ids, segment_ids = np.array(truth(masked, targets)), np.array(types)
        first, second = ids[segment_ids == 0][1:-1].tolist(), ids[segment_ids == 1][:-1].tolist()
        second_corpus = (
            source.corpus if number_of_corpus == SAME_CORPUS else corpora[number_of_corpus]
        )
        for part, text in ((first, source.corpus.run(a, b)), (second, second_corpus.run(c, d))):
            original = text.tolist()  # cut at its ends where both are too long
            cuts = [original[i : i + len(part)] for i in range(len(original) - len(part) + 1)]
            assert part in cuts
        assert len(masked) <= LENGTH
        corpora_of_seconds.add(number_of_corpus)
    assert corpora_of_seconds == {SAME_CORPUS, 0, 2}


def test_only_the_first_epochs_are_mixed_and_can_start_at_any_batch(several):
    batches = masked_batches(several)
    mixed = []
    for epoch in range(4):
        planned = np.concatenate(batches.order(epoch))[:, 3:]
        mixed.append(bool((planned[:, CORPUS] != SAME_CORPUS).any()))
    assert mixed == [True, True, False, False]
    from_start = take(batches, batches.batches_per_epoch + 3)
    epoch, position = from_start[1][:2]
    resumed = take(masked_batches(several), len(from_start) - 2, epoch, position)
    for a, b in zip(from_start[2:], resumed, strict=True):
        assert a[:2] == b[:2] and a[2].framed.tokens.equal(b[2].framed.tokens)
        assert a[2].elsewhere.equal(b[2].elsewhere)
    unmixed = [replace(source, anywhere=None) for source in several]
    assert epoch_of(masked_batches(unmixed), 0) != epoch_of(batches, 0)
    assert epoch_of(masked_batches(unmixed), 2) == epoch_of(batches, 2)
