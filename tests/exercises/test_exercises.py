"""Every solution passes its checks; every known mistake in it is named by the message."""

import re
import textwrap
import types

import pytest
import torch

from headway.exercises import CATALOGUE, EXERCISES, Mistake
from headway.exercises.ladder import climb, likely_mistake, same
from headway.exercises.tiny_translator import make_model, train
from headway.models.kernels_and_positions import KERNELS
from tests.fixtures.pages import anchors
from tests.fixtures.user_texts import ROOT

PLUGGED = [name for name, exercise in EXERCISES.items() if exercise.plug is not None]
OTHERWISE = [
    ("softmax-and-masks", "masked_fill(~allowed, -torch.inf).masked_fill(empty, 0.0)", "clone()"),
    (
        "scaled-dot-product",
        "masked_fill(~allowed, -torch.inf).softmax(-1)",
        "softmax(-1) * allowed",
    ),
    ("multi-head", "return context", "context = kernel(q, k, k)\n    return context"),
    ("layer-norm", "(variance + eps).sqrt()", "(eps + variance)"),
    ("rotary-positions", "positions[:, None]", "torch.arange(x.shape[1]).unsqueeze(-1)"),
    ("label-smoothing", "return (", "smoothing = 0.0\n    return ("),
    ("greedy-search", "token == eos", "token == -1"),
    ("bleu", "(ours & theirs).values()", "ours[gram] for gram in ours if theirs[gram]"),
]
"""Exercise, text of its solution -> the text that makes a known mistake in another way."""


def function_of(name, source):
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return getattr(module, EXERCISES[name].function)


@pytest.mark.parametrize("name", EXERCISES)
def test_the_solution_passes_every_check(name):
    results = list(climb(EXERCISES[name], function_of(name, EXERCISES[name].solution)))
    assert all(result.passed for result in results), results[-1]
    assert [result.rung for result in results] == EXERCISES[name].rungs


