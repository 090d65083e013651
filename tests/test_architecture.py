"""The rules for source files, checked on every file."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.fixtures.pages import page_paths

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "headway").rglob("*.py"))
PYTHON = [
    *SOURCES,
    *sorted((ROOT / "tests").rglob("*.py")),
    *sorted((ROOT / "bench").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.py")),
]
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "misc"}
FORBIDDEN = re.compile(
    r"^\s*(import|from) (pickle|marshal|shelve)\b|(?<!safetensors\.)torch\.(load|save)\("
    r"|distributed\.checkpoint|(gather|broadcast|scatter|send|recv)_object"
    r"|yaml\.(unsafe_)?load\(|(?<![.\w])(eval|exec)\(|allow_pickle",
    re.MULTILINE,
)
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|NotImplementedError)\b")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@dataclass
class Facts:
    """What the rules ask about a file: the syntax trees of all files would fill the memory.

    functions: (name, lines, arguments). starred: lines of calls. imports: names with their module.
    undocumented: faults. constants: (docstring, beginning of the constant).
    """

    functions: list[tuple[str, int, int]] = field(default_factory=list)
    starred: list[int] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    undocumented: list[str] = field(default_factory=list)
    constants: list[tuple[str, str]] = field(default_factory=list)


@cache
def facts(path: Path) -> Facts:
    tree, found = ast.parse(path.read_text()), Facts()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
            found.functions.append((node.name, node.end_lineno - node.lineno + 1, count))
        elif isinstance(node, ast.Call):
            for argument in node.args:
                if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple):
                    found.starred.append(argument.lineno)
        elif isinstance(node, ast.Import):
            found.imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.imports += [f"{node.module or ''}.{alias.name}" for alias in node.names]
    if not ast.get_docstring(tree):
        found.undocumented.append("the file has no docstring")
    for number, node in enumerate(tree.body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            above = ast.unparse(tree.body[number - 1])[:30] if number else "the file"
            found.constants.append((str(node.value.value), above))
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            is_exempt = node.name.startswith("_") or is_tiny(node)
            if not is_exempt and not ast.get_docstring(node):
                found.undocumented.append(f"{node.name} has no docstring")
    return found


def is_tiny(node: ast.AST) -> bool:
    """Return whether a class only names an error or lists settings, which needs no docstring."""
    return isinstance(node, ast.ClassDef) and all(
        isinstance(part, ast.AnnAssign | ast.Pass | ast.FunctionDef) for part in node.body
    )


def tracked() -> list[Path]:
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split("\n")
    paths = [ROOT / name for name in names if name and (ROOT / name).is_file()]
    return paths or PYTHON


def offenders(paths: Iterable[Path], check: Callable[[Path], Iterator[str]]) -> str:
    """Return the faults that `check` finds in the files, one per line with the name of the file."""
    return "\n".join(f"{name_of(path)}: {fault}" for path in paths for fault in check(path))


LONG = {
    "bench/decoding.py": "one comparison: the sides of Headway, transformers and CTranslate2",
    "src/headway/base/settings.py": "settings: declared, parsed, checked, overridden, explained",
    "src/headway/cli/plan.py": "one command: its flags, their checks, its tables and notes",
    "src/headway/exporting/target.py: export": "one export, step by step, with all it promises",
    "src/headway/interop/hf_folders.py": "one format: folders read, built, described and written",
    "src/headway/tasks/captioning/model.py": "the bundle of captioners, with all they can do",
    "src/headway/tasks/classification/data.py": "labelled files, batches, rows to classify",
    "tests/safety_net/cases.py": "one table of runs",
    "tests/transforms/test_quantize.py": "one property after another of all small numbers",
    "src/headway/data/instructions.py": "one table of kinds of instructions",
    "src/headway/tasks/translation/bundle.py": "the bundle of translators, with all they can do",
    "src/headway/transforms/fast/sublayers.py": "one struct a sublayer, and what fills it in",
}
"""File of more than 400 lines, or `file: function` of more than 60 -> why it is one thing.

