"""Classification with encoders as a run: classes, pairs, numbers, and settings of fine-tuning."""

import json
from dataclasses import replace

import pytest
import torch

from headway import load
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.evaluation import class_scores, number_scores
from headway.models import BertClassifier
from headway.runs import check_same, recipe, saved, train
from headway.tasks import registry
from headway.tasks.classification.data import labelled_texts, prepare_texts
from headway.tasks.classification.model import ClassifierBundle, ClassInput
from headway.tasks.classification.reader import Numbers
from headway.tasks.classification.task import classification_job
from headway.tasks.task import NO_OPTIONS
from tests.fixtures.classification_runs import TINY
from tests.fixtures.language_model_runs import STORY, configured
from tests.fixtures.learned_classifiers import ROWS, encoder_in, learned_in
from tests.fixtures.small_encoder_runs import PAIRS, write_encoder, write_table


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return encoder_in(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return {name: write_table(folder / f"{name}.tsv", *content) for name, content in ROWS.items()}


def fine_tuning(name, tables, start, **changes):
    """Return the configuration of a recipe; two underscores in a name are a dot."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    required = {"data.train": tables[name], "training.start": str(start)}
    return recipe(name, ("test", {**TINY, **required, **dotted}))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """trained(recipe) -> the folder of a run that was trained until it fits its texts."""
    return lambda name: learned_in(tmp_path_factory.getbasetemp(), name)[0]


def job_of(name, tables, encoder, folder, **changes):
    start, config = load(encoder), fine_tuning(name, tables, encoder, **changes)
    data = prepare_texts(config, start.tokenizer, 24, folder, lambda event: None)
    return classification_job(config, data, start, prepare(MachineConfig(device="cpu", threads=1)))


# --- learning ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["classify", "pairs"])
def test_classes_are_learned_and_scores_are_those_of_the_saved_model(trained, name):
    rows = read_metrics(trained(name) / "metrics.jsonl", "valid")
    best = max(rows, key=lambda row: row["accuracy"])
    bundle = load(trained(name))
    assert isinstance(bundle, ClassifierBundle) and isinstance(bundle.model, BertClassifier)
    held_out = labelled_texts(saved(trained(name)).data)[1]
    predicted = [
        output.label for output in bundle.classify([example.texts for example in held_out])
    ]
    numbers = {label: i for i, label in enumerate(bundle.labels)}
    sides = [
        [numbers[x] for x in side] for side in (predicted, [example.label for example in held_out])
    ]
    for key, value in class_scores(*sides).items():
        assert value == pytest.approx(best[key]), key
    assert best["accuracy"] > 0.9 and best["macro_f1"] > 0.9 and best["matthews"] > 0.8


def test_numbers_are_learned_and_predicted_on_their_original_scale(trained):
    rows = read_metrics(trained("regress") / "metrics.jsonl", "valid")
    best = max(rows, key=lambda row: row["pearson"])
    bundle = load(trained("regress"))
    held_out = labelled_texts(saved(trained("regress")).data)[1]
    predicted = bundle.score([example.text for example in held_out])
    scores = number_scores(predicted, [example.number for example in held_out])
    for key, value in scores.items():
        assert value == pytest.approx(best[key], abs=1e-4), key
    assert best["pearson"] > 0.9 and best["mse"] < 0.5
    assert (bundle.reader.numbers.lowest, bundle.reader.numbers.highest) == (1.0, 5.5)
    assert bundle.labels == () and "loss" not in best


@pytest.mark.parametrize("name", ["pairs", "regress"])
def test_training_and_python_give_the_same_scores_of_pairs_and_numbers(trained, name):
    validations = read_metrics(trained(name) / "metrics.jsonl", "valid")
    (best,) = [row for row in validations if row["is_best"]][-1:]
    task, bundle = registry.task("classification"), load(trained(name))
    held_out = task.held_out(bundle, trained(name), saved(trained(name)), NO_OPTIONS)
    scores = task.evaluate(bundle, held_out)
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    if name == "pairs":
        assert scores.counts["pairs"] == len(held_out)
    else:
        assert list(scores.numbers()) == ["pearson", "spearman", "mse"]
        assert not scores.metric("mse").higher_is_better
        inputs = [ClassInput(text=example.text) for example in held_out]
        numbers = [output.number for output in bundle.predict(inputs)]
        assert numbers == bundle.score([example.text for example in held_out])


def test_a_prediction_does_not_depend_on_the_batch(trained):
    pairs = load(trained("pairs"))
    inputs = [("the owl is below", "it is alive"), ("the saw is up there", "it is " + "a " * 40)]
    predictions = pairs.classify([*inputs, ("a", "b")])
    for pair, batched in zip(inputs, predictions, strict=False):
        (alone,) = pairs.classify([pair])
        assert alone.probabilities == pytest.approx(batched.probabilities, abs=1e-5)
    numbers = load(trained("regress"))
    assert numbers.score(["two foxs below"]) == pytest.approx(
        numbers.score(["a long text " * 9, "two foxs below"])[1:], abs=1e-5
    )


def test_the_second_text_has_its_own_token_type(trained):
    bundle = load(trained("pairs"))
    rows, types = bundle.reader.encode([("the owl", "it is alive")])
    special_tokens, encode = bundle.reader.tokenizer.special_tokens, bundle.reader.tokenizer.encode
    first, second = encode("the owl"), encode("it is alive")
    assert rows == [[special_tokens.start, *first, special_tokens.end, *second, special_tokens.end]]
    assert types == [[0] * (2 + len(first)) + [1] * (1 + len(second))]


def test_inputs_and_outputs_of_another_kind_are_refused(trained):
    with pytest.raises(UsageError, match="pairs of texts, but the input is a single text"):
        load(trained("pairs")).classify(["alone"])
    with pytest.raises(UsageError, match="single texts, but the input is a pair of texts"):
        load(trained("classify")).classify([("a", "b")])
    with pytest.raises(UsageError, match="predicts numbers, not classes"):
        load(trained("regress")).classify(["a"])
    with pytest.raises(UsageError, match="predicts classes, not numbers"):
        load(trained("classify")).score(["a"])
    with pytest.raises(UsageError, match="list of texts"):
        load(trained("regress")).score("a")


def test_a_language_model_classifies_pairs_and_predicts_numbers_too(tables, tmp_path):
    (tmp_path / "t.txt").write_text(STORY + "".join(f"{' '.join(row)}\n" for row in PAIRS))
    train(configured(str(tmp_path / "t.txt"), model__model_dim=16), tmp_path / "gpt")
    for name in ("pairs", "regress"):
        train(fine_tuning(name, tables, tmp_path / "gpt"), tmp_path / name)
    bundle = load(tmp_path / "pairs")
    (row,), (types,) = bundle.reader.encode([("the owl", "it")])
    tokenizer = bundle.reader.tokenizer
    end = tokenizer.eos
    assert row == [*tokenizer.begin("the owl"), end, *tokenizer.encode("it"), end]
    assert sum(types) == 1 + len(tokenizer.encode("it"))
    assert bundle.classify([("the owl is below", "it is alive")])[0].label in {"same", "other"}
    assert -20 < load(tmp_path / "regress").score(["two owls below"])[0] < 20


def test_an_encoder_with_one_token_type_classifies_pairs(tables, tmp_path):
    for types in (0, 1):
        start = write_encoder(tmp_path / f"bert-{types}", token_types=types)
        train(fine_tuning("pairs", tables, start), tmp_path / f"run-{types}")
        assert len(load(tmp_path / f"run-{types}").classify([("a fox", "it is alive")])) == 1


# --- settings of fine-tuning --------------------------------------------------------------------


def test_the_backbone_is_the_encoder_to_start_from(encoder, tables, tmp_path):
    settings = {"model__dropout": 0.3, "model__head_dropout": 0.4}
    start = load(encoder).model
    for pooling, pooler in (("first", "tanh"), ("mean", "none")):
        job = job_of("classify", tables, encoder, tmp_path, **settings, model__pooling=pooling)
        model = job.build()
        assert (model.bert.config.dropout, model.dropout.p) == (0.3, 0.4)
        assert (model.bert.config.pooler, model.config.pooling) == (pooler, pooling)
        for name, parameter in model.bert.named_parameters():
            assert torch.equal(parameter, start.get_parameter(name)), name
    assert start.masked_lm_head is not None, "the pre-trained model itself is unchanged"


def test_unset_settings_follow_from_the_pretrained_model_and_the_texts(encoder, tables, tmp_path):
    required = {"data.train": tables["classify"], "training.start": str(encoder)}
    config = recipe("classify", ("test", {**required, "machine.device": "cpu"}))
    data = prepare_texts(config, load(encoder).tokenizer, 24, tmp_path, lambda event: None)
    machine = prepare(MachineConfig(device="cpu", threads=1))
    resolved = classification_job(config, data, load(encoder), machine).config
    assert (resolved.optimizer.lr, resolved.training.steps) == (1e-4, 500)
    assert resolved.evaluation.metric == "accuracy" and resolved.training.epochs is None
    epochs = recipe(
        "classify", ("test", {**required, "training.epochs": 2.5, "training.batch_size": 10})
    )
    resolved = classification_job(epochs, data, load(encoder), machine).config
    batches = -(-len(data.train.rows) // 10)
    assert resolved.training.steps == -(-5 * batches // 2)
    contradictory = replace(epochs, training=replace(epochs.training, steps=3))
    with pytest.raises(UsageError, match=r"steps=3 disagrees with training\.epochs=2\.5"):
        classification_job(contradictory, data, load(encoder), machine)


def test_a_run_resumes_with_its_resolved_settings(encoder, tables, tmp_path):
    settings = {"training__steps": None, "training__epochs": 0.5, "optimizer__lr": None}
    config = fine_tuning("classify", tables, encoder, **settings)
    train(config, tmp_path / "run")
    resolved = saved(tmp_path / "run")
    assert resolved.training.steps and resolved.optimizer.lr == 1e-4
    check_same(tmp_path / "run", config)
    check_same(tmp_path / "run", resolved)
    changed = fine_tuning("classify", tables, encoder, **settings, training__batch_size=5)
    with pytest.raises(UsageError, match="batch_size"):
        check_same(tmp_path / "run", changed)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("pairs", {"optimizer__layer_decay": 0.8, "training__balance": True}),
        ("regress", {"training__frozen": 1, "training__recompute": True}),
        ("classify", {"lora__rank": 2, "model__pooling": "first", "training__average": 0.9}),
    ],
    ids=["layer-decay", "frozen", "lora"],
)
def test_a_run_in_two_halves_equals_an_uninterrupted_run(encoder, tables, tmp_path, name, settings):
    train(fine_tuning(name, tables, encoder, **settings), tmp_path / "whole")
    train(fine_tuning(name, tables, encoder, **settings, training__steps=3), tmp_path / "halves")
    train(fine_tuning(name, tables, encoder, **settings), tmp_path / "halves")
    for part in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / part).read_bytes() == (tmp_path / "whole" / part).read_bytes()


def test_frozen_blocks_keep_their_weights_and_the_rest_changes(encoder, tables, tmp_path):
    train(fine_tuning("classify", tables, encoder, training__frozen=1), tmp_path / "run")
    start, model = load(encoder).model, load(tmp_path / "run").model
    unchanged = {
        name: torch.equal(parameter, start.get_parameter(name))
        for name, parameter in model.bert.named_parameters()
    }
    assert {n for n, same in unchanged.items() if same} == {
        n for n in unchanged if n.startswith("embedding") or ".blocks.0." in n
    }


def test_adapters_change_the_blocks_and_leave_plain_layers(encoder, tables, tmp_path):
    settings = {"lora__rank": 2, "optimizer__lr": 1e-2, "model__pooling": "first"}
    train(fine_tuning("classify", tables, encoder, **settings), tmp_path / "run")
    start, model = load(encoder).model, load(tmp_path / "run").model
    names = dict(model.named_parameters())
    assert not any("lora" in name for name in names)
    changed = {
        name.removeprefix("bert.")
        for name, parameter in names.items()
        if name.startswith("bert.")
        and not torch.equal(parameter, start.get_parameter(name.removeprefix("bert.")))
    }
    assert any(".blocks.0.attention" in name for name in changed)
    assert "pooler.project.weight" in changed and "embedding.words.tokens.weight" not in changed


def test_balanced_class_weights_give_each_class_the_same_total(encoder, tmp_path):
    rows = [("the fox is below", "a")] * 6 + [("the saw is below", "b")] * 3
    rows += [("a lamp is below", "c")] * 3
    table = {"classify": write_table(tmp_path / "t.tsv", rows, "text\tlabel")}
    valid = write_table(tmp_path / "v.tsv", rows, "text\tlabel")
    settings = {"data__valid": valid, "training__balance": True}
    job = job_of("classify", table, encoder, tmp_path, **settings)
    assert job.objective.weights == pytest.approx((12 / 18, 12 / 9, 12 / 9))
    assert sum(w * n for w, n in zip(job.objective.weights, (6, 3, 3), strict=True)) == (
        pytest.approx(12)
    )


@pytest.mark.parametrize(
    ("name", "metric"),
    [("classify", "macro_f1"), ("pairs", "loss"), ("regress", "spearman")],
)
def test_the_saved_model_is_best_by_the_configured_metric(encoder, tables, tmp_path, name, metric):
    config = fine_tuning(name, tables, encoder, evaluation__metric=metric, evaluation__every=2)
    outcome = train(config, tmp_path / "run")
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    best = min if metric == "loss" else max
    assert outcome.best == best(row[metric] for row in rows)


def test_a_run_stops_early_after_patience_evaluations_without_improvement(
    encoder, tables, tmp_path
):
    settings = {"evaluation__patience": 2, "evaluation__every": 1, "training__steps": 40}
    config = fine_tuning("classify", tables, encoder, **settings, optimizer__lr=1e-9)
    outcome = train(config, tmp_path / "run")
    assert outcome.stop == "early stop" and outcome.step == 3


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "kind", "part"),
    [
        ("pairs", {"data__second": "answer"}, UsageError, r"'answer'(.|\n)*--data.second"),
        ("pairs", {"data__second": "sentence1"}, UsageError, "the columns must be different"),
        ("pairs", {"data__train": ("half.tsv",)}, DataError, r"'sentence2' is empty\n.*half.tsv:3"),
        ("pairs", {"data__kind": "number"}, DataError, r"'same' is not a number\n.*pairs.tsv:2"),
        (
            "regress",
            {"data__valid": ("word.tsv",)},
            DataError,
            r"'many' is not a number\n.*word.tsv:3",
        ),
        (
            "regress",
            {"data__train": ("nan.tsv",)},
            DataError,
            r"'nan' is not a number\n.*nan.tsv:2",
        ),
        ("regress", {"data__train": ("huge.tsv",)}, DataError, r"-1e\+18 to 1e\+18\n.*huge.tsv:3"),
        ("regress", {"data__valid": ("huge.tsv",)}, DataError, r"-1e\+18 to 1e\+18\n.*huge.tsv:3"),
        ("regress", {"data__train": ("one.tsv",)}, DataError, "texts of different numbers"),
        ("regress", {"evaluation__metric": "accuracy"}, UsageError, "one of pearson, spearman"),
        ("regress", {"training__balance": True}, UsageError, "weights classes"),
        ("classify", {"evaluation__metric": "pearson"}, UsageError, "one of accuracy"),
        ("classify", {"training__frozen": 3}, UsageError, "3 blocks cannot be frozen"),
        ("classify", {"training__frozen": 1, "lora__rank": 2}, UsageError, "adapters"),
        ("classify", {"lora__rank": 99}, UsageError, "lora: rank=99"),
        ("classify", {"training__epochs": 1.0}, UsageError, "--training.epochs none"),
        (
            "classify",
            {"data__valid": ("other.tsv",)},
            DataError,
            r"have no label 'plant'(.|\n)*tsv:3",
        ),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    encoder, tables, tmp_path, monkeypatch, name, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "half.tsv", [("a", "b", "c"), ("a", " ", "c")], ROWS["pairs"][1])
    write_table(tmp_path / "huge.tsv", [("a", "1"), ("b", "1e308")], ROWS["regress"][1])
    write_table(tmp_path / "word.tsv", [("a", "1"), ("b", "many")], ROWS["regress"][1])
    write_table(tmp_path / "nan.tsv", [("a", "nan"), ("b", "1")], ROWS["regress"][1])
    write_table(tmp_path / "one.tsv", [("a", "1"), ("b", "1.0")], ROWS["regress"][1])
    write_table(tmp_path / "other.tsv", [("a saw", "tool"), ("oak", "plant")], ROWS["classify"][1])
    with pytest.raises(kind, match=part):
        train(fine_tuning(name, tables, encoder, **changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_missing_key_of_an_object_is_refused_with_its_line(encoder, tmp_path):
    lines = [{"text": "a fox", "score": 1.5}, {"text": "an owl", "score": None}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    tables = {"regress": str(tmp_path / "t.jsonl")}
    with pytest.raises(DataError, match=r"'score' is null, or missing, .*\n.*t.jsonl:2"):
        train(fine_tuning("regress", tables, encoder), tmp_path / "new")


def test_a_reader_that_was_changed_is_refused(trained, tmp_path):
    load(trained("regress")).save(tmp_path / "model")
    path = tmp_path / "model" / "classes.json"
    description = json.loads(path.read_text())
    numbers = description["numbers"]
    for change, part in (
        ({"numbers": {**numbers, "mean": 0.0}}, "trained with"),
        ({"numbers": {**numbers, "deviation": 0}}, "expected a list"),
        ({"numbers": 3}, "expected a list"),
        ({"labels": ["a", "b"]}, "expected a list"),
        ({"pairs": 1}, "expected a list"),
    ):
        path.write_text(json.dumps({**description, **change}))
        with pytest.raises(DataError, match=part):
            load(tmp_path / "model", verify=False)


def test_numbers_are_standardised_and_restored():
    numbers = Numbers.of([1.0, 2.0, 4.0, 5.0])
    assert (numbers.mean, numbers.lowest, numbers.highest) == (3.0, 1.0, 5.0)
    assert numbers.deviation == pytest.approx(2.5**0.5)
    assert numbers.restored(numbers.scaled(4.25)) == pytest.approx(4.25)
