"""Running text on disk: it is read back unchanged, and damaged files are refused."""

import json

import numpy as np
import pytest

from headway.base.errors import DataError
from headway.data.documents import Part
from headway.data.store import DESCRIPTION_FILE
from headway.data.text_corpus import TextCorpus, prepare_text
from headway.text import CharacterTokenizer, TextBPE
from tests.fixtures.manifests import reseal
from tests.fixtures.two_ended_tokenizer import TwoEnds

PARTS = [
    Part("the fox eats\n", True),
    Part("the lemon 日本\n", False),
    Part("two dogs", True),
    Part("", True),
    Part("bread", True),
]
TEXTS = ["the fox eats\nthe lemon 日本\n", "two dogs", "", "bread"]


@pytest.fixture(params=["bpe", "characters", "two ends"])
def tokenizer(request):
    words = [part.text for part in PARTS]
    if request.param == "bpe":
        return TextBPE.train(words, 270)
    return CharacterTokenizer.train(words) if request.param == "characters" else TwoEnds(words)


def test_documents_are_read_back_unchanged(tmp_path, tokenizer):
    corpus = prepare_text(iter(PARTS), tokenizer, tmp_path / "c")
    ends = [*corpus.offsets[1:].tolist(), len(corpus)]
    documents = [
        corpus.ids[a:b].tolist() for a, b in zip(corpus.offsets.tolist(), ends, strict=True)
    ]
    assert [tokenizer.decode(ids) for ids in documents] == TEXTS
    assert all(ids[0] == tokenizer.bos for ids in documents)
    assert all(
        (ids[-1] == tokenizer.eos) for ids in documents
    ) == corpus.has_separate_ends or not any(len(ids) > 1 for ids in documents)
    assert corpus.num_bytes == sum(len(text.encode()) for text in TEXTS)
    assert isinstance(corpus.ids.base, np.memmap)
    reopened = TextCorpus.open(tmp_path / "c", tokenizer)
    assert np.array_equal(reopened.ids, corpus.ids) and reopened.num_bytes == corpus.num_bytes


def test_progress_is_reported_in_bytes(tmp_path, tokenizer):
    progress: list[int] = []
    corpus = prepare_text(iter(PARTS), tokenizer, tmp_path / "c", progress.append)
    assert progress[-1] == corpus.num_bytes


@pytest.mark.parametrize("parts", [[], [Part("", True)]])
def test_no_text_leaves_no_folder(tmp_path, tokenizer, parts):
    with pytest.raises(DataError, match="no text"):
        prepare_text(iter(parts), tokenizer, tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_a_large_vocabulary_takes_four_bytes(tmp_path):
    letters = "".join(chr(0x4E00 + i) for i in range(20_000)) + "".join(
        chr(0x20000 + i) for i in range(46_000)
    )
    tokenizer = CharacterTokenizer(letters)
    corpus = prepare_text([Part(letters[-3:], True)], tokenizer, tmp_path / "c")
    assert corpus.ids.dtype.itemsize == 4
    assert tokenizer.decode(corpus.ids.tolist()) == letters[-3:]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: replace_ids(f, 0, 200), "each document must begin with <bos>"),
        (lambda f: replace_ids(f, 1, 270), "the numbers must be from 0 to 269"),
        (lambda f: change_bytes(f, 0), "bytes must be an integer of at least 1"),
    ],
)
def test_damaged_text_is_refused(tmp_path, damage, message):
    tokenizer = TextBPE.train([part.text for part in PARTS], 270)
    prepare_text(iter(PARTS), tokenizer, tmp_path / "c")
    damage(tmp_path / "c")
    reseal(tmp_path / "c")
    with pytest.raises(DataError, match=message):
        TextCorpus.open(tmp_path / "c", tokenizer)


def replace_ids(folder, position, token):
    ids = np.fromfile(folder / "documents.bin", "<u2")
    ids[position] = token
    ids.tofile(folder / "documents.bin")


def change_bytes(folder, count):
    path = folder / DESCRIPTION_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), "metadata": {"bytes": count}}))


def test_text_of_another_tokenizer_is_refused(tmp_path):
    prepare_text(iter(PARTS), TextBPE.train(TEXTS, 270), tmp_path / "c")
    with pytest.raises(DataError, match="another tokenizer"):
        TextCorpus.open(tmp_path / "c", TextBPE.train(TEXTS, 265))
