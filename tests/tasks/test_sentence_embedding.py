"""Sentence embedding as a run: reading pairs, training, resuming, and the bundle."""

import json
from pathlib import Path

import pytest
import torch

from headway import load
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.bundle import EncoderBundle
from headway.cli.main import main
from headway.models import Bert, BertConfig
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.sentence_embedding.config import EmbedScoring
from headway.tasks.sentence_embedding.data import (
    SimilarPairs,
    most_similar,
    prepare_pairs,
    similar_texts,
)
from headway.tasks.sentence_embedding.similar_files import SimilarTexts
from headway.tasks.sentence_embedding.task import (
    ContrastiveObjective,
    CosineObjective,
    embedding_job,
    scores_of_vectors,
)
from headway.text import EncoderTokenizer
from tests.fixtures.language_model_runs import weights
from tests.fixtures.sentence_pairs import PAIRS, scored, table

TINY = {
    "training.batch_size": 8,
    "training.steps": 6,
    "data.held_out": 0.2,
    "evaluation.every": 3,
    "checkpoint.every": 3,
    "schedule.kind": "constant",  # one that does not depend on the last step
    "schedule.warmup": 2,
    "optimizer.lr": 3e-3,
    "machine.threads": 1,
    "machine.device": "cpu",
}


def embedding(pairs, start, **changes):
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    required = {"data.train": pairs, "training.start": str(start)}
    return recipe("embed", ("test", {**TINY, **required, **dotted}))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """An untrained encoder with all its heads."""
    reader = EncoderTokenizer.train([text for pair in PAIRS for text in pair], 200)
    torch.manual_seed(3)
    shape = {"model_dim": 24, "num_heads": 3, "ffn_dim": 40, "num_layers": 2, "max_length": 21}
    model = Bert(BertConfig(**shape, vocabulary=reader.size))
    folder = tmp_path_factory.mktemp("start") / "encoder"
    EncoderBundle(model, reader).save(folder)
    return folder


@pytest.fixture
def pairs(tmp_path):
    return table(tmp_path / "p.tsv")


@pytest.fixture(scope="module")
def trained(start, tmp_path_factory):
    """The run of an encoder that was trained until it fits its pairs."""
    folder = tmp_path_factory.mktemp("learned")
    settings = {"training__steps": 240, "evaluation__every": 40, "model__dropout": 0.0}
    train(embedding(table(folder / "p.tsv"), start, **settings), folder / "run")
    return folder / "run"


# --- learning ----------------------------------------------------------------------------------


def test_an_encoder_learns_to_retrieve_the_partner_of_a_text(start, trained):
    rows = read_metrics(trained / "metrics.jsonl", "valid")
    best = max(row["reciprocal_rank"] for row in rows)
    assert best > 0.7 and max(row["accuracy"] for row in rows) > 0.6
    bundle = load(trained)
    assert isinstance(bundle, EncoderBundle) and saved(trained).evaluation.metric != "spearman"
    held_out = similar_texts(saved(trained).data)[1]
    assert 4 <= len(held_out) <= 40

    def accuracy(encoder):
        a, b = (encoder.embed([getattr(p, side) for p in held_out]) for side in ("first", "second"))
        return ((a @ b.T).argmax(1) == torch.arange(len(held_out))).double().mean().item()

    assert accuracy(bundle) == pytest.approx(
        next(row["accuracy"] for row in rows if row["reciprocal_rank"] == best)
    )
    assert accuracy(load(start)) < accuracy(bundle) / 2


def test_training_python_and_the_command_line_give_the_same_scores(trained, capsys):
    validations = read_metrics(trained / "metrics.jsonl", "valid")
    (best,) = [row for row in validations if row["is_best"]][-1:]
    task, bundle, config = registry.task("sentence_embedding"), load(trained), saved(trained)
    held_out = task.held_out(bundle, trained, config, EmbedScoring())
    assert len(held_out) < config.evaluation.pairs
    scores = task.evaluate(bundle, held_out)
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    assert list(scores.numbers()) == ["reciprocal_rank", "accuracy"]
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(trained), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    few = task.evaluate(bundle, held_out, EmbedScoring(pairs=3))
    assert few.counts == {"pairs": 3} and few["accuracy"] >= scores["accuracy"] / 2
    with pytest.raises(DataError, match="at least two pairs are needed for an evaluation, not 1"):
        task.evaluate(bundle, SimilarPairs(held_out.first[:1], held_out.second[:1]))


