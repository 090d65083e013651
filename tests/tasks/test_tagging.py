"""Taggers as a run: fine-tuning, going on, the bundle, and what is refused."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from headway import load
from headway.cli.main import main
from headway.errors import DataError, UsageError
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.tagging.bundle import TaggerBundle, TagReader
from headway.tasks.tagging.data import tagged_sentences
from headway.tasks.task import NO_OPTIONS
from headway.training import read_metrics
from tests.fixtures.tiny_encoder import save_encoder, sentences, tagged, write_conll

TINY = {
    "training.batch_size": 7,
    "training.steps": 6,
    "data.held_out": 0.2,
    "data.max_length": 30,
    "evaluation.every": 3,
    "checkpoint.every": 3,
    "schedule.kind": "constant",  # one that does not look at the end
    "schedule.warmup": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
}


def tagging(text, start, **changes):
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    given = {"data.train": text, "training.start": str(start)}
    return recipe("tag", ("test", {**TINY, **given, **dotted}))


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    torch.manual_seed(0)
    return save_encoder(tmp_path_factory.mktemp("start") / "m")


@pytest.fixture
def texts(tmp_path):
    return write_conll(tmp_path / "t.conll", sentences())


@pytest.fixture(scope="module")
def learned(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    more = {"training__steps": 60, "optimizer__lr": 1e-2, "evaluation__every": 20}
    config = tagging(write_conll(folder / "t.conll", sentences()), start, **more)
    train(config, folder / "run")
    return folder / "run"


def test_a_tagger_learns_and_says_where_names_stand(learned):
    rows = read_metrics(learned / "metrics.jsonl", "valid")
    assert rows[-1]["loss"] < rows[0]["loss"] and rows[-1]["f1"] > 0.95
    bundle = load(learned)
    assert isinstance(bundle, TaggerBundle) and bundle.tags == ("B-name", "I-name", "O")
    text = "in the  old mill Émile Roux waits."
    (found,) = bundle.tag([text])
    (span,) = found.spans
    assert (span.label, span.text) == ("name", "Émile Roux")
    assert text[span.start : span.end] == span.text
    assert [word.text for word in found.words] == [*text.removesuffix(".").split(), "."]
    assert all(text[word.start : word.end] == word.text for word in found.words)
    own = [word.probability for word in found.words if word.tag != "O"]
    assert span.probability == pytest.approx(math.prod(own)) and 0 < span.probability <= 1


def test_training_python_and_the_command_line_give_the_same_scores(learned, monkeypatch, capsys):
    """The evaluation of the saved model equals that of the step it was saved at, in every number,
    and its F1 that of the predictions."""
    from headway.evaluation import score_spans

    validations = read_metrics(learned / "metrics.jsonl", "valid")
    (best,) = [row for row in validations if row["is_best"]][-1:]
    task, bundle = registry.task("tagging"), load(learned)
    held_out = task.held_out(bundle, learned, saved(learned), NO_OPTIONS)
    scores = task.evaluate(bundle, held_out)
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    assert list(scores.numbers()) == ["f1", "precision", "recall", "accuracy", "loss"]
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(learned), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    tags = [[word.tag for word in each.words] for each in bundle.tag([x.words for x in held_out])]
    spans = score_spans(tags, [each.tags for each in held_out])
    assert (spans.f1, spans.true, spans.correct) == (
        scores["f1"],
        scores.counts["true"],
        scores.counts["correct"],
    )
    words = [
        a == b for x, y in zip(tags, held_out, strict=True) for a, b in zip(x, y.tags, strict=True)
    ]
    assert scores["accuracy"] == pytest.approx(sum(words) / len(words))


def test_the_loss_is_the_cross_entropy_of_each_word_alone(learned):
    task, bundle = registry.task("tagging"), load(learned)
    held_out = task.held_out(bundle, learned, saved(learned), NO_OPTIONS)[:5]
    nats = []
    for sentence in held_out:
        rows = bundle.reader.encode([sentence.words])[0]
        logits = torch.cat(bundle.word_logits(rows)).double()
        log_p = logits - logits.exp().sum(1, keepdim=True).log()
        nats += [-log_p[i, bundle.tags.index(tag)].item() for i, tag in enumerate(sentence.tags)]
    scores = task.evaluate(bundle, held_out)
    assert scores["loss"] == pytest.approx(sum(nats) / len(nats), rel=1e-5)


def test_nothing_to_evaluate_and_an_unknown_tag_are_refused_with_their_line(learned, tmp_path):
    task, bundle = registry.task("tagging"), load(learned)
    with pytest.raises(DataError, match="no tagged words to evaluate"):
        task.evaluate(bundle, [])
    (tmp_path / "t.conll").write_text("Ada\tO\n\nLee\tB-zoo\n")
    with pytest.raises(DataError, match="'B-zoo'") as error:
        task.evaluate(bundle, task.read(bundle, [tmp_path / "t.conll"], None, NO_OPTIONS))
    assert error.value.where.endswith("t.conll:3")


def test_words_given_apart_are_the_words_of_the_text(learned):
    bundle = load(learned)
    text = "Bo Nash sings . in a shed Ada Lee waits"
    (whole,), (apart,) = bundle.tag([text]), bundle.tag([text.split()])
    assert whole == apart
    assert [(s.text, s.start) for s in whole.spans] == [("Bo Nash", 0), ("Ada Lee", 26)]


def test_what_a_text_gets_does_not_depend_on_the_others_or_on_its_length(learned):
    bundle = load(learned)
    asked = ["Zoë Thorn waits", "", "in the lake Dora Vance paints . " * 9, " \n "]
    together = bundle.tag(asked)
    for text, each in zip(asked, together, strict=True):
        (alone,) = bundle.tag([text])
        assert [w.tag for w in alone.words] == [w.tag for w in each.words]
        for one, other in zip(alone.words, each.words, strict=True):
            assert one.probability == pytest.approx(other.probability, abs=1e-5)
    long = together[2]
    assert len(long.words) == 9 * 7 and len(long.spans) == 9  # read in several rows
    assert together[1].words == together[3].words == () and bundle.tag([]) == []
    with pytest.raises(UsageError, match="list of texts"):
        bundle.tag("Ada")


@pytest.mark.parametrize(
    "text",
    ["(Ada Lee)», Émile!", "🦊Ada 🦊🦊 Lee", "E\u0301mile Roux", "a\u200bb \u200b c", "İstanbul ß"],
)
def test_words_of_a_text_keep_their_characters(learned, text):
    reader = load(learned).reader
    places = reader.split(text)
    assert places == sorted(places) and all(a < b for a, b in places)
    assert all(b <= c for (_, b), (c, _) in pairwise(places))
    words = [text[a:b] for a, b in places]
    seen = "".join(words).replace("\u200b", "")
    assert seen == "".join(text.split()).replace("\u200b", "")
    if text.startswith("("):
        assert words == ["(", "Ada", "Lee", ")", "»", ",", "Émile", "!"]


def test_parts_of_speech_are_judged_by_accuracy_and_make_no_spans(start, tmp_path):
    rows = [tagged(text) for text in sentences()]
    lines = [{"words": w, "pos": ["X" if t == "O" else "NAME" for t in tags]} for w, tags in rows]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    how = {"data__column": "pos", "training__steps": 30, "optimizer__lr": 1e-2}
    train(tagging(str(tmp_path / "t.jsonl"), start, **how), tmp_path / "run")
    assert saved(tmp_path / "run").evaluation.metric == "accuracy"
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    assert "f1" not in rows[-1] and rows[-1]["accuracy"] > 0.9
    (found,) = load(tmp_path / "run").tag(["in a shed Ada Lee sings"])
    assert found.spans == () and [word.tag for word in found.words] == [*"XXX", "NAME", "NAME", "X"]


@pytest.mark.parametrize("how", [{}, {"training__recompute": True, "training__average": 0.9}])
def test_steps_in_two_halves_are_the_steps_in_one(start, texts, tmp_path, how):
    how["model__dropout"] = 0.1
    train(tagging(texts, start, **how), tmp_path / "whole")
    train(tagging(texts, start, **how, training__steps=3), tmp_path / "halves")
    train(tagging(texts, start, **how), tmp_path / "halves")
    for name in ("checkpoints/step-6/state.safetensors", "model/model.safetensors"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_tag_that_occurs_only_in_held_out_sentences_is_learned(start, texts, tmp_path):
    held = tagged_sentences(tagging(texts, start).data)[1][0]
    word = f"{held.words[-1]}\t{held.tags[-1]}"
    rare = "\n".join(f"{w}\t{t}" for w, t in zip(held.words, held.tags, strict=True))
    Path(texts).write_text(Path(texts).read_text().replace(rare, rare[: -len(word)] + ".\tB-rare"))
    config = tagging(texts, start, training__steps=3)
    events = []
    train(config, tmp_path / "run", listeners=[events.append])
    assert "B-rare" in load(tmp_path / "run").reader.tags
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert any("to hold out stay in training" in note for note in notes)
    sentences_ = tagged_sentences(config.data)
    assert any("B-rare" in each.tags for each in sentences_[0])
    assert not any("B-rare" in each.tags for each in sentences_[1])


def test_other_sentences_are_no_way_to_go_on(start, texts, tmp_path):
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
def test_what_cannot_work_is_refused_and_leaves_no_folder(
    start, learned, texts, tmp_path, monkeypatch, changes, kind, part
):
    monkeypatch.chdir(tmp_path)
    Path("one.conll").write_text("a\tO\n")
    Path("few.conll").write_text("a\tO\nb\tB-name\n")
    Path("other.conll").write_text("a\tO\n\nb\tB-zoo\n")
    Path("ragged.conll").write_text("a\tO\nb\n")
    if changes.get("training__start") == "LEARNED":
        changes = {"training__start": str(learned)}
    with pytest.raises(kind, match=part):
        train(tagging(texts, start, **changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_tags_of_another_training_are_refused(learned, tmp_path):
    bundle = load(learned)
    bundle.save(tmp_path / "model")
    path = tmp_path / "model" / "tags.json"
    facts = json.loads(path.read_text())
    for tags, part in ((["O", "B-name", "I-name"], "trained with"), (["O", "O"], "not a list")):
        path.write_text(json.dumps({**facts, "tags": tags}))
        with pytest.raises(DataError, match=part):
            load(tmp_path / "model", verify=False)
    with pytest.raises(DataError, match="2 tags, but the model has"):
        TaggerBundle(bundle.model, TagReader(bundle.reader.tokenizer, ("O", "B-x"), 30))
