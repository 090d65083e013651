"""`headway compare` as a user runs it."""

import json

import pytest

from headway.files import read_json
from tests.end_to_end.small import TINY, headway, write_corpus

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
    place = tmp_path_factory.mktemp("compare")
    write_corpus(place / "data")
    (place / "ladder.yaml").write_text(PLAN)
    words = ["compare", "ladder.yaml", "data", *TINY, "--steps", "20", "--beam", "2"]
    return place, words, headway(*words, cwd=place, check=None)


def test_the_others_survive_a_variant_that_fails(compared):
    place, _, done = compared
    assert done.returncode == 1
    assert "failed    too-fast-seed42: the " in done.stderr
    facts = read_json(place / "runs" / "compare-ladder" / "report.json")
    assert [run["variant"] for run in facts["runs"]] == ["bottleneck", "additive", "transformer"]
    assert list(facts["failed"]) == ["too-fast-seed42"] and not facts["complete"]
    assert all(run["steps"] == 20 and run["sentences"] == 10 for run in facts["runs"])
    assert facts["runs"][0]["alignments"] == [] and len(facts["runs"][1]["alignments"]) == 2


def test_the_report_says_everything_in_words_numbers_and_pictures(compared):
    place, words, done = compared
    folder = place / "runs" / "compare-ladder"
    text = (folder / "report.md").read_text()
    assert " ".join(words) in text and "# Ladder" in text and "too-fast-seed42 failed" in text
    for row in ("| bottleneck |", "| additive |", "| transformer |"):
        assert row in done.stdout and text.count(row) == 3  # scores, lengths, entropies
    pictures = {"bleu.svg", "loss.svg", "lengths.svg", "alignment-1.svg", "alignment-2.svg"}
    for name in pictures:
        assert f"({name})" in text and "transformer" in (folder / name).read_text()
    assert "bottleneck" not in (folder / "alignment-1.svg").read_text()


def test_a_second_call_trains_only_what_is_not_finished(compared):
    place, words, _ = compared
    folder = place / "runs" / "compare-ladder"
    before = read_json(folder / "report.json")
    logs = {p: p.read_bytes() for p in folder.glob("[abt]*-seed42/metrics.jsonl")}
    logs.pop(folder / "too-fast-seed42" / "metrics.jsonl", None)
    assert len(logs) == 3
    done = headway(*words, "--json", cwd=place, check=1)
    after = json.loads(done.stdout)
    assert after["runs"] == before["runs"] and list(after["failed"]) == ["too-fast-seed42"]
    assert all(path.read_bytes() == log for path, log in logs.items())


def test_other_settings_under_the_same_name_are_refused(compared):
    place, words, _ = compared
    done = headway(*words, "--optimizer.beta1", "0.5", cwd=place, check=2)
    assert "optimizer.beta1: 0.9 there, 0.5 now" in done.stderr


def test_values_of_a_setting_and_several_seeds(compared):
    place = compared[0]
    done = headway(
        *("compare", "translate", "data", "--source", "en", "--target", "de", *TINY),
        *("--vary", "model.positions=none,alibi", "--seeds", "1", "2", "--steps", "4"),
        *("--run", "two", "--quiet"),
        cwd=place,
    )
    assert "| positions=none |" in done.stdout and " ± " in done.stdout
    assert {p.name for p in (place / "runs" / "two").glob("*-seed*")} == {
        f"positions={name}-seed{seed}" for name in ("none", "alibi") for seed in (1, 2)
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare", "which plan?"),
        ("compare leader", "Did you mean ladder?"),
        ("compare ladder a b", "what is 'b'?"),
        ("compare translate data --vary model.num_heads", "must be like model.num_heads=1,2,4"),
        ("compare translate data --vary model.num_heads=1", "at least two variants"),
        ("compare translate data --vary model.num_head=1,2", "Did you mean model.num_heads?"),
        ("compare translate data --vary model.num_heads=1,x", "must be a whole number"),
        ("compare words data --vary model.dim=2,3", "only translators"),
        ("compare missing.yaml", "missing.yaml"),
    ],
)
def test_wrong_words_are_answered_before_anything_is_made(words, said, tmp_path):
    write_corpus(tmp_path / "data")
    done = headway(*words.split(), cwd=tmp_path, check=None)
    assert done.returncode in (2, 3) and said in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "runs").exists()
