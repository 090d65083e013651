"""Text classification as a run: reading labelled texts, fine-tuning, resuming, and the bundle."""

import gzip
import json
from pathlib import Path

import pytest
import torch

from headway import load
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.base.metrics_file import read_metrics
from headway.bundle import ClassOptions
from headway.cli.main import main
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.classification.data import labelled_texts, prepare_texts
from headway.tasks.classification.label_files import Columns, read_labelled
from headway.tasks.classification.model import ClassifierBundle, ClassInput
from headway.tasks.classification.reader import ClassReader
from headway.tasks.classification.task import classification_job
from headway.tasks.task import NO_OPTIONS
from headway.text import CharacterTokenizer
from tests.fixtures.classification_runs import TINY
from tests.fixtures.language_model_runs import STORY, configured, weights

ANIMALS, TOOLS = ["fox", "owl", "crab", "toad", "hare"], ["saw", "rake", "drum", "spade", "lamp"]
LOCATIONS = ["by the lake", "in a shed", "near us", "on the hill", "at home", "below", "up there"]
TEXTS = [
    (f"{location} is a {name}", label)
    for location in LOCATIONS
    for label, names in (("animal", ANIMALS), ("tool", TOOLS))
    for name in names
]


def table(path, rows=TEXTS, header="text\tlabel"):
    path.write_text("\n".join([header, *("\t".join(row) for row in rows)]) + "\n")
    return str(path)


def classifying(text, start, **changes):
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    required = {"data.train": text, "training.start": str(start)}
    return recipe("classify", ("test", {**TINY, **required, **dotted}))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A language model to start from."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "t.txt").write_text(STORY + "".join(f"{text}\n" for text, _ in TEXTS))
    train(configured(str(folder / "t.txt"), model__model_dim=16), folder / "run")
    return folder / "run"


@pytest.fixture
def texts(tmp_path):
    return table(tmp_path / "t.tsv")


@pytest.fixture(scope="module")
def trained(first, tmp_path_factory):
    """The run of a classifier that was trained until it fits its texts."""
    folder = tmp_path_factory.mktemp("learned")
    optimization = {"training__steps": 120, "optimizer__lr": 1e-2, "schedule__kind": "cosine"}
    more = {"evaluation__every": 20, "data__held_out": 0.4, "model__dropout": 0.0}
    config = classifying(table(folder / "t.tsv"), first, **optimization, **more)
    train(config, folder / "run")
    return folder / "run"


def read(path, **names):
    examples = read_labelled([Path(path)], Columns(**names))
    return [(example.text, example.label) for example in examples]


# --- reading -----------------------------------------------------------------------------------


def test_tables_and_json_lines_contain_the_same_texts(tmp_path):
    rows = [('a "b", c', "0"), ("d", "1")]
    (tmp_path / "a.tsv").write_text('label\ttext\tmore\n0\ta "b", c\tx\n\n1\t d \ty\n')
    (tmp_path / "a.csv").write_text('text,label\r\n"a ""b"", c",0\r\nd,1\r\n')
    lines = '{"text": "a \\"b\\", c", "label": 0}\n\n{"label": "1", "text": "d"}\n'
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write(lines)
    for name in ("a.tsv", "a.csv", "a.jsonl.gz"):
        assert read(tmp_path / name) == rows, name
    assert read(tmp_path / "a.tsv", text="more", label="label") == [("x", "0"), ("y", "1")]
    (tmp_path / "b.csv").write_text('text,label\n"two\nlines",0\nd,1\n')
    assert [example.where.split(":")[-1] for example in read_labelled([tmp_path / "b.csv"])] == [
        "3",
        "4",
    ]


