"""Language modelling as a run: held-out text, resuming, and fine-tuning."""

import gzip
import json
import math
from dataclasses import asdict

import pytest
import torch

from headway import load
from headway.base.config_files import read_yaml
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.metrics_file import read_metrics
from headway.base.settings import override
from headway.bundle import TextBundle
from headway.runs import check_same, recipe, saved, train
from headway.tasks import registry
from headway.tasks.language_modeling import task as language_modeling
from headway.tasks.language_modeling.config import batch_on
from headway.tasks.language_modeling.data import PreparedLanguage, check_sources, prepare_language
from headway.tasks.language_modeling.task import language_job
from headway.tasks.opening import load_as
from headway.text import CharacterTokenizer, TextBPE
from tests.fixtures.language_model_runs import NAMES, OBJECTS, STORY, configured, weights


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
    """Return the text of each document of a corpus."""
    ends = [*corpus.offsets[1:].tolist(), len(corpus)]
    return [
        tokenizer.decode(corpus.ids[a:b].tolist())
        for a, b in zip(corpus.offsets.tolist(), ends, strict=True)
    ]


def splits(data: PreparedLanguage):
    training = [text for corpus in data.train for text in documents(corpus, data.tokenizer)]
    return training, documents(data.valid, data.tokenizer)


def job_of(config, start_folder, tmp_path):
    start = load_as(TextBundle, start_folder)
    folder = tmp_path / "prepared"
    folder.mkdir()
    data = prepare_language(config, start, folder, lambda event: None)
    return language_job(config, data, start, prepare(MachineConfig(device="cpu", threads=1)))


def nats_of(job, model):
    """Return the nats of the job's held-out text, from the evaluation of its task."""
    task = registry.task("language_modeling")
    return task.evaluate(job.bundle(model), job.held_out, job.evaluation)["nats"]


# --- held-out text -----------------------------------------------------------------------------


def test_a_single_document_is_split_at_an_end_of_line_near_the_fraction(story, tmp_path):
    data = prepared(configured(story, data__held_out=0.2), tmp_path / "run")
    (training,), (held_out,) = splits(data)
    assert training + held_out == STORY and training.endswith("\n")
    assert len(held_out) == pytest.approx(0.2 * len(STORY), abs=30)


def test_a_document_of_one_line_is_split_inside_it(tmp_path):
    (tmp_path / "line.txt").write_text("abcdefghi " * 10)
    config = configured(str(tmp_path / "line.txt"), data__held_out=0.3)
    (training,), (held_out,) = splits(prepared(config, tmp_path / "run"))
    assert training + held_out == "abcdefghi " * 10 + "\n" and 68 <= len(training) <= 72


