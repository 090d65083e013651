"""Perplexity and bits per byte, as training validates and as `headway eval` reports."""

import math

import pytest
import torch

from headway import load
from headway.errors import DataError, UsageError
from headway.interop import export
from headway.machine import MachineConfig, prepare
from headway.recipes import saved, train
from headway.recipes.language_scores import (
    LENGTH_LIMIT,
    LanguageScores,
    score_held_out,
    score_text,
    windows_of,
)
from headway.training import read_metrics
from tests.recipes.test_language import STORY, configured

TEXT = "the owl sees the moon.\nthe crab sees one boat.\n" * 9


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run with documents of one line each."""
    folder = tmp_path_factory.mktemp("scores")
    (folder / "story.txt").write_text(STORY)
    (folder / "other.txt").write_text(TEXT)
    train(configured(str(folder / "story.txt"), data__split="line"), folder / "run")
    return folder / "run"


@pytest.fixture
def machine():
    return prepare(MachineConfig(device="cpu", threads=1))


def by_hand(bundle, documents, length) -> float:
    """Mean nats, window by window, document by document, one forward pass each."""
    ids, owners = [], []
    for number, text in enumerate(documents):
        own = [bundle.tokenizer.bos, *bundle.tokenizer.encode(text)]
        own += [] if bundle.tokenizer.bos == bundle.tokenizer.eos else [bundle.tokenizer.eos]
        ids += own
        owners += [number] * len(own)
    total = count = 0
    for start in range(0, len(ids) - 1, length):
        for target in range(start + 1, min(start + length, len(ids) - 1) + 1):
            marks_ends = bundle.tokenizer.bos != bundle.tokenizer.eos
            if marks_ends and owners[target] != owners[target - 1]:
                continue
            # Where one token ends and begins, the last of a document predicts it.
            context = [i for i in range(start, target) if owners[i] == owners[target - 1]]
            with torch.inference_mode():
                logits = bundle.model(torch.tensor([[ids[i] for i in context]]))[0, -1]
            total -= logits.log_softmax(-1)[ids[target]].item()
            count += 1
    return total / count


def test_scores_of_held_out_text_are_those_of_the_last_validation(run, machine):
    row = read_metrics(run / "metrics.jsonl", "valid")[-1]
    assert row["is_best"]  # so the saved model is the one that was evaluated
    scores = score_held_out(load(run), run, saved(run), None, machine)
    assert scores.nats == pytest.approx(row["nats"], rel=1e-6)
    assert scores.bits_per_byte == pytest.approx(row["bits_per_byte"], rel=1e-6)
    assert scores.perplexity == pytest.approx(math.exp(row["nats"]), rel=1e-6)


@pytest.mark.parametrize("length", [None, 7, 1])
def test_a_file_is_scored_in_windows_and_documents(run, machine, length):
    bundle, path = load(run), run.parent / "other.txt"
    scores = score_text(bundle, path, saved(run), length, machine)
    lines = [f"{line}\n" for line in TEXT.split("\n") if line]
    assert scores.nats == pytest.approx(by_hand(bundle, lines, length or 11), rel=1e-4)
    assert scores.bytes == len(TEXT)
    bits = scores.nats * scores.tokens / math.log(2) / len(TEXT)
    assert scores.bits_per_byte == pytest.approx(bits, rel=1e-9)


def test_a_model_of_another_library_is_scored_on_a_file(run, machine, tmp_path):
    bundle = load(run)
    export(bundle.model, bundle.tokenizer, tmp_path / "hf")
    path = run.parent / "other.txt"
    foreign = score_text(load(tmp_path / "hf"), path, None, 11, machine)
    assert foreign.nats == pytest.approx(by_hand(bundle, [TEXT], 11), rel=1e-4)


def test_windows_follow_from_the_run_the_model_or_the_request(run):
    bundle = load(run)
    assert windows_of(bundle, saved(run), None).length == 11
    assert windows_of(bundle, None, None).length == min(bundle.config.max_length, 1024)
    assert windows_of(bundle, saved(run), 5).length == 5
    for length in (0, -1, LENGTH_LIMIT + 1):
        with pytest.raises(UsageError, match=f"--length {length}: must be from 1 to"):
            windows_of(bundle, saved(run), length)


def test_text_that_is_not_there_is_refused(run, machine, tmp_path):
    bundle = load(run)
    with pytest.raises(UsageError, match="held-out text is not there"):
        score_held_out(bundle, tmp_path, saved(run), None, machine)
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(DataError, match="no text"):
        score_text(bundle, tmp_path / "empty.txt", None, None, machine)


def test_a_perplexity_beyond_all_numbers_is_infinite():
    assert LanguageScores(1e4, 1.0, 1, 1).perplexity == math.inf
