"""Language models as a run: what is held out, what is resumed, what is fine-tuned."""

import gzip
import json
import math
from dataclasses import asdict

import pytest
import torch

from headway import load
from headway.bundle import TextBundle
from headway.errors import DataError, HeadwayError, UsageError
from headway.machine import MachineConfig, prepare
from headway.runs import saved, train
from headway.tasks import registry
from headway.tasks.language_modeling.data import (
    PreparedLanguage,
    check_sources,
    prepare_language,
)
from headway.tasks.language_modeling.job import LanguageJob
from headway.tasks.opening import load_as
from headway.text import Characters, TextBPE
from headway.training import read_metrics
from tests.fixtures.language_model_runs import NAMES, STORY, THINGS, configured, weights


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    return str(path)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A finished run to start from."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "story.txt").write_text(STORY)
    train(configured(str(folder / "story.txt")), folder / "run")
    return folder / "run"


def prepared(config, folder):
    check_sources(config)
    folder.mkdir(parents=True, exist_ok=True)
    return prepare_language(config, None, folder, lambda event: None)


def documents(corpus, tokenizer):
    """The texts of a corpus, one a document."""
    ends = [*corpus.offsets[1:].tolist(), len(corpus)]
    return [
        tokenizer.decode(corpus.ids[a:b].tolist())
        for a, b in zip(corpus.offsets.tolist(), ends, strict=True)
    ]


def halves(found: PreparedLanguage):
    train_ = [text for corpus in found.train for text in documents(corpus, found.tokenizer)]
    return train_, documents(found.valid, found.tokenizer)


def job_of(config, start_folder, tmp_path):
    start = load_as(TextBundle, start_folder)
    folder = tmp_path / "prepared"
    folder.mkdir()
    data = prepare_language(config, start, folder, lambda event: None)
    return LanguageJob(config, data, start, prepare(MachineConfig(device="cpu", threads=1)))


def nats_of(job, model):
    """Of the job's held-out text, by the evaluation of its task."""
    task = registry.task("language_modeling")
    return task.evaluate(job.bundle(model), job.held_out, job.evaluation)["nats"]


# --- what is held out --------------------------------------------------------------------------


def test_a_single_document_is_cut_at_an_end_of_line_near_the_share(story, tmp_path):
    found = prepared(configured(story, data__held_out=0.2), tmp_path / "run")
    (kept,), (held,) = halves(found)
    assert kept + held == STORY and kept.endswith("\n")
    assert len(held) == pytest.approx(0.2 * len(STORY), abs=30)


def test_a_document_of_one_line_is_cut_inside_it(tmp_path):
    (tmp_path / "line.txt").write_text("abcdefghi " * 10)
    config = configured(str(tmp_path / "line.txt"), data__held_out=0.3)
    (kept,), (held,) = halves(prepared(config, tmp_path / "run"))
    assert kept + held == "abcdefghi " * 10 + "\n" and 68 <= len(kept) <= 72


