"""Makes the pages of the reference from the code: commands, settings and the Python modules.

`make docs` writes them into docs/reference/generated/, which is not part of the repository.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import headway

FOLDER = "reference/generated"
SOURCES = Path(headway.__file__).parent
PACKAGES = {
    "attention": "Kernels, heads, positions, masks, the cache, recording.",
    "blocks": "The blocks of the Transformer, one file each, and recurrent cells.",
    "text": "Tokenizers: byte-level BPE, Unigram, WordPiece, characters, words.",
    "models": "Encoder-decoders, language models, text and image encoders, word vectors.",
    "transforms": "Applied to a finished model: fast twins, LoRA, freezing, quantisation.",
    "data": "Readers of files, stored token ids, batches, packing, augmentation.",
    "decoding": "Greedy search, beam search, sampling, speculative decoding.",
    "bundle": "Saved models: load, predict, probe, save.",
    "evaluation": "Metrics that several tasks share: BLEU, chrF, perplexity, F1, rank correlation.",
    "training": "The loop, objectives, optimisers, schedules, checkpoints, observers.",
    "inspection": "Attention maps, analyses, walk-throughs, plots, the inspection page.",
}
"""Package -> its description, for the packages whose modules have a page."""
SINGLE = (
    "tasks.task",
    "tasks.registry",
    "base.errors",
    "base.settings",
    "base.devices",
    "base.shapes",
)


def pages() -> dict[str, str]:
    """Path below docs/ -> text of every generated page."""
    made = {"commands.md": commands_page(), "settings.md": settings_index(), "api.md": api_index()}
    made |= {f"settings/{name}.md": settings_page(name) for name in _tasks()}
    made |= {f"api/{name}.md": package_page(name) for name in PACKAGES}
    return {f"{FOLDER}/{name}": text for name, text in made.items()}


def write(docs: Path) -> None:
    """Write the generated pages below the folder `docs`, and remove those of former modules.

    Files that have not changed stay, so that they are not built again.
    """
    made = pages()
    for path in (docs / FOLDER).rglob("*.md"):
        if path.relative_to(docs).as_posix() not in made:
            path.unlink()
    for name, text in made.items():
        path = docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _tasks() -> list[str]:
    from headway.tasks.registry import OWN

    return list(OWN)


def _cell(text: object) -> str:
    """A value as the text of a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _code(text: object) -> str:
    shown = " ".join(str(text).split()).replace("|", "\\|")
    return f"`{shown}`" if shown else ""


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


# Commands


def commands_page() -> str:
    """Every command with its arguments and flags, as `headway VERB --help` explains them."""
    from headway.cli.main import HELP_TEXT, application

    app = application()
    names = [name for name in app if not name.startswith("-")]
    parts = [
        "# Commands",
        "This page lists every command with its arguments and flags, from the code that parses "
        "them. `headway VERB --help` prints the same. The settings of a training run, which are "
        "flags too, are in [settings](settings.md).",
        _prose(HELP_TEXT.partition("\n\n")[2]),
    ]
    for name in sorted(names):
        parts += _command(app[name], f"headway {name}")
    return "\n\n".join(parts) + "\n"


def _command(app: Any, name: str, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} `{name}`"
    if app.default_command is not None:
        yield _prose(_without_parameters(inspect.getdoc(app.default_command) or ""))
        rows = [_argument(argument) for argument in _arguments(app)]
        if rows:
            yield _table(("argument or flag", "default", "meaning"), rows)
        return
    yield _prose(app.help)
    for inner in app:
        if not inner.startswith("-"):
            yield from _command(app[inner], f"{name} {inner}", level + 1)


def _arguments(app: Any) -> list[Any]:
    arguments = app.assemble_argument_collection(parse_docstring=True)
    return [argument for argument in arguments if argument.show]


def _argument(argument: Any) -> tuple[str, str, str]:
    names = [name for name in argument.names if not name.startswith("--no-")]
    default = argument.field_info.default
    is_unset = default is inspect.Parameter.empty or default in (None, (), "", False)
    required = "required" if argument.required else ""
    shown = required if is_unset else _code(default)
    return ", ".join(map(_code, names)), shown, _cell(argument.parameter.help or "")


def _without_parameters(text: str) -> str:
    return re.split(r"\n\s*Parameters\n\s*-{4,}", text)[0]


