"""Errors of the command line name the mistake, the path as it was typed, and the exit code of its
kind."""

import subprocess

import pytest

from headway.base.errors import DataError
from headway.data.images import decoded
from headway.runs import recipe
from headway.tasks.job import update_size
from headway.terminal.training import Screen
from tests.fixtures.bundles import gpt, translator
from tests.fixtures.command_line import ROOT, headway, start

TINY = [
    *("--model.model-dim", "24", "--model.num-heads", "4", "--model.ffn-dim", "40"),
    *("--model.num-layers", "1", "--model.max-length", "48", "--training.length", "32"),
    *("--data.vocabulary", "270", "--steps", "3", "--threads", "1"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("refusals")
    gpt().save(path / "gpt")
    translator().save(path / "translator")
    (path / "data").mkdir()
    lines = "\n".join(f"The {c} baker waves to {i} old foxes." for i in range(60) for c in "abc")
    (path / "data" / "text.txt").write_text(lines)
    (path / "data" / "short.txt").write_text("hi\n" * 5)
    (path / "data" / "header.tsv").write_text("en\tde\n")
    headway("train", "gpt", "data/text.txt", "--run", "used", *TINY, "--quiet", cwd=path)
    return path


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        ("eval gpt --against translator", 2, ("gpt holds a language model, translator a tran",)),
        ("train gpt x --optimizer.warmup 3", 2, ("Did you mean --schedule.warmup?",)),
        ("translate translator hi --dtype float16", 2, ("one of auto, float32, bfloat16\n",)),
        ("translate translator hi --threads 0", 2, ("whole number at least 1", ", or none")),
        ("train translate data/header.tsv --run a", 3, ("at   data/header.tsv\n",)),
        ("train gpt data/short.txt --run a", 3, ("at   data/short.txt\n",)),
        ("data check nowhere", 2, ("no such file or folder", "at   nowhere\n")),
        ("train gpt nowhere.txt --run used", 2, ("no such file", "at   nowhere.txt\n")),
        ("runs ls nowhere", 2, ("no such folder", "at   nowhere\n")),
        ("train gpt data/text.txt --config no.yaml", 2, ("no such file", "at   no.yaml\n")),
        ("inspect gpt hi --html no/a.html", 2, ("no does not exist",)),
        ("generate gpt hi --temperature 1e-300", 2, ("temperature=1e-300: must be 0 (",)),
        ("train gpt x --model.attention scaled_dot", 2, ("Did you mean scaled-dot?",)),
        ("train gpt x --schedule.kind Cosine", 2, ("Did you mean cosine?",)),
        (
            "train gpt data/text.txt --from gpt --training.length 32 --run l --lora.rank 2 "
            "--lora.targets *.query,*.q",
            2,
            ("no linear layer has a name like '*.q'; the layers are *.query, *.key",),
        ),
        ("compare gpt translator", 2, ("is a recipe, and nothing is varied", "--vary")),
        ("compare runs/used gpt", 2, ("headway eval runs/used --against gpt", "RECIPE DATA --v")),
        ("compare translator", 2, ("headway eval translator --against RUN2",)),
        ("compare lader", 2, ("unknown plan 'lader'. Did you mean ladder?",)),
        (
            "translate translator data/text.txt -o data/text.txt",
            2,
            ("the output is the input file", "-o data/text.new.txt"),
        ),
    ],
)
def test_an_error_names_the_mistake_and_the_path(folder, words, code, parts):
    stderr = headway(*words.split(), cwd=folder, check=code).stderr
    assert all(part in stderr for part in parts), stderr


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("train gtp --help", "unknown recipe 'gtp'. Did you mean gpt?"),
        ("train -h NONSENSE", "unknown recipe 'NONSENSE'"),
        ("train --quiet NONSENSE --help", "unknown recipe 'NONSENSE'"),
        ("compare NONSENSE --help", "unknown plan 'NONSENSE'"),
        ("lecture NONSENSE --help", "unknown claim 'NONSENSE'"),
        ("exercise NONSENSE --help", "unknown command of exercise 'NONSENSE'"),
        ("NONSENSE --help", "unknown command 'NONSENSE'"),
    ],
)
def test_help_on_what_does_not_exist_is_an_error(folder, words, part):
    done = headway(*words.split(), cwd=folder, check=2)
    assert part in done.stderr and not done.stdout


@pytest.mark.parametrize(
    "words",
    [
        "train --help",
        "train gpt --help",
        "train gpt some.txt --run a -h",
        "train --config some.yaml --help",
        "compare --help",
        "compare ladder --help",
        "compare own.yaml --help",
        "compare gpt --vary optimizer.lr=1e-3,2e-3 --help",
    ],
)
def test_help_on_what_exists_is_printed(folder, words):
    assert f"Usage: headway {words.split()[0]}" in headway(*words.split(), cwd=folder).stdout


def test_all_rows_of_a_table_that_are_too_short_are_counted(folder):
    (folder / "rows.tsv").write_text("en\tde\na\tb\nx\nc\td\ny\n")
    done = headway("data", "check", "rows.tsv", cwd=folder, check=3)
    assert "rows.tsv:3: the row must have at least 2 columns" in done.stdout
    assert "(2 such rows, the next at rows.tsv:5)" in done.stdout and "2 pairs" in done.stdout
    assert "training refuses these files" in done.stderr and "train anyway" not in done.stderr
    (folder / "empty.tsv").write_text("en\tde\na\tb\nx\t\n")
    assert "train anyway" in headway("data", "check", "empty.tsv", cwd=folder, check=3).stderr


def test_a_sound_file_that_cannot_be_read_is_not_called_an_image():
    with pytest.raises(DataError, match="cannot be read as a sound: its content is not WAV"):
        decoded(b"no sound", "a.wav")
    with pytest.raises(
        DataError, match="as an image: its content is not PNG, JPEG, WebP, GIF, BMP or TIFF"
    ):
        decoded(b"no image", "a.png")


def test_the_folder_of_runs_may_be_missing_if_it_is_not_named(tmp_path):
    assert "no runs in runs/ yet" in headway("runs", "ls", cwd=tmp_path).stderr


def test_a_batch_and_the_epochs_of_a_plan_are_limited_by_the_data(folder):
    words = ("train", "gpt", "data/text.txt", *TINY, "--training.batch-size", "1000000")
    stderr = headway(*words, "--run", "large", cwd=folder).stderr
    (plan,) = [line for line in stderr.split("\n") if line.startswith("plan")]
    (size,) = [part for part in plan.split(" · ") if part.startswith("batches of ")]
    assert int(size.split()[2].replace(",", "")) < 20_000 and " epochs: " not in stderr
    training = recipe("gpt-tiny").training
    assert update_size(training, 10**9) == training.batch_size * training.accumulate


@pytest.mark.parametrize("words", ["--help", "train --help"])
def test_help_whose_reader_ends_is_no_failure(words):
    with start(words.split(), ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"Usage")
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_a_terminal_shows_perplexity_once(capsys):
    screen = Screen()
    screen.live = True
    screen({"kind": "valid", "step": 3, "nats": 1.5, "perplexity": 4.5, "took": 0.1,
            "is_best": True})  # fmt: skip
    header = capsys.readouterr().err.split("\n")[0]
    assert "perplexity" in header and "ppl" not in header
