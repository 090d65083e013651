"""Word vectors as a run: the lecture's four words, the bundle, and how they are evaluated."""

import itertools
import json
import math

import pytest
import torch

import headway
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.base.sharing import Share
from headway.cli.main import main
from headway.data.stream import Batches
from headway.models import WordsConfig, words_model
from headway.runs import recipe, saved, train, with_settings
from headway.tasks import registry
from headway.tasks.task import NO_OPTIONS
from headway.tasks.word_vectors.context_windows import Windows
from headway.tasks.word_vectors.model import WordsBundle
from headway.text import Vocabulary
from tests.fixtures.tiny_encoder import save_encoder
from tests.fixtures.word_vectors import word_vector_bundle

KINDS = ["skip-gram", "cbow", "next-word"]


def lecture_run(folder, kind: str, seed: int, steps: int = 300):
    text = folder / "lecture.txt"
    text.write_text("Pizza is great\nPizza is awesome\n")
    changes = {
        "data.train": [str(text)],
        "data.min_count": 1,
        "model.kind": kind,
        "model.dim": 8,
        "training.subsample": 0,
        "training.steps": steps,
        "training.seed": seed,
        "optimizer.lr": 1e-2,
        "schedule.warmup": 10,
        "evaluation.every": steps,
    }
    return recipe("words", ("test", changes))


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_great_and_awesome_become_neighbours(tmp_path, kind, seed):
    """Lectures 3.1: they occur in the same contexts, so they become the nearest two of the four."""
    train(lecture_run(tmp_path, kind, seed), tmp_path / "run")
    bundle = headway.load(tmp_path / "run")
    words = bundle.vocabulary.words[1:]
    assert sorted(words) == ["awesome", "great", "is", "pizza"]
    similarities = {
        frozenset(pair): bundle.similarity(*pair) for pair in itertools.combinations(words, 2)
    }
    similarity = similarities.pop(frozenset({"great", "awesome"}))
    assert similarity > 0.9 and similarity > max(similarities.values())
    assert bundle.nearest("great", 1)[0].word == "awesome"
    assert bundle.nearest("awesome", 1)[0].word == "great"


def test_the_nearest_words_are_those_of_greatest_cosine_without_the_word_itself():
    neighbours = word_vector_bundle().nearest("East", 9)
    assert [neighbour.word for neighbour in neighbours] == ["far", "skew", "north", "west"]
    assert neighbours[1].cosine == pytest.approx(0.6) and neighbours[-1].cosine == pytest.approx(-1)
    assert [neighbour.word for neighbour in word_vector_bundle().nearest("east", 2)] == [
        "far",
        "skew",
    ]
    with pytest.raises(UsageError, match="count=0"):
        word_vector_bundle().nearest("east", 0)


def test_an_analogy_is_b_minus_a_plus_c_of_unit_vectors():
    answers = word_vector_bundle().analogy("far", "north", "east", 5)
    assert {answer.word for answer in answers} == {"west", "skew"}
    unit = torch.tensor([3, 0.3]) / torch.tensor([3, 0.3]).norm()
    query = torch.tensor([0.0, 1.0]) - unit + torch.tensor([1.0, 0.0])
    expected = torch.cosine_similarity(query, torch.tensor([0.6, 0.8]), dim=0)
    assert answers[0].word == "skew" and answers[0].cosine == pytest.approx(float(expected))


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_word_model_loads_as_itself_and_refuses_another_vocabulary(tmp_path, kind):
    model = words_model(WordsConfig(kind=kind, dim=3, vocabulary=4))
    WordsBundle(model, Vocabulary(["a", "b", "c"], [3, 2, 1])).save(tmp_path / "m")
    reloaded = headway.load(tmp_path / "m")
    assert reloaded.config == model.config and type(reloaded.model) is type(model)
    for original, loaded in zip(model.parameters(), reloaded.model.parameters(), strict=True):
        assert torch.equal(original, loaded)
    assert torch.equal(reloaded.vector("b"), model.vectors[2])
    Vocabulary(["a", "b", "d"], [3, 2, 1]).save(tmp_path / "m")
    with pytest.raises(DataError, match="tokenizer"):
        headway.load(tmp_path / "m", verify=False)
    with pytest.raises(DataError, match="entries"):
        WordsBundle(model, Vocabulary(["a"], [1]))


def test_evaluating_changes_nothing(tmp_path):
    """The same weights whether a run is evaluated once or ten times."""
    ends = []
    for every in (4, 40):
        config = lecture_run(tmp_path, "skip-gram", 1, 40)
        config = with_settings(config, ("test", {"evaluation.every": every}))
        train(config, tmp_path / f"every-{every}")
        ends.append(headway.load(tmp_path / f"every-{every}").vectors)
    assert torch.equal(*ends)


