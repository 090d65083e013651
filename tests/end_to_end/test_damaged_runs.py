"""Run folders with damaged files, and names that no list can show."""

import json

import pytest

from headway.base.errors import HeadwayWarning
from headway.base.metrics_file import read_log, read_metrics
from headway.runs.report import report_of

EVENTS = [
    {"kind": "train", "step": 5, "loss": 2.5, "nats": 2.5, "seconds": 1.0},
    {"kind": "valid", "step": 5, "nats": 2.25, "is_best": True},
    {"kind": "finished", "step": 5, "stop": "done", "seconds": 1.0},
]


@pytest.fixture
def working_folder(tmp_path):
    """A folder with one run, which has a log."""
    run = tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    (run / "run.yaml").write_text("recipe: gpt-tiny\nevaluation:\n  metric: nats\n")
    (run / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        *("[]", "3", "null", '"text"', "{}", '{"step": 3}', '{"kind": []}', '{"kind": "valid"}'),
        *('{"kind": "train", "step": "x"}', '{"kind": "valid", "st', "[" * 100_000, "\udcff"),
        *('{"kind": "finished", "step": null}', "1" * 5000),
    ],
)
def test_a_line_of_the_log_that_is_no_event_is_left_out_and_named(
    working_folder, run_headway, line
):
    log = working_folder / "runs" / "a" / "metrics.jsonl"
    log.write_bytes(f"{line}\n".encode("utf-8", "surrogateescape") + log.read_bytes())
    with pytest.warns(HeadwayWarning, match=r"metrics.jsonl:1: this line is no event"):
        assert read_metrics(log, "valid") == [EVENTS[1]]
    shown, errors = run_headway("runs", "ls")
    assert "nats 2.250" in shown and errors.count("metrics.jsonl:1") == 1
    shown, errors = run_headway("runs", "show", "runs/a")
    assert "step       5" in shown and "metrics.jsonl:1" in errors
    assert "metrics.jsonl:1" in run_headway("report", "runs/a")[1]


def test_several_damaged_lines_are_counted_and_a_partial_last_one_is_expected(working_folder):
    log = working_folder / "runs" / "a" / "metrics.jsonl"
    log.write_bytes(b"[]\n\n3\n" + log.read_bytes() + b'{"kind": "tr')
    with pytest.warns(HeadwayWarning, match=r":1: this line .*, nor are 1 further lines"):
        assert sum(map(len, read_log(log).values())) == len(EVENTS)


def test_nan_and_infinity_in_the_log_are_null_in_json(working_folder, run_headway):
    log = working_folder / "runs" / "a" / "metrics.jsonl"
    rows = [{"kind": "valid", "step": 7, "nats": float("nan"), "is_best": True}]
    rows.append({"kind": "train", "step": 7, "loss": float("inf")})
    with log.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    for words in (("runs", "ls"), ("runs", "show", "runs/a")):
        assert json.loads(run_headway(*words, "--json")[0])["best"] is None
        assert "nan" in run_headway(*words)[0]
    report_of(working_folder / "runs" / "a")


@pytest.mark.parametrize("content", ["", "- a\n", "text", "recipe: [a]\n", "a: [", "recipe: 3\n"])
def test_a_damaged_run_is_left_out_of_the_list_and_named_by_other_verbs(
    working_folder, run_headway, content
):
    damaged = working_folder / "runs" / "b"
    damaged.mkdir()
    (damaged / "run.yaml").write_text(content)
    shown, errors = run_headway("runs", "ls")
    assert "runs/a" in shown and "runs/b" not in shown and "left out  runs/b: " in errors
    for words in ("runs show runs/b", "config show runs/b", "train --resume runs/b"):
        assert "runs/b/run.yaml" in run_headway(*words.split(), code=3)[1]


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\tb", "a\x1b[2Jb", "a\x00b", "a\u2028b", " "])
def test_a_run_cannot_have_a_name_of_several_lines(run_headway, name):
    _, errors = run_headway("train", "gpt-tiny", __file__, "--run", name, code=2)
    assert "--run" in errors and "\x1b" not in errors


def test_a_folder_with_a_name_of_several_lines_is_one_line_of_the_list(working_folder, run_headway):
    (working_folder / "runs" / "a").rename(working_folder / "runs" / "a\nb\x1b")
    shown, _ = run_headway("runs", "ls")
    assert len(shown.splitlines()) == 1 and r"runs/a\nb\x1b" in shown
