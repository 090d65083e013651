"""Masked language modelling as a run: learning, resuming, and continued pre-training."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from headway import load
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.bundle import EncoderBundle, FillInput, FillOptions
from headway.cli.main import main
from headway.data.padding import IGNORED
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.masked_language_modeling.config import EncoderScoring
from headway.tasks.masked_language_modeling.data import check_encoder, prepare_encoder
from headway.tasks.masked_language_modeling.task import pretraining_job, unigram_baselines
from headway.tasks.opening import load_as

NAMES = ["fox", "baker", "owl", "miller", "crab"]
OBJECTS = ["a lemon", "the tree", "some bread", "a drum", "the moon", "one boat"]
STORIES = [
    " ".join(f"The {name} {verb} {noun}." for verb in ("sees", "likes", "paints", "has"))
    for noun in OBJECTS
    for name in NAMES
]
STORIES = [STORIES[7 * i % 30] for i in range(30)]  # the last ones have no words of their own
TASK = registry.task("masked_language_modeling")
TINY = {
    "model.model_dim": 12,
    "model.num_heads": 2,
    "model.num_layers": 2,
    "model.ffn_dim": 20,
    "model.max_length": 30,
    "model.positions": "learned",
    "optimizer.muon_lr": 2e-2,
    "data.vocabulary": 100,
    "data.split": "line",
    "data.held_out": 0.2,
    "training.batch_size": 3,
    "training.length": 20,
    "training.steps": 6,
    "evaluation.every": 3,
    "evaluation.sentences": 3,
    "checkpoint.every": 3,
    "schedule.kind": "constant",
    "schedule.warmup": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
}


def configured(text, name="bert-tiny", **changes):
    """Return the configuration of a run; two underscores in a name are a dot."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return recipe(name, ("test", {**TINY, "data.train": text, **dotted}))


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("\n".join(STORIES) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A finished run to start from."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "story.txt").write_text("\n".join(STORIES) + "\n")
    train(configured(str(folder / "story.txt")), folder / "run")
    return folder / "run"


def ignore(*args, **kwargs):
    """Ignore an event."""


def job_of(config, folder, start=None, emit=ignore):
    check_encoder(config)
    folder.mkdir(parents=True, exist_ok=True)
    data = prepare_encoder(config, start, folder, emit)
    return pretraining_job(config, data, start, prepare(MachineConfig(device="cpu", threads=1)))


def numbers(folder):
    return read_metrics(folder / "metrics.jsonl", "valid")


# --- documents of one sentence -----------------------------------------------------------------


def test_rows_of_one_sentence_are_refused_where_pairs_of_sentences_are_learned(tmp_path):
    table = tmp_path / "names.csv"
    rows = [sentence for story in STORIES for sentence in story.split(". ")]
    table.write_text("n,words\n" + "".join(f"{n},{row}\n" for n, row in enumerate(rows)))
    config = configured(str(table), data__text="words")
    with pytest.raises(DataError, match=r"100% of the text is in documents of one sentence"):
        job_of(config, tmp_path / "pairs")
    job_of(replace(config, model=replace(config.model, next_sentence=False)), tmp_path / "words")
    table.write_text("n,words\n" + "".join(f"{n},{story}\n" for n, story in enumerate(STORIES)))
    job_of(config, tmp_path / "stories")


# --- training and resuming ---------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"name": "roberta", "training__accumulate": 2},
        {"masking__dynamic": False, "masking__whole_words": True, "training__average": 0.9},
        {"training__recompute": True, "optimizer__kind": "muon"},
        {"from": True, "data__new_tokens": 3},
        {"two": True},
    ],
    ids=["plain", "roberta", "static", "recompute", "from", "two"],
)
def test_a_run_in_two_halves_equals_an_uninterrupted_run(first, story, tmp_path, settings):
    settings = dict(settings)
    if settings.pop("from", False):
        settings["training__start"] = str(first)
    if settings.pop("two", False):
        (tmp_path / "other.txt").write_text("\n".join(STORIES[:12]) + "\n")
        story = (story, str(tmp_path / "other.txt"))
    train(configured(story, **settings), tmp_path / "whole")
    train(configured(story, **settings, training__steps=3), tmp_path / "halves")
    outcome = train(configured(story, **settings), tmp_path / "halves")
    assert outcome.stop == "done" and outcome.step == 6
    for name in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_encoder_learns_words_and_pairs_and_fills_masks(story, tmp_path):
    config = configured(
        story,
        data__train=(story,),
        training__steps=150,
        training__batch_size=12,
        evaluation__every=75,
        optimizer__lr=1e-2,
        model__dropout=0.0,
    )
    events = []
    train(config, tmp_path / "run", listeners=[events.append])
    before, after = numbers(tmp_path / "run")
    assert after["mlm_nats"] < before["mlm_nats"] and after["below_unigram"] > 0.3
    assert {"mlm_accuracy", "nsp_loss", "nsp_accuracy"} <= set(after)
    bundle = load(tmp_path / "run")
    assert isinstance(bundle, EncoderBundle)
    (predictions,) = bundle.fill(["the fox [MASK] a lemon."], top=4)[0]
    assert {prediction.word for prediction in predictions} & {"sees", "likes", "paints", "has"}
    (sample, *_) = [event for event in events if event["kind"] == "sample"]
    assert "[MASK]" in sample["prompt"] and "(it was: " in sample["output"]


