"""The files of attention/, blocks/ and models/ explain themselves: an equation and an example."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import pkgutil
import sys
from pathlib import Path

import pytest
import torch

PACKAGES = ("attention", "blocks", "models")

WITHOUT_EXAMPLE = {
    "headway.models.budget": "arithmetic of `headway plan`, with its own page",
    "headway.models.contracts": "protocols and initialisation",
    "headway.models.kernels_and_positions": "registry",
    "headway.models.registry": "registry",
}


def source(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


FILES = [
    info.name
    for package in PACKAGES
    for info in pkgutil.iter_modules(
        [str(source(f"headway.{package}").parent)], prefix=f"headway.{package}."
    )
]
CONCEPTS = [name for name in FILES if name not in WITHOUT_EXAMPLE]
EXAMPLES = [*FILES, "headway.training.objectives.cross_entropy"]


def module_docstring(module: str) -> str:
    docstring = ast.get_docstring(ast.parse(source(module).read_text()))
    assert docstring is not None, f"{module} has no docstring"
    return docstring


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_file_give_the_results_that_they_show(name):
    importlib.import_module(name)
    module = sys.modules[name]  # a package may export a function of the same name
    torch.set_printoptions(profile="default")  # a notebook in an earlier test may have set others
    results = doctest.testmod(module)
    assert results.failed == 0, f"{results.failed} of {results.attempted} examples of {name} failed"


@pytest.mark.parametrize("name", CONCEPTS)
def test_every_file_of_a_concept_starts_with_its_equation_and_has_an_example(name):
    docstring = module_docstring(name)
    first_line = docstring.splitlines()[0]
    assert ":" in first_line, f"{name}: the first line should be 'Name: equation', not {first_line}"
    assert doctest.DocTestParser().get_examples(docstring), f"{name} has no example (>>>)"


@pytest.mark.parametrize("name", WITHOUT_EXAMPLE)
def test_files_without_an_example_exist_and_have_none(name):
    assert name in FILES
    assert not doctest.DocTestParser().get_examples(module_docstring(name))
