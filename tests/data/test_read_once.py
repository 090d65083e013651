"""Every file of a run is read to its end once before the first step, whatever the task."""

import io
import json
from collections import Counter
from pathlib import Path

import pytest

from headway.base.errors import DataError
from headway.data import read_once
from headway.data.formats import images, lines
from headway.data.read_once import ReadOnce
from headway.runs import recipe
from headway.tasks.classification.config import ClassifyDataConfig
from headway.tasks.classification.data import labelled_texts
from headway.tasks.image_data import prepare_labelled_images
from headway.tasks.language_modeling.data import prepare_language
from headway.tasks.masked_language_modeling.data import prepare_encoder
from headway.tasks.question_answering.config import AnswerDataConfig
from headway.tasks.question_answering.data import answered_questions
from headway.tasks.sentence_embedding.config import EmbedDataConfig
from headway.tasks.sentence_embedding.data import similar_texts
from headway.tasks.tagging.config import TagDataConfig
from headway.tasks.tagging.data import tagged_sentences
from headway.tasks.translation.data import prepare_data
from headway.tasks.word_vectors.data import prepare_text
from tests.fixtures.images import write_shades

ROWS = 6000  # more than the first block that a look at the first row reads


class Watched(io.FileIO):
    """A file that remembers whether it was read to its end."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.name_of_file, self.was_read = path.name, False

    def readinto(self, buffer) -> int:
        count = super().readinto(buffer)
        self.was_read = self.was_read or count < len(buffer)
        return count


@pytest.fixture(autouse=True)
def run_folder(tmp_path):
    (tmp_path / "run").mkdir()


@pytest.fixture
def reads(monkeypatch):
    """Return a function with the names of the files that were read to their end, one for each
    time."""
    opened: list[Watched] = []

    def watched(path: Path) -> io.BufferedReader:
        opened.append(Watched(path))
        return io.BufferedReader(opened[-1])

    monkeypatch.setattr(lines, "_opened", watched)
    return lambda: sorted(file.name_of_file for file in opened if file.was_read)


def ignore(event) -> None:
    """Receive progress."""


def pairs(number: int) -> tuple[str, str]:
    return f"word{number % 97} and word{number % 89}", f"wort{number % 97} und wort{number % 89}"


def write(path: Path, rows) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def pair_file(folder: Path, kind: str, name: str = "train") -> Path:
    rows = [pairs(number) for number in range(ROWS)]
    if kind == "jsonl":
        content = [json.dumps({"en": source, "de": target}) for source, target in rows]
    else:
        separator = "\t" if kind == "tsv" else ";"
        content = [f"en{separator}de", *(f"{s}{separator}{t}" for s, t in rows)]
    return write(folder / f"{name}.{kind}", content)


def translation(*changes):
    base = {"data.source": "en", "data.target": "de", "data.vocabulary": 400}
    return recipe("translate", ("the test", {**base, **dict(changes)})).data


@pytest.mark.parametrize(
    ("kind", "joint"), [("tsv", True), ("tsv", False), ("csv", False), ("jsonl", True)]
)
def test_pairs_are_read_once_also_if_some_are_held_out(tmp_path, reads, kind, joint):
    train = str(pair_file(tmp_path, kind))
    data = translation(("data.train", (train,)), ("data.joint", joint))
    prepared = prepare_data(data, tmp_path / "run", ignore)
    assert len(prepared.train) + len(prepared.valid) == ROWS and prepared.valid_pairs
    assert reads() == [f"train.{kind}"]


def test_a_resumed_run_reads_only_what_is_not_prepared(tmp_path, reads):
    train, valid = (str(pair_file(tmp_path, "tsv", name)) for name in ("train", "valid"))
    data = translation(("data.train", (train,)), ("data.valid", valid))
    prepare_data(data, tmp_path / "run", ignore)
    assert reads() == ["train.tsv", "valid.tsv"]
    prepare_data(data, tmp_path / "run", ignore)
    assert reads() == ["train.tsv", "valid.tsv", "valid.tsv"]  # the text of the validation pairs


def test_rows_that_are_left_out_are_listed_in_the_same_reading(tmp_path, reads):
    train, valid = (pair_file(tmp_path, "tsv", name) for name in ("train", "valid"))
    for path in (train, valid):
        path.write_text(path.read_text() + "no pair\n")
    settings = (("data.train", (str(train),)), ("data.valid", str(valid)))
    data = translation(*settings, ("data.bad_rows", "skip:2"))
    events = []
    prepare_data(data, tmp_path / "run", events.append)
    (left_out,) = [event["rows"] for event in events if event["kind"] == "left_out"]
    assert [row.split(": ")[0] for row in left_out] == [f"{train}:6002", f"{valid}:6002"]
    assert reads() == ["train.tsv", "valid.tsv"]
    resumed = []
    prepare_data(data, tmp_path / "run", resumed.append)
    assert not [event for event in resumed if event["kind"] == "left_out"]
    few = translation(*settings, ("data.bad_rows", "skip:1"))
    (tmp_path / "few").mkdir()
    with pytest.raises(DataError, match="at least 2 columns"):
        prepare_data(few, tmp_path / "few", ignore)


TEXT = [f"Word{number % 97} walks by word{number % 89}." for number in range(ROWS)]


@pytest.mark.parametrize("tokenizer", ["bpe", "characters"])
@pytest.mark.parametrize("with_valid", [True, False])
def test_running_text_is_read_once(tmp_path, reads, tokenizer, with_valid):
    train, valid = (write(tmp_path / f"{name}.txt", TEXT) for name in ("train", "valid"))
    changes = {"data.train": (str(train),), "data.vocabulary": 300, "data.tokenizer": tokenizer}
    if with_valid:
        changes["data.valid"] = (str(valid),)
    config = recipe("gpt-tiny", ("the test", changes))
    prepare_language(config, None, tmp_path / "run", ignore)
    assert reads() == (["train.txt", "valid.txt"] if with_valid else ["train.txt"])
    prepare_language(config, None, tmp_path / "run", ignore)
    assert len(reads()) == 1 + with_valid


def test_text_of_encoders_and_of_word_vectors_is_read_once(tmp_path, reads):
    train = write(tmp_path / "train.txt", TEXT)
    changes = ("the test", {"data.train": (str(train),), "data.vocabulary": 300})
    for name in ("sentences", "words"):
        (tmp_path / name).mkdir()
    prepare_encoder(recipe("bert-tiny", changes), None, tmp_path / "sentences", ignore)
    assert reads() == ["train.txt"]
    prepare_text(recipe("words", changes).data, tmp_path / "words", ignore)
    assert reads() == ["train.txt", "train.txt"]


QUESTION = {"question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {"context": f"Ada wrote {n}.", "qas": [{"id": str(n), **QUESTION}]}
                for n in range(ROWS)
            ]
        }
    ]
}
LABELLED = [{"text": f"text {n}", "label": n % 2} for n in range(ROWS)]
LABELLED_CASES = {
    "labelled.tsv": "text\tlabel\n" + "".join(f"text {n}\t{n % 2}\n" for n in range(ROWS)),
    "labelled.csv": "text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(ROWS)),
    "labelled.json": json.dumps(LABELLED),
    "tagged.conll": "".join(f"# id {n}\nword{n} {'AB'[n % 2]}\n\n" for n in range(ROWS)),
    "answered.json": json.dumps(SQUAD),
    "similar.tsv": "first\tsecond\n" + "".join(f"one {n}\ttwo {n}\n" for n in range(ROWS)),
}
READERS = {
    "labelled": lambda name: labelled_texts(ClassifyDataConfig(train=(name,))),
    "tagged": lambda name: tagged_sentences(TagDataConfig(train=(name,))),
    "answered": lambda name: answered_questions(AnswerDataConfig(train=(name,))),
    "similar": lambda name: similar_texts(EmbedDataConfig(train=(name,))),
}


@pytest.mark.parametrize("name", LABELLED_CASES)
def test_files_of_examples_are_read_once(tmp_path, reads, name):
    (tmp_path / name).write_text(LABELLED_CASES[name])
    train, valid = READERS[name.split(".")[0]](str(tmp_path / name))
    assert len(train) + len(valid) == ROWS
    assert reads() == [name]


@pytest.mark.parametrize(("room", "readings"), [(10**6, 1), (0, 3)])
def test_image_files_that_fit_in_memory_are_read_once(tmp_path, monkeypatch, room, readings):
    read, reader = [], images.read_bytes
    monkeypatch.setattr(images, "IN_MEMORY", room)
    monkeypatch.setattr(images, "read_bytes", lambda *file: read.append(file[0]) or reader(*file))
    folder = write_shades(tmp_path / "shades", 12)
    config = recipe("vision", ("the test", {"data.train": (str(folder),), "data.held_out": 0.3}))
    prepared = prepare_labelled_images(config.data, config.model, None, tmp_path / "run", ignore)
    assert len(prepared.train) + len(prepared.valid) == 24
    assert max(Counter(read).values()) == readings and len(set(read)) == 24


def test_examples_are_read_when_they_are_needed_and_then_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(read_once, "IN_MEMORY", 100)  # so that the copy is a file
    texts = ["one", "two\nlines", "\u2028", "\ud800", ""] * 900
    count = []

    def read():
        count.append(1)
        yield from texts

    progress = []
    once = ReadOnce(read, lambda text: text, str, tmp_path, progress.append)
    assert not once.is_read and not count
    assert next(iter(once)) == "one" and once.is_read
    assert [*once] == texts and count == [1] and len(texts) == len(once)
    assert progress == [read_once.REPORTED]
    assert [pair for pair in zip(once, once, strict=True) if pair[0] != pair[1]] == []
    assert [path.name for path in tmp_path.iterdir()] == ["run"]  # the copy has no name
