"""Every numeric flag and setting, with extreme values: a result or a clear error, at once."""

import functools
import operator
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from headway.base.devices import MachineConfig
from headway.base.errors import UsageError
from headway.base.settings import COMMAND_LINE, MOST, Field, declared, fields_of, override
from headway.cli.flags import spelled
from headway.cli.main import application
from headway.decoding import GenerationConfig
from headway.runs import configurations, recipe, recipes
from tests.fixtures.bundles import (
    answerer,
    bert_classifier,
    captioner,
    encoder,
    gpt,
    tagger,
    translator,
)
from tests.fixtures.command_line import headway
from tests.fixtures.images import pixels_of
from tests.fixtures.small_whisper import noise, transcriber, write_wav
from tests.fixtures.word_vectors import word_vector_bundle as words

VALUES = ("nan", "inf", "-1", "0", "1000000000")
SECONDS = 10.0  # processor time, so that a busy machine is no failure
LIMITS = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
BUNDLES: dict[str, Any] = {
    "translator": translator,
    "gpt": gpt,
    "encoder": lambda: encoder(max_length=40),
    "classifier": bert_classifier,
    "tagger": tagger,
    "answerer": answerer,
    "captioner": captioner,
    "words": words,
    "transcriber": transcriber,
}
QUESTION = ("answerer", "Who waves?", "--context", "The old baker waves to a fox.")
CALLS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("demo",): (),
    ("train",): ("gpt-tiny", "no-such-file.txt"),
    ("compare",): ("no-such-plan",),
    ("plan",): ("gpt2-small",),
    ("eval",): ("translator", "pairs.tsv", "--source", "en", "--target", "de"),
    ("bench",): ("gpt", "--suite", "agreement", "--limit", "2"),
    ("translate",): ("translator", "two dogs"),
    ("generate",): ("gpt", "the fox", "--max-tokens", "3"),
    ("chat",): ("gpt", "--max-tokens", "3"),
    ("classify",): ("classifier", "The old baker."),
    ("caption",): ("captioner", "image.png"),
    ("transcribe",): ("transcriber", "talk.wav"),
    ("fill",): ("encoder", "The old [MASK] waves."),
    ("embed",): ("encoder", "The old baker."),
    ("serve",): ("gpt", "--name", "a", "--name", "b"),  # ends before it listens
    ("similar",): ("encoder", "a baker", "The old baker.", "A fox."),
    ("align",): ("translator", "pairs.tsv", "--source", "en", "--target", "de"),
    ("data", "clean"): ("pairs.tsv", "clean.tsv", "--source", "en", "--target", "de"),
    ("data", "tokenize"): ("pairs.tsv",),  # refused: no text
    ("inspect",): ("translator", "two dogs", "--term"),
    ("ui",): ("translator",),
    ("look",): ("image.png",),
    ("figures",): ("no-such-figure",),
    ("tag",): ("tagger", "The old baker."),
    ("answer",): QUESTION,
    ("words", "nearest"): ("words", "fox"),
    ("words", "analogy"): ("words", "fox", "bread", "dog"),
    ("words", "scatter"): ("words", "--json"),
    ("lecture",): ("no-such-claim",),
}
"""The complete command of each verb that takes a number, to which a flag is added."""
GENERATION = {spelled(key) for key in declared(GenerationConfig)}
SERVES = {"0"}  # port 0 is any free port, and the server runs


