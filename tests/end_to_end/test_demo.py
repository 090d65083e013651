"""`headway demo`, from the data to the last line, with a model that trains in seconds."""

from dataclasses import replace

import pytest

from headway.cli.main import main
from headway.runs import recipes


def test_the_demo_runs_to_its_last_line(tmp_path, monkeypatch, capsys):
    whole = recipes()["emoji-names"]()
    short = replace(
        whole,
        model=replace(
            whole.model, model_dim=24, num_heads=3, ffn_dim=24, encoder_layers=1, decoder_layers=1
        ),
        training=replace(whole.training, steps=4, tokens=512),
        evaluation=replace(whole.evaluation, every=4, sentences=4),
    )
    monkeypatch.setitem(recipes(), "emoji-names", lambda: short)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main(["demo", "--target", "fr", "--threads", "1"])
    shown = capsys.readouterr()
    assert leaving.value.code == 0, shown.err
    assert "BLEU" in shown.out + shown.err and "done in" in shown.err
    assert (tmp_path / "runs" / "demo-fr" / "model" / "MANIFEST.json").is_file()