def test_many_documents_are_split_between_documents(tmp_path):
    texts = [f"{name} and {noun}" for name in NAMES for noun in OBJECTS]
    lines = [json.dumps({"text": text, "more": 1}) for text in texts]
    with gzip.open(tmp_path / "all.jsonl.gz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    config = configured(str(tmp_path / "all.jsonl.gz"), data__held_out=0.1)
    training, held_out = splits(prepared(config, tmp_path / "run"))
    assert training + held_out == texts and 2 <= len(held_out) <= 4


def test_a_named_validation_text_leaves_the_training_text_whole(story, tmp_path):
    (tmp_path / "other.txt").write_text("the owl reads.\n")
    config = configured(story, data__valid=(str(tmp_path / "other.txt"),))
    assert splits(prepared(config, tmp_path / "run")) == ([STORY], ["the owl reads.\n"])


def test_the_tokenizer_is_trained_on_training_text_only(tmp_path):
    text = "abab\n" * 60 + "zxzxzx\n" * 20
    (tmp_path / "t.txt").write_text(text)
    config = configured(str(tmp_path / "t.txt"), data__held_out=140 / len(text))
    (training,), (held_out,) = splits(data := prepared(config, tmp_path / "run"))
    assert "z" not in training and "a" not in held_out
    tokens = data.tokenizer.token_strings(range(data.tokenizer.size))
    assert "abab" in tokens and "zx" not in tokens


# --- tokenizers and several texts --------------------------------------------------------------


def test_several_texts_have_their_own_shards_and_sampling_weights(story, tmp_path):
    (tmp_path / "songs.md").write_text("la la lo\n" * 40)
    sources = (story, str(tmp_path / "songs.md"))
    config = configured(sources, data__weights=(3.0, 1.0), data__split="line")
    data = prepared(config, tmp_path / "run")
    assert [path.name for path in sorted((tmp_path / "run" / "data").iterdir())] == [
        "train-1",
        "train-2",
        "valid",
    ]
    job = language_job(config, data, None, prepare(config.machine))
    first_, second = job.batches.order.quotas.tolist()
    assert first_ == pytest.approx(3 * second, abs=3)
    held_out = documents(data.valid, data.tokenizer)
    assert {text.split()[0] for text in held_out} == {"the", "la"}  # the end of each


def test_the_tokenizer_is_of_characters_or_bpe_or_from_another_run(first, story, tmp_path):
    letters = prepared(configured(story, data__tokenizer="characters"), tmp_path / "a").tokenizer
    assert isinstance(letters, CharacterTokenizer) and set(letters.characters) == set(STORY)
    bpe = prepared(configured(story), tmp_path / "b").tokenizer
    assert isinstance(bpe, TextBPE) and bpe.size == 290
    (tmp_path / "new.txt").write_text("cellos quietly\n" * 50)
    config = configured(str(tmp_path / "new.txt"), data__tokenizer=str(first))
    train(config, tmp_path / "c")
    tokenizer = load(tmp_path / "c").tokenizer
    assert tokenizer.fingerprint == load(first).tokenizer.fingerprint
    assert saved(tmp_path / "c").model.vocabulary == tokenizer.size


def test_prepared_data_is_reused(story, tmp_path):
    events = []
    for _ in range(2):
        prepare_language(configured(story), None, tmp_path, events.append)
    reused = [event["reused"] for event in events if event["kind"] == "prepared"]
    assert reused == [False, False, True, True]


# --- training and resuming ---------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "settings",
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
def test_a_run_in_two_halves_equals_an_uninterrupted_run(first, story, tmp_path, settings):
    settings = dict(settings)
    if settings.pop("from", False):
        settings["training__start"] = str(first)
    train(configured(story, **settings), tmp_path / "whole")
    train(configured(story, **settings, training__steps=3), tmp_path / "halves")
    outcome = train(configured(story, **settings), tmp_path / "halves")
    assert outcome.stop == "done" and outcome.step == 6
    for name in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_model_learns_and_its_run_reports_nats_and_bits_per_byte(story, tmp_path):
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


def test_the_held_out_loss_counts_every_token_once(first):
    """Computed from the definition: the mean over all tokens after the first of a sequence."""
    bundle = load(first)
    row = read_metrics(first / "metrics.jsonl", "valid")[-1]
    config = saved(first)
    data = prepare_language(config, None, first, lambda event: None)
    ids, length = data.valid.ids.astype(int).tolist(), config.training.length
    total = 0.0
    for start in range(0, len(ids) - 1, length):
        part = torch.tensor([ids[start : start + length + 1]])
        with torch.inference_mode():
            logits = bundle.model(part[:, :-1])
        total += torch.nn.functional.cross_entropy(logits[0], part[0, 1:], reduction="sum").item()
    assert row["is_best"]  # so the saved model is the one that was evaluated
    assert row["nats"] == pytest.approx(total / (len(ids) - 1), rel=1e-5)


# --- from another model ------------------------------------------------------------------------


def test_a_pretrained_model_determines_weights_sizes_and_tokenizer(first, story, tmp_path):
    config = configured(story, training__start=str(first), model__model_dim=40, model__dropout=0.3)
    job = job_of(config, first, tmp_path)
    model = job.build()
    pretrained = load(first)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, pretrained.model.get_parameter(name)), name
    expected = asdict(pretrained.config) | {"dropout": 0.3}
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


