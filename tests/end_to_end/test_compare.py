"""`headway compare` through the command line."""

import json

import pytest

from headway.base.files import read_json
from tests.fixtures.command_line import TINY, headway, write_corpus

PLAN = """
title: Ladder
recipe: translate
common:
  data: {source: en, target: de}
variants:
  bottleneck:
    model: {encoder: rnn, decoder: rnn, attention: none}
  additive:
    model: {encoder: rnn, decoder: rnn, attention: additive}
  transformer:
  too-fast:
    optimizer.lr: 1.0e+9
    training.clip: 1.0e+9
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    working_folder = tmp_path_factory.mktemp("compare")
    write_corpus(working_folder / "data")
    (working_folder / "ladder.yaml").write_text(PLAN)
    words = ["compare", "ladder.yaml", "data", *TINY, "--steps", "8", "--beam", "2"]
    return working_folder, words, headway(*words, cwd=working_folder, check=None)


def test_a_failed_variant_does_not_stop_the_comparison(compared):
    working_folder, _, done = compared
    assert done.returncode == 1
    assert "failed    too-fast-seed42: the " in done.stderr
    report = read_json(working_folder / "runs" / "compare-ladder" / "report.json")
    assert [run["variant"] for run in report["runs"]] == ["bottleneck", "additive", "transformer"]
    assert list(report["failed"]) == ["too-fast-seed42"] and not report["complete"]
    assert all(run["steps"] == 8 for run in report["runs"])
    assert all(run["counts"]["sentences"] == 10 for run in report["runs"])
    alignments = [run["details"]["alignments"] for run in report["runs"]]
    assert alignments[0] == [] and len(alignments[1]) == 2


def test_the_report_has_the_command_the_tables_and_the_plots(compared):
    working_folder, words, done = compared
    folder = working_folder / "runs" / "compare-ladder"
    text = (folder / "report.md").read_text()
    assert " ".join(words) in text and "# Ladder" in text and "too-fast-seed42 failed" in text
    for row in ("| bottleneck |", "| additive |", "| transformer |"):
        assert row in done.stdout and text.count(row) == 3  # scores, lengths, entropies
    plots = {"bleu.svg", "loss-by-step.svg", "lengths.svg"}
    plots |= {"alignment-1.svg", "alignment-2.svg"}
    for name in plots:
        assert f"({name})" in text and "transformer" in (folder / name).read_text()
    assert "bottleneck" not in (folder / "alignment-1.svg").read_text()


def test_a_second_call_trains_only_the_unfinished_variants(compared):
    working_folder, words, _ = compared
    folder = working_folder / "runs" / "compare-ladder"
    before = read_json(folder / "report.json")
    logs = {p: p.read_bytes() for p in folder.glob("[abt]*-seed42/metrics.jsonl")}
    logs.pop(folder / "too-fast-seed42" / "metrics.jsonl", None)
    assert len(logs) == 3
    done = headway(*words, "--json", cwd=working_folder, check=1)
    after = json.loads(done.stdout)
    assert after["runs"] == before["runs"] and list(after["failed"]) == ["too-fast-seed42"]
    assert all(path.read_bytes() == log for path, log in logs.items())


def test_other_settings_under_the_same_name_are_refused(compared):
    working_folder, words, _ = compared
    done = headway(*words, "--optimizer.beta1", "0.5", cwd=working_folder, check=2)
    assert "optimizer.beta1: 0.9 in the run, 0.5 now" in done.stderr


def test_values_of_a_setting_are_compared_over_several_seeds(compared):
    working_folder = compared[0]
    done = headway(
        "compare",
        "translate",
        "data",
        "--source",
        "en",
        "--target",
        "de",
        *TINY,
        "--vary",
        "model.positions=none,alibi",
        "--seeds",
        "1",
        "2",
        "--steps",
        "4",
        "--beam",
        "1",
        "--run",
        "two",
        "--quiet",
        cwd=working_folder,
    )
    assert "| positions=none |" in done.stdout and " ± " in done.stdout
    assert {p.name for p in (working_folder / "runs" / "two").glob("*-seed*")} == {
        f"positions={name}-seed{seed}" for name in ("none", "alibi") for seed in (1, 2)
    }


def test_scores_are_those_of_headway_eval_and_the_best_are_bold(compared):
    working_folder, _, done = compared
    run = working_folder / "runs" / "compare-ladder" / "transformer-seed42"
    scores = json.loads(
        headway("eval", str(run), "--beam", "2", "--json", cwd=working_folder).stdout
    )
    report = read_json(working_folder / "runs" / "compare-ladder" / "report.json")
    (measured,) = [run for run in report["runs"] if run["variant"] == "transformer"]
    values = {metric["name"]: metric["value"] for metric in measured["metrics"]}
    assert values == {name: scores[name] for name in ("bleu", "chrf", "nats")}
    nats = {
        run["variant"]: metric["value"]
        for run in report["runs"]
        for metric in run["metrics"]
        if metric["name"] == "nats"
    }
    best = min(nats, key=nats.get)  # lower is better
    for line in done.stdout.splitlines():
        for variant, value in nats.items():
            if line.startswith(f"| {variant} |"):
                assert (f"**{value:.3f}**" in line) == (variant == best)
    assert "Lower is better: nats." in done.stdout


@pytest.mark.slow
def test_models_of_any_task_are_compared(tmp_path):
    text = "".join(f"the {a} eats {b} at home\n" for a in ("fox", "dog", "owl") for b in "xyz") * 20
    (tmp_path / "t.txt").write_text(text)
    sizes = ("--model.model-dim", "12", "--model.num-heads", "2", "--model.num-kv-heads", "1")
    done = headway(
        "compare",
        "gpt-tiny",
        "t.txt",
        *sizes,
        "--model.ffn-dim",
        "20",
        "--steps",
        "4",
        "--training.length",
        "10",
        "--data.vocabulary",
        "270",
        "--evaluation.every",
        "2",
        "--vary",
        "model.num-layers=1,2",
        "--threads",
        "1",
        "--quiet",
        cwd=tmp_path,
    )
    assert "| variant | parameters | nats | bits_per_byte | perplexity | steps" in done.stdout
    folder = tmp_path / "runs" / "compare-gpt-tiny"
    assert "num_layers=2" in (folder / "nats.svg").read_text()
    assert not (folder / "lengths.svg").exists()
    done = headway(
        "compare",
        "words",
        "t.txt",
        "--vary",
        "model.kind=skip-gram,next-word",
        "--steps",
        "4",
        "--data.min-count",
        "1",
        "--data.held-out",
        "0.2",
        "--threads",
        "1",
        "--quiet",
        cwd=tmp_path,
    )
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| kind=")]
    assert [row[3] == "-" for row in rows] == [
        True,
        False,
    ]  # only next-word prediction has a perplexity


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("compare", "the plan is missing"),
        ("compare leader", "Did you mean ladder?"),
        ("compare ladder a b", "unexpected argument 'b'"),
        ("compare translate data --vary model.num_heads", "such as model.num_heads=1,2,4"),
        ("compare translate data --vary model.num_heads=1", "at least two variants"),
        ("compare translate data --vary model.num_head=1,2", "Did you mean model.num_heads?"),
        ("compare translate data --vary model.num_heads=1,x", "must be a whole number"),
        ("compare distil data --vary training.steps=2,3", "needs a teacher"),
        ("compare words data --vary model.dim=2,3", "a folder, not a file"),
        ("compare missing.yaml", "missing.yaml"),
    ],
)
def test_a_wrong_command_is_refused_before_a_run_is_made(words, message, tmp_path):
    write_corpus(tmp_path / "data")
    done = headway(*words.split(), cwd=tmp_path, check=None)
    assert done.returncode in (2, 3) and message in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "runs").exists()
