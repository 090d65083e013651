"""Dockerfile, conda recipe and wheel agree with pyproject.toml; each comparison finds a fault."""

import re
import shlex
import tomllib
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from headway.base.settings import declared
from headway.cli.serve import ServeFlags

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
SCRIPTS = set(PROJECT["scripts"])
CONDA_NAMES = {"torch": "pytorch"}
"""Packages that conda knows by another name."""


def requirements(lines):
    """Name -> versions of lines like `torch>=2.10`, `pytorch >=2.10` or `python`."""
    parts = [re.fullmatch(r"([\w.-]+) *([<>=!].*)?", line) for line in lines]
    return {CONDA_NAMES.get(part[1], part[1]): part[2] or "" for part in parts}


def recipe():
    return yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())


def faults_of_recipe(recipe):
    """Each key of the recipe that differs from pyproject.toml, with both values."""
    needs, about = recipe["requirements"], recipe["about"]
    python = {"python": PROJECT["requires-python"]}
    expected = {
        "name": (recipe["package"]["name"], PROJECT["name"]),
        "version": (recipe["context"]["version"], PROJECT["version"]),
        "run": (requirements(needs["run"]), requirements(PROJECT["dependencies"]) | python),
        "host": (
            requirements(needs["host"]),
            requirements([*PYPROJECT["build-system"]["requires"], "python", "pip"]),
        ),
        "summary": (about["summary"], PROJECT["description"]),
        "license": (about["license"], PROJECT["license"]),
    }
    return {key: values for key, values in expected.items() if values[0] != values[1]}


def test_the_conda_recipe_has_the_names_versions_and_requirements_of_the_package():
    assert not faults_of_recipe(recipe())
    assert recipe()["package"]["version"] == "${{ version }}"
    assert "--no-deps" in recipe()["build"]["script"]  # conda installs them
    assert (ROOT / recipe()["about"]["license_file"]).is_file()


def test_the_tests_of_the_conda_recipe_run_the_entry_points_of_the_package():
    modules, commands = recipe()["tests"]
    assert modules["python"]["imports"] == [PROJECT["name"]]
    assert {shlex.split(command)[0] for command in commands["script"]} == SCRIPTS


@pytest.mark.parametrize(
    ("key", "place", "value"),
    [
        ("version", ("context", "version"), "0.0.9"),
        ("name", ("package", "name"), "headways"),
        ("run", ("requirements", "run"), ["python >=3.11", "pytorch >=2.9"]),
        ("host", ("requirements", "host"), ["python", "pip"]),
    ],
)
def test_a_recipe_that_drifts_is_noticed(key, place, value):
    changed = deepcopy(recipe())
    changed[place[0]][place[1]] = value
    assert set(faults_of_recipe(changed)) == {key}


def instructions():
    """(instruction, rest of its line) of the Dockerfile, without comments."""
    text = (ROOT / "Dockerfile").read_text()
    lines = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    joined = lines.replace("\\\n", " ").split("\n")
    return [tuple(line.split(maxsplit=1)) for line in joined if line.strip()]


def of(name):
    return [rest for instruction, rest in instructions() if instruction == name]


def test_images_come_from_plain_python_of_a_version_that_the_package_supports():
    least = int(PROJECT["requires-python"].removeprefix(">=3."))
    for image in of("FROM"):
        version = re.fullmatch(r"python:3\.(\d+)-slim( AS build)?", image)
        assert version and int(version[1]) >= least


def test_no_file_of_the_packages_names_another_host():
    for name in ("Dockerfile", "conda/recipe.yaml"):
        addresses = re.findall(r"\w+://[^/:'\"\s]+", (ROOT / name).read_text())
        assert set(addresses) <= {"http://127.0.0.1"}, name


def test_the_image_installs_the_wheel_with_the_torch_and_the_extra_of_the_package():
    installed = " ".join(of("RUN"))
    (torch,) = [line for line in PROJECT["dependencies"] if line.startswith("torch")]
    assert f'"{torch}"' in installed and "pip wheel" in installed
    (extra,) = re.findall(r"\[(\w+)\]", installed)
    assert extra in PROJECT["optional-dependencies"]


def test_all_that_the_image_is_built_from_is_in_the_checkout_and_sent_to_docker():
    sent = [line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"]
    sources = [
        source
        for copied in of("COPY")
        if not copied.startswith("--from")
        for source in copied.split()[:-1]
    ]
    assert sorted(sources) == sorted(sent)
    assert all((ROOT / source).exists() for source in sources)


def test_the_server_runs_without_privileges_and_listens_on_this_machine_unless_told():
    names = [name for name, _ in instructions()]
    last = len(names) - names[::-1].index("FROM")
    assert names.index("USER") > last and of("USER") == ["headway"]
    assert names.index("USER") < names.index("ENTRYPOINT")
    (entry,) = of("ENTRYPOINT")
    assert yaml.safe_load(entry)[0] in SCRIPTS
    flags = declared(ServeFlags)
    assert flags["host"].default == "127.0.0.1"
    assert not any("--host" in rest for _, rest in instructions())
    assert of("EXPOSE") == [str(flags["port"].default)]
    assert f"127.0.0.1:{flags['port'].default}/health" in of("HEALTHCHECK")[0]


def test_one_wheel_is_for_all_versions_of_python_from_the_oldest_one_on():
    (loops,) = PYPROJECT["tool"]["setuptools"]["ext-modules"]
    assert loops["py-limited-api"] and loops["optional"]
    tag = PYPROJECT["tool"]["distutils"]["bdist_wheel"]["py-limited-api"]
    assert f">={tag[2]}.{tag[3:]}" == PROJECT["requires-python"]
