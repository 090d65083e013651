"""MarianMT trained beside a run: the same batches, its own model."""

import pytest
from bench import marian_training

import headway
from tests.fixtures.sentence_pairs import PAIRS, table

SETTINGS = {
    "data.source": "first",
    "data.target": "second",
    "data.vocabulary": 300,
    "model.model_dim": 24,
    "model.num_heads": 3,
    "model.ffn_dim": 40,
    "model.encoder_layers": 1,
    "model.decoder_layers": 2,
    "model.dropout": 0.0,
    "optimizer.lr": 0.02,
    "schedule.warmup": 5,
    "training.tokens": 300,
    "evaluation.every": 12,
    "machine.device": "cpu",
    "machine.threads": 1,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # transformers' own
def test_marianmt_takes_the_steps_of_the_run_and_is_scored_on_its_test_pairs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for split, pairs in (("train", PAIRS[:64]), ("valid", PAIRS[64:72]), ("test", PAIRS[72:])):
        table(tmp_path / "data" / f"{split}.tsv", pairs)
    run = headway.train("translate", data="data", steps=12, settings=SETTINGS, quiet=True)
    losses = []
    monkeypatch.setattr(
        marian_training,
        "marian_loss",
        lambda *arguments, loss=marian_training.marian_loss: (
            losses.append(loss(*arguments)) or losses[-1]
        ),
    )
    ours, theirs = marian_training.compare(run.folder, seconds=60)
    assert (ours.name, ours.steps, theirs.name, theirs.steps) == ("Headway", 12, "MarianMT", 12)
    assert ours.bleu == run.scores["bleu"] and 0 <= theirs.bleu <= 100 and 0 < theirs.chrf <= 100
    assert float(losses[-1]) < 0.9 * float(losses[0])
    _, cut = marian_training.compare(run.folder, seconds=0)
    assert cut.steps == 1
