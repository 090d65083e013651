"""Distillation: a student is made, trained, resumed and saved, and what is refused."""

import json
import shutil
from itertools import islice

import pytest
import torch

from headway import evaluate, load
from headway.config_files import read_yaml
from headway.errors import DataError, UsageError
from headway.machine import MachineConfig, prepare
from headway.models import GPT, GPTConfig, TextClassifier
from headway.runs import recipe, saved, train
from headway.settings import fields_of
from headway.tasks.classification.bundle import ClassifierBundle
from headway.tasks.classification.reader import ClassReader
from headway.tasks.distillation import TASK
from headway.tasks.registry import TASKS
from headway.text import TextBPE
from headway.training import read_metrics
from tests.fixtures.bundles import captioner
from tests.fixtures.classification_runs import LEARNS, TINY
from tests.fixtures.small_encoder_runs import COUNTS, TEXTS, write_encoder, write_table


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
        "training.teacher": str(teacher),
        "model.num_layers": 1,
        "distillation.first_stage": 0.0,
        "training.steps": 60,
        "training.batch_size": 16,
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


def test_the_inside_comes_first_then_the_outputs_wherever_a_run_goes_on(places, tmp_path):
    stages = {"distillation__first_stage": 0.5, "training__accumulate": 2, "training__steps": 20}
    job = prepared(student(places, **stages), tmp_path / "job")
    an_epoch = job.course.train_batches.batches_an_epoch
    assert an_epoch < 20  # the border lies in a later epoch than the first

    def compared(epoch, position, count):
        found = [lesson for _, _, lesson in islice(job.stream(epoch, position), count)]
        return [(x.config.hidden, x.config.attention, x.config.prediction) for x in found]

    whole = compared(0, 0, 40)
    assert whole == [(1.0, 1.0, 0.0)] * 20 + [(0.0, 0.0, 1.0)] * 20
    for done in (13, 20, 21):
        assert compared(*divmod(done, an_epoch), 5) == whole[done : done + 5]


def prepared(config, folder, emit=lambda event: None):
    folder.mkdir(exist_ok=True)
    return TASK.prepare(config, folder, prepare(MachineConfig()), emit)


def test_texts_without_labels_are_learned_from_but_never_those_held_out(places, tmp_path):
    table = tmp_path / "more.tsv"
    table.write_text("text\n" + "".join(f"{text}\n" for text, _ in TEXTS))
    lines = tmp_path / "more.txt"
    lines.write_text("a hare is over there\n\nthe drum is old\n")
    plain = prepared(student(places), tmp_path / "plain")
    said = []
    config = student(places, data__extra=(str(table), str(lines)), data__augment=2)
    job = prepared(config, tmp_path / "job", said.append)
    held_out = len(TEXTS) - len(plain.course.train_batches._lengths)
    notes = [event["text"] for event in said if event["kind"] == "note"]
    assert any(note.startswith(f"{held_out} texts of data.extra are left out") for note in notes)
    count = 2 * len(plain.course.train_batches._lengths) + 2
    assert len(job.course.train_batches._lengths) == 3 * count
    (tmp_path / "more.txt").write_text("another text\n")
    with pytest.raises(DataError, match="have changed since the"):
        prepared(config, tmp_path / "job")


def test_a_student_of_numbers_learns_them(tmp_path):
    encoder = write_encoder(tmp_path / "bert")
    table = write_table(tmp_path / "n.tsv", COUNTS, "text\tscore")
    told = {"data.train": table, "training.start": str(encoder)}
    train(recipe("regress", ("test", {**TINY, **LEARNS, **told})), tmp_path / "teacher")
    changes = {"data__label": "score", "data__kind": "number", "training__steps": 60}
    config = student((tmp_path / "teacher", table), **changes)
    train(config, tmp_path / "run")
    assert scores(tmp_path / "run")[-1]["pearson"] > 0.8
    assert saved(tmp_path / "run").evaluation.metric == "pearson"


def test_a_language_models_classifier_has_students_too(tmp_path):
    tokenizer = TextBPE.train((text for text, _ in TEXTS), 280)
    torch.manual_seed(2)
    shape = {"model_dim": 12, "num_heads": 2, "ffn_dim": 20, "vocabulary": tokenizer.size}
    model = TextClassifier(GPT(GPTConfig(**shape, num_layers=2, max_length=40)), 2)
    with torch.no_grad():
        model.head.weight.mul_(200)
    ClassifierBundle(model, ClassReader(tokenizer, ("animal", "tool"), 40)).save(tmp_path / "gpt")
    table = write_table(tmp_path / "t.tsv", TEXTS, "text\tlabel")
    train(student((tmp_path / "gpt", table)), tmp_path / "run")
    teacher, bundle = load(tmp_path / "gpt"), load(tmp_path / "run")
    assert isinstance(bundle.model, TextClassifier) and bundle.config.gpt.num_layers == 1
    texts = [text for text, _ in TEXTS]
    said = [[found.label for found in each.classify(texts)] for each in (teacher, bundle)]
    assert len(set(said[0])) == 2
    assert sum(a == b for a, b in zip(*said, strict=True)) / len(texts) > 0.85
    with pytest.raises(UsageError, match="needs a teacher with a WordPiece tokenizer"):
        train(student((tmp_path / "gpt", table), data__augment=1), tmp_path / "other")


