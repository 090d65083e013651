"""The help names each command with one whole sentence."""

import pytest

from headway.cli.main import COMMANDS, PATHS, SUBCOMMANDS, _summary

NAMES = [
    *(name for names in COMMANDS.values() for name in names if name not in SUBCOMMANDS),
    *(f"{name} {part}" for name, (_, parts) in SUBCOMMANDS.items() for part in parts),
]


@pytest.mark.parametrize("name", NAMES)
def test_the_summary_of_a_command_is_not_cut_off(name):
    """It is the first line of a docstring, which may go on in the next line."""
    module, _, function = name.partition(" ")
    summary = _summary(f"headway.cli.{PATHS.get(name, f'{module}:{function or module}')}")
    assert summary.endswith(".") and "\n" not in summary
