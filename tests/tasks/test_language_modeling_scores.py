"""Perplexity and bits per byte, as training validates and as `headway eval` reports."""

import json
import math

import pytest
import torch

from headway import load
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.base.sharing import Share
from headway.cli.main import main
from headway.evaluation.scores import Metric, Scores
from headway.interop import write_text_model
from headway.runs import saved, train
from headway.tasks import registry
from headway.tasks.language_modeling.config import LanguageScoring
from headway.tasks.language_modeling.data import windows_of
from headway.tasks.language_modeling.task import LENGTH_LIMIT, perplexity
from tests.fixtures.language_model_runs import STORY, configured

TASK = registry.task("language_modeling")
TEXT = "the owl sees the moon.\nthe crab sees one boat.\n" * 9


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run with documents of one line each."""
    folder = tmp_path_factory.mktemp("scores")
    (folder / "story.txt").write_text(STORY)
    (folder / "other.txt").write_text(TEXT)
    train(configured(str(folder / "story.txt"), data__split="line"), folder / "run")
    return folder / "run"


def scores_of_file(bundle, path, config=None, **options):
    chosen = LanguageScoring(**options)
    return TASK.evaluate(bundle, TASK.read(bundle, [path], config, chosen), chosen)


def scores_of_run(bundle, run, **options):
    chosen = LanguageScoring(**options)
    return TASK.evaluate(bundle, TASK.held_out(bundle, run, saved(run), chosen), chosen)


def mean_nats(bundle, documents, length) -> float:
    """Return the mean nats with one forward pass for each window and document."""
    ids, owners = [], []
    for number, text in enumerate(documents):
        tokens = [bundle.tokenizer.bos, *bundle.tokenizer.encode(text)]
        tokens += [] if bundle.tokenizer.bos == bundle.tokenizer.eos else [bundle.tokenizer.eos]
        ids += tokens
        owners += [number] * len(tokens)
    total = count = 0
    for start in range(0, len(ids) - 1, length):
        for target in range(start + 1, min(start + length, len(ids) - 1) + 1):
            has_separate_eos = bundle.tokenizer.bos != bundle.tokenizer.eos
            if has_separate_eos and owners[target] != owners[target - 1]:
                continue
            # If one token ends and begins documents, the last token of a document predicts it.
            context = [i for i in range(start, target) if owners[i] == owners[target - 1]]
            with torch.inference_mode():
                logits = bundle.model(torch.tensor([[ids[i] for i in context]]))[0, -1]
            total -= logits.log_softmax(-1)[ids[target]].item()
            count += 1
    return total / count


def test_training_python_and_the_command_line_give_the_same_scores(run, capsys):
    validations = read_metrics(run / "metrics.jsonl", "valid")
    (best,) = [row for row in validations if row["is_best"]][-1:]
    scores = scores_of_run(load(run), run)
    assert list(scores.numbers()) == ["nats", "bits_per_byte", "perplexity"]
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}
    assert not any(metric.higher_is_better for metric in scores.metrics)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["nats"]), rel=1e-12)
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(run), "--json"])
    assert leaving.value.code == 0
    assert json.loads(capsys.readouterr().out) == scores.as_dict()
    assert set(scores.counts) == {"tokens", "bytes", "window"} and scores.counts["window"] == 11


def test_a_sample_is_shown_while_training_and_on_request(run):
    (row, *_) = read_metrics(run / "metrics.jsonl", "sample")
    assert row["prompt"] == "" and row["output"]
    scores = scores_of_run(load(run), run, sample=5, prompt="the fox")
    (sample,) = scores.samples
    assert sample["prompt"] == "the fox" and sample["output"]
    assert scores_of_run(load(run), run).samples == []
    assert TASK.show_scores(scores)[-1].startswith("the fox")


def test_as_many_tokens_are_scored_as_requested_in_whole_batches(run):
    bundle, done = load(run), []
    chosen = LanguageScoring(tokens=40)
    examples = TASK.held_out(bundle, run, saved(run), chosen)
    scores = TASK.evaluate(bundle, examples, chosen, Share(done.append))
    assert len(examples) > 66 >= scores.counts["tokens"] > 40  # batches of 3 windows of 11
    assert done[0] == 0 and len(done) == 2 and done == sorted(done)


def test_validation_with_adapters_is_that_of_the_merged_weights(run, tmp_path):
    start = {"training__start": str(run), "data__split": "line"}
    path = str(run.parent / "story.txt")
    train(configured(path, **start, lora__rank=2, optimizer__lr=1e-2), tmp_path / "run")
    logged = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    (best,) = [row for row in logged if row["is_best"]][-1:]
    scores = scores_of_run(load(tmp_path / "run"), tmp_path / "run")
    assert scores.numbers() == {name: best[name] for name in scores.numbers()}


@pytest.mark.parametrize("length", [None, 7, 1])
def test_a_file_is_scored_in_windows_and_documents(run, length):
    bundle, path = load(run), run.parent / "other.txt"
    scores = scores_of_file(bundle, path, saved(run), length=length)
    lines = [f"{line}\n" for line in TEXT.split("\n") if line]
    assert scores["nats"] == pytest.approx(mean_nats(bundle, lines, length or 11), rel=1e-4)
    assert scores.counts["bytes"] == len(TEXT)
    bits = scores["nats"] * scores.counts["tokens"] / math.log(2) / len(TEXT)
    assert scores["bits_per_byte"] == pytest.approx(bits, rel=1e-9)


def test_a_model_of_another_library_is_scored_on_a_file(run, tmp_path):
    bundle = load(run)
    write_text_model(bundle.model, bundle.tokenizer, tmp_path / "hf")
    foreign = scores_of_file(load(tmp_path / "hf"), run.parent / "other.txt", length=11)
    assert foreign["nats"] == pytest.approx(mean_nats(bundle, [TEXT], 11), rel=1e-4)


def test_windows_follow_from_the_run_the_model_or_the_request(run):
    bundle, path = load(run), run.parent / "other.txt"
    assert windows_of(bundle, saved(run)).length == 11
    assert windows_of(bundle, None).length == min(bundle.config.max_length, 1024)
    assert scores_of_file(bundle, path, saved(run), length=5).counts["window"] == 5
    for length in (0, -1, LENGTH_LIMIT + 1):
        with pytest.raises(UsageError, match=f"length={length}: must be from 1 to"):
            scores_of_file(bundle, path, saved(run), length=length)


def test_missing_text_is_refused(run, tmp_path):
    bundle = load(run)
    with pytest.raises(UsageError, match="held-out text of the run is missing"):
        TASK.held_out(bundle, tmp_path, saved(run), LanguageScoring())
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(DataError, match="no text"):
        scores_of_file(bundle, tmp_path / "empty.txt")


def test_a_perplexity_beyond_all_numbers_is_infinite_and_null_in_json():
    assert perplexity(1e4) == math.inf
    scores = Scores((Metric("perplexity", math.inf, higher_is_better=False),))
    assert scores.as_dict() == {"perplexity": None}
