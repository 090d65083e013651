"""A run with guided alignment: exact resume, and the head that aligns."""

import pytest
import torch
from bench.alignment import aligned_pairs, error_rates, pharaoh, write_aligned

from headway import load
from headway.base.errors import DataError, UsageError
from headway.base.settings import override
from headway.cli.main import main
from headway.inspection import align
from headway.inspection.alignment import Head, alignment_head, links
from headway.models import TranslatorConfig
from headway.runs import recipe, saved, train
from headway.tasks.translation.job import check
from tests.fixtures.directions import TINY

ROWS = aligned_pairs(400, words=12, group=1)
HELD_OUT = aligned_pairs(20, words=12, seed=9, group=1)


def configured(folder, **changes):
    table, alignments = write_aligned(folder, ROWS)
    data = {"data.train": (str(table),), "data.source": "a", "data.target": "b"}
    guided = {"data.alignments": (str(alignments),), "training.guided_alignment": 1.0}
    config = recipe("translate", ("test", {**TINY, **data, **guided, "model.decoder_layers": 2}))
    return override(config, changes, "test")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guided")
    loop = {"training.steps": 60, "training.tokens": 1000, "training.average": 0.0}
    seldom = {"evaluation.every": 60, "checkpoint.every": 60}
    adamw = {"optimizer.kind": "adamw", "optimizer.lr": 2e-2}
    changes = {"model.dropout": 0.0, "data.vocabulary": 400}
    train(configured(folder, **loop, **seldom, **adamw, **changes), folder / "run")
    return folder / "run"


def test_the_guided_head_learns_the_alignment_and_is_the_default(run, tmp_path, capsys):
    assert saved(run).model.alignment_layer == 0
    bundle = load(run)
    assert alignment_head(bundle) == Head(0, 0)
    rates = error_rates(bundle, HELD_OUT)
    guided = rates[Head(0, 0)]
    assert guided < 0.35 and rates[Head(1)] > guided + 0.2
    table, gold = write_aligned(tmp_path, HELD_OUT)
    words = ["align", str(run), str(table), "--source", "a", "--target", "b", "--gold", str(gold)]
    with pytest.raises(SystemExit) as leaving:
        main([*words])
    printed = capsys.readouterr()
    assert not leaving.value.code and "layer 1, head 1" in printed.err
    assert f"alignment error rate {guided:.3f}" in printed.err and "on 20 pairs" in printed.err
    expected = [pharaoh(sorted(links(align(bundle, s, t)))) for s, t, _ in HELD_OUT]
    assert printed.out.strip().split("\n") == expected


def test_a_resumed_run_is_the_same_to_the_last_bit(tmp_path):
    changes = {"data.bpe_dropout": 0.1, "data.noise_mask": 0.1, "training.r_drop": 2.0}
    train(configured(tmp_path, **changes), tmp_path / "whole")
    config = configured(tmp_path, **changes, **{"training.steps": 3})
    train(config, tmp_path / "run")
    train(override(config, {"training.steps": 6}, "test"), tmp_path / "run")
    first, second = (load(tmp_path / name).model.state_dict() for name in ("whole", "run"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training.guided_alignment": 0}, "data.alignments is set, but .* is 0"),
        ({"data.alignments": ()}, "there are 0 files for 1 corpora"),
        ({"model.attention": "linear"}, "weights that sum to 1, .*attention=linear"),
        ({"data.noise_drop": 0.1}, "noise_drop=0.1 removes or moves"),
        ({"data.noise_shuffle": 3}, "noise_shuffle=3 removes or moves"),
        ({"training.recompute": True}, "training.recompute=true does not keep"),
        ({"machine.compile": True}, "machine.compile=true does not keep"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        check(configured(tmp_path, **changes))


def test_alignments_of_another_file_stop_the_run_before_anything_is_written(tmp_path):
    config = configured(tmp_path)
    path = tmp_path / "pairs.align"
    path.write_text(path.read_text() + "0-0\n")
    with pytest.raises(DataError, match="there are 400 training pairs") as error:
        train(config, tmp_path / "run")
    assert error.value.where == f"{path}:401"
    assert not (tmp_path / "run" / "data").exists()


def test_a_layer_without_cross_attention_is_refused():
    with pytest.raises(ValueError, match=r"alignment_layer=4 .* there are 4, counted from 0"):
        TranslatorConfig(alignment_layer=4)
    with pytest.raises(ValueError, match=r"alignment_layer=0 .* there is none"):
        TranslatorConfig(decoder="rnn", attention="none", alignment_layer=0)
    assert TranslatorConfig(decoder="rnn", alignment_layer=0).cross_attention_layers == 1
