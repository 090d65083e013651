"""A classifier's student: made, trained, resumed, saved, and what is refused."""

import pytest
import torch

from headway import load
from headway.bundle import ClassifierBundle
from headway.errors import DataError, UsageError
from headway.recipes import recipe, train
from headway.training import read_metrics
from tests.recipes.small_encoder import TEXTS, write_encoder, write_table
from tests.recipes.test_classify import TINY
from tests.recipes.test_classify_encoder import LEARNS


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The folder of an encoder's classifier, and the table it learned from."""
    folder = tmp_path_factory.mktemp("distil")
    encoder = write_encoder(folder / "bert")
    table = write_table(folder / "texts.tsv", TEXTS, "text\tlabel")
    told = {"data.train": table, "training.start": str(encoder)}
    train(recipe("classify", ("test", {**TINY, **LEARNS, **told})), folder / "teacher")
    return folder / "teacher", table


def student(places, **changes):
    teacher, table = places
    told = {
        **TINY,
        "data.train": table,
        "data.held_out": 0.3,
        "training.start": str(teacher),
        "model.num_layers": 1,
        "training.steps": 60,
        "training.rows": 16,
        "evaluation.every": 30,
        "checkpoint.every": 30,
        "optimizer.lr": 3e-3,
    }
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    return recipe("distil", ("test", {**told, **dotted}))


def scores(folder):
    return read_metrics(folder / "metrics.jsonl", "valid")


def test_a_student_learns_what_its_teacher_says_and_is_a_classifier_of_its_own(places, tmp_path):
    said = []
    outcome = train(student(places), tmp_path / "run", listeners=[said.append])
    notes = [event["text"] for event in said if event["kind"] == "note"]
    assert any("the teacher's accuracy" in note for note in notes)
    teacher, bundle = load(places[0]), load(tmp_path / "run")
    assert isinstance(bundle, ClassifierBundle) and bundle.labels == teacher.labels
    assert bundle.config.bert.num_layers == 1 < teacher.config.bert.num_layers
    texts = [text for text, _ in TEXTS]
    same = sum(
        a.label == b.label
        for a, b in zip(bundle.classify(texts), teacher.classify(texts), strict=True)
    )
    assert same / len(texts) > 0.9
    assert outcome.best == max(score["accuracy"] for score in scores(tmp_path / "run"))


def test_a_run_that_stopped_goes_on_bit_for_bit(places, tmp_path):
    train(student(places), tmp_path / "whole")
    train(student(places, training__steps=30), tmp_path / "parts")
    train(student(places), tmp_path / "parts")
    whole, parts = (load(tmp_path / name).model for name in ("whole", "parts"))
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_student_can_go_on_from_an_earlier_one(places, tmp_path):
    stage = {"distillation__prediction": 0.0, "model__embedding_dim": 4}
    train(student(places, **stage), tmp_path / "first")
    again = student(places, training__student=str(tmp_path / "first"), training__steps=1)
    train(again, tmp_path / "second")
    assert load(tmp_path / "second").config.bert.embedding_dim == 4


def test_what_cannot_be_is_refused_without_a_folder(places, tmp_path):
    teacher = places[0]
    other = write_table(tmp_path / "other.tsv", [("a", "odd"), ("b", "even")] * 20, "text\tlabel")
    for changes, kind, says in (
        ({"training__start": None}, UsageError, "needs a teacher"),
        ({"model__num_layers": 9}, UsageError, "at most"),
        ({"data__train": other}, DataError, "does not know the label"),
        ({"data__kind": "number"}, UsageError, "gives classes"),
        ({"training__start": str(teacher.parent / "bert")}, UsageError, "holds a text encoder"),
    ):
        with pytest.raises(kind, match=says):
            train(student(places, **changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()