def test_at_the_first_evaluation_an_adapted_model_equals_the_pretrained_one(first, story, tmp_path):
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
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    first, story, tmp_path, monkeypatch, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "broken.txt").write_bytes(b"caf\xe9\n")
    paths = {"FIRST": str(first), "EMPTY": "empty.txt", "BROKEN": "broken.txt"}

    def with_paths(value):
        return (
            tuple(map(with_paths, value)) if isinstance(value, tuple) else paths.get(value, value)
        )

    config = configured(story, **{key: with_paths(value) for key, value in changes.items()})
    with pytest.raises(kind, match=part):
        train(config, tmp_path / "runs" / "new")
    assert not (tmp_path / "runs" / "new").exists()


def test_sequences_longer_than_the_learned_positions_are_refused_before_any_work(story, tmp_path):
    learned = {"model__positions": "learned", "model__max_length": 11}
    train(configured(story, **learned), tmp_path / "short")
    config = configured(story, training__start=str(tmp_path / "short"), training__length=12)
    with pytest.raises(UsageError, match="more than the 11 positions"):
        train(config, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_refused_run_leaves_existing_files_in_place(story, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    with pytest.raises(HeadwayError):
        train(configured(story, training__length=5000), run)
    assert (run / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("device", "size", "start", "expected"),
    [
        ("cpu", "gpt2-small", None, (16, 256)),
        ("cpu", "gpt3-1.3b", None, (16, 256)),
        ("cuda", "gpt2-small", None, (32, 1024)),
        ("cuda", "gpt2-medium", None, (32, 1024)),
        ("cuda", "gpt3-1.3b", None, (64, 1024)),
        ("cuda", "gpt1", None, (32, 512)),
        ("cuda", "modern-micro", None, (16, 256)),
        ("cuda", "modern-mini", None, (16, 256)),
        ("cuda", "gpt2-small", "a/model", (16, 256)),
    ],
)
def test_a_large_model_from_scratch_has_large_batches_on_a_gpu(device, size, start, expected):
    changes = {"model.size": size, "training.start": start}
    decided = batch_on(device, recipe("gpt", ("test", changes)))
    assert tuple(decided.values()) == expected


def test_a_batch_size_or_length_of_the_user_stays():
    changes = {"model.size": "gpt2-small", "training.batch_size": 5}
    assert tuple(batch_on("cuda", recipe("gpt", ("test", changes))).values()) == (5, 1024)
    changes = {"model.size": "gpt2-small", "training.length": 300}
    assert tuple(batch_on("cuda", recipe("gpt", ("test", changes))).values()) == (32, 300)
    assert tuple(batch_on("cuda", recipe("gpt-tiny")).values()) == (8, 128)


def test_a_run_keeps_its_batch_on_another_device(tmp_path, monkeypatch):
    text = tmp_path / "story.txt"
    text.write_text(STORY)
    config = configured(str(text), training__batch_size=None, training__length=None)
    on_a_gpu = {"training.batch_size": 5, "training.length": 13}
    monkeypatch.setattr(language_modeling, "batch_on", lambda device, config: on_a_gpu)
    train(config, tmp_path / "run")
    monkeypatch.undo()
    check_same(tmp_path / "run", config)
    train(override(config, {"training.steps": 9}, "test"), tmp_path / "run")
    recorded = read_yaml(tmp_path / "run" / "run.yaml")
    assert {key: recorded[key] for key in on_a_gpu} == on_a_gpu
    with pytest.raises(UsageError, match=r"training\.length: 13 in the run, 11 now"):
        longer = {"training.length": 11, "training.steps": 9}
        check_same(tmp_path / "run", override(config, longer, "test"))
