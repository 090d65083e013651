"""`headway`: runs a command, and turns errors into three lines and an exit code."""

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from cyclopts import App, CycloptsError, Group, Parameter, UnusedCliTokensError

from headway.base.errors import HeadwayError, OutOfMemory, UsageError, is_out_of_memory
from headway.base.files import DISK_ERRORS, advice, cannot_open
from headway.base.memory import limit_memory
from headway.cli.flags import check_name
from headway.cli.streams import files_of_streams
from headway.cli.version import version
from headway.tasks.registry import TASKS, verbs
from headway.terminal.console import (
    finish,
    on_output,
    prepare_streams,
    report,
    report_bug,
    talk,
    utf8_arguments,
    warnings_on_one_line,
)

HELP = {"--help", "-h"}

HELP_TEXT = """Train, run and inspect Transformers. Start with: headway demo

Results are written to standard output, messages to standard error. Results in a file or a pipe are
always UTF-8; a terminal whose encoding lacks a character shows it as a backslash escape. Exit
codes: 0 success, 1 failure, 2 wrong usage, 3 bad data, 4 out of memory, 130 interrupted.
"""

COMMANDS = {
    "Train": ("demo", "train", "compare", "plan"),
    "Use": ("generate", "chat", "embed", "similar", "align", "serve", "words"),
    "Inspect": ("inspect", "ui", "look", "figures", "lecture"),
    "Learn": ("exercise",),
    "Data": ("data",),
    "Runs": ("report", "export", "quantize", "runs", "eval", "bench"),
    "System": ("doctor", "config", "schema", "completion"),
}
"""Group of the help -> its commands. "Use" has the verbs of the tasks, too."""

SUBCOMMANDS = {
    "words": (
        "Show neighbours, analogies and scatter plots of word vectors.",
        ("nearest", "analogy", "scatter"),
    ),
    "exercise": (
        "Write parts of a Transformer yourself, with checks that explain.",
        ("list", "start", "check", "hint", "solution", "report"),
    ),
    "data": (
        "Make or download data sets; check, clean and tokenise your own.",
        ("fetch", "check", "clean", "tokenize"),
    ),
    "runs": ("List the runs in a folder, or show one.", ("ls", "show")),
    "config": ("Show or explain the settings of a recipe or a run.", ("show", "explain")),
}
"""Command -> its help and its subcommands, which are functions of the module of that name."""

PATHS = {
    "eval": "evaluate:evaluate",
    "report": "runs:report",
    "schema": "config:schema",
    "data check": "data_check:check",
    "data tokenize": "data_tokenize:tokenize",
    "exercise list": "exercise:list_exercises",
    "exercise check": "exercise_check:check",
    "exercise report": "exercise_check:report",
}
"""Commands whose module or function has another name."""

EXTRAS = {"serve": "serve", "ui": "serve"}
"""Commands that need packages -> the extra that installs them."""

WITH_NAMES = ("train", "compare", "lecture")
"""Commands whose module has a function `check_named`, which raises UsageError if the arguments
beside --help name what does not exist."""

INTERRUPTED = 130


def application(named: Sequence[str] = ()) -> App:
    """The command line. A module of `cli` is imported only when its command runs.

    named: the command that runs, and its subcommand; their help is that of their function.
    """
    app = App(
        name="headway",
        help=HELP_TEXT,
        version=version,
        help_flags=sorted(HELP),
        console=on_output(),
        default_parameter=Parameter(negative_iterable=()),
    )
    groups = {title: Group(title, sort_key=number) for number, title in enumerate(COMMANDS)}
    app["--help"].group = app["--version"].group = groups["System"]
    for title, commands in COMMANDS.items():
        for name in commands:
            if name not in SUBCOMMANDS:
                path = f"headway.cli.{PATHS.get(name, f'{name}:{name}')}"
                help = None if name in named else _summary(path)
                app.command(path, name=name, group=groups[title], help=help)
                continue
            summary, subcommands = SUBCOMMANDS[name]
            app.command(parent := App(name=name, help=summary, group=groups[title]))
            for subcommand in subcommands:
                path = f"headway.cli.{PATHS.get(f'{name} {subcommand}', f'{name}:{subcommand}')}"
                help = None if subcommand in named else _summary(path)
                parent.command(path, name=subcommand, help=help)
    for verb, tasks in verbs().items():
        if verb not in app:  # a package cannot replace a command
            help = None if verb in named else TASKS[tasks[0]].help
            app.command(f"headway.cli.verbs:{verb}", name=verb, group=groups["Use"], help=help)
    return app


