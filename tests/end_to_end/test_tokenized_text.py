"""`headway data tokenize`, and language models that are trained on its folders."""

import json
import math
import shutil

import pytest

from headway.base.settings import override
from headway.data import token_shards
from headway.data.token_shards import Reading, make_shards, planned_tokens
from headway.tasks.language_modeling.config import gpt
from headway.tasks.language_modeling.data import prepare_language
from headway.text import load_tokenizer
from tests.fixtures.command_line import headway
from tests.fixtures.language_model_commands import TINY

LINES = [f"the {name} has {count} boats\n" for count in range(40) for name in ("fox", "owl")]
MODEL = [
    word
    for flag, value in zip(TINY[::2], TINY[1::2], strict=True)
    if not flag.startswith("--data.")
    for word in (flag, value)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "texts").mkdir()
    for name in "abc":
        (folder / "texts" / f"{name}.txt").write_text("".join(LINES))
    flags = ("--split", "line", "--vocabulary", "280", "--processes", "1")
    done = headway("data", "tokenize", "texts", *flags, "--json", cwd=folder)
    (folder / "size.json").write_text(done.stdout)
    headway(*train("run", "--steps", "4"), cwd=folder)
    return folder


def train(run, *more):
    return ["train", "gpt", "tokens", "--run", run, *MODEL, *more]


def test_the_tokens_of_the_folder_are_those_the_run_learns_from(folder):
    size = json.loads((folder / "size.json").read_text())
    assert size == {
        "folder": "tokens",
        "tokens": size["tokens"],
        "bytes": 3 * sum(map(len, LINES)),
        "shards": 1,
        "vocabulary": 280,
    }
    described = json.loads((folder / "runs/run/data/valid/store.json").read_text())
    copied = described["arrays"]["documents"]["shape"][0]
    assert 0.03 < copied / size["tokens"] < 0.07, "the usual held-out fraction"
    assert not (folder / "runs/run/data/train").exists(), "only held-out text is copied"


def test_the_model_has_the_tokenizer_of_the_folder(folder):
    for place in ("runs/run", "runs/run/model"):
        text = (folder / place / "tokenizer.json").read_bytes()
        assert text == (folder / "tokens/tokenizer.json").read_bytes()


def test_evaluation_counts_the_bytes_of_the_held_out_text(folder):
    done = headway("eval", "runs/run", "--json", cwd=folder)
    scores = json.loads(done.stdout)
    store = json.loads((folder / "runs/run/data/valid/store.json").read_text())
    num_bytes = store["metadata"]["bytes"]
    assert num_bytes in [sum(map(len, LINES[-count:])) for count in range(1, len(LINES))]
    total = scores["nats"] * scores["tokens"]
    assert scores["bits_per_byte"] == pytest.approx(total / math.log(2) / num_bytes)


def test_a_run_in_two_halves_ends_as_one(folder):
    headway(*train("halves", "--steps", "2"), cwd=folder)
    headway("train", "--resume", "runs/halves", "--steps", "4", cwd=folder)
    whole, halves = (
        (folder / f"runs/{run}/model/model.safetensors").read_bytes() for run in ("run", "halves")
    )
    assert halves == whole


def test_weights_of_folders_are_divided_among_their_shards(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(token_shards, "SHARD_BYTES", 2000)
    sources = [str(folder / "texts")]
    tokenizer = load_tokenizer(folder / "tokens")
    shards = planned_tokens(sources, tmp_path / "several", Reading("line"), lambda: tokenizer)
    make_shards(shards, 1)
    settings = {"data.train": (str(folder / "tokens"), str(shards.folder)), "data.weights": (3, 1)}
    config = override(gpt(), settings, "test")
    (tmp_path / "run").mkdir()
    prepared = prepare_language(config, None, tmp_path / "run", lambda event: None)
    assert prepared.names == [config.data.train[0], *[config.data.train[1]] * 2]
    assert sum(prepared.weights[1:]) == pytest.approx(1) and prepared.weights[0] == 3
    first, second = (len(corpus) for corpus in prepared.train[1:])
    assert prepared.weights[1] == pytest.approx(first / (first + second))


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--data.tokenizer", "characters"], "leave out --data.tokenizer"),
        (["--data.vocabulary", "300"], "leave out --data.vocabulary"),
        (["--data.split", "line"], "leave out --data.split"),
        (["--valid", "texts"], "headway data tokenize TEXT --tokenizer TOKENS"),
    ],
)
def test_what_was_decided_by_tokenising_is_not_set_again(folder, more, expected):
    done = headway(*train("refused"), *more, cwd=folder, check=2)
    assert expected in done.stderr
    assert not (folder / "runs/refused").exists()


def test_an_unfinished_folder_names_the_command_that_continues(folder, tmp_path):
    shutil.copytree(folder / "tokens", tmp_path / "tokens")
    shutil.rmtree(tmp_path / "tokens/shard-00000")
    done = headway(*train("r"), cwd=tmp_path, check=3)
    assert "1 of 1 shards are missing" in done.stderr and "data tokenize" in done.stderr


def test_another_task_says_what_the_folder_is_for(folder):
    done = headway("train", "bert", "tokens", cwd=folder, check=2)
    assert "headway train gpt" in done.stderr


@pytest.mark.parametrize("words", [(), ("nowhere",), ("texts", "--tokenizer", "nowhere")])
def test_wrong_arguments_are_refused(folder, words):
    done = headway("data", "tokenize", *words, "-o", "new", cwd=folder, check=2)
    assert "error:" in done.stderr and not (folder / "new").exists()