def test_without_sentence_pairs_no_score_of_pairs_is_reported(story, tmp_path):
    train(configured(story, name="roberta"), tmp_path / "run")
    assert "nsp_loss" not in numbers(tmp_path / "run")[-1]
    assert load(tmp_path / "run").config.next_sentence is False


@pytest.mark.turns(2)
@pytest.mark.parametrize("texts", [1, 2])
def test_training_python_and_the_command_line_give_the_same_scores(story, tmp_path, capsys, texts):
    """The evaluation of the saved model equals that of the step it was saved at, in every number
    of each kind; a model to start from has pseudo-perplexity, too."""
    (tmp_path / "other.txt").write_text("\n".join(STORIES[:12]) + "\n")
    files = (story, str(tmp_path / "other.txt"))[:texts]
    train(configured(files, evaluation__every=6), tmp_path / "start")
    settings = {"training__start": str(tmp_path / "start"), "evaluation__every": 6}
    train(configured(files, **settings), tmp_path / "run")
    for name, sentences in (("start", 0), ("run", 3)):
        run = tmp_path / name
        (row,) = numbers(run)
        bundle, options = load(run), EncoderScoring(sentences=sentences)
        held_out = TASK.held_out(bundle, run, saved(run), options)
        scores = TASK.evaluate(bundle, held_out, options)
        assert scores.numbers() == {name: row[name] for name in scores.numbers()}
        assert ("pseudo_perplexity_per_word" in scores) == (sentences > 0)
        with pytest.raises(SystemExit) as leaving:
            main(["eval", str(run), "--json"])
        assert leaving.value.code == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed == TASK.evaluate(bundle, held_out).as_dict()
        assert printed["sentences"] > 3 and list(printed["held_out_sequences"]) == list(files)
        assert printed["mlm_nats"] == row["mlm_nats"]
        assert printed["pseudo_perplexity"]["per_word"] == printed["pseudo_perplexity_per_word"]


def test_a_text_file_has_pseudo_perplexity_alone(first, story):
    bundle = load(first)
    text = TASK.read(bundle, [Path(story)], None, EncoderScoring())
    scores = TASK.evaluate(bundle, text, EncoderScoring(sentences=4))
    assert list(scores.numbers()) == ["pseudo_perplexity_per_token", "pseudo_perplexity_per_word"]
    assert (
        scores.counts["sentences"] <= 4 < len(text) and scores.details["held_out_sequences"] == {}
    )
    assert not any(metric.higher_is_better for metric in scores.metrics)
    with pytest.raises(DataError, match="no text to evaluate"):
        TASK.evaluate(bundle, text, EncoderScoring(sentences=0))


