"""Trains the small models of the tour and writes their inspection pages, for `make docs`.

    python docs/live.py            train what is missing, and write the pages
    python docs/live.py --check    exit code 1 unless every page is up to date

Models and pages are below build/live/. A model is trained again if the code that trains it, its
commands or the version of torch change; a page also if the code of the inspection changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src" / "headway"
FOLDER = ROOT / "build" / "live"
NOT_TRAINING = {
    *("cli", "comparisons", "exercises", "exporting", "inspection", "interop", "lectures"),
    *("serving", "suites", "terminal"),
}
"""Packages that do not change what a training run learns."""
HEADER = re.compile(rb'<script type="application/json" id="header">(.*?)</script>', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model that is trained in a folder of its own. commands: as in a shell, in order."""

    commands: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """The inspection page of one input of a model.

    inspect: the arguments of `headway inspect`. answers: parts of the output of the model; the
    captions in the tour are true if it has one of them, which one depends on the processor.
    title: what the page shows.
    """

    model: str
    inspect: str
    title: str
    answers: tuple[str, ...] = ()


_EMOJI = "headway data fetch emoji-names"
_TRANSLATE = "headway train emoji-names data/emoji-names-en-fr --source en --target fr --threads 1"
_PYTHON = "--data python-docs --data.vocabulary 1000 --threads 1"
_DIGIT = (
    "import numpy, PIL.Image, sklearn.datasets as d; "
    "PIL.Image.fromarray((d.load_digits().images[4] * 15.9).astype(numpy.uint8)).save('four.png')"
)

MODELS = {
    "translator": Model(
        commands=(
            _EMOJI,
            f"{_TRANSLATE} --model.encoder-layers 2 --model.decoder-layers 2 --steps 450"
            " --run translator",
        )
    ),
    "rnn": Model(
        commands=(
            _EMOJI,
            f"{_TRANSLATE} --model rnn --model.attention additive --steps 450 --run rnn",
        )
    ),
    "gpt": Model(commands=(f"headway train gpt-tiny {_PYTHON} --steps 450 --run gpt",)),
    "bert": Model(commands=(f"headway train bert-tiny {_PYTHON} --steps 700 --run bert",)),
    "vit": Model(
        commands=(
            f"python -c {shlex.quote(_DIGIT)}",
            "headway train vision-digits --steps 400 --threads 1 --run vit",
        )
    ),
    "captioner": Model(
        commands=(
            "python examples/coloured_shapes.py shapes",
            "headway train caption shapes/captions.tsv --data.text en --data.vocabulary 300"
            " --model.vit.patch-size 4 --model.vit.num-layers 2 --model.vit.model-dim 64"
            " --model.vit.ffn-dim 256 --model.gpt.num-layers 2 --model.gpt.model-dim 64"
            " --model.gpt.ffn-dim 256 --steps 700 --threads 1 --run captioner",
        )
    ),
}

PAGES = {
    "translator": Page(
        model="translator",
        inspect='runs/translator "woman with red hair" --map cross --layer 2',
        title="A Transformer translates from English to French",
        answers=("cheveux roux",),
    ),
    "rnn": Page(
        model="rnn",
        inspect='runs/rnn "white medium square" --no-walk',
        title="A recurrent network with attention translates from English to French",
        answers=("carré moyen blanc",),
    ),
    "gpt": Page(
        model="gpt",
        inspect='runs/gpt "The for statement is used to iterate over the elements of a sequence"',
        title="A GPT reads a sentence of the Python manual",
    ),
    "bert": Page(
        model="bert",
        inspect='runs/bert "a [MASK] definition defines a new function"',
        title="A BERT predicts a masked word",
        answers=("function", "class"),
    ),
    "vit": Page(
        model="vit",
        inspect="runs/vit four.png",
        title="A Vision Transformer classifies a handwritten digit",
        answers=("4",),
    ),
    "captioner": Page(
        model="captioner",
        inspect="runs/captioner shapes/21.png",
        title="A captioner describes an image of two shapes",
        answers=("a red circle above a blue square",),
    ),
}
"""Name of a page -> what it shows; `{live}` blocks of the tour name it."""


class NotMade(Exception):
    """A model could not be trained, or a page not written."""


# Keys


def _digest(*parts: str | bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:16]


@cache
def _code(is_page: bool) -> str:
    """The digest of the source files that decide a page, or a model."""
    paths = []
    for path in sorted(SOURCES.rglob("*")):
        package = path.relative_to(SOURCES).parts[0]
        decides = package == "inspection" if is_page else package not in NOT_TRAINING
        if decides and path.is_file() and path.suffix in (".py", ".js", ".css", ".json"):
            paths.append(path)
    names = (path.relative_to(SOURCES).as_posix() for path in paths)
    return _digest(
        *(
            part
            for name, path in zip(names, paths, strict=True)
            for part in (name, path.read_bytes())
        )
    )


def model_key(name: str) -> str:
    """The digest of what decides a model: its commands, code, and the version of torch."""
    from importlib.metadata import version

    commands = MODELS[name].commands
    programs = [
        (ROOT / word).read_bytes()
        for command in commands
        for word in shlex.split(command)
        if word.startswith("examples/")
    ]
    return _digest(*commands, *programs, version("torch"), _code(False))


