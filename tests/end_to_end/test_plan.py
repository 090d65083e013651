"""`headway plan` through the command line; the page about it shows its real output."""

import json
import re
import shlex

import pytest

from headway.cli.main import main
from tests.fixtures.command_line import ROOT, headway

PAGE = ROOT / "docs" / "plan.md"


def commands_on_the_page() -> list[tuple[str, str]]:
    """The commands on the page, each with the output below it."""
    blocks = re.findall(r"```\n\$ headway (.+)\n([^`]+)```", PAGE.read_text())
    return [(command, output) for command, output in blocks]


def test_the_page_shows_commands():
    assert len(commands_on_the_page()) >= 3


@pytest.mark.parametrize(("command", "output"), commands_on_the_page())
def test_the_page_shows_the_output_of_the_command(command, output, tmp_path):
    done = headway(*shlex.split(command), cwd=tmp_path)
    assert done.stdout.rstrip() == output.rstrip()
    assert done.stderr == ""


def test_json_has_the_numbers_in_bytes_and_seconds(tmp_path):
    words = ("plan", "gpt3-175b", "--gpus", "64", "--tokens", "300e9", "--recompute", "full")
    plan = json.loads(headway(*words, "--json", cwd=tmp_path).stdout)
    assert plan["parameters"]["total"] == 174_604_259_328
    assert plan["flops"]["six_n"] == pytest.approx(3.14e23, rel=2e-3)
    days = plan["flops"]["total"] / (312e12 * 0.4) / 86_400
    assert plan["flops"]["gpu_days"] == pytest.approx(days)
    assert plan["flops"]["seconds"] == pytest.approx(days * 86_400 / 64)
    assert [way["sharded"] for way in plan["updates"]] == [False, True]
    assert plan["updates"][1]["sending"] == pytest.approx(
        3 * 2 * 174.6e9 * 63 / 64 / 192e9, rel=1e-3
    )
    fits = {(way["tensor"], way["sharded"]): way["fits"] for way in plan["ways"]}
    assert fits == {(1, False): False, (1, True): True, (8, False): False, (8, True): True}


@pytest.mark.parametrize(
    ("words", "rate"),
    [
        ("--gpus 64", 192),
        ("--gpus 64 --network 3.125", 25),
        ("--gpus 4 --link 20", 20),
        ("--gpus 4 --tflops 160 --link 20", 20),
        ("--gpus 16 --tflops 160 --link 20", None),  # the network is not known
        ("--gpus 16 --tflops 160 --link 20 --network 1.25", 10),
        ("--gpus 16 --tflops 160", None),
        ("--gpus 1 --link 20", None),
    ],
)
def test_the_rate_of_sending_is_that_of_the_slower_of_link_and_network(words, rate, tmp_path):
    plan = json.loads(headway("plan", "gpt2-small", *words.split(), "--json", cwd=tmp_path).stdout)
    assert {way["rate"] for way in plan["updates"]} == ({rate * 1e9} if rate else set())


def test_a_measured_speed_is_used_without_a_utilisation_factor(tmp_path):
    words = ("plan", "gpt2-small", "--gpus", "0", "--tflops", "0.2", "--json")
    plan = json.loads(headway(*words, cwd=tmp_path).stdout)
    assert plan["mfu"] == 1 and plan["rate"] == 2e11
    assert plan["flops"]["seconds"] == pytest.approx(plan["flops"]["total"] / 2e11)
    assert plan["tokens"] == plan["chinchilla"] == 20 * 124_439_808
    assert [way["fits"] for way in plan["ways"]] == [None]


def test_a_recipe_is_planned_for_a_time_with_a_size_that_suits_it(tmp_path):
    (tmp_path / "text.txt").write_text("The old baker waves to the fox.\n" * 400)
    words = ("plan", "gpt", "text.txt", "--time", "20s", "--data.vocabulary", "270")
    words += ("--training.length", "16", "--training.batch-size", "8", "--threads", "1")
    done = headway(*words, "--json", cwd=tmp_path)
    lines = json.loads(done.stdout)["lines"]
    assert lines[0].startswith("20s is enough for about ")
    assert not list(tmp_path.glob("runs"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpt3-175"], "Did you mean gpt3-175b?"),
        (["gpt3-175b", "--gpus", "10", "--tensor", "5"], "--tensor 1 or 2"),
        (["gpt2-xl", "--tflops", "312e12"], "write --tflops 312"),
        (["gpt2-xl", "--tflops", "-1"], "more than 0"),
        (["gpt2-xl", "--gpus", "0"], "needs the speed of the machine"),
        (["gpt2-xl", "--gpus", "-2"], "whole number at least 0"),
        (
            ["gpt2-xl", "--gpu", "h100", "--tflops", "3"],
            "--gpu h100 and --tflops cannot be combined",
        ),
        (["gpt2-xl", "--mfu", "40"], "more than 0 and at most 1"),
        (["gpt2-xl", "--tokens", "0"], "number at least 1"),
        (["gpt2-xl", "--tokens", "nan"], "must be a number at least 1"),
        (["gpt2-xl", "--memory", "0"], "more than 0"),
        (["gpt2-xl", "--memory", "nan"], "more than 0"),
        (["gpt2-xl", "--batch", "1500"], "--batch 1024 or 2048"),
        (["gpt2-xl", "--length", "2048"], "learned positions for at most 1024"),
        (["gpt2-xl", "--length", "0"], "at least 1"),
        (["gpt2-xl", "--tensr", "4"], "Did you mean --tensor?"),
        (["gpt2-xl", "data.txt"], "expected one size"),
        (["gpt-tiny", "--gpus", "8", "--time", "5m"], "for sizes of language models"),
        (["gpt-tiny"], "the time of the run is missing"),
    ],
)
def test_impossible_values_are_refused(words, message, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["plan", *words])
    assert leaving.value.code == 2
    out, error = capsys.readouterr()
    assert message in error and "Traceback" not in error
    assert out == ""
