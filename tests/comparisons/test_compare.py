"""Plans of comparisons, and how their runs follow each other."""

import pytest

from headway.base.errors import DataError, UsageError
from headway.comparisons.compare import compare, is_finished
from headway.comparisons.plans import Plan, Variant, read_plan, varied
from headway.lectures.plans import PLANS
from headway.runs import recipe
from headway.runs.run import Outcome


def plan_of_two(**changes):
    return Plan("translate", (Variant("a", {}), Variant("b", {})), **changes)


def test_a_plan_runs_every_variant_of_a_seed_before_the_next_seed():
    plan = plan_of_two(seeds=(7, 3))
    assert [name for _, _, name in plan.runs()] == ["a-seed7", "b-seed7", "a-seed3", "b-seed3"]


def test_an_interrupted_run_stops_the_comparison_and_is_reported(tmp_path):
    trained = []

    def train(config, folder):
        trained.append(folder.name)
        return Outcome(folder, "interrupted", 3, None, 0, 1.0)

    plan = plan_of_two()
    configs = {name: recipe("translate") for _, _, name in plan.runs()}
    comparison = compare(plan, configs, tmp_path, train)
    assert comparison.interrupted and trained == ["a-seed42"] and not comparison.measured


def test_a_failure_of_any_kind_is_recorded_and_the_next_run_starts(tmp_path):
    errors = iter([DataError("no pairs", "x.tsv", "add some"), RuntimeError("boom")])

    def train(config, folder):
        raise next(errors)

    plan = plan_of_two()
    configs = {name: recipe("translate") for _, _, name in plan.runs()}
    comparison = compare(plan, configs, tmp_path, train)
    assert not comparison.interrupted
    assert "no pairs" in comparison.failed["a-seed42"] and "boom" in comparison.failed["b-seed42"]


@pytest.mark.parametrize(("stop", "finished"), [("done", True), ("interrupted", False)])
def test_a_run_is_finished_when_its_last_end_was_no_interruption(tmp_path, stop, finished):
    assert not is_finished(tmp_path)
    rows = [
        '{"kind": "finished", "step": 3, "stop": "interrupted"}',
        f'{{"kind": "finished", "step": 3, "stop": "{stop}"}}',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    assert is_finished(tmp_path) is finished


def test_a_plan_has_every_combination_of_the_varied_settings():
    plan = varied("translate", ["model.num-heads=1,2", "training.seed=5,6"])
    assert [v.name for v in plan.variants][:2] == ["num_heads=1_seed=5", "num_heads=1_seed=6"]
    assert plan.variants[3].changes == {"model.num_heads": "2", "training.seed": "6"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("variants: {a: {}, b: {}}", "recipe"),
        ("recipe: translate\nvariants: {a: {}}", "at least two"),
        ("recipe: translate\nvariants: {'a/b': {}, c: {}}", "the name may only have letters"),
        ("recipe: translate\nvariant: {a: {}, b: {}}", "unknown key"),
        ("recipe: translate\nseeds: 3\nvariants: {a: {}, b: {}}", "list of whole numbers"),
        ("recipe: translate\nseeds: [3, 3]\nvariants: {a: {}, b: {}}", "all different"),
        ("recipe: translate\nvariants: [a, b]", "unknown key"),
    ],
)
def test_a_malformed_plan_is_refused_with_its_error(tmp_path, text, message):
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        read_plan(tmp_path / "plan.yaml")


def test_a_variant_may_be_the_unchanged_recipe(tmp_path):
    (tmp_path / "plan.yaml").write_text(
        "recipe: translate\nvariants: {a: {}, b: , c: {model: {num_heads: 2}}}"
    )
    plan = read_plan(tmp_path / "plan.yaml")
    assert plan.title == "plan" and plan.seeds == (42,)
    assert [dict(v.changes) for v in plan.variants] == [{}, {}, {"model.num_heads": 2}]


@pytest.mark.parametrize("name", PLANS)
def test_the_lectures_plans_are_made_of_settings_that_exist(name):
    plan = PLANS[name]
    for variant in plan.variants:
        config = recipe(plan.recipe, ("plan", plan.common), (variant.name, variant.changes))
        assert config.training.steps == plan.common["training.steps"]