def _summary(path: str) -> str:
    """The first line of the docstring of a function whose module is not imported."""
    module, function = path.split(":")
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    found = re.search(rf'^def {function}\(.*?^    """(.+?)(?:"""|$)', source, re.M | re.S)
    assert found is not None, path
    return found[1]


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
        _call(utf8_arguments(words))
    except KeyboardInterrupt:
        talk.print("interrupted")
        return INTERRUPTED
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1
    except BrokenPipeError:
        return 0
    except Exception as error:
        shown = explained(error)
        if shown is None:
            report_bug(error)
            return 1
        report(shown)
        return shown.exit_code
    return 0


def explained(error: Exception) -> HeadwayError | None:
    """What is wrong, where, and how to fix it; None for an error that is not expected.

    Training has its own advice on memory (`memory_explained`).
    """
    if isinstance(error, HeadwayError):
        return error
    if isinstance(error, CycloptsError):
        return _usage_error(error)
    if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
        return UsageError(
            f"the encoding of file names is {error.encoding}, which cannot represent "
            f"{error.object!r}",
            hint="set a UTF-8 locale (LC_ALL=C.UTF-8) or PYTHONUTF8=1",
        )
    if isinstance(error, OSError) and isinstance(error.filename, str) and error.errno is not None:
        return cannot_open(Path(error.filename), error)
    if isinstance(error, OSError) and error.errno in DISK_ERRORS:
        hint = advice(Path.cwd(), error.errno)
        return HeadwayError(f"cannot read or write a file: {error.strerror}", hint=hint)
    if is_out_of_memory(error):
        return OutOfMemory.of(error, "fewer or shorter inputs at a time, or a smaller model")
    return None


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
    app = application(words[:2])
    command, *rest = words or ["--help"]
    arguments = [word for word in rest if word not in HELP]
    asks_for_help = len(arguments) < len(rest)
    if not command.startswith("-"):
        commands = [name for name in app if not name.startswith("-")]
        check_name(command, commands, "command", "headway --help")
    if command in SUBCOMMANDS and arguments and not arguments[0].startswith("-"):
        names = SUBCOMMANDS[command][1]
        check_name(arguments[0], names, f"command of {command}", f"headway {command} --help")
    if asks_for_help and command in WITH_NAMES:
        import_module(f"headway.cli.{command}").check_named(arguments)
    with files_of_streams(words) as words:
        try:
            app(words, exit_on_error=False, print_error=False, result_action="return_value")
        except ImportError as error:
            if command not in EXTRAS or not isinstance(error.__cause__, ImportError):
                raise
            raise UsageError(
                f"headway {command} needs the package extra '{EXTRAS[command]}': {error.__cause__}",
                hint=f"pip install 'headway[{EXTRAS[command]}]'",
            ) from None
    if asks_for_help and command == "train":
        import_module("headway.cli.train_help").show_help(arguments)


def _usage_error(error: CycloptsError) -> UsageError:
    """An error of the command line: that of `base.settings`, or one of cyclopts in one line."""
    if isinstance(error.__cause__, UsageError):
        return error.__cause__
    what = " ".join(str(error).split())
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        what = f"unexpected argument {error.unused_tokens[0]!r}"
    chain = " ".join(["headway", *(error.command_chain or ())])
    return UsageError(what, hint=f"{chain} --help")


__all__ = ["application", "explained", "main"]
