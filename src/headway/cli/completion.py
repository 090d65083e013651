"""`headway completion`: completes commands and flags in a shell."""

from typing import Literal

from headway.cli.main import application
from headway.terminal.console import data


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and flags in a shell.

    bash: headway completion bash > ~/.local/share/bash-completion/completions/headway
    zsh: headway completion zsh > a file _headway in a folder of $fpath
    fish: headway completion fish > ~/.config/fish/completions/headway.fish

    Parameters
    ----------
    shell
        The shell that reads the script.
    """
    data(application().generate_completion(prog_name="headway", shell=shell).rstrip())