@pytest.mark.parametrize(
    ("name", "content", "kind", "part"),
    [
        ("a.tsv", "text\tlabel\nx\ty\nx\n", DataError, r"a.tsv:3"),
        (
            "a.tsv",
            "text\tlabel\nx\ty\tz\n",
            DataError,
            r"3 cells, separated by tabs, but the first line has 2\n.*a.tsv:2",
        ),
        ("a.tsv", "text\tlabel\n\ty\n", DataError, r"'text' is empty\n.*a.tsv:2"),
        ("a.tsv", "text\tlabel\nx\t \n", DataError, r"'label' is empty\n.*a.tsv:2"),
        (
            "a.tsv",
            "sentence\tlabel\nx\ty\n",
            UsageError,
            r"no column is named 'text'(.|\n)*--data.text",
        ),
        (
            "a.tsv",
            "text\tlabel\tlabel\nx\ty\tz\n",
            UsageError,
            "more than one column is named 'label'",
        ),
        ("a.csv", 'text,label\n"x,y\n', DataError, r"not valid CSV"),
        ("a.csv", "text,label\nx,y,z\n", DataError, r"a.csv:2"),
        (
            "a.jsonl",
            '{"text": "x"}\n',
            DataError,
            r"'label' is missing; there are 'text'\n.*a.jsonl:1",
        ),
        ("a.jsonl", '{"text": "x", "label": null}\n', DataError, r"null(.|\n)*a.jsonl:1"),
        ("a.jsonl", '{"text": "x", "label": 1}\n{\n', DataError, r"not valid JSON(.|\n)*a.jsonl:2"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}\n', DataError, r"lone surrogate(.|\n)*:1"),
        (
            "a.jsonl",
            '{"text": "x", "label": "\\udfff"}\n',
            DataError,
            r"lone surrogate(.|\n)*:1",
        ),
        (
            "a.jsonl",
            '{"text": "x", "text": "y", "label": 1}\n',
            DataError,
            r"twice(.|\n)*:1",
        ),
        ("a.jsonl", "[1]\n", DataError, r"must be a JSON object"),
        ("a.xlsx", "text\tlabel\n", UsageError, r".tsv, .tab, .csv, .jsonl"),
    ],
)
def test_a_malformed_example_is_refused_with_its_line(tmp_path, name, content, kind, part):
    (tmp_path / name).write_text(content)
    with pytest.raises(kind, match=part):
        read(tmp_path / name)


# --- training ----------------------------------------------------------------------------------


def test_a_text_is_held_out_by_its_content_wherever_it_occurs(texts, tmp_path):
    twice = (texts, table(tmp_path / "again.tsv", TEXTS[::-1]))
    training, held_out = labelled_texts(classifying(twice, "x").data)
    assert len(training) + len(held_out) == 2 * len(TEXTS) and 8 <= len(held_out) <= 48
    assert not {example.text for example in training} & {example.text for example in held_out}


def test_a_class_that_occurs_only_in_held_out_texts_is_learned(texts, tmp_path):
    example = labelled_texts(classifying(texts, "x").data)[1][0]
    rows = [(text, "rare" if text == example.text else label) for text, label in TEXTS]
    notes = []
    rare = classifying(table(tmp_path / "rare.tsv", rows), "x").data
    training, held_out = labelled_texts(rare, notes.append)
    assert "rare" in {example.label for example in training} and "rare" not in {
        example.label for example in held_out
    }
    assert "to hold out stay in training" in notes[0]["text"]


def test_a_trained_classifier_predicts_the_classes_of_texts(trained):
    rows = read_metrics(trained / "metrics.jsonl", "valid")
    assert rows[-1]["loss"] < rows[0]["loss"] / 2 and rows[-1]["accuracy"] > 0.9
    bundle = load(trained)
    assert isinstance(bundle, ClassifierBundle) and bundle.labels == ("animal", "tool")
    inputs = ["in a shed is a crab", "below is a rake", "up there is a hare"]
    predictions = bundle.classify(inputs)
    assert [prediction.label for prediction in predictions] == ["animal", "tool", "animal"]
    for prediction in predictions:
        probabilities = list(prediction.probabilities.values())
        assert sum(probabilities) == pytest.approx(1.0) and probabilities == sorted(
            probabilities, reverse=True
        )
        assert next(iter(prediction.probabilities)) == prediction.label


