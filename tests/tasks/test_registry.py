"""The registry of tasks: its entries, known before any import, agree with the tasks."""

from pathlib import Path

import pytest

from headway.evaluation.scores import Metric, Scores
from headway.models.registry import MODELS
from headway.runs import recipes
from headway.tasks.opening import families, spec_of
from headway.tasks.registry import TASKS, evaluating_task, task, task_of_config, tasks_of_kind
from headway.tasks.task import Task


@pytest.mark.parametrize("name", TASKS)
def test_an_entry_agrees_with_its_task(name):
    entry, loaded = TASKS[name], task(name)
    assert isinstance(loaded, Task) and loaded.name == name
    assert all(loaded in tasks_of_kind(kind) for kind in entry.kinds)
    assert set(loaded.bundles) == set(entry.families)
    assert entry.recipes in ((), tuple(loaded.recipes))
    assert {spec.bundle.kind for spec in loaded.bundles.values()} <= set(entry.kinds)
    assert (loaded.predicts is not None) == (entry.verb is not None)
    for recipe, make in loaded.recipes.items():
        assert recipes()[recipe] is make and make.__doc__
        assert type(make()) is loaded.config and task_of_config(make()) is loaded
    assert all("{run}" in command for command in loaded.next_commands)
    assert entry.verb is None or loaded.next_commands[0].startswith(entry.verb)


@pytest.mark.parametrize("family", families())
def test_every_model_family_has_its_own_configuration(family):
    spec = spec_of(family)
    assert spec is not None and MODELS[family].config.family == family


def test_a_file_or_the_run_determines_which_of_several_tasks_evaluates_a_model():
    embedding = task("sentence_embedding")
    for name in ("pairs.tsv", "pairs.csv", "pairs.jsonl.gz"):
        assert evaluating_task("text encoder", Path(name), None) is embedding
    masked = task("masked_language_modeling")
    assert evaluating_task("text encoder", Path("story.txt"), embedding.config()) is masked
    assert evaluating_task("text encoder", None, masked.config()) is masked
    assert evaluating_task("text encoder", None, embedding.config()) is embedding
    assert evaluating_task("text encoder", None, None) is None
    tagging = task("tagging")
    assert evaluating_task("tagger", Path("x.tsv"), None) is tagging
    assert evaluating_task("tagger", None, None) is tagging


def test_an_unregistered_kind_or_family_has_no_task():
    assert tasks_of_kind("oracle") == [] and spec_of("oracle") is None


def test_scores_keep_their_order_and_compare_in_the_direction_of_their_metric():
    f1, loss = Metric("f1", 0.5), Metric("loss", 2.0, higher_is_better=False)
    scores = Scores((f1, loss), {"words": 7})
    assert scores.as_dict() == {"f1": 0.5, "loss": 2.0, "words": 7}
    assert list(scores.numbers()) == ["f1", "loss"] and scores["loss"] == 2.0
    assert "f1" in scores and "bleu" not in scores
    assert f1.is_better_than(0.4) and not f1.is_better_than(0.5)
    assert loss.is_better_than(2.1) and not loss.is_better_than(1.9)
