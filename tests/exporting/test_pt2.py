"""AOTInductor packages: sizes that were not traced, and loaders that need no Headway."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.cpp_extension import include_paths

from headway.base.errors import UsageError
from headway.exporting.described import plain_copy
from headway.exporting.families import graphs_of
from headway.exporting.pt2 import PT2
from headway.exporting.pt2_loaders import cpp_loader, python_loader
from headway.exporting.target import export
from tests.fixtures.bundles import bert_classifier, gpt, translator
from tests.fixtures.image_classifiers import classifier

MODELS = {
    "gpt": lambda: gpt(num_layers=2),
    "classifier": bert_classifier,
    "translator": translator,
    "image classifier": classifier,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_package_computes_the_model_and_runs_without_headway(tmp_path, name):
    bundle = MODELS[name]()
    exported = export(bundle, tmp_path / "out", PT2)
    assert max(exported.difference.values()) <= 1e-5
    print(f"\nMATRIX pt2 {name}: {exported.difference}, {exported.tokens} tokens")
    words = [] if name == "image classifier" else ["5", "6", "7"]
    program = [sys.executable, "-I", "run.py", *words]
    done = subprocess.run(program, cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if name == "gpt":
        with torch.inference_mode():
            expected = bundle.model(torch.tensor([[5, 6, 7]])).argmax(-1)
        assert done.stdout.split("\n")[0] == str(expected.tolist())
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    compiled(tmp_path / "out")
    printed = subprocess.run(
        ["./run", *words], cwd=tmp_path / "out", capture_output=True, text=True
    )
    assert printed.returncode == 0, printed.stderr
    tokens, _, shape = printed.stdout.partition("[ CPULongType")
    assert [int(word) for word in tokens.split()] == numbers_in(done.stdout)
    assert shape, printed.stdout


def compiled(folder):
    """Compile the loader in C++ with the libtorch of the installed torch."""
    libraries = Path(torch.__file__).parent / "lib"
    words = ["g++", "-std=c++20", "run.cpp", "-o", "run", f"-L{libraries}"]
    words += [f"-I{path}" for path in include_paths()]
    words += [f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def numbers_in(text):
    return [int(word) for word in re.findall(r"-?\d+", text)]


@pytest.mark.parametrize("name", MODELS)
def test_the_loaders_name_every_package_and_input(name):
    graphs = graphs_of(plain_copy(MODELS[name]().model))
    python, cpp = python_loader(graphs, 1), cpp_loader(graphs, 1)
    compile(python, "run.py", "exec")
    for graph in graphs:
        assert f"{graph.name}.pt2" in python and f"{graph.name}.pt2" in cpp
        past = sum(one.name.startswith("past") for one in graph.inputs)
        assert not past or (f"] * {past}" in python and f", {past}, torch::zeros" in cpp)
    assert len(python.splitlines()) <= 14 and len(cpp.splitlines()) <= 18


def test_without_a_compiler_the_reason_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UsageError, match="C\\+\\+ compiler"):
        export(gpt(), tmp_path / "out", PT2)
    assert not (tmp_path / "out").exists()
