"""Translators as a run: sentences that are too long to translate."""

import json

import pytest

from headway.cli.main import main
from headway.errors import DataError
from headway.recipes import recipe, train
from headway.settings import override
from headway.training import read_metrics
from tests.end_to_end.small import sentences

TINY = {
    "model.model_dim": 24,
    "model.num_heads": 3,
    "model.ffn_dim": 40,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "data.vocabulary": 300,
    "training.tokens": 220,
    "training.steps": 2,
    "schedule.warmup": 1,
    "evaluation.sentences": 4,
    "evaluation.every": 2,
    "checkpoint.every": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
}


def configured(folder, valid):
    for name, pairs in (("train", sentences()[20:]), ("valid", valid)):
        rows = "\n".join(f"{source}\t{target}" for source, target in pairs)
        (folder / f"{name}.tsv").write_text(rows + "\n")
    data = {"data.train": str(folder / "train.tsv"), "data.valid": str(folder / "valid.tsv")}
    return recipe("translate", ("test", {**TINY, **data}))


def test_a_validation_sentence_that_is_too_long_is_left_out_of_the_scores(tmp_path):
    pairs = [*sentences()[:3], ("ax" * 3000, "ein Wort")]
    events = []
    train(configured(tmp_path, pairs), tmp_path / "run", listeners=[events.append])
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert "1 validation sentences of more than 4,096 tokens are not translated" in notes
    assert any(event["kind"] == "valid" for event in events)


def test_validation_sentences_that_are_all_too_long_are_refused(tmp_path):
    pairs = [("ax" * 3000, "ein Wort")] * 4 + sentences()[:3]
    with pytest.raises(DataError, match="no validation sentence has at most 4,096 tokens"):
        train(configured(tmp_path, pairs), tmp_path / "run")


@pytest.mark.parametrize("held_out", [True, False], ids=["held out of train", "a file"])
def test_eval_of_the_validation_pairs_gives_the_scores_of_the_training(tmp_path, capsys, held_out):
    pairs = [*sentences()[:3], ("ax" * 3000, "ein Wort"), *sentences()[3:9]]
    config = configured(tmp_path, pairs)
    changes = {"training.steps": 40, "optimizer.lr": 1e-2, "evaluation.every": 40}
    if held_out:
        changes |= {"data.valid": None}
        (tmp_path / "valid.tsv").unlink()
    train(override(config, changes, "test"), tmp_path / "run")
    (logged,) = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(tmp_path / "run"), "--split", "valid", "--beam", "1", "--json"])
    assert not leaving.value.code
    scores = json.loads(capsys.readouterr().out)
    assert (scores["bleu"], scores["chrf"]) == (logged["bleu"], logged["chrf"])
    assert scores["chrf"] > 0 and scores["sentences"] in (3, 4)