def test_a_student_can_go_on_from_an_earlier_one(places, tmp_path):
    stage = {"distillation__prediction": 0.0, "model__embedding_dim": 4}
    train(student(places, **stage), tmp_path / "first")
    again = student(places, training__student=str(tmp_path / "first"), training__steps=1)
    train(again, tmp_path / "second")
    assert load(tmp_path / "second").config.bert.embedding_dim == 4


def test_what_cannot_be_is_refused_without_a_folder(places, tmp_path):
    rows = [
        (f"{word} {i}", label) for i in range(20) for word, label in (("a", "odd"), ("b", "even"))
    ]
    other = write_table(tmp_path / "other.tsv", rows, "text\tlabel")
    deep = write_encoder(tmp_path / "deep", num_layers=3)
    nothing = dict.fromkeys(("embedding", "hidden", "attention"), 0.0)
    inside = {f"distillation__{name}": value for name, value in nothing.items()}
    for changes, kind, says in (
        ({"training__teacher": None}, UsageError, "needs a teacher"),
        ({"training__start": "bert"}, UsageError, "the teacher is named by --teacher"),
        ({"data__train": ()}, UsageError, "no training examples are named"),
        ({"model__num_layers": 9}, UsageError, "at most"),
        ({"model__num_heads": 2}, UsageError, "2 attention heads, the teacher 3"),
        ({"data__train": other}, DataError, "the model has no label"),
        ({"data__kind": "number"}, UsageError, "predicts classes"),
        ({"data__extra": ("nowhere.txt",)}, UsageError, "no such file"),
        (
            {"data__second": "label", "data__label": "text"},
            UsageError,
            "the columns must be different",
        ),
        ({"evaluation__metric": "pearson"}, UsageError, "does not exist for data.kind"),
        (
            {**inside, "distillation__prediction": 0.0},
            UsageError,
            "all weights of the distillation loss are 0",
        ),
        ({**inside, "distillation__first_stage": 0.5}, UsageError, "those of one stage are 0"),
        ({"machine__compile": True}, UsageError, "does not work with distillation"),
        (
            {"training__task": "translation"},
            UsageError,
            "must be one of",
        ),
        (
            {"training__task": "tagging"},
            UsageError,
            "unknown option data.|is a model of the task class",
        ),
        ({"training__teacher": str(tmp_path / "gone")}, UsageError, "holds no model"),
        ({"training__student": str(deep)}, UsageError, "student_layers=3 must be at most"),
        ({"training__student": str(tmp_path / "gone")}, UsageError, "gone"),
    ):
        with pytest.raises(kind, match=says):
            train(student(places, **changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("changed", [{}, {"evaluation.metric": "negative_loss"}])
def test_a_run_of_an_earlier_version_is_read(places, tmp_path, changed):
    """It had a recipe for each task, and called the teacher the start."""
    config = student(places, evaluation__metric="loss", training__steps=2)
    train(config, tmp_path / "run")
    before = saved(tmp_path / "run")
    values = read_yaml(tmp_path / "run" / "run.yaml")
    values["training.start"] = values.pop("training.teacher")
    del values["training.task"]
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in (values | changed).items())
    (tmp_path / "run" / "run.yaml").write_text(text)
    assert saved(tmp_path / "run") == before


def test_a_runs_teacher_may_be_gone_when_its_student_is_used(places, tmp_path):
    shutil.copytree(places[0], tmp_path / "teacher")
    train(student((tmp_path / "teacher", places[1]), training__steps=2), tmp_path / "run")
    shutil.rmtree(tmp_path / "teacher")
    assert saved(tmp_path / "run").training.task == "classification"
    assert evaluate(tmp_path / "run")["accuracy"] > 0


def test_the_student_has_the_settings_of_its_teachers_task(places, tmp_path):
    class_vector = recipe("distil", ("test", {"training.teacher": str(places[0])}))
    assert class_vector.data.augment == 0 and class_vector.evaluation.metric is None
    encoder = ("test", {"training.teacher": str(places[0].parent / "bert")})
    of_encoder = recipe("distillation", encoder)
    assert of_encoder.evaluation.metric == "difference" and of_encoder.training.length == 128
    with pytest.raises(UsageError, match=r"unknown option distillation\.prediction"):
        recipe("distil", encoder, ("test", {"distillation.prediction": 1}))
    with pytest.raises(UsageError, match="needs a teacher"):
        recipe("distil", ("test", {"data.augment": 1}))


def test_a_teacher_whose_models_have_no_students_is_refused_by_its_kind(tmp_path):
    captioner().save(tmp_path / "captioner")
    with pytest.raises(UsageError, match="holds a captioner, which cannot be a teacher"):
        recipe("distil", ("test", {"training.teacher": str(tmp_path / "captioner")}))


def test_every_kind_of_student_has_its_own_settings_of_the_same_sections():
    kinds = TASK.variants()
    assert len({type(kind.data) for kind in kinds}) == len(kinds) == 5
    for kind in kinds:
        assert kind.training.task in TASKS and "evaluation.metric" in fields_of(kind)
        assert {"data.train", "data.valid", "data.held_out"} <= fields_of(kind).keys()
        shared = {key for key in fields_of(TASK.config()) if "distillation." not in key}
        assert shared <= fields_of(kind).keys()
