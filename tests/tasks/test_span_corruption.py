"""Pre-training by span corruption, and fine-tuning of the result on pairs."""

import json

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from headway import evaluate, load
from headway.base.errors import DataError, UsageError
from headway.base.metrics_file import read_metrics
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.translation.config import TranslationDataConfig
from headway.tasks.translation.span_corruption import corruption_of
from tests.fixtures.command_line import headway, sentences

TASK = registry.task("translation")
SHAPE = {
    "model.model_dim": 24,
    "model.num_heads": 3,
    "model.ffn_dim": 40,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "data.vocabulary": 400,
}
LOOP = {
    "training.tokens": 220,
    "training.steps": 4,
    "schedule.kind": "inverse-sqrt",  # independent of the number of steps
    "schedule.warmup": 1,
    "evaluation.sentences": 4,
    "evaluation.every": 2,
    "checkpoint.every": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    texts = [target for _, target in sentences()]
    (folder / "text.txt").write_text("\n\n".join(texts) + "\n")
    rows = [f"{source}\t{target}" for source, target in sentences()]
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n")
    train(pretraining(folder), folder / "pretrained")
    return folder


def pretraining(folder, **changes):
    data = {"data.train": str(folder / "text.txt"), **changes}
    return recipe("span-corruption", ("test", {**SHAPE, **LOOP, **data}))


def tuning(folder, start, **changes):
    data = {"data.train": str(folder / "pairs.tsv"), "training.start": str(start), **changes}
    return recipe("text-to-text", ("test", {**LOOP, **data}))


def test_a_run_is_evaluated_as_in_training_on_its_held_out_texts_and_on_files(folder):
    run = folder / "pretrained"
    best = [row for row in read_metrics(run / "metrics.jsonl", "valid") if row["is_best"]][-1]
    scores = evaluate(run)
    assert [metric.name for metric in scores.metrics] == ["nats"]
    assert scores["nats"] == best["nats"]
    printed = headway("eval", str(run), str(folder / "text.txt"), cwd=folder).stdout
    assert "tokens of corrupted spans and sentinels" in printed


def test_a_batch_has_corrupted_texts_which_differ_between_epochs(folder):
    config = saved(folder / "pretrained")
    job = TASK.prepare(config, folder / "pretrained", _machine(), lambda event: None)
    tokenizer = load(folder / "pretrained").tokenizer.target
    sentinels = set(tokenizer.sentinels)
    assert len(sentinels) == 100 and tokenizer.encode("<extra_id_0>") != [tokenizer.sentinels[0]]
    rows = {}
    for epoch in (0, 1):
        _, _, batch = next(job.batches.stream(epoch, 0))
        for number, index in enumerate(batch.indices):
            source, target = batch.source[number].tolist(), batch.target_out[number].tolist()
            assert sentinels & set(source) and target[0] == tokenizer.sentinels[0]
            rows[epoch, index] = source
        again = next(job.batches.stream(epoch, 0))[2]
        assert torch.equal(batch.source, again.source)
    both = [i for e, i in rows if e == 0 and (1, i) in rows]
    assert not both or any(rows[0, i] != rows[1, i] for i in both)


def _machine():
    from headway.base.devices import MachineConfig, prepare

    return prepare(MachineConfig(device="cpu", threads=1))


def test_fine_tuning_starts_from_the_weights_and_the_tokenizer_of_the_run(folder):
    config = tuning(folder, folder / "pretrained")
    train(config, folder / "tuned")
    before, after = load(folder / "pretrained"), load(folder / "tuned")
    assert after.tokenizer.fingerprint == before.tokenizer.fingerprint
    assert saved(folder / "tuned").model == saved(folder / "pretrained").model
    job = TASK.prepare(saved(folder / "tuned"), folder / "tuned", _machine(), lambda event: None)
    model = job.build()
    for name, value in before.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    assert len(after.translate(["the fox"])) == 1


def test_an_interrupted_run_ends_as_one_that_was_not(folder):
    class Killed(BaseException):
        pass

    class Killer:
        def after_step(self, state, report):
            if state.step == 3:
                raise Killed

    with pytest.raises(Killed):
        train(pretraining(folder), folder / "killed", observers=[Killer()])
    train(pretraining(folder), folder / "killed")
    whole, killed = (load(folder / name).model.state_dict() for name in ("pretrained", "killed"))
    for name, value in whole.items():
        assert torch.equal(value, killed[name]), name


def test_a_t5_folder_is_fine_tuned(folder, tmp_path):
    torch.manual_seed(0)
    tokenizer = load(folder / "pretrained").tokenizer.target
    ids = {"pad_token_id": tokenizer.pad, "eos_token_id": tokenizer.eos}
    shape = {"d_model": 24, "d_kv": 5, "d_ff": 40, "num_layers": 1, "num_heads": 3}
    config = T5Config(
        vocab_size=tokenizer.size, decoder_start_token_id=tokenizer.pad, **ids, **shape
    )
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    content = json.loads((folder / "pretrained" / "model" / "tokenizer.json").read_text())
    (tmp_path / "t5" / "tokenizer.json").write_text(json.dumps(content))
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<s>"}
    (tmp_path / "t5" / "tokenizer_config.json").write_text(json.dumps(special))
    start = load(tmp_path / "t5")
    assert len(start.tokenizer.target.sentinels) == 100
    train(tuning(folder, tmp_path / "t5"), tmp_path / "tuned")
    assert load(tmp_path / "tuned").model.config.positions == start.model.config.positions


def test_no_text_is_refused(folder):
    assert (
        "no text files are named" in headway("train", "span-corruption", cwd=folder, check=2).stderr
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.source": "en"}, "data.source: span corruption"),
        ({"data.joint": False}, "data.joint=false: span corruption"),
        ({"data.bpe_dropout": 0.1}, "data.bpe_dropout: span corruption"),
        ({"data.vocabulary": 300}, "needs at least 359"),
        ({"evaluation.metric": "bleu"}, "evaluated by nats"),
        ({"data.train": "nowhere.txt"}, "no such file"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_written(
    folder, tmp_path, changes, message
):
    with pytest.raises(UsageError, match=message):
        train(pretraining(folder, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_empty_text_file_is_refused(folder, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(DataError, match="too few"):
        train(pretraining(folder, **{"data.train": str(tmp_path / "empty.txt")}), tmp_path / "run")


def test_a_start_that_cannot_be_fine_tuned_is_refused(folder, tmp_path):
    train(
        recipe("translate", ("t", {**SHAPE, **LOOP, "data.train": str(folder / "pairs.tsv")})),
        tmp_path / "plain",
    )
    bundle = load(tmp_path / "plain")
    with pytest.raises(UsageError, match="sentinels"):
        corruption_of(TranslationDataConfig(corruption=0.15), bundle.tokenizer, 0)
    with pytest.raises(UsageError, match="sentinels"):
        train(pretraining(folder, **{"training.start": str(tmp_path / "plain")}), tmp_path / "run")
    assert not (tmp_path / "run").exists()
