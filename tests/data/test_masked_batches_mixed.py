"""Rows of several corpora, whose texts apart come from any of them at first."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from headway.data.masked_batches import MaskedRows
from headway.data.sentence_pairs import OWN, Elsewhere
from headway.text import MarkedTokenizer
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
    """Sources of three corpora of different lengths, whose texts apart may come from any."""
    folder, tokenizer = tmp_path_factory.mktemp("several"), MarkedTokenizer.train(STORIES, 130)
    birds = [story.replace("one", "wing").replace("two", "nest") for story in STORIES]
    fish = " ".join(story.replace("one", "fin").replace("two", "sea") for story in STORIES)
    corpora = [
        corpus_of(STORIES, tokenizer, folder / "stories"),
        corpus_of(birds[:8], tokenizer, folder / "birds"),
        corpus_of([fish], tokenizer, folder / "fish"),
    ]
    anywhere = Elsewhere.among(corpora, 0.5)
    return [
        replace(source_of(each, tokenizer, mixed=2), number=number, anywhere=anywhere)
        for number, each in enumerate(corpora)
    ]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_texts_apart_come_from_any_corpus_by_its_share_where_they_may(several, number):
    source, corpora = several[number], several[0].anywhere.corpora
    found, count = Counter(), 0
    for version in range(40):
        for first, first_end, second, end, apart, which in source.plan(
            version, mixed=True
        ).tolist():
            count += 1
            if not apart:
                assert second == first_end and which == OWN
                continue
            assert which != number  # its own corpus is OWN
            there = source.corpus if which == OWN else corpora[which]
            assert second < end <= len(there)
            assert document_of(there, second) == document_of(there, end - 1)
            if which == OWN and len(there.documents) > 2:
                assert document_of(there, second) != document_of(there, first)
            found[number if which == OWN else which] += 1
    total = sum(found.values())
    assert abs(total - count / 2) < 3 * (count / 4) ** 0.5 and total > 300
    tokens = np.array([each.tokens for each in corpora]) ** 0.5
    for which, share in enumerate(tokens / tokens.sum()):
        assert abs(found[which] - share * total) < 4 * (total * share * (1 - share)) ** 0.5
    # without leave, and for evaluation, all are of its own corpus
    assert (source.plan(0)[:, 5] == OWN).all()


def test_a_row_reads_its_second_text_where_the_plan_says(several):
    source, corpora, seen = several[1], several[0].anywhere.corpora, set()
    plan = source.plan(3, mixed=True)
    for index, (a, b, c, d, _, which) in enumerate(plan.tolist()):
        shown, types, targets = source.row(plan, index, 3)
        ids, place = np.array(truth(shown, targets)), np.array(types)
        first, second = ids[place == 0][1:-1].tolist(), ids[place == 1][:-1].tolist()
        there = source.corpus if which == OWN else corpora[which]
        for part, text in ((first, source.corpus.run(a, b)), (second, there.run(c, d))):
            whole = text.tolist()  # cut at its ends where both are too long
            cuts = [whole[i : i + len(part)] for i in range(len(whole) - len(part) + 1)]
            assert part in cuts
        assert len(shown) <= LENGTH
        seen.add(which)
    assert seen == {OWN, 0, 2}


def test_only_the_first_passes_are_mixed_and_may_be_entered_anywhere(several):
    rows = MaskedRows(several)
    mixed = []
    for epoch in range(4):
        plans = rows._of(epoch).plans
        mixed.append(any((plan[:, 5] != OWN).any() for each in plans for plan in each))
    assert mixed == [True, True, False, False]
    given = take(rows, rows.batches_an_epoch + 3)
    epoch, position = given[1][:2]
    again = take(MaskedRows(several), len(given) - 2, epoch, position)
    for a, b in zip(given[2:], again, strict=True):
        assert a[:2] == b[:2] and a[2].framed.tokens.equal(b[2].framed.tokens)
        assert a[2].elsewhere.equal(b[2].elsewhere)
    alone = [replace(each, anywhere=None) for each in several]
    assert epoch_of(MaskedRows(alone), 0) != epoch_of(rows, 0)
    assert epoch_of(MaskedRows(alone), 2) == epoch_of(rows, 2)