def _prose(text: str) -> str:
    """A help text as Markdown: paragraphs, and lines that begin with `headway` as code."""
    blocks = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = [line.strip() for line in paragraph.split("\n")]
        if lines and all(line.startswith("headway ") for line in lines):
            blocks.append("```text\n" + "\n".join(lines) + "\n```")
        else:
            blocks.append(_cell(paragraph))
    return "\n\n".join(blocks)


# Settings


def settings_index() -> str:
    """The page that lists the recipes of every task."""
    from headway.runs import recipes
    from headway.tasks.registry import tasks

    parts = [
        "# Settings",
        "Every setting is a flag of `headway train` (`--optimizer.lr 1e-3`), a key of a YAML file "
        '(`--config my.yaml`) and a key in Python (`settings={"optimizer.lr": 1e-3}`) under one '
        "name. A dash in a flag is an underscore in the other two. The settings of a run are "
        "written to its `run.yaml`; an unknown name is an error that proposes the right one.",
    ]
    names = tasks()
    for task in _tasks():
        parts.append(f"## [{task}](settings/{task}.md)")
        rows = [
            (_code(recipe), _cell(_first_sentence(inspect.getdoc(recipes()[recipe]) or "")))
            for recipe in names[task]
        ]
        parts.append(_table(("recipe", "what it trains"), rows))
    tree = "\n".join(f"settings/{task}" for task in _tasks())
    parts.append(f"```{{toctree}}\n:hidden:\n\n{tree}\n```")
    return "\n\n".join(parts) + "\n"


def settings_page(task: str) -> str:
    """The recipes of a task, and its settings: allowed values, default, meaning."""
    from headway.base.settings import fields_of, plain
    from headway.cli.flags import SHORT
    from headway.runs import recipe, recipes
    from headway.tasks.registry import tasks

    names = tasks()[task]
    parts = [f"# Settings of {task}"]
    for name in names:
        parts += [f"## Recipe `{name}`", _prose(inspect.getdoc(recipes()[name]) or "")]
    config = recipe(names[0])
    if sizes := type(config.model).sizes:
        rows = [
            (_code(size), ", ".join(f"`{key}` {value}" for key, value in values.items()))
            for size, values in sizes.items()
        ]
        parts += ["## Sizes of `--model`", _table(("size", "settings"), rows)]
    short = {key: flag for flag, key in SHORT.items()}
    parts.append(f"## Every setting, with the defaults of `{names[0]}`")
    sections: dict[str, list[tuple[str, ...]]] = {}
    for key, field in fields_of(config).items():
        section, dot, _ = key.partition(".")
        if not dot:
            continue
        flag = f"`--{key.replace('_', '-')}`"
        flag += f" (`--{short[key]}`)" if key in short else ""
        default = plain(field.default)
        shown = "" if default in (None, "", []) else _code(default)
        row = flag, _cell(field.expects), shown, _cell(field.help)
        sections.setdefault(section, []).append(row)
    for section, settings in sections.items():
        header = ("setting", "allowed", "default", "meaning")
        parts += [f"### {section}", _table(header, settings)]
    return "\n\n".join(parts) + "\n"


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."


# Python


def api_index() -> str:
    """The page of the Python API: the functions of `headway`, and links to the packages."""
    rows = [(f"[headway.{name}](api/{name}.md)", about) for name, about in PACKAGES.items()]
    modules = "\n\n".join([_top_level(), *(_automodule(f"headway.{name}") for name in SINGLE)])
    tree = "\n".join(f"api/{name}" for name in PACKAGES)
    return (
        "# Python\n\n"
        "The docstrings make this page. `headway.base.shapes` below explains the letters of "
        "shapes, such as `B T D`; every name links to its source.\n\n"
        f"{_table(('package', 'content'), rows)}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n\n{modules}\n"
    )


def _top_level() -> str:
    """The functions and classes that `import headway` gives, under the names that users write."""
    api = import_module("headway.api")
    lines = restructured(inspect.getdoc(api).split("\n"))
    for name in headway.__all__:
        if not name.startswith("_"):
            kind = "autoclass" if inspect.isclass(getattr(headway, name)) else "autofunction"
            lines += ["", f".. {kind}:: headway.{name}"]
    text = "\n".join(lines)
    return f"## headway\n\n```{{eval-rst}}\n{text}\n```"