@functools.cache
def flags() -> list[tuple[tuple[str, ...], str]]:
    """The verb and name of every flag of the command line that takes one or several numbers."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        for name in (name for name in command if not name.startswith("-")):
            yield from walk(command[name], (*path, name))
        if command.default_command is not None:
            for argument in command.assemble_argument_collection():
                if path == ("chat",) and argument.names[0] in GENERATION:
                    continue  # those of generate
                if {"int", "float"} & set(str(argument.hint).replace("'", " ").split()) or any(
                    kind in str(argument.hint) for kind in ("[int", "[float")
                ):
                    yield path, argument.names[0]

    return list(walk(application(), ()))


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    for name, make in BUNDLES.items():
        torch.manual_seed(3)
        make().save(folder / name)
    (folder / "pairs.tsv").write_text("en\tde\ntwo dogs\tzwei hunde\nbread\tbrot\n")
    Image.fromarray(pixels_of(6, 8)).save(folder / "image.png")
    write_wav(folder / "talk.wav", noise(0.5))
    return folder


def run_and_check(run: Any, *words: str, seconds: float = SECONDS) -> tuple[int, str]:
    """Return the exit code and the standard error of a run that gives a result or a clear error."""
    start = time.process_time()
    code, stderr = run(*words)
    assert time.process_time() - start < seconds, words
    assert code in (0, 1, 2, 3, 4), (words, stderr)
    assert "unexpected" not in stderr and "Traceback" not in stderr, (words, stderr)
    if code:
        assert "error:" in stderr, words
    return code, stderr


@pytest.fixture
def run(working_folder):
    """Run the command line; the function returns the exit code and the standard error."""

    def call(*words: str) -> tuple[int, str]:
        done = headway(*words, cwd=working_folder, text="the fox\n", check=None)
        return done.returncode, done.stderr

    return call


def test_every_flag_with_a_number_has_limits():
    def walk(command: Any) -> Iterator[Any]:
        for name in (name for name in command if not name.startswith("-")):
            yield from walk(command[name])
        if command.default_command is not None:
            yield from command.assemble_argument_collection()

    names = {flag for _, flag in flags()}
    checked = [argument for argument in walk(application()) if argument.names[0] in names]
    assert len(checked) > 40
    assert all(argument.parameter.converter for argument in checked)


def test_every_verb_with_a_number_is_tested():
    assert {path for path, _ in flags()} == set(CALLS)


@pytest.mark.turns(9)
@pytest.mark.parametrize("path", CALLS, ids=" ".join)
def test_every_number_of_a_verb_gives_a_result_or_a_clear_error(run, path):
    refused = 0
    for flag in (flag for verb, flag in flags() if verb == path):
        for value in VALUES:
            if flag == "--port" and value in SERVES:
                continue
            code, stderr = run_and_check(run, *path, *CALLS[path], f"{flag}={value}")
            refused += bool(code)
            if value in ("nan", "inf"):
                assert code == 2, (path, flag, value, stderr)
    assert refused


def numeric(config: Any) -> Iterator[tuple[str, Field]]:
    """The numeric settings, which have a lower and an upper limit."""
    for key, field in fields_of(config).items():
        if {"ge", "gt"} & field.limits.keys() and {"le", "lt"} & field.limits.keys():
            yield key, field


def edges(field: Field) -> list[str]:
    """The limits of a setting, and the values just below and above them."""
    values = []
    for limit in field.limits.values():
        values += [f"{limit}", f"{limit - 1}", f"{limit + 1}"]
    return values


def exact(value: str) -> float | int:
    """The value as a number; an integer is not rounded."""
    return int(value) if value.lstrip("-").isdigit() else float(value)


def every_configuration():
    return [*(recipe(name) for name in recipes()), *configurations(), GenerationConfig()]


def test_no_setting_is_without_limits():
    for config in every_configuration():
        numbers = {
            key
            for key, field in fields_of(config).items()
            if {"int", "float"} & set(str(field.type).replace("'", " ").split())
        }
        assert numbers <= dict(numeric(config)).keys(), config


def test_every_setting_at_and_beyond_its_limits_is_accepted_or_refused_by_name():
    settings = {
        (key, *sorted(field.limits.items())): (config, field)
        for config in every_configuration()
        for key, field in numeric(config)
    }
    for (key, *_), (config, field) in settings.items():
        for value in (*VALUES, *edges(field)):
            inside = all(LIMITS[bound](exact(value), x) for bound, x in field.limits.items())
            try:
                override(config, {key: value}, COMMAND_LINE)
            except UsageError as error:  # a value within its limits may contradict other settings
                assert inside or str(error).startswith(f"{key}={value}: must be "), error
            else:
                assert inside, (key, value)


def test_more_threads_than_a_machine_can_start_are_refused_before_the_start(run):
    code, stderr = run_and_check(run, "translate", "translator", "dogs", "--threads", "1000000000")
    assert code == 2 and "threads" in stderr and "1,024" in stderr
    assert fields_of(MachineConfig())["threads"].limits["le"] < MOST