def test_scores_are_learned_and_measured_by_rank_correlation(start, tmp_path):
    config = embedding(
        scored(tmp_path / "s.tsv"),
        start,
        training__steps=120,
        evaluation__every=40,
        model__dropout=0.0,
    )
    train(config, tmp_path / "run")
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    assert saved(tmp_path / "run").evaluation.metric == "spearman"
    assert rows[-1]["spearman"] > 0.8 and rows[-1]["pearson"] > 0.8
    assert rows[-1]["best" if "best" in rows[-1] else "spearman"]


def test_pairs_without_scores_may_be_evaluated_on_pairs_with_scores(start, pairs, tmp_path):
    events = []
    config = embedding(pairs, start, data__valid=scored(tmp_path / "s.tsv"))
    train(config, tmp_path / "run", listeners=[events.append])
    assert saved(tmp_path / "run").evaluation.metric == "spearman"
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert any(note.startswith("contrastive loss with") for note in notes)
    assert any(note.startswith("before training: spearman ") for note in notes)
    events_of_second_run = []
    train(config, tmp_path / "run", listeners=[events_of_second_run.append])
    assert not any("before training" in event.get("text", "") for event in events_of_second_run)


def test_the_job_follows_from_the_pairs(start, pairs, tmp_path):
    bundle, machine = load(start), prepare(MachineConfig(device="cpu", threads=1))
    jobs, prepared = [], []
    for name, data in (("a", pairs), ("b", scored(tmp_path / "s.tsv"))):
        (tmp_path / name).mkdir()
        config = embedding(data, start, training__symmetric=True, model__dropout=0.3)
        data_of_job = prepare_pairs(
            config, bundle.tokenizer, 6, tmp_path / name, lambda event: None
        )
        jobs.append(embedding_job(config, data_of_job, bundle, machine))
        prepared.append(data_of_job)
        assert max(len(row) for row in data_of_job.train.first) == 6
    assert jobs[0].objective == ContrastiveObjective(20.0, True)
    assert jobs[1].objective == CosineObjective()
    assert sorted(set(prepared[1].train.scores)) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert set(jobs[1].held_out.scores) <= {0, 1, 2, 3}
    model = jobs[0].build()
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, bundle.model.get_parameter(name)), name
    assert model.config.dropout == 0.3 and model.masked_lm_head is None
    assert model.next_sentence is None and model.pooler is not None


def test_similarity_scores_ignore_negatives_that_are_also_partners(start):
    vectors = {1: [1.0, 0.0], 2: [1.0, 0.0], 3: [0.0, 1.0], 4: [0.6, 0.8]}

    def scores_of(pairs):
        sides = ([vectors[row[0]] for row in rows] for rows in (pairs.first, pairs.second))
        return scores_of_vectors(*map(torch.tensor, sides), pairs).numbers()

    shared = scores_of(SimilarPairs([[1], [1], [3]], [[2], [4], [4]]))
    assert shared == {"accuracy": 1.0, "reciprocal_rank": 1.0}
    confused = scores_of(SimilarPairs([[1], [3]], [[4], [2]]))
    assert confused == {"accuracy": 0.0, "reciprocal_rank": 0.5}
    scored_pairs = scores_of(SimilarPairs([[1], [3]], [[2], [4]], [3.0, 2.0]))
    assert scored_pairs == {"spearman": pytest.approx(1.0), "pearson": pytest.approx(1.0)}


def test_a_pair_is_held_out_by_its_first_text_wherever_it_occurs(pairs, tmp_path):
    twice = (pairs, table(tmp_path / "again.tsv", PAIRS[::-1]))
    training, held_out = similar_texts(embedding(twice, "x").data)
    assert len(training) + len(held_out) == 2 * len(PAIRS)
    assert not {pair.first for pair in training} & {pair.first for pair in held_out}


