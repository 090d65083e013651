"""Sentences on disk, and the masked sequences made of them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from headway.base.errors import DataError
from headway.data.documents import Part, read_documents
from headway.data.padding import IGNORED
from headway.tasks.masked_language_modeling.data import LONGEST, SentenceCorpus, prepare_sentences
from headway.tasks.masked_language_modeling.masked_batches import (
    evaluation_batches,
    predictions_per_sequence,
)
from headway.tasks.masked_language_modeling.masking import MaskingConfig
from headway.tasks.masked_language_modeling.sentence_pairs import fitted
from headway.text import EncoderTokenizer
from tests.fixtures.masked_documents import (
    LENGTH,
    STORIES,
    content,
    corpus_of,
    document_of,
    epoch_of,
    masked_batches,
    source_of,
    take,
    truth,
)


@pytest.fixture(scope="module")
def tokenizer():
    return EncoderTokenizer.train(STORIES, 130)


@pytest.fixture(scope="module")
def corpus(tokenizer, tmp_path_factory):
    return corpus_of(STORIES, tokenizer, tmp_path_factory.mktemp("c") / "c")


# --- sentences on disk -------------------------------------------------------------------------


def test_sentences_and_documents_are_read_back(corpus, tokenizer):
    assert len(corpus) == 5 * len(STORIES) and corpus.documents.tolist() == [*range(0, 101, 5)]
    assert tokenizer.decode(corpus.sentence(0)) == "fox a lemon one."
    assert corpus.tokens == sum(len(tokenizer.encode(text)) for text in STORIES)
    words = Counter(i for text in STORIES for i in tokenizer.encode(text))
    counts = corpus.counts(tokenizer.size)
    assert {i: int(n) for i, n in enumerate(counts) if n} == words
    reopened = SentenceCorpus.open(corpus.folder, tokenizer)
    assert np.array_equal(reopened.lengths, corpus.lengths)


def test_a_run_over_a_document_border_has_a_separator(corpus, tokenizer):
    tokens = tokenizer.token_strings(corpus.run(4, 6).tolist())
    assert tokens.count("[SEP]") == 1 and "[CLS]" not in tokens
    assert tokens[tokens.index("[SEP]") + 1] == "fox" and tokens[-1] == "."
    assert "[SEP]" not in tokenizer.token_strings(corpus.run(0, 5).tolist())


def test_parts_of_a_document_stay_together_and_empty_documents_are_dropped(tokenizer, tmp_path):
    parts = [Part("a fox. ", True), Part("An owl.", False), Part(" \n", True), Part("B", False)]
    result = prepare_sentences(parts, tokenizer, tmp_path / "c")
    assert result.documents.tolist() == [0, 2, 3]
    long = prepare_sentences([Part("one " * 150, True)], tokenizer, tmp_path / "d")
    assert long.lengths.tolist() == [LONGEST, LONGEST, 150 - 2 * LONGEST]


def test_another_tokenizer_is_refused(corpus):
    other_tokenizer = EncoderTokenizer.train(STORIES, 110)
    with pytest.raises(DataError, match="another tokenizer"):
        SentenceCorpus.open(corpus.folder, other_tokenizer)


def test_wikitext_titles_begin_documents(tmp_path):
    text = "before\n = Owls = \n\n Owls read .\n = = Food = = \n Bread .\n = Crabs = \n Slow .\n"
    (tmp_path / "w.txt").write_text(text)
    parts = list(read_documents([str(tmp_path / "w.txt")], "title"))
    assert [part.first for part in parts] == [True, True, True]
    assert "".join(part.text for part in parts) == text
    assert parts[1].text.startswith(" = Owls = ") and "Food" in parts[1].text


# --- pairs -------------------------------------------------------------------------------------


def test_half_of_the_pairs_follow_and_the_others_are_of_another_document(corpus, tokenizer):
    source, not_next, count = source_of(corpus, tokenizer), 0, 0
    for version in range(20):
        for first, first_end, second, second_end, elsewhere, _ in source.plan(version).tolist():
            assert first < first_end and second < second_end
            first_document = document_of(corpus, first)
            assert document_of(corpus, first_end - 1) == first_document
            second_documents = {document_of(corpus, second), document_of(corpus, second_end - 1)}
            if elsewhere:
                assert len(second_documents) == 1 and first_document not in second_documents
            else:
                assert second_documents == {first_document} and second == first_end
            not_next, count = not_next + elsewhere, count + 1
    assert abs(not_next - count / 2) < 3 * (count / 4) ** 0.5
    assert count > 500


def test_every_sentence_with_a_successor_is_read_as_a_first_or_second_text(corpus, tokenizer):
    distinct = set()
    for first, first_end, second, second_end, elsewhere, _ in source_of(corpus, tokenizer).plan(0):
        distinct |= set(range(first, first_end))
        distinct |= set() if elsewhere else set(range(second, second_end))
    last = set((corpus.documents[1:] - 1).tolist())
    assert set(range(len(corpus))) - distinct <= last


def test_other_documents_are_chosen_by_their_length_and_all_of_them(tokenizer, tmp_path):
    stories = ["fox one. " * 40, "owl two. " * 40, "crab three. " * 10]
    corpus = corpus_of([s.title() for s in stories], tokenizer, tmp_path / "c")
    source, result = source_of(corpus, tokenizer), Counter()
    for version in range(60):
        for row in source.plan(version).tolist():
            if row[4] and document_of(corpus, row[0]) == 0:
                result[document_of(corpus, row[2])] += 1
    assert set(result) == {1, 2}
    count = sum(result.values())
    assert abs(result[1] - 0.8 * count) < 3 * (count * 0.16) ** 0.5 and count > 200


def test_in_a_single_document_the_negative_second_text_is_distant(tokenizer, tmp_path):
    corpus = corpus_of([" ".join(STORIES)], tokenizer, tmp_path / "c")
    plan = source_of(corpus, tokenizer).plan(0)
    for first, first_end, second, _, elsewhere, _ in plan.tolist():
        if elsewhere:
            assert second < first - 20 or second > first_end + 20
    assert 0.3 < plan[:, 4].mean() < 0.7


def test_documents_of_one_sentence_have_no_next_one(tokenizer, tmp_path):
    corpus = corpus_of(["a fox", "an owl"], tokenizer, tmp_path / "c")
    with pytest.raises(DataError, match="two sentences"):
        source_of(corpus, tokenizer).plan(0)
    assert len(source_of(corpus, tokenizer, pairs=False).plan(0))


def test_short_pairs_have_a_smaller_target_length(corpus, tokenizer, tmp_path):
    corpus_of_one = corpus_of([" ".join(STORIES)], tokenizer, tmp_path / "c")
    full = source_of(corpus_of_one, tokenizer, short=0.0)
    lengths = [len(full.row(full.plan(v)[i], i, v)[0]) for v in range(5) for i in range(20)]
    assert np.mean(np.array(lengths) == LENGTH) > 0.6
    source = source_of(corpus_of_one, tokenizer, short=1.0)
    shorter = [len(source.row(source.plan(v)[i], i, v)[0]) for v in range(5) for i in range(20)]
    assert np.mean(shorter) < np.mean(lengths) - 3 and max(shorter) <= LENGTH


def test_a_sequence_has_special_tokens_and_segment_ids_and_its_planned_second_text(
    corpus, tokenizer
):
    source, special_tokens = source_of(corpus, tokenizer), tokenizer.special_tokens
    plan, cut = source.plan(0), 0
    for index in range(len(plan)):
        masked, types, targets = source.row(plan[index], index, 0)
        ids = truth(masked, targets)
        middle = ids.index(special_tokens.end)
        assert (
            ids[0] == special_tokens.start
            and ids[-1] == special_tokens.end
            and ids.count(special_tokens.end) == 2
        )
        assert types == [0] * (middle + 1) + [1] * (len(ids) - middle - 1)
        assert len(ids) <= LENGTH
        originals = [
            corpus.run(*plan[index, start : start + 2].tolist()).tolist() for start in (0, 2)
        ]
        for text, original in zip((ids[1:middle], ids[middle + 1 : -1]), originals, strict=True):
            starts = range(len(original) - len(text) + 1)
            assert any(original[start : start + len(text)] == text for start in starts)
            cut += text != original
    assert 0 < cut < 2 * len(plan)


def test_the_longer_text_is_truncated_at_both_ends():
    first, second, fronts = np.arange(30), np.arange(100, 110), []
    for seed in range(40):
        a, b = fitted(first, second, 20, np.random.default_rng(seed))
        assert len(a) == 10 and b.tolist() == second.tolist()
        fronts.append(int(a[0]))
    assert 0 < min(fronts) < 10 < max(fronts) < 20
    a, b = fitted(first, second, 13, np.random.default_rng(0))
    assert {len(a), len(b)} == {6, 7}
    a, b = fitted(second, first, 60, np.random.default_rng(0))
    assert len(a) + len(b) == 40


# --- full sentences ----------------------------------------------------------------------------


def test_full_sequences_are_filled_with_whole_sentences_in_order(corpus, tokenizer):
    source = source_of(corpus, tokenizer, pairs=False)
    plan = source.plan(3)
    assert plan[-1, 1] == len(corpus) and np.array_equal(plan[1:, 0], plan[:-1, 1])
    assert 0 <= plan[0, 0] < 6 and not plan[:, 2:5].any()
    assert len({int(source.plan(version)[0, 0]) for version in range(9)}) > 1
    for index, (first, last) in enumerate(plan[:, :2].tolist()):
        masked, types, targets = source.row(plan[index], index, 3)
        assert truth(masked, targets)[1:-1] == corpus.run(first, last).tolist()
        assert len(masked) <= LENGTH and not any(types)
        if last < len(corpus):
            assert len(corpus.run(first, last + 1)) + 2 > LENGTH


def test_a_sentence_longer_than_a_sequence_is_truncated(corpus, tokenizer):
    source = source_of(corpus, tokenizer, pairs=False, length=8)
    plan = source.plan(0)
    assert max(len(source.row(plan[i], i, 0)[0]) for i in range(len(plan))) == 8


# --- batches -----------------------------------------------------------------------------------


def test_a_batch_has_the_indices_of_its_sequences(corpus, tokenizer):
    source = source_of(corpus, tokenizer)
    plan, batches = source.plan(0), masked_batches([source])
    for _, _, batch in take(batches, 5):
        framed = batch.framed
        for row, index in enumerate(batch.indices):
            masked, types, targets = source.row(plan[index], index, 0)
            n = len(masked)
            assert framed.tokens[row, :n].tolist() == masked and framed.keys[row].sum() == n
            assert framed.types[row, :n].tolist() == types
            assert batch.targets[row, :n].tolist() == targets
            assert (batch.targets[row, n:] == IGNORED).all()
            assert batch.elsewhere[row] == plan[index, 4]


def test_full_sentences_have_no_second_text_and_no_next_sentence_label(corpus, tokenizer):
    batch = take(masked_batches([source_of(corpus, tokenizer, pairs=False)]), 1)[0][2]
    assert batch.elsewhere is None and batch.framed.types is None


def test_the_stream_can_start_at_any_batch(corpus, tokenizer):
    batches = masked_batches([source_of(corpus, tokenizer)])
    from_start = take(batches, batches.batches_per_epoch + 4)
    assert (from_start[-1][0], from_start[0][:2]) == (1, (0, 1))
    for index in (2, batches.batches_per_epoch + 1):
        epoch, position = from_start[index][:2]
        resumed = take(masked_batches([source_of(corpus, tokenizer)]), 2, epoch, position)
        for a, b in zip(from_start[index + 1 :], resumed, strict=False):
            assert a[:2] == b[:2] and a[2].framed.tokens.equal(b[2].framed.tokens)
            assert a[2].targets.equal(b[2].targets)


def test_a_sequence_does_not_depend_on_the_rest_of_its_batch(corpus, tokenizer):
    small, large = (
        epoch_of(masked_batches([source_of(corpus, tokenizer, batch_size=size)]), 1)
        for size in (3, 7)
    )
    assert small == large


def test_dynamic_masking_differs_each_epoch_and_static_masking_repeats(corpus, tokenizer):
    dynamic = masked_batches([source_of(corpus, tokenizer)])
    epochs = [epoch_of(dynamic, number) for number in (0, 1, 2)]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    fixed = MaskingConfig(dynamic=False, duplicates=2)
    static = masked_batches([source_of(corpus, tokenizer, fixed)])
    first, second, third = (epoch_of(static, number) for number in (0, 1, 2))
    assert first == third != second
    orders = [take(static, 1, epoch)[0][2].indices for epoch in (0, 2)]
    assert orders[0] != orders[1]


def test_seeds_differ(corpus, tokenizer):
    a, b = (epoch_of(masked_batches([source_of(corpus, tokenizer, seed=s)]), 0) for s in (1, 2))
    assert a != b


def test_small_corpora_are_sampled_more_often_with_a_smaller_exponent(corpus, tokenizer, tmp_path):
    small = corpus_of(STORIES[:4], tokenizer, tmp_path / "c")
    fraction = small.tokens / (small.tokens + corpus.tokens)
    for smoothing in (1.0, 0.5, 0.0):
        sources = [
            replace(source_of(source_corpus, tokenizer, smoothing=smoothing), number=number)
            for number, source_corpus in enumerate((corpus, small))
        ]
        batches = masked_batches(sources)
        p = np.array([1 - fraction, fraction]) ** smoothing
        assert batches.order.fractions.tolist() == pytest.approx((p / p.sum()).tolist())
        order = np.concatenate(batches.order(1))
        assert np.mean(order[:, 0] == 1) == pytest.approx(batches.order.fractions[1], abs=0.02)
        repeats = Counter(map(tuple, order[order[:, 0] == 1, :3].tolist()))
        assert max(repeats.values()) == 1  # a second pass has other sequences
        assert sum(epoch_of(batches, 1).values()) == len(order)


def test_evaluation_has_the_same_sequences_each_time(corpus, tokenizer):
    source = source_of(corpus, tokenizer)
    first, repeated = ([content(b) for b in evaluation_batches(source, 5, 17)] for _ in range(2))
    assert first == repeated and sum(sum(c.values()) for c in first) == 17


def test_predictions_per_sequence_is_the_mean_number_of_masked_tokens(corpus, tokenizer):
    for pairs in (True, False):
        source = source_of(corpus, tokenizer, pairs=pairs)
        plan = source.plan(0)
        counts = [sum(t != IGNORED for t in source.row(plan[i], i, 0)[2]) for i in range(len(plan))]
        assert predictions_per_sequence(source) == pytest.approx(np.mean(counts), rel=0.02)


def test_the_same_sequence_has_other_masks_in_another_version(corpus, tokenizer):
    source = source_of(corpus, tokenizer, pairs=False)
    plan = source.plan(0)
    first, same_version, next_version, repeated = (
        [source.row(plan[index], index, *versions) for index in range(len(plan))]
        for versions in ((0,), (0,), (1,), (0, 1))
    )
    assert first == same_version
    for rows in (next_version, repeated):
        num_equal = sum(a[2] == b[2] for a, b in zip(first, rows, strict=True))
        assert num_equal < len(plan) / 4
        originals = [truth(a, targets) for a, _, targets in rows]
        assert originals == [truth(a, targets) for a, _, targets in first]