def run_with_held_out_lines(folder, kind: str):
    """A run with held-out lines, evaluated with settings that are not the defaults."""
    animals, foods = ("fox", "dog", "cat", "owl", "toad"), ("bread", "soup", "fish")
    lines = [f"the {a} eats {b} at home" for a in animals for b in foods] * 8
    text = folder / "t.txt"
    text.write_text("\n".join(f"{line} {number % 9}th" for number, line in enumerate(lines)) + "\n")
    changes = {
        "data.train": [str(text)],
        "data.min_count": 1,
        "data.held_out": 0.2,
        "model.kind": kind,
        "model.dim": 6,
        "training.batch_size": 50,
        "training.window": 2,
        "training.negatives": 3,
        "training.subsample": 0.1,
        "training.seed": 5,
        "training.steps": 40,
        "optimizer.lr": 1e-2,
        "evaluation.every": 20,
        "machine.device": "cpu",
    }
    train(recipe("words", ("test", changes)), folder / "run")
    return folder / "run"


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", KINDS)
def test_training_python_and_the_command_line_give_the_same_scores(tmp_path, kind, capsys):
    run = run_with_held_out_lines(tmp_path, kind)
    validations = read_metrics(run / "metrics.jsonl", "valid")
    (best,) = [row for row in validations if row["is_best"]][-1:]
    task, bundle = registry.task("word_vectors"), headway.load(run)
    scores = task.evaluate(bundle, task.held_out(bundle, run, saved(run), NO_OPTIONS))
    names = ["loss", "perplexity"] if kind == "next-word" else ["loss"]
    assert list(scores.numbers()) == names
    assert scores.numbers() == {name: best[name] for name in names}
    assert not scores.metric("loss").is_better_than(scores["loss"] - 0.1)
    if kind == "next-word":
        assert scores["perplexity"] == pytest.approx(math.exp(scores["loss"]))
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(run), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()


def test_the_loss_of_a_file_is_the_mean_over_its_next_words(tmp_path):
    bundle = headway.load(run_with_held_out_lines(tmp_path, "next-word"))
    (tmp_path / "new.txt").write_text("the fox eats soup\nthe owl eats zebra fish\n")
    task = registry.task("word_vectors")
    scores = task.evaluate(bundle, task.read(bundle, [tmp_path / "new.txt"], None, NO_OPTIONS))
    ids = [0, *bundle.vocabulary.encode(["the", "fox", "eats", "soup"]), 0]
    ids += [*bundle.vocabulary.encode(["the", "owl", "eats", "fish"]), 0]
    with torch.no_grad():
        log_p = bundle.model(torch.tensor(ids[:-1])).log_softmax(-1).double()
    expected = -log_p[torch.arange(len(ids) - 1), ids[1:]].mean()
    assert scores["loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert scores.counts == {"targets": 10, "words": 8}


def test_the_words_command_refuses_other_models(tmp_path, capsys):
    save_encoder(tmp_path / "encoder")
    for verb in (["nearest"], ["analogy", "a", "b"]):
        with pytest.raises(SystemExit) as leaving:
            main(["words", verb[0], str(tmp_path / "encoder"), "fox", *verb[1:]])
        assert leaving.value.code == 2
        assert "holds a text encoder, and this needs a word model" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_without_known_words_is_not_evaluated(tmp_path, kind):
    model = words_model(WordsConfig(kind=kind, dim=3, vocabulary=4))
    bundle = WordsBundle(model, Vocabulary(["a", "b", "c"], [3, 2, 1]))
    (tmp_path / "new.txt").write_text("unknown words\n")
    task = registry.task("word_vectors")
    with pytest.raises(DataError, match="nothing to predict"):
        task.evaluate(bundle, task.read(bundle, [tmp_path / "new.txt"], None, NO_OPTIONS))
    with pytest.raises(UsageError, match="no such file"):
        task.read(bundle, [tmp_path / "nowhere.txt"], None, NO_OPTIONS)


def test_an_evaluation_can_be_stopped_before_each_batch(tmp_path):
    run = run_with_held_out_lines(tmp_path, "skip-gram")
    task, bundle = registry.task("word_vectors"), headway.load(run)
    examples = task.held_out(bundle, run, saved(run), NO_OPTIONS)
    progress_counts = []
    scores = task.evaluate(bundle, examples, share=Share(progress_counts.append))
    windows = Windows(examples.corpus, bundle.vocabulary.counts, examples.settings)
    counts = []
    for epoch, _, batch in Batches(windows, windows.batch).stream(0, 0):
        counts.append(len(batch.targets))
        if epoch:
            break
    assert len(progress_counts) == len(counts) > 1
    assert progress_counts[0] == 0 and progress_counts == sorted(progress_counts)
    assert scores.counts["targets"] == sum(counts)


@pytest.mark.slow
def test_words_of_a_real_text_are_near_related_words(real_data, tmp_path):
    changes = {
        "data.train": [str(real_data("lm/bible_web.train.txt.gz"))],
        "training.steps": 1500,
        "evaluation.every": 1500,
    }
    train(recipe("words", ("test", changes)), tmp_path / "run")
    bundle = headway.load(tmp_path / "run")
    for word, related in (
        ("gold", "silver"),
        ("moses", "aaron"),
        ("david", "saul"),
        ("sword", "pestilence"),
        ("bread", "unleavened"),
        ("mother", "sister"),
    ):
        assert related in [neighbour.word for neighbour in bundle.nearest(word, 10)], word
    for query, answer in (
        (("man", "woman", "brother"), "sister"),
        (("man", "woman", "king"), "queen"),
        (("go", "went", "come"), "came"),
    ):
        assert answer in [neighbour.word for neighbour in bundle.analogy(*query, 10)], query