def test_a_prediction_does_not_depend_on_the_batch(trained):
    bundle = load(trained)
    inputs = ["the crab is in a shed", "", "a lamp", "the owl " * 40]
    predictions = bundle.classify(inputs)
    for text, batched in zip(inputs, predictions, strict=True):
        (alone,) = bundle.classify([text])
        for label, probability in alone.probabilities.items():
            assert probability == pytest.approx(batched.probabilities[label], abs=1e-5)
    assert bundle.classify([]) == []
    with pytest.raises(UsageError, match="list of texts"):
        bundle.classify("a lamp")


def test_training_python_and_the_command_line_give_the_same_scores(trained, capsys):
    """The evaluation of the saved model equals that of the step it was saved at in every number
    (the loss but for its rounding), and its accuracy that of the predictions."""
    validations = read_metrics(trained / "metrics.jsonl", "valid")
    (best,) = [row for row in validations if row["is_best"]][-1:]
    task, bundle = registry.task("classification"), load(trained)
    held_out = task.held_out(bundle, trained, saved(trained), NO_OPTIONS)
    scores = task.evaluate(bundle, held_out)
    # a loaded model computes queries, keys and values as one product, which may round otherwise
    numbers = {name: best[name] for name in scores.numbers()}
    assert scores.numbers() == {**numbers, "loss": pytest.approx(numbers["loss"], rel=1e-6)}
    assert list(scores.numbers()) == ["accuracy", "macro_f1", "matthews", "loss"]
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(trained), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    inputs = [ClassInput(text=example.text) for example in held_out]
    predictions = bundle.predict(inputs, ClassOptions(top=1))
    correct = sum(a.label == b.label for a, b in zip(predictions, held_out, strict=True))
    assert correct == scores.counts["correct"] and correct / len(held_out) == scores["accuracy"]
    assert all(list(output.probabilities) == [output.label] for output in predictions)
    assert sum(map(sum, scores.confusion.counts)) == len(held_out)
    assert sum(scores.confusion.counts[i][i] for i in range(2)) == correct


def test_nothing_to_evaluate_and_an_unknown_label_are_refused_with_their_line(trained, tmp_path):
    task, bundle = registry.task("classification"), load(trained)
    with pytest.raises(DataError, match="no texts to evaluate"):
        task.evaluate(bundle, [])
    path = Path(table(tmp_path / "t.tsv", [("a lamp", "tool"), ("an oak", "plant")]))
    texts = task.read(bundle, [path], None, NO_OPTIONS)
    with pytest.raises(DataError, match=r"'plant'(.|\n)*t.tsv:3"):
        task.evaluate(bundle, texts)
    table(tmp_path / "long.tsv", [("a lamp " * 60, "tool")])
    with pytest.warns(
        HeadwayWarning, match="text 1 has .* tokens and is truncated to the first 60"
    ):
        task.read(bundle, [tmp_path / "long.tsv"], None, NO_OPTIONS)


def test_accuracy_is_that_of_the_saved_model_on_the_held_out_texts(trained):
    best = max(row["accuracy"] for row in read_metrics(trained / "metrics.jsonl", "valid"))
    held_out = labelled_texts(saved(trained).data)[1]
    predictions = load(trained).classify([example.text for example in held_out])
    correct = sum(a.label == b.label for a, b in zip(predictions, held_out, strict=True))
    assert correct / len(held_out) == pytest.approx(best) and best > 0.8