Sizes are signs: what belongs together stays together, and the reason is here."""


def test_files_are_short_and_have_specific_names():
    def check(path: Path) -> Iterator[str]:
        if len(path.read_text().split("\n")) > 401 and name_of(path) not in LONG:
            yield "more than 400 lines, and no reason in LONG"
        if path.stem in VAGUE_NAMES:
            yield "a name that does not describe its content"

    assert not (faults := offenders(PYTHON, check)), faults


def test_functions_are_short_and_constructors_have_few_arguments():
    def check(path: Path) -> Iterator[str]:
        for name, length, arguments in facts(path).functions:
            if length > 60 and f"{name_of(path)}: {name}" not in LONG:
                yield f"{name} has {length} lines, and no reason in LONG"
            if name == "__init__" and arguments - 1 > 8:
                yield f"a constructor with {arguments - 1} arguments"

    assert not (faults := offenders(SOURCES, check)), faults


def test_no_call_hides_its_arguments_in_a_starred_tuple():
    """`f(*(a, b), c=d)` is `f(a, b, c=d)`, written to look like fewer arguments."""

    def check(path: Path) -> Iterator[str]:
        if "*(" in path.read_text():  # else there is no need to parse it
            yield from (f"line {number}" for number in facts(path).starred)

    assert not (faults := offenders(PYTHON, check)), faults


NOT_PLAIN = re.compile(
    r"autograd\.Function|data_ptr|(?<!autocast\(q\.)device\.type|is_cuda|is_compiling|mkldnn|torch\.compile"
    r"|headway\.transforms|is_autocast_enabled"
)


@pytest.mark.parametrize("package", ["attention", "blocks", "models"])
def test_the_syllabus_is_plain_pytorch(package):
    """Hand-written gradients, data pointers and dispatch on device or compiler are only in
    `transforms/`."""

    def check(path: Path) -> Iterator[str]:
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if fault := NOT_PLAIN.search(line):
                yield f"line {number}: {fault.group()}"

    files = [path for path in SOURCES if path.parent.name == package]
    assert not (faults := offenders(files, check)), faults


def test_multi_head_attention_is_as_short_as_its_equation():
    """`forward` is at most 15 lines long: project, split, position, kernel, merge, project."""
    tree = ast.parse((ROOT / "src/headway/attention/multihead.py").read_text())
    (forward,) = (n for n in ast.walk(tree) if getattr(n, "name", None) == "forward")
    first = forward.body[1]  # after the docstring
    assert forward.end_lineno - first.lineno + 1 <= 15


def test_sources_have_no_unfinished_code_and_execute_no_data():
    def check(path: Path) -> Iterator[str]:
        for pattern in (UNFINISHED, FORBIDDEN):
            if match := pattern.search(path.read_text()):
                yield repr(match[0])

    assert not (faults := offenders(SOURCES, check)), faults


def test_everything_public_has_a_docstring():
    faults = offenders(SOURCES, lambda path: iter(facts(path).undocumented))
    assert not faults, faults


def test_no_constant_has_the_docstring_of_another():
    """A copied docstring describes the object that it was copied from."""
    owners: dict[str, list[str]] = {}
    for path in SOURCES:
        for docstring, above in facts(path).constants:
            owners.setdefault(docstring, []).append(f"{name_of(path)}: {above}")
    assert not (repeated := [names for names in owners.values() if len(names) > 1]), repeated


def test_every_package_is_in_the_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    in_layers = {name.strip(" ()") for layer in layers for name in layer.split(":")}
    modules = {
        path.stem
        for path in (ROOT / "src" / "headway").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert modules - {"__init__", "__main__"} <= in_layers


OF_TESTS = re.compile(r"^\s*(?:import|from)\s+tests\b[^(\n]*(?:\([^)]*\))?", re.MULTILINE)
"""Statements that import from tests, on one line or with names in parentheses."""


def test_no_test_module_imports_from_another():
    """Shared code is in tests/fixtures, so that a change of one test breaks no other."""

    def check(path: Path) -> Iterator[str]:
        if not any("test_" in statement for statement in OF_TESTS.findall(path.read_text())):
            return  # there is no need to parse it
        for module in facts(path).imports:
            if module.startswith("tests.") and ".test_" in module:
                yield f"imports {module}; move what is shared to tests/fixtures"

    tests = sorted((ROOT / "tests").rglob("*.py"))
    assert not (imports := offenders(tests, check)), imports


BY_CONTRACT = ["cli", "inspection", "interop", "serving", "training", "decoding"]


@pytest.mark.parametrize("package", BY_CONTRACT)
def test_bundles_are_known_only_by_their_contract(package):
    """No module of the package imports a concrete bundle class, so none can dispatch on one."""
    for path in sorted((ROOT / "src" / "headway" / package).rglob("*.py")):
        names = set(re.findall(r"\b[A-Z]\w*Bundle\b", path.read_text()))
        assert not names, f"{name_of(path)} names {', '.join(sorted(names))}"
        assert not re.search(r"\btype\((self\.)?bundle\)", path.read_text()), name_of(path)


@pytest.mark.parametrize("page", page_paths(), ids=name_of)
def test_the_pages_name_only_files_that_exist(page):
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:src|tests|bench|docs|examples)/[\w./-]+)`", text))
    assert not (missing := {name for name in named if not (ROOT / name).exists()}), missing


@pytest.mark.parametrize("page", ["README.md", "docs/tour/files.md"])
def test_the_source_tree_in_the_docs_is_complete(page):
    text = (ROOT / page).read_text()
    listing = text.split("src/headway/\n", 1)[1].split("```", 1)[0]
    named = {line.split()[0].rstrip("/") for line in listing.split("\n") if line.startswith("  ")}
    existing = {
        path.name
        for path in (ROOT / "src" / "headway").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert named == existing - {"__init__.py", "__main__.py"}


def test_no_file_contains_a_machine_path():
    this_file = Path(__file__).name
    machine = re.compile(r"/(work|root|home)/[a-z]")
    for path in tracked():
        if path.suffix in {".py", ".md", ".toml", ".yaml", ".json", ""} and path.name != this_file:
            text = path.read_text(encoding="utf-8", errors="ignore")
            assert not (match := machine.search(text)), f"{path}: {match}"
