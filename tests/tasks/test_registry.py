"""The registry of tasks: what is known before anything is imported, and that it is true."""

import subprocess
import sys
from pathlib import Path

import pytest

from headway.evaluation.scores import Metric, Scores
from headway.models.registry import MODELS
from headway.runs import RECIPES
from headway.tasks.opening import families, spec_of
from headway.tasks.registry import TASKS, evaluating_task, task, task_of_config, tasks_of_kind
from headway.tasks.task import Predicting, Task


@pytest.mark.parametrize("name", TASKS)
def test_an_entry_is_what_its_task_is(name):
    entry, found = TASKS[name], task(name)
    assert isinstance(found, Task) and found.name == name and found in tasks_of_kind(entry.kind)
    assert set(found.bundles) == set(entry.families)
    assert {spec.bundle.kind for spec in found.bundles.values()} <= {entry.kind}
    assert isinstance(found, Predicting) == (entry.verb is not None)
    for recipe, make in found.recipes.items():
        assert RECIPES[recipe] is make and make.__doc__
        assert type(make()) is found.config and task_of_config(make()) is found
    assert all("{run}" in command for command in found.next_commands)
    assert entry.verb is None or found.next_commands[0].startswith(entry.verb)


@pytest.mark.parametrize("family", families())
def test_every_family_of_models_is_opened_as_what_it_is(family):
    spec = spec_of(family)
    assert spec is not None and MODELS[family].config.family == family


def test_a_file_or_the_run_says_which_of_several_tasks_evaluates_a_model():
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


def test_names_verbs_and_help_are_known_without_torch():
    program = "import sys, headway.tasks.registry; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_scores_keep_their_order_and_know_which_way_is_better():
    f1, loss = Metric("f1", 0.5), Metric("loss", 2.0, higher_is_better=False)
    scores = Scores((f1, loss), {"words": 7})
    assert scores.as_dict() == {"f1": 0.5, "loss": 2.0, "words": 7}
    assert list(scores.numbers()) == ["f1", "loss"] and scores["loss"] == 2.0
    assert "f1" in scores and "bleu" not in scores
    assert f1.is_better_than(0.4) and not f1.is_better_than(0.5)
    assert loss.is_better_than(2.1) and not loss.is_better_than(1.9)
