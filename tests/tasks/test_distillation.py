"""Distillation: a student is initialised, trained, resumed and saved; bad settings are refused."""

import shutil
from itertools import islice

import pytest
import torch

from headway import evaluate, load
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.base.settings import fields_of
from headway.models import GPT, GPTConfig, TextClassifier
from headway.runs import recipe, saved, train
from headway.tasks.classification.model import ClassifierBundle
from headway.tasks.classification.reader import ClassReader
from headway.tasks.distillation.task import DISTILLATION
from headway.tasks.registry import TASKS
from headway.text import TextBPE
from tests.fixtures.bundles import captioner
from tests.fixtures.classification_runs import TINY
from tests.fixtures.learned_classifiers import learned_in
from tests.fixtures.small_encoder_runs import TEXTS, write_encoder, write_table


@pytest.fixture(scope="module")
def teacher_and_table(tmp_path_factory):
    """The folder of a classifier with an encoder, and the table it was trained on."""
    return learned_in(tmp_path_factory.getbasetemp(), "classify")


def student(teacher_and_table, **changes):
    teacher, table = teacher_and_table
    settings = {
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
    return recipe("distil", ("test", {**settings, **dotted}))


def scores(folder):
    return read_metrics(folder / "metrics.jsonl", "valid")


def test_a_student_learns_the_predictions_of_its_teacher_and_is_a_classifier(
    teacher_and_table, tmp_path
):
    events = []
    outcome = train(student(teacher_and_table), tmp_path / "run", listeners=[events.append])
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert any("the teacher's accuracy" in note for note in notes)
    teacher, bundle = load(teacher_and_table[0]), load(tmp_path / "run")
    assert isinstance(bundle, ClassifierBundle) and bundle.labels == teacher.labels
    assert bundle.config.bert.num_layers == 1 < teacher.config.bert.num_layers
    texts = [text for text, _ in TEXTS]
    agreements = sum(
        a.label == b.label
        for a, b in zip(bundle.classify(texts), teacher.classify(texts), strict=True)
    )
    assert agreements / len(texts) > 0.9
    assert outcome.best == max(score["accuracy"] for score in scores(tmp_path / "run"))


def test_a_resumed_run_equals_an_uninterrupted_run(teacher_and_table, tmp_path):
    train(student(teacher_and_table), tmp_path / "whole")
    train(student(teacher_and_table, training__steps=30), tmp_path / "parts")
    train(student(teacher_and_table), tmp_path / "parts")
    whole, parts = (load(tmp_path / name).model for name in ("whole", "parts"))
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.equal(a, b)


def test_hidden_states_are_distilled_before_the_outputs_wherever_a_run_resumes(
    teacher_and_table, tmp_path
):
    stages = {"distillation__first_stage": 0.5, "training__accumulate": 2, "training__steps": 20}
    job = prepared(student(teacher_and_table, **stages), tmp_path / "job")
    an_epoch = job.batches.batches_per_epoch
    assert an_epoch < 20  # the stages change in a later epoch than the first

    def weights_of(epoch, position, count):
        lessons = [lesson for _, _, lesson in islice(job.batches.stream(epoch, position), count)]
        return [(x.config.hidden, x.config.attention, x.config.prediction) for x in lessons]

    whole = weights_of(0, 0, 40)
    assert whole == [(1.0, 1.0, 0.0)] * 20 + [(0.0, 0.0, 1.0)] * 20
    for steps in (13, 20, 21):
        assert weights_of(*divmod(steps, an_epoch), 5) == whole[steps : steps + 5]


def prepared(config, folder, emit=lambda event: None):
    folder.mkdir(exist_ok=True)
    return DISTILLATION.prepare(config, folder, prepare(MachineConfig()), emit)


def test_unlabelled_texts_are_trained_on_except_held_out_ones(teacher_and_table, tmp_path):
    table = tmp_path / "more.tsv"
    table.write_text("text\n" + "".join(f"{text}\n" for text, _ in TEXTS))
    lines = tmp_path / "more.txt"
    lines.write_text("a hare is over there\n\nthe drum is old\n")
    plain = prepared(student(teacher_and_table), tmp_path / "plain")
    events = []
    config = student(teacher_and_table, data__extra=(str(table), str(lines)), data__augment=2)
    job = prepared(config, tmp_path / "job", events.append)
    held_out = len(TEXTS) - plain.batches.examples_per_epoch
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert any(note.startswith(f"{held_out} texts of data.extra are left out") for note in notes)
    count = 2 * plain.batches.examples_per_epoch + 2
    assert job.batches.examples_per_epoch == 3 * count
    (tmp_path / "more.txt").write_text("another text\n")
    with pytest.raises(DataError, match="have changed since the"):
        prepared(config, tmp_path / "job")


def test_a_student_learns_to_predict_numbers(tmp_path, tmp_path_factory):
    changes = {"data__label": "score", "data__kind": "number", "training__steps": 60}
    teacher_and_table = learned_in(tmp_path_factory.getbasetemp(), "regress")
    train(student(teacher_and_table, **changes), tmp_path / "run")
    assert scores(tmp_path / "run")[-1]["pearson"] > 0.8
    assert saved(tmp_path / "run").evaluation.metric == "pearson"


def test_a_classifier_with_a_language_model_has_students_too(tmp_path):
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
    labels = [
        [prediction.label for prediction in classifier.classify(texts)]
        for classifier in (teacher, bundle)
    ]
    assert len(set(labels[0])) == 2
    assert sum(a == b for a, b in zip(*labels, strict=True)) / len(texts) > 0.85
    with pytest.raises(UsageError, match="needs a teacher with a WordPiece tokenizer"):
        train(student((tmp_path / "gpt", table), data__augment=1), tmp_path / "other")


def test_a_student_can_be_initialised_from_an_earlier_one(teacher_and_table, tmp_path):
    stage = {
        "distillation__prediction": 0.0,
        "distillation__hidden": 1.0,
        "model__embedding_dim": 4,
    }
    train(student(teacher_and_table, **stage), tmp_path / "first")
    second = student(
        teacher_and_table, training__student=str(tmp_path / "first"), training__steps=1
    )
    train(second, tmp_path / "second")
    assert load(tmp_path / "second").config.bert.embedding_dim == 4


def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    teacher_and_table, tmp_path
):
    rows = [
        (f"{word} {i}", label) for i in range(20) for word, label in (("a", "odd"), ("b", "even"))
    ]
    other_labels = write_table(tmp_path / "other.tsv", rows, "text\tlabel")
    deep = write_encoder(tmp_path / "deep", num_layers=3)
    zeros = dict.fromkeys(("embedding", "hidden", "attention"), 0.0)
    no_hidden_states = {f"distillation__{name}": value for name, value in zeros.items()}
    for changes, kind, message in (
        ({"training__teacher": None}, UsageError, "needs a teacher"),
        ({"training__start": "bert"}, UsageError, "the teacher is named by --teacher"),
        ({"data__train": ()}, UsageError, "no training examples are named"),
        ({"model__num_layers": 9}, UsageError, "at most"),
        (
            {"model__num_heads": 2, "distillation__first_stage": 0.5},
            UsageError,
            "2 attention heads, the teacher 3",
        ),
        ({"data__train": other_labels}, DataError, "the model has no label"),
        ({"data__kind": "number"}, UsageError, "predicts classes"),
        ({"data__extra": ("nowhere.txt",)}, UsageError, "no such file"),
        (
            {"data__second": "label", "data__label": "text"},
            UsageError,
            "the columns must be different",
        ),
        ({"evaluation__metric": "pearson"}, UsageError, "does not exist for data.kind"),
        (
            {**no_hidden_states, "distillation__prediction": 0.0},
            UsageError,
            "all weights of the distillation loss are 0",
        ),
        (
            {**no_hidden_states, "distillation__first_stage": 0.5},
            UsageError,
            "those of one stage are 0",
        ),
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
        (
            {"training__student": str(deep), "distillation__hidden": 1.0},
            UsageError,
            "student_layers=3 must be at most",
        ),
        ({"training__student": str(tmp_path / "gone")}, UsageError, "gone"),
    ):
        with pytest.raises(kind, match=message):
            train(student(teacher_and_table, **changes), tmp_path / "run")
        assert not (tmp_path / "run").exists()