def test_predictions_have_the_number_of_their_text_in_errors(first):
    bundle = load(first)
    inputs = [FillInput(text="the fox [MASK] a lemon."), FillInput(text="no mask")]
    with pytest.raises(UsageError, match="text 9"):
        bundle.predict(inputs, first=8)
    (filled,) = bundle.predict(inputs[:1], FillOptions(top=2))
    assert filled.predictions == (tuple(bundle.fill([inputs[0].text], 2)[0][0]),)


def test_the_held_out_scores_are_those_of_the_definition(first):
    config = saved(first)
    job = job_of(config, first)
    model, row = load(first).model, numbers(first)[-1]
    nats = words = correct = pairs = correct_pairs = 0
    (source,) = job.held_out.sources.values()
    plan = source.plan(0)
    for index in range(len(plan)):
        tokens, types, targets = source.row(plan[index], index, 0)
        with torch.inference_mode():
            hidden = model.encode(torch.tensor([tokens]), None, torch.tensor([types]))
            logits, follows = model.words(hidden)[0], model.follows(hidden)[0]
        for position, target in enumerate(targets):
            if target != IGNORED:
                nats -= logits[position].log_softmax(-1)[target].item()
                correct += int(logits[position].argmax()) == target
                words += 1
        pairs += F.cross_entropy(follows, torch.tensor(int(plan[index, 4]))).item()
        correct_pairs += int(follows.argmax()) == plan[index, 4]
    assert row["is_best"]  # so the saved model is the one that was evaluated
    assert row["mlm_nats"] == pytest.approx(nats / words, rel=1e-5)
    assert row["mlm_accuracy"] == pytest.approx(correct / words)
    assert row["nsp_loss"] == pytest.approx(pairs / len(plan), rel=1e-4)
    assert row["nsp_accuracy"] == pytest.approx(correct_pairs / len(plan))


def test_the_unigram_entropy_is_that_of_the_masked_tokens(first):
    config, machine = saved(first), prepare(MachineConfig(device="cpu", threads=1))
    data = prepare_encoder(config, None, first, ignore)
    job = pretraining_job(config, data, None, machine)
    (source,) = job.held_out.sources.values()
    plan, words = source.plan(0), []
    for index in range(len(plan)):
        words += [t for t in source.row(plan[index], index, 0)[2] if t != IGNORED]
    frequencies = np.unique(words, return_counts=True)[1] / len(words)
    entropy, cost = unigram_baselines(job, data, machine)
    assert entropy == pytest.approx(float(-(frequencies * np.log(frequencies)).sum()))
    assert entropy < cost < np.log(data.tokenizer.size)
    row = numbers(first)[-1]
    assert row["below_unigram"] == pytest.approx(entropy - row["mlm_nats"])


# --- several texts -----------------------------------------------------------------------------


def test_several_texts_have_their_own_sampling_weights_pairs_and_held_out_text(story, tmp_path):
    (tmp_path / "songs.txt").write_text("La la lo. Lo la la.\n" * 12)
    config = configured((story, str(tmp_path / "songs.txt")), data__smoothing=0.5)
    events = []
    train(config, tmp_path / "run", listeners=[events.append])
    assert sorted(path.name for path in (tmp_path / "run" / "data").iterdir()) == [
        *("train-1", "train-2", "valid-1", "valid-2")
    ]
    (note,) = [
        e["text"] for e in events if e["kind"] == "note" and "sampling weights of" in e["text"]
    ]
    job = job_of(config, tmp_path / "run")
    tokens = np.array([source.corpus.tokens for source in job.batches.order.sources])
    weights = np.sqrt(tokens) / np.sqrt(tokens).sum()
    assert (
        job.batches.order.fractions.tolist() == pytest.approx(weights.tolist())
        and f"{weights[1]:.1%}" in note
    )


def test_a_single_document_is_reported(tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(STORIES) + "\n")
    events = []
    train(
        configured(str(tmp_path / "t.txt"), data__split="file"),
        tmp_path / "run",
        listeners=[events.append],
    )
    assert any("one document" in event.get("text", "") for event in events)


# --- from another model ------------------------------------------------------------------------


