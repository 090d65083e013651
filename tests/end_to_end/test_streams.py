"""Pipes as arguments, which can be read once, in every command that reads files."""

import gzip
import json
import os
import threading
from contextlib import contextmanager

import pytest
import yaml

from headway.data.formats.suffixes import suffix_of
from tests.fixtures.bundles import bert_classifier
from tests.fixtures.command_line import headway, headway_process
from tests.fixtures.small_encoder_runs import write_encoder

ROWS = [(f"a fine film {n}", "a") for n in range(12)] + [(f"dull {n}", "b") for n in range(12)]
TABLE = "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *ROWS])
TRAINING = ["--steps", "1", "--training.batch-size", "4", "--data.held-out", "0.3"]


@contextmanager
def pipe(content):
    """The path of a pipe that has the content, as of <(command)."""
    reading, writing = os.pipe()

    def write():
        with os.fdopen(writing, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)
        writer.join()


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    write_encoder(folder / "encoder")
    bert_classifier().save(folder / "classifier")
    return folder


@pytest.fixture
def run(working_folder):
    """Run a command in the folder of the models, and return exit code, output and errors."""

    def call(*words):
        done = headway(*words, cwd=working_folder, check=None)
        return done.returncode, done.stdout, done.stderr

    return call


def train_words(data, name, *more):
    return ("train", "classify", data, "--from", "encoder", "--run", name, *TRAINING, *more)


def test_a_run_keeps_the_data_that_came_from_a_pipe(run, working_folder):
    compressed = gzip.compress(TABLE.encode(), mtime=0)
    with pipe(compressed) as data:
        code, _, errors = run(*train_words(data, "kept"))
    assert code == 0, errors
    folder = working_folder / "runs" / "kept"
    (kept,) = (folder / "input").iterdir()
    assert gzip.decompress(kept.read_bytes()).decode() == TABLE
    config = yaml.safe_load((folder / "run.yaml").read_text())
    assert str(kept).endswith(config["data"]["train"][0])
    assert run("eval", "runs/kept", "--json")[0] == 0
    with pipe(compressed) as data:
        code, _, errors = run(*train_words(data, "kept"))
    assert code == 0 and "resumed" in errors, errors
    with pipe(TABLE) as data:
        code, _, errors = run(*train_words(data, "kept"))
    assert code == 2 and "has a run with other settings: data.train" in errors, errors
    assert list((folder / "input").iterdir()) == [kept]


def test_a_refused_run_leaves_no_data(run, working_folder):
    for content in ("text\tlabel\na\n", "nothing of use", b"%PDF-1.7\n%\xe2\xe3"):
        with pipe(content) as data:
            code, _, errors = run(*train_words(data, "refused"))
        assert code in (2, 3) and "Error" not in errors, errors
        assert not (working_folder / "runs" / "refused").exists()


def test_a_dry_run_of_a_pipe_saves_nothing(run, working_folder):
    with pipe(TABLE) as data:
        code, _, errors = run(*train_words(data, "dry", "--dry-run"))
    assert code == 0, errors
    assert not (working_folder / "runs" / "dry").exists()


def test_a_pipe_is_evaluated_predicted_and_checked_as_a_file_is(run, working_folder):
    (working_folder / "t.tsv").write_text(TABLE)
    expected = run("eval", "classifier", "t.tsv", "--json")
    with pipe(TABLE) as data:
        assert run("eval", "classifier", data, "--json")[:2] == expected[:2]
    with pipe("text,label\na fine film,a\n") as data:
        code, table_output, errors = run("classify", "classifier", f"--file={data}")
    assert code == 0, errors
    with pipe("a fine film\n") as data:
        assert run("classify", "classifier", data)[1] == table_output
    with pipe("en\tde\none\teins\n") as data:
        code, output, errors = run("data", "check", data, "--json")
    assert code == 0 and json.loads(output)["splits"]["train"]["pairs"] == 1, errors


def test_a_named_pipe_is_read_once(run, working_folder):
    named = working_folder / "named"
    os.mkfifo(named)
    writer = threading.Thread(target=named.write_text, args=("en\tde\none\teins\n",))
    writer.start()
    code, output, errors = run("data", "check", str(named), "--json")
    writer.join()
    assert code == 0 and json.loads(output)["splits"]["train"]["pairs"] == 1, errors


def test_standard_input_has_a_path_too(working_folder):
    done = headway_process(
        "data", "check", "/dev/stdin", cwd=working_folder, text="en\tde\none\teins\n"
    )
    assert "1 pairs" in done.stdout


def test_the_file_of_a_new_document_is_never_read(run):
    code, _, errors = run("translate", "classifier", "x.txt", "-o", "/dev/fd/1")
    assert code == 2, errors


JSON_LINES = '{"text": "a"}\n{"text": "b"}\n'


@pytest.mark.parametrize(
    ("content", "suffix"),
    [
        (b"", ".txt"),
        ("one line\nanother, with a comma\n", ".txt"),
        ("Hello, you\nBye, you\n", ".txt"),
        ("text,label\nHello,a\n", ".csv"),
        ('"text";"label"\n"Hello; you";"a"\n', ".csv"),
        ("sep=;\na b;c d\n", ".csv"),
        ("text\tlabel\na\tb\n", ".tsv"),
        (JSON_LINES, ".jsonl"),
        (f"\ufeff\n{JSON_LINES}", ".jsonl"),
        ('{"data": [{"paragraphs": []}]}', ".json"),
        ('{\n "data": []\n}', ".json"),
        ('[\n {"a": 1}]', ".json"),
        ("[MASK] is here\n", ".txt"),
        ("{braces} of a text\n", ".txt"),
        ('<?xml version="1.0"?>\n<xliff version="1.2">', ".xlf"),
        ('<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">', ".tmx"),
        ('# note\nmsgid ""\nmsgstr ""\n', ".po"),
        ("<!doctype html><p>a", ".html"),
        ("1\n00:00:01,000 --> 00:00:02,000\na\n", ".srt"),
        ("# text = a\n1\ta\ta\tX\tX\t_\t0\troot\t_\t_\n", ".conllu"),
        ("Ada O\nwalks O\n", ".txt"),
        (b"PAR1\0", ".parquet"),
        (b"RIFF\x24\0\0\0WAVEfmt ", ".wav"),
        (b"GIF89a\1\0\1\0", ".gif"),
        ("BM is no bitmap\n", ".txt"),
        (gzip.compress(JSON_LINES.encode(), mtime=0), ".jsonl.gz"),
        (gzip.compress(b"text " * 100_000, mtime=0)[:200], ".txt.gz"),
    ],
)
def test_the_suffix_of_a_pipe_follows_from_its_content(content, suffix):
    assert suffix_of(content if isinstance(content, bytes) else content.encode()) == suffix
