"""`headway`: runs a command, and turns errors into three lines and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Group, Parameter

from headway.base.errors import HeadwayError, OutOfMemory, UsageError, is_out_of_memory
from headway.base.files import cannot_open
from headway.base.memory import limit_memory
from headway.cli.align import align
from headway.cli.check import data_app
from headway.cli.compare import compare
from headway.cli.configure import config_app
from headway.cli.console import (
    finish,
    on_output,
    prepare_streams,
    report,
    report_bug,
    talk,
    warnings_on_one_line,
)
from headway.cli.demo import demo
from headway.cli.doctor import doctor, version
from headway.cli.embed import embed
from headway.cli.evaluate import evaluate_command, named_evaluate
from headway.cli.exercise import exercise_app
from headway.cli.export import export
from headway.cli.figures import figures
from headway.cli.flags import check_number
from headway.cli.generate import chat, generate
from headway.cli.inputs import utf8_arguments
from headway.cli.inspect import inspect, ui
from headway.cli.lecture import lecture
from headway.cli.look import look
from headway.cli.plan import plan
from headway.cli.quantize import quantize
from headway.cli.report import report as report_run
from headway.cli.runs import runs_app
from headway.cli.serve import serve
from headway.cli.similar import similar
from headway.cli.streams import files_of_streams
from headway.cli.train import train
from headway.cli.train_help import check_name, show_help
from headway.cli.verbs import named_verb, verb_command
from headway.cli.words import words_app
from headway.tasks.registry import verbs

HELP = {"--help", "-h"}

HELP_TEXT = """Train, run and inspect Transformers. Start with: headway demo

Results are written to standard output, messages to standard error. Results in a file or a pipe are
always UTF-8; a terminal whose encoding lacks a character shows it as a backslash escape. Exit
codes: 0 success, 1 failure, 2 wrong usage, 3 bad data, 4 out of memory, 130 interrupted.
"""

app = App(
    name="headway",
    help=HELP_TEXT,
    version=version,
    help_flags=sorted(HELP),
    console=on_output(),
    default_parameter=Parameter(validator=check_number),
)
TRAIN, USE, INSPECT, LEARN, DATA, RUNS, SYSTEM = (
    Group(name, sort_key=position)
    for position, name in enumerate(("Train", "Use", "Inspect", "Learn", "Data", "Runs", "System"))
)
app["--help"].group = app["--version"].group = SYSTEM
app.command(demo, group=TRAIN)
app.command(train, group=TRAIN)
app.command(compare, group=TRAIN)
app.command(plan, group=TRAIN)
app.command(generate, group=USE)
app.command(chat, group=USE)
app.command(embed, group=USE)
app.command(similar, group=USE)
app.command(align, group=USE)
app.command(serve, group=USE)
app.command(inspect, group=INSPECT)
app.command(ui, group=INSPECT)
app.command(look, group=INSPECT)
app.command(figures, group=INSPECT)
app.command(lecture, group=INSPECT)
app.command(report_run, name="report", group=RUNS)
app.command(export, group=RUNS)
app.command(quantize, group=RUNS)
app.command(doctor, group=SYSTEM)
for group, subcommands in (
    (USE, words_app),
    (LEARN, exercise_app),
    (DATA, data_app),
    (RUNS, runs_app),
    (SYSTEM, config_app),
):
    subcommands.group = group
    app.command(subcommands)

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exit codes: 0 ok, 1 failed, 2 usage, 3 bad data, 4 memory, 130 interrupted."""
    limit_memory()
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if debug:
        _call(words)
        return
    try:
        with warnings_on_one_line():
            code = _run(words)
    except HeadwayError as error:  # the error itself could not be printed
        code = error.exit_code
    sys.exit(finish(code))


def _run(words: list[str]) -> int:
    try:
        _check_current_folder()
        words = utf8_arguments(words)
        wants_help = bool(HELP.intersection(words))
        without = [word for word in words if word not in HELP]
        if wants_help and words[0] in ("train", "compare"):
            check_name(without)
        _call(words)
        if wants_help and words[0] == "train":
            show_help(without[1:])
    except CycloptsError as error:
        command = f"headway {words[0]}" if words and words[0] in app else "headway"
        report(UsageError(" ".join(str(error).split()), hint=f"{command} --help"))
        return UsageError.exit_code
    except HeadwayError as error:
        report(error)
        return error.exit_code
    except KeyboardInterrupt:
        talk.print("interrupted")
        return INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1
    except BrokenPipeError:
        return 0
    except OSError as error:
        return _report_path_error(error)
    except UnicodeEncodeError as error:
        if error.encoding == "utf-8":
            report_bug(error)
            return 1
        report(_unencodable_name(error))
        return UsageError.exit_code
    except Exception as error:
        if is_out_of_memory(error):
            return _report_out_of_memory(error)
        report_bug(error)
        return 1
    return 0


def _check_current_folder() -> None:
    """UsageError if the current folder was removed: libraries that load files from it abort."""
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the current folder cannot be used: {error.strerror or error}",
            hint="change to a folder that exists (cd)",
        ) from error


def _call(words: list[str]) -> None:
    register_verbs(words[:1])
    with files_of_streams(words) as arguments:
        app(arguments, exit_on_error=False, print_error=False, result_action="return_value")


def register_verbs(imported: Sequence[str]) -> None:
    """Register the verbs of all tasks as commands.

    imported: verbs whose tasks are imported, since their inputs and options are the flags. The
    others are placeholders, so that `headway --help` does not import torch.
    """
    commands = {
        verb: verb_command(verb) if verb in imported else named_verb(verb) for verb in verbs()
    }
    commands["eval"] = evaluate_command() if "eval" in imported else named_evaluate()
    for name, command in commands.items():
        if name in app:
            del app[name]
        app.command(command, name=name, group=RUNS if name == "eval" else USE)


def _unencodable_name(error: UnicodeEncodeError) -> UsageError:
    return UsageError(
        f"the encoding of file names is {error.encoding}, which cannot represent {error.object!r}",
        hint="set a UTF-8 locale (LC_ALL=C.UTF-8) or PYTHONUTF8=1",
    )


def _report_path_error(error: OSError) -> int:
    """Report an error of the operating system that names a path; any other is unexpected."""
    if not isinstance(error.filename, str) or error.errno is None:
        report_bug(error)
        return 1
    path_error = cannot_open(Path(error.filename), error)
    report(path_error)
    return path_error.exit_code


def _report_out_of_memory(error: BaseException) -> int:
    """Report a failed allocation of a verb; training has its own advice (`memory_explained`)."""
    hint = "fewer or shorter inputs at a time, or a smaller model"
    report(memory_error := OutOfMemory.of(error, hint))
    return memory_error.exit_code


__all__ = ["app", "main"]
