"""The batch size that fits into memory."""

import pytest
import torch

from headway import load
from headway.base.errors import UsageError
from headway.base.memory import free_memory
from headway.base.settings import override
from headway.runs import recipe, saved, train
from headway.tasks.translation import job as job_module
from headway.tasks.translation.batches import fitted_batch
from tests.fixtures.command_line import sentences
from tests.fixtures.directions import TINY


def configured(folder, tokens):
    table = folder / "pairs.tsv"
    rows = "".join(f"{source}\t{target}\n" for source, target in sentences())
    table.write_text("en\tde\n" + rows, encoding="utf-8")
    data = {"data.train": (str(table),), "data.source": "en", "data.target": "de"}
    return recipe("translate", ("test", {**TINY, **data, "training.tokens": tokens}))


@pytest.mark.parametrize("fixed", [0, 1000])
@pytest.mark.parametrize("free", [2000, 3333, 10_000])
def test_it_is_the_largest_number_of_pairs_below_the_limit(fixed, free):
    batch = fitted_batch(lambda pairs: fixed + 7 * pairs, 10, 10**9, free)
    pairs = max(n for n in range(5000) if fixed + 7 * n <= 0.8 * free)
    assert batch.tokens == 10 * pairs and batch.peak == fixed + 7 * pairs and batch.fills_memory
    assert "at most 80 %" in batch.describe()


def test_an_epoch_has_a_hundred_batches_and_the_longest_pair_fits_into_each():
    by_epoch = fitted_batch(lambda pairs: 7 * pairs, 10, 5000, 10**6)
    assert by_epoch.tokens == 50 and "hundredth of an epoch" in by_epoch.describe()
    assert fitted_batch(lambda pairs: 7 * pairs, 10, 200, 10**6).tokens == 10


def test_a_pair_that_does_not_fit_is_an_error():
    with pytest.raises(
        UsageError, match=r"one pair of 10 tokens needs 1\.00 GB, and 80 % of 1\.20 GB"
    ):
        fitted_batch(lambda pairs: 10**9 + 1000 * pairs, 10, 10**6, 12 * 10**8)


def test_the_estimate_from_small_steps_is_the_memory_of_a_larger_one(tmp_path, monkeypatch):
    measured = {}

    def fitted(peak_of, longest, epoch_tokens, free):
        measured[400] = peak_of(400)
        return fitted_batch(peak_of, longest, 10**9, int(measured[400] / 0.8))

    monkeypatch.setattr(job_module, "fitted_batch", fitted)
    train(override(configured(tmp_path, "auto"), {"training.steps": 1}, "test"), tmp_path / "run")
    longest = max(
        1 + len(ids)
        for side in zip(*sentences(), strict=True)
        for ids in load(tmp_path / "run").tokenizer.source.encode_batch(side)
    )
    assert saved(tmp_path / "run").training.tokens == pytest.approx(400 * longest, rel=0.1)


def test_the_number_is_recorded_and_the_run_resumes_exactly(tmp_path, monkeypatch):
    notes = []
    first = override(configured(tmp_path, "auto"), {"training.steps": 3}, "test")
    train(first, tmp_path / "run", listeners=[notes.append])
    tokens = saved(tmp_path / "run").training.tokens
    assert isinstance(tokens, int)
    texts = [note["text"] for note in notes if note["kind"] == "note"]
    assert any(text.startswith(f"training.tokens={tokens}: ") for text in texts)
    monkeypatch.setattr(job_module, "free_memory", lambda device: 1)  # not measured again
    train(configured(tmp_path, "auto"), tmp_path / "run")
    train(configured(tmp_path, tokens), tmp_path / "whole")
    resumed, whole = (load(tmp_path / name).model.state_dict() for name in ("run", "whole"))
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
    assert saved(tmp_path / "run").training.tokens == tokens


def test_free_memory_is_positive_and_unknown_on_other_devices():
    assert 2**20 < free_memory("cpu") < 2**50
    with pytest.raises(UsageError, match="free memory of the device mps is unknown"):
        free_memory("mps")


@pytest.mark.parametrize("text", ["automatic", "0", "-1", "1e99", "none"])
def test_other_words_and_numbers_are_refused(tmp_path, text):
    with pytest.raises(UsageError, match=r"training\.tokens"):
        override(configured(tmp_path, 400), {"training.tokens": text}, "test")
