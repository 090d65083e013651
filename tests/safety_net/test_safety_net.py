"""Every recipe computes the recorded results, and the comparison detects differences."""

import copy

import pytest

from headway.runs import recipes
from tests.safety_net.cases import CASES, QUICK_CASES, with_prerequisites
from tests.safety_net.comparison import RECORDS, compare, read_record
from tests.safety_net.running import run_in_new_process


def test_the_table_has_every_recipe_of_the_catalogue_under_its_name_and_a_record_of_each():
    assert recipes().keys() <= CASES.keys()
    assert all(CASES[name].recipe == name for name in recipes())
    assert {path.stem for path in RECORDS.glob("*.json")} == CASES.keys()


def _assert_as_recorded(names):
    records = run_in_new_process(names)
    reports = [compare(name, read_record(name), now) for name, now in records.items()]
    print(*reports, sep="\n")
    failed = [str(report) for report in reports if report.differences]
    assert not failed, "\n".join(failed)


def test_a_translator_a_language_model_and_a_tagger_are_as_recorded():
    _assert_as_recorded(QUICK_CASES)


@pytest.mark.slow
def test_runs_of_every_recipe_are_as_recorded():
    quick = with_prerequisites(QUICK_CASES)
    _assert_as_recorded([name for name in CASES if name not in quick])


@pytest.fixture
def recorded():
    return read_record("tag")


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("losses", lambda record: record["losses"][0].update(loss=1.0379486573709027)),
        ("validation", lambda record: record["validation"].pop()),
        ("eval", lambda record: record["eval"]["output"][0].update(true=25)),
        ("eval", lambda record: record["eval"]["output"][0].update(new=1.0)),
        ("predict", lambda record: record["predict"]["output"][0].update(text="other")),
        ("weights", lambda record: record["weights"].popitem()),
        ("checkpoint", lambda record: record.update(checkpoint="0 tensors")),
        ("data", lambda record: record["data"].update({"tags.conll": "0"})),
    ],
)
def test_each_part_of_a_record_is_compared_and_the_difference_names_it(recorded, section, change):
    now = copy.deepcopy(recorded)
    assert not compare("tag", recorded, now).differences
    change(now)
    report = compare("tag", recorded, now)
    assert report.differences and report.how == "bit-identical"
    assert all(difference.path.startswith(section) for difference in report.differences)
    assert f"  {section}" in str(report)


def test_command_lines_are_not_compared(recorded):
    now = copy.deepcopy(recorded)
    now["train"] = "train tagging tags.conll"
    now["eval"]["command"] = "evaluate"
    assert not compare("tag", recorded, now).differences


def test_on_another_machine_scores_must_be_close_and_bits_need_not_be_the_same(recorded):
    now = copy.deepcopy(recorded)
    now["machine"]["processor"] = "another"
    assert compare("tag", recorded, now).how == "bit-identical"
    now["losses"][0]["loss"] *= 1.0004
    now["checkpoint"] = "other bits"
    report = compare("tag", recorded, now)
    assert not report.differences and "another machine" in str(report)
    now["losses"][0]["loss"] *= 1.01
    assert [difference.path for difference in compare("tag", recorded, now).differences] == [
        "losses.0.loss"
    ]


def test_a_deliberate_change_is_shown_with_its_reason_and_does_not_fail(recorded, monkeypatch):
    now = copy.deepcopy(recorded)
    for row in now["validation"]:
        row["f1"] = 0.5
    monkeypatch.setattr(
        "tests.safety_net.comparison.CHANGES", {"tag* validation.*.f1": "outside tags count"}
    )
    report = compare("tag", recorded, now)
    assert not report.differences and str(report).count("outside tags count") == 2
