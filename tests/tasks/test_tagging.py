"""Tagging as a run: fine-tuning, resuming, the bundle, and what is refused."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from headway import load
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.cli.main import main
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.tagging.data import tagged_sentences
from headway.tasks.tagging.model import TaggerBundle, TagReader
from headway.tasks.task import NO_OPTIONS
from tests.fixtures.tiny_encoder import save_encoder, sentences, tagged, write_conll

TINY = {
    "training.batch_size": 7,
    "training.steps": 6,
    "data.held_out": 0.2,
    "data.max_length": 30,
    "evaluation.every": 3,
    "checkpoint.every": 3,
    "schedule.kind": "constant",  # one that does not depend on the last step
    "schedule.warmup": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
}


def tagging(text, start, **changes):
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    required = {"data.train": text, "training.start": str(start)}
    return recipe("tag", ("test", {**TINY, **required, **dotted}))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    torch.manual_seed(0)
    return save_encoder(tmp_path_factory.mktemp("start") / "m")


@pytest.fixture
def texts(tmp_path):
    return write_conll(tmp_path / "t.conll", sentences())


@pytest.fixture(scope="module")
def trained(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    more = {"training__steps": 60, "optimizer__lr": 1e-2, "evaluation__every": 20}
    config = tagging(write_conll(folder / "t.conll", sentences()), start, **more)
    train(config, folder / "run")
    return folder / "run"


def test_a_trained_tagger_finds_the_names_in_a_text(trained):
    rows = read_metrics(trained / "metrics.jsonl", "valid")
    assert rows[-1]["loss"] < rows[0]["loss"] and rows[-1]["f1"] > 0.95
    bundle = load(trained)
    assert isinstance(bundle, TaggerBundle) and bundle.tags == ("B-name", "I-name", "O")
    text = "in the  old mill Émile Roux waits."
    (tagged,) = bundle.tag([text])
    (span,) = tagged.spans
    assert (span.label, span.text) == ("name", "Émile Roux")
    assert text[span.start : span.end] == span.text
    assert [word.text for word in tagged.words] == [*text.removesuffix(".").split(), "."]
    assert all(text[word.start : word.end] == word.text for word in tagged.words)
    probabilities = [word.probability for word in tagged.words if word.tag != "O"]
    assert span.probability == pytest.approx(math.prod(probabilities)) and 0 < span.probability <= 1


def test_training_python_and_the_command_line_give_the_same_scores(trained, monkeypatch, capsys):
    """The evaluation of the saved model equals that of the step it was saved at, in every number,
    and its F1 that of the predictions."""
    from headway.tasks.tagging.spans import score_spans

    validations = read_metrics(trained / "metrics.jsonl", "valid")
    (best,) = [row for row in validations if row["is_best"]][-1:]
    task, bundle = registry.task("tagging"), load(trained)
    held_out = task.held_out(bundle, trained, saved(trained), NO_OPTIONS)
    scores = task.evaluate(bundle, held_out)
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    assert list(scores.numbers()) == ["f1", "precision", "recall", "accuracy", "loss"]
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(trained), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    tags = [[word.tag for word in text.words] for text in bundle.tag([x.words for x in held_out])]
    spans = score_spans(tags, [example.tags for example in held_out])
    assert (spans.f1, spans.true, spans.correct) == (
        scores["f1"],
        scores.counts["true"],
        scores.counts["correct"],
    )
    words = [
        a == b for x, y in zip(tags, held_out, strict=True) for a, b in zip(x, y.tags, strict=True)
    ]
    assert scores["accuracy"] == pytest.approx(sum(words) / len(words))


def test_the_loss_is_the_cross_entropy_of_each_word_alone(trained):
    task, bundle = registry.task("tagging"), load(trained)
    held_out = task.held_out(bundle, trained, saved(trained), NO_OPTIONS)[:5]
    nats = []
    for sentence in held_out:
        rows = bundle.reader.encode([sentence.words])[0]
        logits = torch.cat(bundle.word_logits(rows)).double()
        log_p = logits - logits.exp().sum(1, keepdim=True).log()
        nats += [-log_p[i, bundle.tags.index(tag)].item() for i, tag in enumerate(sentence.tags)]
    scores = task.evaluate(bundle, held_out)
    assert scores["loss"] == pytest.approx(sum(nats) / len(nats), rel=1e-5)


def test_nothing_to_evaluate_and_an_unknown_tag_are_refused_with_their_line(trained, tmp_path):
    task, bundle = registry.task("tagging"), load(trained)
    with pytest.raises(DataError, match="no tagged words to evaluate"):
        task.evaluate(bundle, [])
    (tmp_path / "t.conll").write_text("Ada\tO\n\nLee\tB-zoo\n")
    with pytest.raises(DataError, match="'B-zoo'") as error:
        task.evaluate(bundle, task.read(bundle, [tmp_path / "t.conll"], None, NO_OPTIONS))
    assert error.value.where.endswith("t.conll:3")


def test_a_list_of_words_is_tagged_like_their_text(trained):
    bundle = load(trained)
    text = "Bo Nash sings . in a shed Ada Lee waits"
    (from_text,), (from_words,) = bundle.tag([text]), bundle.tag([text.split()])
    assert from_text == from_words
    assert [(s.text, s.start) for s in from_text.spans] == [("Bo Nash", 0), ("Ada Lee", 26)]


def test_the_tags_of_a_text_do_not_depend_on_the_batch_or_on_its_length(trained):
    bundle = load(trained)
    texts = ["Zoë Thorn waits", "", "in the lake Dora Vance paints . " * 9, " \n "]
    predictions = bundle.tag(texts)
    for text, batched in zip(texts, predictions, strict=True):
        (alone,) = bundle.tag([text])
        assert [w.tag for w in alone.words] == [w.tag for w in batched.words]
        for word, word_in_batch in zip(alone.words, batched.words, strict=True):
            assert word.probability == pytest.approx(word_in_batch.probability, abs=1e-5)
    long = predictions[2]
    assert len(long.words) == 9 * 7 and len(long.spans) == 9  # read as several sequences
    assert predictions[1].words == predictions[3].words == () and bundle.tag([]) == []
    with pytest.raises(UsageError, match="list of texts"):
        bundle.tag("Ada")


@pytest.mark.parametrize(
    "text",
    ["(Ada Lee)», Émile!", "🦊Ada 🦊🦊 Lee", "E\u0301mile Roux", "a\u200bb \u200b c", "İstanbul ß"],
)
def test_words_of_a_text_keep_their_characters(trained, text):
    reader = load(trained).reader
    spans = reader.split(text)
    assert spans == sorted(spans) and all(a < b for a, b in spans)
    assert all(b <= c for (_, b), (c, _) in pairwise(spans))
    words = [text[a:b] for a, b in spans]
    characters = "".join(words).replace("\u200b", "")
    assert characters == "".join(text.split()).replace("\u200b", "")
    if text.startswith("("):
        assert words == ["(", "Ada", "Lee", ")", "»", ",", "Émile", "!"]


def test_parts_of_speech_are_scored_by_accuracy_and_have_no_spans(start, tmp_path):
    rows = [tagged(text) for text in sentences()]
    lines = [{"words": w, "pos": ["X" if t == "O" else "NAME" for t in tags]} for w, tags in rows]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {"data__column": "pos", "training__steps": 30, "optimizer__lr": 1e-2}
    train(tagging(str(tmp_path / "t.jsonl"), start, **settings), tmp_path / "run")
    assert saved(tmp_path / "run").evaluation.metric == "accuracy"
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    assert "f1" not in rows[-1] and rows[-1]["accuracy"] > 0.9
    (prediction,) = load(tmp_path / "run").tag(["in a shed Ada Lee sings"])
    assert prediction.spans == () and [word.tag for word in prediction.words] == [
        *"XXX",
        "NAME",
        "NAME",
        "X",
    ]


@pytest.mark.turns(2)
@pytest.mark.parametrize("settings", [{}, {"training__recompute": True, "training__average": 0.9}])
def test_a_run_in_two_halves_equals_an_uninterrupted_run(start, texts, tmp_path, settings):
    settings["model__dropout"] = 0.1
    train(tagging(texts, start, **settings), tmp_path / "whole")
    train(tagging(texts, start, **settings, training__steps=3), tmp_path / "halves")
    train(tagging(texts, start, **settings), tmp_path / "halves")
    for name in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_tag_that_occurs_only_in_held_out_sentences_is_learned(start, texts, tmp_path):
    held_out = tagged_sentences(tagging(texts, start).data)[1][0]
    word = f"{held_out.words[-1]}\t{held_out.tags[-1]}"
    rare = "\n".join(f"{w}\t{t}" for w, t in zip(held_out.words, held_out.tags, strict=True))
    Path(texts).write_text(Path(texts).read_text().replace(rare, rare[: -len(word)] + ".\tB-rare"))
    config = tagging(texts, start, training__steps=3)
    events = []
    train(config, tmp_path / "run", listeners=[events.append])
    assert "B-rare" in load(tmp_path / "run").reader.tags
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert any("to hold out stay in training" in note for note in notes)
    sentences_ = tagged_sentences(config.data)
    assert any("B-rare" in sentence.tags for sentence in sentences_[0])
    assert not any("B-rare" in sentence.tags for sentence in sentences_[1])


def test_a_run_does_not_resume_on_other_sentences(start, texts, tmp_path):
    train(tagging(texts, start, training__steps=3), tmp_path / "run")
    write_conll(Path(texts), [*sentences(), "Cleo Quinn sings"])
    with pytest.raises(DataError, match="have changed since the run started"):
        train(tagging(texts, start), tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "kind", "part"),
    [
        ({"data__train": ()}, UsageError, "no training sentences are named"),
        ({"data__train": ("nowhere.conll",)}, UsageError, "nowhere.conll"),
        ({"data__valid": ("nowhere.conll",)}, UsageError, "nowhere.conll"),
        ({"training__start": None}, UsageError, "--from"),
        ({"training__start": "LEARNED"}, UsageError, "holds a tagger.* needs a text encoder"),
        ({"data__train": ("one.conll",)}, DataError, "all words have the tag 'O'"),
        ({"data__train": ("few.conll",)}, DataError, "--data.valid"),
        ({"data__valid": ("other.conll",)}, DataError, r"have no tag 'B-zoo'(.|\n)*other.conll:3"),
        ({"data__train": ("ragged.conll",)}, DataError, "ragged.conll:2"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_and_leaves_no_folder(
    start, trained, texts, tmp_path, monkeypatch, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    Path("one.conll").write_text("a\tO\n")
    Path("few.conll").write_text("a\tO\nb\tB-name\n")
    Path("other.conll").write_text("a\tO\n\nb\tB-zoo\n")
    Path("ragged.conll").write_text("a\tO\nb\n")
    if changes.get("training__start") == "LEARNED":
        changes = {"training__start": str(trained)}
    with pytest.raises(kind, match=part):
        train(tagging(texts, start, **changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_tags_of_another_training_are_refused(trained, tmp_path):
    bundle = load(trained)
    bundle.save(tmp_path / "model")
    path = tmp_path / "model" / "tags.json"
    description = json.loads(path.read_text())
    for tags, part in (
        (["O", "B-name", "I-name"], "trained with"),
        (["O", "O"], "expected a list"),
    ):
        path.write_text(json.dumps({**description, "tags": tags}))
        with pytest.raises(DataError, match=part):
            load(tmp_path / "model", verify=False)
    with pytest.raises(DataError, match="2 tags, but the model has"):
        TaggerBundle(bundle.model, TagReader(bundle.reader.tokenizer, ("O", "B-x"), 30))
