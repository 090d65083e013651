"""From a run to a graph by the command line: the score on held-out data is the runtime's."""

import json

import pytest

from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.language_model_runs import STORY, TINY

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.mark.slow
def test_a_run_is_exported_with_its_score(tmp_path):
    (tmp_path / "story.txt").write_text(STORY)
    flags = [part for key, value in TINY.items() for part in (f"--{key}", str(value))]
    run_headway("train", "gpt-tiny", "story.txt", *flags, "--run", "tiny", cwd=tmp_path)
    for dtype in ("float32", "int8"):
        output = f"runs/tiny/onnx-{dtype}"
        words = ("export", "runs/tiny", "--to", "onnx", "--dtype", dtype, "-o", output, "--json")
        done = run_headway(*words, cwd=tmp_path)
        answer = json.loads(done.stdout)
        here, there = (answer[side]["scores"]["nats"] for side in ("here", "there"))
        assert there == pytest.approx(here, rel=1e-5 if dtype == "float32" else 1e-2)
        assert "greedy tokens are the same" in done.stderr and "nats" in done.stderr
        card = (tmp_path / output / "README.md").read_text()
        assert "onnxruntime.InferenceSession" in card and "nats" in card
        evaluated = json.loads(run_headway("eval", output, "--json", cwd=tmp_path).stdout)
        assert evaluated["nats"] == pytest.approx(there) and evaluated["exported"]["dtype"] == dtype