def test_a_pretrained_model_determines_weights_sizes_and_tokenizer(first, story, tmp_path):
    config = configured(story, training__start=str(first), model__model_dim=40, model__dropout=0.3)
    job = job_of(config, tmp_path / "prepared", load_as(EncoderBundle, first))
    model, pretrained = job.build(), load(first)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, pretrained.model.get_parameter(name)), name
    assert asdict(job.config.model) == asdict(pretrained.config) | {"dropout": 0.3}
    assert job.bundle(model).tokenizer.fingerprint == pretrained.tokenizer.fingerprint
    last = numbers(first)[-1]
    scores = TASK.evaluate(job.bundle(model), job.held_out, job.evaluation)
    assert scores["mlm_nats"] == pytest.approx(last["mlm_nats"], rel=1e-6)


def test_new_tokens_shorten_the_text_and_are_reported(first, tmp_path):
    lines = [line.replace("lemon", "lemonade").replace("fox", "foxtail") for line in STORIES]
    (tmp_path / "domain.txt").write_text("\n".join(lines) + "\n")
    events = []
    config = configured(
        str(tmp_path / "domain.txt"), training__start=str(first), data__new_tokens=2
    )
    train(config, tmp_path / "run", listeners=[events.append])
    old, new = load(first), load(tmp_path / "run")
    added = new.tokenizer.token_strings(range(old.tokenizer.size, new.tokenizer.size))
    assert sorted(added) == ["foxtail", "lemonade"]
    assert len(new.tokenizer.encode("foxtail")) == 1 < len(old.tokenizer.encode("foxtail"))
    assert new.config.vocabulary == old.config.vocabulary + 2
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert any("tokens per word with the original vocabulary" in text for text in notes)
    assert any(text.startswith("before: pseudo-perplexity") for text in notes)
    before, after = numbers(tmp_path / "run")
    assert 1 < after["pseudo_perplexity_per_word"] < before["pseudo_perplexity_per_word"]


def test_a_pretrained_model_without_the_masked_lm_head_gets_a_new_one(first, story, tmp_path):
    bundle = load(first)
    bundle.model.config = type(bundle.config)(
        **asdict(bundle.config) | {"masked_lm_head": False, "next_sentence": False}
    )
    bundle.model.masked_lm_head = bundle.model.next_sentence = None
    bundle.save(tmp_path / "bare")
    events = []
    train(
        configured(story, training__start=str(tmp_path / "bare")),
        tmp_path / "run",
        listeners=[events.append],
    )
    assert any("a new one is initialised" in event.get("text", "") for event in events)
    continued = load(tmp_path / "run")
    assert continued.model.masked_lm_head is not None and continued.model.next_sentence is None


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "part"),
    [
        ({"data__train": ()}, UsageError, "no training text is named"),
        ({"data__train": ("nowhere.txt",)}, UsageError, "nowhere.txt"),
        ({"data__new_tokens": 4}, UsageError, "extends the vocabulary"),
        ({"name": "bert-domain"}, UsageError, "continues the pre-training"),
        ({"data__tokenizer": "nowhere"}, UsageError, "nowhere"),
        ({"training__start": "FIRST", "data__tokenizer": "FIRST"}, UsageError, "leave out"),
        (
            {"training__start": "FIRST", "training__length": 31},
            UsageError,
            "more than the 30 positions",
        ),
        ({"model__masked_lm_head": False}, UsageError, "needs the head for masked words"),
        ({"data__train": ("SINGLE",)}, DataError, "documents of one sentence"),
        ({"data__train": ("EMPTY",)}, DataError, "the text is empty"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    first, story, tmp_path, monkeypatch, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "single.txt").write_text("a fox\nan owl\nthe crab\n")
    paths = {"FIRST": str(first), "EMPTY": "empty.txt", "SINGLE": "single.txt"}

    def with_paths(value):
        return (
            tuple(map(with_paths, value)) if isinstance(value, tuple) else paths.get(value, value)
        )

    config = configured(story, **{key: with_paths(value) for key, value in changes.items()})
    with pytest.raises(kind, match=part):
        train(config, tmp_path / "runs" / "new")
    assert not (tmp_path / "runs" / "new").exists()