# --- resuming ----------------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"training__recompute": True, "training__average": 0.9, "training__symmetric": True},
        {"training__accumulate": 2, "scores": True},
    ],
    ids=["plain", "recompute-average", "scores"],
)
def test_a_run_in_two_halves_equals_an_uninterrupted_run(start, pairs, tmp_path, settings):
    settings = dict(settings)
    data = scored(tmp_path / "s.tsv") if settings.pop("scores", False) else pairs
    train(embedding(data, start, **settings), tmp_path / "whole")
    train(embedding(data, start, **settings, training__steps=3), tmp_path / "halves")
    train(embedding(data, start, **settings), tmp_path / "halves")
    for name in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_does_not_resume_on_other_pairs(start, pairs, tmp_path):
    train(embedding(pairs, start, training__steps=3), tmp_path / "run")
    before = weights(tmp_path / "run")
    table(Path(pairs), [*PAIRS, ("one more fox", "un renard")])
    with pytest.raises(DataError, match="have changed since the run started"):
        train(embedding(pairs, start), tmp_path / "run")
    assert all(torch.equal(before[k], v) for k, v in weights(tmp_path / "run").items())


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "part"),
    [
        ({"data__train": ()}, UsageError, "no training pairs are named"),
        ({"data__train": ("nowhere.tsv",)}, UsageError, "nowhere.tsv"),
        ({"data__valid": ("nowhere.tsv",)}, UsageError, "nowhere.tsv"),
        ({"training__start": None}, UsageError, "--from RUN"),
        ({"training__start": "nowhere"}, UsageError, "nowhere"),
        ({"data__first": "left"}, UsageError, "'left'(.|\n)*--data.first"),
        ({"data__score": "likeness"}, UsageError, "no pair has a score in the column 'likeness'"),
        ({"data__train": ("empty.tsv",)}, DataError, "training split has 0 of 0 pairs"),
        ({"data__train": ("few.tsv",)}, DataError, "--data.valid"),
        ({"data__train": ("same.tsv",)}, DataError, "have the score 2"),
        ({"data__train": ("p.tsv", "same.tsv")}, DataError, r"no 'score'(.|\n)*p.tsv:2"),
        ({"data__train": ("wrong.tsv",)}, DataError, r"wrong.tsv:2"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    start, pairs, tmp_path, monkeypatch, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "empty.tsv", [])
    table(tmp_path / "few.tsv", PAIRS[:1])
    scored(tmp_path / "same.tsv", [(a, b, "2") for a, b in PAIRS])
    scored(tmp_path / "wrong.tsv", [("a", "b", "c")])
    with pytest.raises(kind, match=part):
        train(embedding(pairs, start, **changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_another_kind_of_pretrained_model_is_refused(pairs, tmp_path):
    from tests.fixtures.language_model_runs import STORY, configured

    (tmp_path / "t.txt").write_text(STORY)
    train(configured(str(tmp_path / "t.txt"), training__steps=1), tmp_path / "gpt")
    with pytest.raises(UsageError, match="holds a language model, and this needs a text encoder"):
        train(embedding(pairs, tmp_path / "gpt"), tmp_path / "new")


def test_the_record_of_the_training_pairs_is_plain_json(start, pairs, tmp_path):
    train(embedding(pairs, start, training__steps=1), tmp_path / "run")
    assert set(json.loads((tmp_path / "run" / "pairs.json").read_text())) == {
        "format",
        "reader",
        "sha256",
    }


def test_a_film_shows_the_pairs_with_the_highest_scores_without_a_text_twice():
    rows = [("a", "b", 1.0), ("c", "d", 4.0), ("b", "e", 3.0), ("f", "c", 3.5), ("g", "h", 2.0)]
    shown = most_similar([SimilarTexts(*row, where="") for row in rows], 3)
    assert (list(shown.first), list(shown.second)) == (["c", "b", "g"], ["d", "e", "h"])
    unscored = most_similar([SimilarTexts(*row[:2], None, where="") for row in rows], 2)
    assert list(unscored.first) == ["a", "c"]