def test_a_student_is_used_without_its_teacher(teacher_and_table, tmp_path):
    shutil.copytree(teacher_and_table[0], tmp_path / "teacher")
    train(
        student((tmp_path / "teacher", teacher_and_table[1]), training__steps=2), tmp_path / "run"
    )
    shutil.rmtree(tmp_path / "teacher")
    assert saved(tmp_path / "run").training.task == "classification"
    assert evaluate(tmp_path / "run")["accuracy"] > 0


def test_the_student_has_the_settings_of_its_teachers_task(teacher_and_table, tmp_path):
    classifier = recipe("distil", ("test", {"training.teacher": str(teacher_and_table[0])}))
    assert classifier.data.augment == 0 and classifier.evaluation.metric is None
    encoder = ("test", {"training.teacher": str(teacher_and_table[0].parent / "bert")})
    encoder_student = recipe("distillation", encoder)
    assert (
        encoder_student.evaluation.metric == "difference" and encoder_student.training.length == 128
    )
    with pytest.raises(UsageError, match=r"unknown option distillation\.prediction"):
        recipe("distil", encoder, ("test", {"distillation.prediction": 1}))
    with pytest.raises(UsageError, match="needs a teacher"):
        recipe("distil", ("test", {"data.augment": 1}))


def test_a_teacher_whose_models_have_no_students_is_refused_by_its_kind(tmp_path):
    captioner().save(tmp_path / "captioner")
    with pytest.raises(UsageError, match="holds a captioner, which cannot be a teacher"):
        recipe("distil", ("test", {"training.teacher": str(tmp_path / "captioner")}))


def test_every_kind_of_student_has_its_own_settings_of_the_same_sections():
    kinds = DISTILLATION.derives.variants()
    assert len({type(kind.data) for kind in kinds}) == len(kinds) == 5
    for kind in kinds:
        assert kind.training.task in TASKS and "evaluation.metric" in fields_of(kind)
        assert {"data.train", "data.valid", "data.held_out"} <= fields_of(kind).keys()
        shared = {key for key in fields_of(DISTILLATION.config()) if "distillation." not in key}
        assert shared - {"data.bad_rows"} <= fields_of(kind).keys()  # running text has no rows
