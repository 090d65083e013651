"""Text tokenised by several processes: the same tokens whoever makes them, and none lost."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.data import token_shards
from headway.data.documents import read_documents
from headway.data.text_corpus import joined, prepare_text, split_end
from headway.data.token_shards import Reading, TokenShards, make_shards, planned_tokens, sample_of
from headway.text import TextBPE, load_tokenizer
from tests.fixtures.manifests import reseal
from tests.fixtures.two_ended_tokenizer import TwoEnds

LINES = Reading("line")
NAMES = {"ann": 20, "bob": 20, "cid": 20, "dan": 20, "eve": 8}
"""Name of a file -> number of its lines."""


def write_texts(folder: Path) -> Path:
    folder.mkdir()
    for name, count in NAMES.items():
        lines = [f"{name} sees {number} boats 日本\n" for number in range(count)]
        (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _small_shards():
    """Every two of the files are a shard."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(token_shards, "SHARD_BYTES", 900)
        yield


@pytest.fixture
def texts(tmp_path):
    return write_texts(tmp_path / "texts")


def planned(texts: Path, folder: Path, reading: Reading = LINES) -> TokenShards:
    def tokenizer():
        return TextBPE.train(sample_of([str(texts)], reading), 300)

    return planned_tokens([str(texts)], folder, reading, tokenizer)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of texts, and their tokens, made by two processes."""
    folder = tmp_path_factory.mktemp("made")
    texts = write_texts(folder / "texts")
    make_shards(planned(texts, folder / "tokens"), 2)
    return texts, folder / "tokens"


@pytest.fixture
def shards(made, tmp_path):
    return TokenShards.open(Path(shutil.copytree(made[1], tmp_path / "tokens")))


def documents(corpus, tokenizer) -> list[str]:
    return [tokenizer.decode(ids.tolist()) for ids in corpus.documents(tokenizer.bos)]


def test_the_shards_hold_the_documents_of_all_files_in_their_order(made, shards):
    corpora, tokenizer = list(shards.corpora()), shards.tokenizer
    read = [part.text for part in read_documents([str(made[0])], "line")]
    assert [text for c in corpora for text in documents(c, tokenizer)] == read
    assert [len(files) for files in shards.files] == [2, 3], "the small rest joins the last shard"
    assert sum(c.num_bytes for c in corpora) == sum(len(text.encode()) for text in read)


def test_one_process_makes_the_same_files_as_two(made, shards, tmp_path):
    alone = planned(made[0], tmp_path / "alone")
    make_shards(alone, 1)
    for file in sorted(path for path in shards.folder.rglob("*") if path.is_file()):
        other = alone.folder / file.relative_to(shards.folder)
        assert other.read_bytes() == file.read_bytes(), file.name


def test_the_same_call_makes_only_what_is_missing(made, shards):
    kept = shards.shard(0) / "documents.bin"
    before = kept.stat().st_ino, kept.stat().st_mtime_ns
    shutil.rmtree(shards.shard(1))
    with pytest.raises(DataError, match="1 of 2 shards are missing"):
        shards.corpora()
    again = planned(made[0], shards.folder)
    assert again.missing == [1]
    fractions: list[float] = []
    make_shards(again, 2, fractions.append)
    assert len(list(again.corpora())) == 2
    assert (kept.stat().st_ino, kept.stat().st_mtime_ns) == before
    assert fractions == sorted(fractions) and 0 < fractions[0] < 1


@pytest.mark.parametrize("reading", [Reading("file"), Reading("line", "other")])
def test_tokens_of_other_settings_are_not_mixed(made, shards, reading):
    with pytest.raises(UsageError, match="other files or settings"):
        planned(made[0], shards.folder, reading)


def test_tokens_of_other_files_are_not_mixed(made, shards):
    with pytest.raises(UsageError, match="other files or settings"):
        planned(made[0] / "ann.txt", shards.folder)


def test_a_folder_of_something_else_is_not_written_to(texts, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="must be a new folder"):
        planned(texts, tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_file_that_changes_meanwhile_is_refused_and_named(texts, tmp_path):
    shards = planned(texts, tmp_path / "tokens")
    (texts / "cid.txt").write_text("changed\n", encoding="utf-8")
    with pytest.raises(DataError, match="has changed since") as caught:
        make_shards(shards, 2)
    assert caught.value.where == str(texts / "cid.txt")


def test_invalid_text_is_named_with_its_line_and_the_other_shards_are_kept(texts, tmp_path):
    (texts / "eve.txt").write_bytes(b"good\n\xff\xfe bad\n")
    shards = planned_tokens(
        [str(texts)], tmp_path / "tokens", LINES, lambda: TextBPE.train(["eve sees"], 300)
    )
    with pytest.raises(DataError, match="UTF-8") as caught:
        make_shards(shards, 1)
    assert shards.missing == [1]
    assert caught.value.where == f"{texts / 'eve.txt'}:2"


def test_a_killed_process_is_reported_and_the_same_call_continues(texts, tmp_path, monkeypatch):
    shards = planned(texts, tmp_path / "tokens")
    with monkeypatch.context() as patched:
        patched.setattr(token_shards, "_make_shard", os._exit)  # by its name, in the process
        with pytest.raises(HeadwayError, match="a process of the tokenising has ended"):
            make_shards(shards, 1)
    make_shards(shards, 1)
    assert not shards.missing


@pytest.mark.parametrize("damage", ["tokenizer", "plan", "ids"])
def test_damaged_tokens_are_refused(shards, damage, tmp_path):
    if damage == "tokenizer":
        TextBPE.train(["another text"], 280).save(shards.folder)
        expected = "not the one that the shards were encoded with"
    elif damage == "plan":
        (shards.folder / "plan.json").write_text('{"format": 1}', encoding="utf-8")
        expected = "no plan of tokens"
    else:
        path = shards.shard(0) / "documents.bin"
        path.write_bytes(b"\xff\xff" + path.read_bytes()[2:])
        reseal(shards.shard(0))
        expected = "numbers must be from 0 to 299"
    with pytest.raises(DataError, match=expected):
        list(TokenShards.open(shards.folder).corpora())


def test_the_end_is_held_out_at_the_border_of_a_document(shards):
    tokenizer, corpora = shards.tokenizer, list(shards.corpora())
    train, valid = split_end(corpora, 0.1, tokenizer)
    texts = [text for c in corpora for text in documents(c, tokenizer)]
    held_out = documents(valid, tokenizer)
    assert [text for c in train for text in documents(c, tokenizer)] + held_out == texts
    assert valid.num_bytes == sum(len(text.encode()) for text in held_out)
    assert abs(len(valid) / sum(map(len, corpora)) - 0.1) < 0.02
    assert sum(c.num_bytes for c in (*train, valid)) == sum(c.num_bytes for c in corpora)


@pytest.mark.parametrize("kind", ["bpe", "two ends"])
def test_one_long_document_is_cut_inside_and_the_copy_begins_with_bos(tmp_path, kind):
    text = "".join(f"boat {number} of 日本\n" for number in range(60))
    tokenizer = TextBPE.train([text], 300) if kind == "bpe" else TwoEnds([text])
    (path := tmp_path / "text.txt").write_text(text, encoding="utf-8")
    corpus = prepare_text(read_documents([str(path)]), tokenizer, tmp_path / "corpus")
    (train,), valid = split_end([corpus], 0.25, tokenizer)
    copy = joined([valid], tokenizer, tmp_path / "valid")
    assert np.array_equal(np.concatenate((train.ids, valid.ids)), corpus.ids)
    assert copy.ids.tolist() == [tokenizer.bos, *valid.ids.tolist()]
    assert copy.offsets.tolist() == [0] and copy.num_bytes == valid.num_bytes
    assert text.endswith(tokenizer.decode(copy.ids.tolist()))


def test_the_sample_of_the_tokenizer_is_spread_over_all_files(texts, monkeypatch):
    monkeypatch.setattr(token_shards, "SAMPLE_BYTES", 600)
    sampled = list(sample_of([str(texts)], LINES))
    assert 300 < sum(len(text.encode()) for text in sampled) <= 600
    assert {text.split()[0] for text in sampled} == NAMES.keys()


def test_a_run_of_the_tokenizer_of_a_folder_encodes_as_it_does(shards):
    assert load_tokenizer(shards.folder).fingerprint == shards.fingerprint