@cache
def _modules(package: str) -> list[str]:
    """The names of the modules of a package, by reading its folder."""
    names = []
    for path in sorted((SOURCES / package).rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        if not any(part.startswith("_") for part in parts):  # __init__.py only re-exports
            names.append(".".join(("headway", *parts)))
    return names


def module_paths() -> set[str]:
    """The paths below src/headway, without suffix, of the modules that have a page."""
    names = [name for package in PACKAGES for name in _modules(package)]
    names += [f"headway.{name}" for name in ("api", *SINGLE)]
    paths = {name.removeprefix("headway.").replace(".", "/") for name in names}
    # A module without a documented member has no page of its source.
    return {path for path in paths if (SOURCES / f"{path}.py").is_file()} - {"base/shapes"}


def package_page(package: str) -> str:
    """The classes and functions of a package, module by module."""
    parts = [f"# headway.{package}", PACKAGES[package]]
    parts += [_automodule(module) for module in _modules(package)]
    return "\n\n".join(parts) + "\n"


def _automodule(module: str) -> str:
    return f"## {module}\n\n```{{eval-rst}}\n.. automodule:: {module}\n```"


def restructured(lines: Sequence[str]) -> list[str]:
    """A plain docstring as reStructuredText: indented lines and examples become literal blocks."""
    result: list[str] = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        block = paragraph.split("\n")
        if _is_code(block):
            result += [".. code-block:: python", "", *(f"    {line}" for line in block), ""]
            continue
        is_literal = block[0].startswith((" ", ">>>")) or any("  " in x.strip() for x in block)
        if is_literal:
            result += ["::", "", *(f"    {line}" for line in block), ""]
            continue
        for line in block:  # an indented line below a paragraph is an equation of its own
            if line.startswith(" ") and not (result and result[-1].startswith("    ")):
                result += ["", "::", ""]
            if line.startswith(" "):
                result.append(f"    {line}")
                continue
            if result and result[-1].startswith("    "):
                result.append("")
            result.append(_escaped(line))
        result.append("")
    return result


def _is_code(lines: Sequence[str]) -> bool:
    """Whether lines are a program: Python that calls, assigns or imports something.

    A paragraph of prose is no valid Python, except for single words.
    """
    if lines[0].startswith((" ", ">>>")):
        return False
    try:
        statements = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return False
    programs = (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom, ast.With, ast.For)
    return any(
        isinstance(one, programs) or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Call))
        for one in statements
    )


def _escaped(line: str) -> str:
    """A line of prose in which `x` is code and no other sign has a meaning."""
    parts = re.split(r"(`[^`]+`)", line)
    text = ""
    for part in parts:
        if len(part) > 2 and part.startswith("`"):
            text += ("\\ " if text[-1:].isalnum() else "") + f"`{part}`"
        else:  # a letter directly after code would keep it from ending
            joint = "\\ " if text.endswith("`") and part[:1].isalnum() else ""
            text += joint + re.sub(r"([\\*`|_])", r"\\\1", part)
    return re.sub(r"^(\W)", r"\\\1", text) if re.match(r"[-+#=.~^\"':]", text) else text


# The index for language models


def llms_text(docs: Path) -> str:
    """The text of llms.txt: every page with its first paragraph, by section of the home page."""
    home = (docs / "index.md").read_text(encoding="utf-8")
    parts = ["# Headway", f"> {_first_paragraph(home)}"]
    seen = {"index"}  # a page that a glob finds again is in its first section only
    for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", home, re.MULTILINE | re.DOTALL):
        caption = re.search(r":caption: (.+)", tree)
        lines = [line.strip() for line in tree.split("\n")]
        names = [line for line in lines if line and not line.startswith(":")]
        rows = list(_index_rows(docs, names, seen))
        parts += [f"## {caption[1] if caption else 'Pages'}", "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _index_rows(docs: Path, names: Sequence[str], seen: set[str]) -> Iterator[str]:
    for name in names:
        paths = sorted(docs.glob(f"{name}.md")) if "*" in name else [docs / f"{name}.md"]
        for path in paths:
            page = path.relative_to(docs).with_suffix("").as_posix()
            if page in seen:
                continue
            seen.add(page)
            text = path.read_text(encoding="utf-8")
            title = re.search(r"^# (.+)$", text, re.MULTILINE)
            shown = title[1].replace("`", "") if title else page
            yield f"- [{shown}]({page}.html): {_first_paragraph(text)}"


def _first_paragraph(text: str) -> str:
    """The first paragraph below the title, as one line without links."""
    below = re.split(r"^# .+$", text, maxsplit=1, flags=re.MULTILINE)[-1]
    below = re.sub(r"^(`{3,}).*?^\1$", "", below, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", below.strip()):
        if not paragraph.startswith(("<!--", "|", "#", "!", "(")):
            return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(paragraph.split()))
    return ""