@pytest.mark.parametrize("name", EXERCISES)
def test_the_section_of_the_tour_exists(name):
    page, _, heading = EXERCISES[name].tour.partition("#")
    assert heading in anchors((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXERCISES)
def test_the_start_is_the_solution_with_a_hole(name):
    start = EXERCISES[name].start
    (result,) = climb(EXERCISES[name], function_of(name, start))
    assert "the hole is still there" in result.message
    assert EXERCISES[name].equation.strip() in start
    assert f"headway exercise check {name}" in start
    assert max(map(len, start.split("\n"))) <= 120
    assert EXERCISES[name].body.strip() not in start


def test_the_catalogue_says_which_exercises_train():
    assert {name: entry.trains for name, entry in CATALOGUE.items()} == {
        name: exercise.plug is not None for name, exercise in EXERCISES.items()
    }
    assert all(EXERCISES[name].name == name for name in CATALOGUE)


def names(mistake, result):
    """Return whether the result of a failed check names the mistake."""
    return not result.passed and mistake.sentence in (result.mistake or result.message)


@pytest.mark.parametrize("name", EXERCISES)
def test_every_mistake_fails_a_check_and_is_told_from_the_others(name):
    exercise = EXERCISES[name]
    assert len(exercise.mistakes) >= 6
    for mistake in exercise.mistakes:
        variant = exercise.variant(mistake)
        assert likely_mistake(exercise, variant) == mistake.sentence
        assert names(mistake, list(climb(exercise, variant))[-1])


@pytest.mark.parametrize(("name", "old", "new"), OTHERWISE)
def test_a_mistake_that_is_made_in_another_way_is_named_too(name, old, new):
    exercise = EXERCISES[name]
    head, body = exercise.solution.split(exercise.signature)
    assert old in body
    source = head + exercise.signature + body.replace(old, new)
    *_, last = climb(exercise, function_of(name, source))
    assert any(names(mistake, last) for mistake in exercise.mistakes), last


def test_a_mistake_whose_text_is_not_in_the_solution_is_an_error():
    with pytest.raises(AssertionError, match="layer-norm: 'softmax'"):
        EXERCISES["layer-norm"].variant(Mistake("a sentence", {"softmax": "sigmoid"}))


def test_gradients_that_are_cut_are_found():
    cut = "(q @ k.transpose(-1, -2)).detach()"
    source = EXERCISES["scaled-dot-product"].solution.replace("q @ k.transpose(-1, -2)", cut)
    *_, last = climb(EXERCISES["scaled-dot-product"], function_of("scaled-dot-product", source))
    assert last.rung == "gradients"
    assert "cuts the graph" in last.message


def test_a_change_of_the_input_in_place_is_found():
    source = EXERCISES["layer-norm"].solution.replace("    mean =", "    x += 0\n    mean =", 1)
    *_, last = climb(EXERCISES["layer-norm"], function_of("layer-norm", source))
    assert last.rung == "gradients"
    assert "in-place" in last.message


def test_of_two_mistakes_that_of_the_failed_check_is_named():
    source = EXERCISES["scaled-dot-product"].solution
    source = source.replace(" / math.sqrt(q.shape[-1])", "")
    source = source.replace(".masked_fill(~allowed, -torch.inf)", "")
    *_, last = climb(EXERCISES["scaled-dot-product"], function_of("scaled-dot-product", source))
    assert "the scale is missing" in last.mistake


def test_results_of_other_types_and_shapes_differ():
    assert same(torch.tensor([1.0]), torch.tensor([1.000001]))
    assert not same(torch.tensor([1.0]), torch.tensor([[1.0]]))
    assert not same(torch.tensor([1.0]), torch.tensor([1]))
    assert not same(torch.tensor([1.0]), [1.0])
    assert not same((1, 2), (1, 2, 3))


def test_the_transcript_of_the_documentation_is_what_the_checks_print():
    text = (ROOT / "docs/exercises.md").read_text()
    exercise = EXERCISES["scaled-dot-product"]
    head = exercise.solution.split(exercise.signature)[0]
    bodies = re.findall(r"```text\n(    .*?)```", text, re.DOTALL)
    assert len(bodies) == 3
    for body, number in zip(bodies, (2, 3, 5), strict=True):
        results = list(
            climb(exercise, function_of(exercise.name, f"{head}{exercise.signature}\n{body}"))
        )
        assert len(results) == number
        printed = [f"✓ {result.rung}" for result in results if result.passed]
        for result in results:
            if not result.passed:
                printed += [
                    f"✗ {result.rung}",
                    *textwrap.indent(result.message, "    ").split("\n"),
                ]
                printed.append(f"  likely mistake: {result.mistake}")
        assert "\n".join(printed) in text


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PLUGGED)
def test_the_translator_uses_the_learners_function(name):
    calls = []
    solution = function_of(name, EXERCISES[name].solution)

    def counted(*arguments):
        calls.append(1)
        return solution(*arguments)

    lines = []
    trained = train(EXERCISES[name], counted, lines.append, steps=3)
    assert calls and trained.steps == 3 and not trained.out_of_time
    assert len(trained.samples) == 3 and trained.attention


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["kv-cache", "scaled-dot-product", "rotary-positions"])
def test_the_translator_learns_the_grammar(name):
    solution = function_of(name, EXERCISES[name].solution)
    assert train(EXERCISES[name], solution, lambda line: None, steps=200).correct >= 0.9


def test_a_training_that_its_limit_ends_says_so():
    solution = function_of("layer-norm", EXERCISES["layer-norm"].solution)
    trained = train(EXERCISES["layer-norm"], solution, lambda line: None, steps=3, limit=0.0)
    assert trained.out_of_time and trained.steps == 1


def test_a_registry_entry_ends_with_its_block():
    make_model(EXERCISES["scaled-dot-product"].plug, lambda *arguments: None)
    assert "exercise" not in KERNELS


def test_a_name_of_the_registry_is_not_replaced():
    with (
        pytest.raises(ValueError, match="'dot' exists already"),
        KERNELS.registered("dot", KERNELS["linear"]),
    ):
        pass