def test_the_backbone_is_the_language_model_to_start_from(first, texts, tmp_path):
    start = load(first)
    config = classifying(texts, first, model__dropout=0.3, model__head_dropout=0.4)
    data = prepare_texts(config, start.tokenizer, 9, tmp_path, lambda event: None)
    machine = prepare(MachineConfig(device="cpu", threads=1))
    model = classification_job(config, data, start, machine).build()
    for name, parameter in start.model.named_parameters():
        assert torch.equal(parameter, model.gpt.get_parameter(name)), name
    assert (model.gpt.config.dropout, model.dropout.p) == (0.3, 0.4)
    assert max(len(row) for row in data.train.rows) == 9
    assert all(row[-1] == start.tokenizer.eos for row in data.train.rows)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "settings",
    [{}, {"training__recompute": True, "training__average": 0.9}, {"training__auxiliary": 0.0}],
    ids=["plain", "recompute-average", "no-auxiliary"],
)
def test_a_run_in_two_halves_equals_an_uninterrupted_run(first, texts, tmp_path, settings):
    train(classifying(texts, first, **settings), tmp_path / "whole")
    train(classifying(texts, first, **settings, training__steps=3), tmp_path / "halves")
    train(classifying(texts, first, **settings), tmp_path / "halves")
    for name in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_does_not_resume_on_other_texts(first, texts, tmp_path):
    train(classifying(texts, first, training__steps=3), tmp_path / "run")
    before = weights(tmp_path / "run")
    table(Path(texts), [*TEXTS, ("one more lamp", "tool")])
    with pytest.raises(DataError, match="have changed since the run started"):
        train(classifying(texts, first), tmp_path / "run")
    assert all(torch.equal(before[k], v) for k, v in weights(tmp_path / "run").items())


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "part"),
    [
        ({"data__train": ()}, UsageError, "no training texts are named"),
        ({"data__train": ("nowhere.tsv",)}, UsageError, "nowhere.tsv"),
        ({"data__valid": ("nowhere.tsv",)}, UsageError, "nowhere.tsv"),
        ({"training__start": None}, UsageError, "--from RUN"),
        ({"training__start": "nowhere"}, UsageError, "nowhere"),
        ({"training__start": "LEARNED"}, UsageError, "holds a classifier; .* a language model"),
        ({"data__text": "sentence"}, UsageError, "'sentence'"),
        ({"data__train": ("one.tsv",)}, DataError, "all have the label 'tool'"),
        ({"data__train": ("empty.tsv",)}, DataError, "there are no texts"),
        ({"data__train": ("few.tsv",)}, DataError, "--data.valid"),
        ({"data__valid": ("other.tsv",)}, DataError, r"have no label 'plant'(.|\n)*other.tsv:3"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    first, trained, texts, tmp_path, monkeypatch, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "one.tsv", [("a saw", "tool"), ("a lamp", "tool")])
    table(tmp_path / "empty.tsv", [])
    table(tmp_path / "few.tsv", [("a saw", "tool"), ("a saw", "animal")])
    table(tmp_path / "other.tsv", [("a saw", "tool"), ("an oak", "plant")])
    if changes.get("training__start") == "LEARNED":
        changes = {"training__start": str(trained)}
    config = classifying(texts, first, **changes)
    with pytest.raises(kind, match=part):
        train(config, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_character_outside_the_vocabulary_is_refused_with_its_line(texts, tmp_path):
    (tmp_path / "t.txt").write_text(STORY)
    train(configured(str(tmp_path / "t.txt"), data__tokenizer="characters"), tmp_path / "letters")
    with pytest.raises(
        DataError, match=r"the character 'y' is not in the model's vocabulary(.|\n)*t.tsv:2"
    ):
        train(classifying(texts, tmp_path / "letters"), tmp_path / "new")


def test_a_named_size_is_refused_as_the_start_has_one():
    with pytest.raises(UsageError, match="starts from has its size"):
        recipe("classify", ("test", {"model.size": "tiny"}))


def test_labels_of_another_training_are_refused(trained, tmp_path):
    bundle = load(trained)
    bundle.save(tmp_path / "model")
    path = tmp_path / "model" / "classes.json"
    description = json.loads(path.read_text())
    for labels, part in ((["tool", "animal"], "trained with"), (["a", "a"], "expected a list")):
        path.write_text(json.dumps({**description, "labels": labels}))
        with pytest.raises(DataError, match=part):
            load(tmp_path / "model", verify=False)
    with pytest.raises(DataError, match="3 labels"):
        ClassifierBundle(bundle.model, ClassReader(CharacterTokenizer("ab"), ("x", "y", "z"), 9))