def test_many_documents_are_parted_at_a_border(tmp_path):
    texts = [f"{name} and {thing}" for name in NAMES for thing in THINGS]
    lines = [json.dumps({"text": text, "more": 1}) for text in texts]
    with gzip.open(tmp_path / "all.jsonl.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    config = configured(str(tmp_path / "all.jsonl.gz"), data__held_out=0.1)
    kept, held = halves(prepared(config, tmp_path / "run"))
    assert kept + held == texts and 2 <= len(held) <= 4


def test_named_held_out_text_leaves_the_training_text_whole(story, tmp_path):
    (tmp_path / "other.txt").write_text("the owl reads.\n")
    config = configured(story, data__valid=(str(tmp_path / "other.txt"),))
    assert halves(prepared(config, tmp_path / "run")) == ([STORY], ["the owl reads.\n"])


def test_the_tokenizer_sees_training_text_only(tmp_path):
    text = "abab\n" * 60 + "zxzxzx\n" * 20
    (tmp_path / "t.txt").write_text(text)
    config = configured(str(tmp_path / "t.txt"), data__held_out=140 / len(text))
    (kept,), (held,) = halves(found := prepared(config, tmp_path / "run"))
    assert "z" not in kept and "a" not in held
    pieces = found.tokenizer.pieces(range(found.tokenizer.size))
    assert "abab" in pieces and "zx" not in pieces


# --- tokenizers and several texts --------------------------------------------------------------


def test_several_texts_have_shards_and_shares_of_their_own(story, tmp_path):
    (tmp_path / "songs.md").write_text("la la lo\n" * 40)
    sources = (story, str(tmp_path / "songs.md"))
    config = configured(sources, data__weights=(3.0, 1.0), data__split="line")
    found = prepared(config, tmp_path / "run")
    assert [path.name for path in sorted((tmp_path / "run" / "data").iterdir())] == [
        "train-1",
        "train-2",
        "valid",
    ]
    job = LanguageJob(config, found, None, prepare(config.machine))
    first_, second = job.train_batches.quotas.tolist()
    assert first_ == pytest.approx(3 * second, abs=3)
    held = documents(found.valid, found.tokenizer)
    assert {text.split()[0] for text in held} == {"the", "la"}  # the end of each


def test_characters_and_pieces_and_the_tokenizer_of_another_run(first, story, tmp_path):
    letters = prepared(configured(story, data__tokenizer="characters"), tmp_path / "a").tokenizer
    assert isinstance(letters, Characters) and set(letters.characters) == set(STORY)
    pieces = prepared(configured(story), tmp_path / "b").tokenizer
    assert isinstance(pieces, TextBPE) and pieces.size == 290
    (tmp_path / "new.txt").write_text("cellos quietly\n" * 50)
    config = configured(str(tmp_path / "new.txt"), data__tokenizer=str(first))
    train(config, tmp_path / "c")
    taken = load(tmp_path / "c").tokenizer
    assert taken.fingerprint == load(first).tokenizer.fingerprint
    assert saved(tmp_path / "c").model.vocabulary == taken.size


def test_what_was_prepared_is_used_again(story, tmp_path):
    told = []
    for _ in range(2):
        prepare_language(configured(story), None, tmp_path, told.append)
    reused = [event["reused"] for event in told if event["kind"] == "prepared"]
    assert reused == [False, False, True, True]


# --- training and going on ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"training__recompute": True, "model__dropout": 0.2},
        {"optimizer__kind": "muon", "training__average": 0.9},
        {"training__accumulate": 2, "data__split": "line"},
        {"lora__rank": 2, "lora__dropout": 0.1, "from": True},
        {"lora__rank": 2, "training__average": 0.9, "training__recompute": True, "from": True},
    ],
    ids=["plain", "recompute", "muon", "accumulate", "lora", "lora-recompute"],
)
def test_steps_in_two_halves_are_the_steps_in_one(first, story, tmp_path, how):
    how = dict(how)
    if how.pop("from", False):
        how["training__start"] = str(first)
    train(configured(story, **how), tmp_path / "whole")
    train(configured(story, **how, training__steps=3), tmp_path / "halves")
    outcome = train(configured(story, **how), tmp_path / "halves")
    assert outcome.stop == "done" and outcome.step == 6
    for name in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_model_learns_and_its_run_tells_nats_and_bits(story, tmp_path):
    config = configured(
        story,
        training__steps=80,
        evaluation__every=40,
        schedule__kind="warmup-stable-decay",
        optimizer__lr=2e-2,
        data__tokenizer="characters",
    )
    train(config, tmp_path / "run")
    before, after = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    assert after["nats"] < before["nats"] < 3.5
    # one character a byte, and the held-out text is one document behind a </s>
    assert after["bits_per_byte"] == pytest.approx(after["nats"] / 0.6931, rel=1e-3)
    assert after["perplexity"] == pytest.approx(math.exp(after["nats"]))
    rates = [row["lr"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl", "train")]
    assert rates[-1] < rates[0] / 5  # decayed at the end


def test_the_held_out_loss_is_that_of_every_token_once(first):
    """By the definition: the sum over all tokens after the first, each from its row's before."""
    bundle = load(first)
    row = read_metrics(first / "metrics.jsonl", "valid")[-1]
    best = saved(first)
    found = prepare_language(best, None, first, lambda event: None)
    ids, length = found.valid.ids.astype(int).tolist(), best.training.length
    total = 0.0
    for start in range(0, len(ids) - 1, length):
        part = torch.tensor([ids[start : start + length + 1]])
        with torch.inference_mode():
            logits = bundle.model(part[:, :-1])
        total += torch.nn.functional.cross_entropy(logits[0], part[0, 1:], reduction="sum").item()
    assert row["is_best"]  # so the saved model is the one that was evaluated
    assert row["nats"] == pytest.approx(total / (len(ids) - 1), rel=1e-5)


# --- from another model ------------------------------------------------------------------------


def test_a_start_gives_its_weights_its_sizes_and_its_tokenizer(first, story, tmp_path):
    config = configured(story, training__start=str(first), model__model_dim=40, model__dropout=0.3)
    job = job_of(config, first, tmp_path)
    model = job.build()
    own = load(first)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, own.model.get_parameter(name)), name
    expected = asdict(own.config) | {"dropout": 0.3}
    assert asdict(job.config.model) == expected
    last = read_metrics(first / "metrics.jsonl", "valid")[-1]
    assert nats_of(job, model) == pytest.approx(last["nats"], rel=1e-6)


def test_adapters_alone_train_and_are_merged_under_plain_names(first, story, tmp_path):
    config = configured(story, training__start=str(first), lora__rank=2, lora__targets=("*.query",))
    model = job_of(config, first, tmp_path).build()
    training = [name for name, p in model.named_parameters() if p.requires_grad]
    assert len(training) == 4 and all("query.lora_" in name for name in training)
    train(config, tmp_path / "run")
    before, after = weights(first), weights(tmp_path / "run")
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert len(changed) == 2 and all(name.endswith("query.weight") for name in changed)
    assert load(tmp_path / "run").generate(["the fox"], max_tokens=3)


def test_at_the_first_evaluation_an_adapted_model_is_its_start(first, story, tmp_path):
    config = configured(story, training__start=str(first), lora__rank=3)
    job = job_of(config, first, tmp_path)
    last = read_metrics(first / "metrics.jsonl", "valid")[-1]
    assert nats_of(job, job.build()) == pytest.approx(last["nats"], rel=1e-6)


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "part"),
    [
        ({"data__train": ()}, UsageError, "no training text is named"),
        ({"data__train": ("nowhere.txt",)}, UsageError, "nowhere.txt"),
        ({"data__valid": ("nowhere.txt",)}, UsageError, "nowhere.txt"),
        ({"data__weights": (1.0, 2.0)}, UsageError, "2 numbers for 1 texts"),
        ({"data__weights": (-1.0,)}, UsageError, "weights must be at least 0"),
        ({"data__weights": (0.0,)}, UsageError, "weights must be at least 0"),
        ({"lora__rank": 1, "optimizer__kind": "muon"}, UsageError, "with optimizer.kind=muon"),
        ({"data__tokenizer": "words"}, UsageError, "no such folder"),
        ({"data__tokenizer": "."}, UsageError, "holds no model"),
        ({"training__start": "nowhere"}, UsageError, "nowhere"),
        ({"training__start": "FIRST", "data__tokenizer": "characters"}, UsageError, "leave out"),
        (
            {"training__start": "FIRST", "lora__targets": ("*.quarry",), "lora__rank": 1},
            UsageError,
            "quarry",
        ),
        ({"training__start": "FIRST", "lora__rank": 99}, UsageError, "rank"),
        ({"evaluation__prompt": "word " * 90}, UsageError, "evaluation.prompt has"),
        ({"training__length": 5000}, DataError, "the text must have more than 5,000 tokens"),
        ({"data__train": ("EMPTY",)}, DataError, "the text is empty"),
        ({"data__train": ("BROKEN",)}, DataError, "broken.txt:1"),
    ],
)
def test_what_cannot_work_is_refused_and_leaves_no_folder(
    first, story, tmp_path, monkeypatch, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "broken.txt").write_bytes(b"caf\xe9\n")
    places = {"FIRST": str(first), "EMPTY": "empty.txt", "BROKEN": "broken.txt"}

    def placed(value):
        return tuple(map(placed, value)) if isinstance(value, tuple) else places.get(value, value)

    config = configured(story, **{key: placed(value) for key, value in changes.items()})
    with pytest.raises(kind, match=part):
        train(config, tmp_path / "runs" / "new")
    assert not (tmp_path / "runs" / "new").exists()


def test_rows_longer_than_a_learned_table_are_refused_before_any_work(story, tmp_path):
    learned = {"model__positions": "learned", "model__max_length": 11}
    train(configured(story, **learned), tmp_path / "short")
    config = configured(story, training__start=str(tmp_path / "short"), training__length=12)
    with pytest.raises(UsageError, match="more than the 11 positions"):
        train(config, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_refusal_never_removes_what_was_there(story, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    with pytest.raises(HeadwayError):
        train(configured(story, training__length=5000), run)
    assert (run / "notes.txt").read_text() == "mine"