def page_key(name: str) -> str:
    """The digest of what decides a page: its model, its input, and the code of the inspection."""
    page = PAGES[name]
    return _digest(model_key(page.model), page.inspect, *page.answers, _code(True))


# Files


def page_path(name: str, folder: Path | None = None) -> Path:
    """The file of a page; its name has the key, so that a page of other code is another file."""
    return (folder or FOLDER) / "pages" / f"{name}-{page_key(name)}.html"


def model_folder(name: str, folder: Path | None = None) -> Path:
    return (folder or FOLDER) / "models" / f"{name}-{model_key(name)}"


def missing(folder: Path | None = None) -> list[str]:
    """The names of the pages that do not exist for the present code and commands."""
    return [name for name in PAGES if not page_path(name, folder).is_file()]


# Making


def make(folder: Path | None = None, jobs: int = 1) -> None:
    """Train the models and write the pages that are missing, and remove those of former code.

    jobs: the number of models that are trained at the same time, each with one thread. NotMade if
    a command fails, or if a model does not give the answer that the tour describes.
    """
    wanted = missing(folder)
    models = dict.fromkeys(PAGES[name].model for name in wanted)
    absent = [name for name in models if not model_folder(name, folder).is_dir()]
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda name: _train(name, folder), absent))
        list(pool.map(lambda name: _write(name, folder), wanted))
    _sweep(folder)


def _train(name: str, folder: Path | None) -> None:
    """Train a model in a temporary folder, which gets its name when all commands have run."""
    begun = time.monotonic()
    final = model_folder(name, folder)
    temporary = final.with_name(final.name + ".part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    (temporary / "examples").symlink_to(ROOT / "examples")
    for command in MODELS[name].commands:
        _run(command, temporary)
    temporary.rename(final)
    print(f"trained {name} in {time.monotonic() - begun:.0f} s", flush=True)


def _write(name: str, folder: Path | None) -> None:
    page, path = PAGES[name], page_path(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part.html")
    temporary.unlink(missing_ok=True)
    _run(f"headway inspect {page.inspect} --html {temporary}", model_folder(page.model, folder))
    answer = answer_of(temporary)
    if page.answers and not any(part in answer for part in page.answers):
        raise NotMade(
            f"{name}: the model answers {answer!r}, but the tour describes "
            f"{' or '.join(page.answers)}; train longer, or choose another input in docs/live.py "
            "and describe it in docs/tour"
        )
    temporary.rename(path)
    print(f"wrote {path.name}, {path.stat().st_size / 1e6:.1f} MB", flush=True)


def answer_of(path: Path) -> str:
    """The output of the model that a page shows, from the header of the page."""
    return str(_frame(path)["answer"])


def head_of(path: Path, maps: str, kind: str) -> tuple[int, int]:
    """The layer and the head, from 0, that is more of a kind than all others in the maps of a page.

    Which one it is depends on the processor that trained the model. maps, kind: names in the page,
    such as decoder and previous token.
    """
    # other measures of the same maps, which come after their weights, have no patterns
    weights = next(found for found in _frame(path)["maps"] if found["name"] == maps)
    scores = {
        (layer, head): patterns[kind]
        for layer, heads in enumerate(weights["patterns"])
        for head, patterns in enumerate(heads)
        if patterns.get(kind) is not None
    }
    return max(scores, key=lambda head: scores[head])


def _frame(path: Path) -> dict[str, Any]:
    match = HEADER.search(path.read_bytes())
    if match is None:
        raise NotMade(f"{path}: this is no inspection page; it has no header")
    frame: dict[str, Any] = json.loads(match[1])["frames"][0]
    return frame


def _run(command: str, folder: Path) -> None:
    words = shlex.split(command)
    program = {"headway": ["-m", "headway"], "python": []}[words[0]]
    paths = [str(SOURCES.parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    done = subprocess.run(
        [sys.executable, *program, *words[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NotMade(f"in {folder}: {command}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def _sweep(folder: Path | None) -> None:
    """Remove models and pages of former code; models of present pages stay."""
    kept = {page_path(name, folder) for name in PAGES}
    kept |= {model_folder(name, folder) for name in MODELS}
    for path in _made(folder):
        if path not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _made(folder: Path | None) -> Iterator[Path]:
    for part in ("models", "pages"):
        within = (folder or FOLDER) / part
        if within.is_dir():
            yield from list(within.iterdir())


def commands_of(name: str) -> Mapping[str, Sequence[str]]:
    """What a reader types to make a page: the training and the inspection."""
    page = PAGES[name]
    return {
        "train": MODELS[page.model].commands,
        "inspect": (f"headway inspect {page.inspect} --html page.html",),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only report what is missing")
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(4, os.cpu_count() or 1),
        help="models that are trained at the same time, each with one thread",
    )
    arguments = parser.parse_args()
    if arguments.check:
        print("\n".join(missing()))
        return bool(missing())
    try:
        make(jobs=max(1, arguments.jobs))
    except NotMade as error:
        print(f"docs/live.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
