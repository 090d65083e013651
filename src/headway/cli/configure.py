"""`headway config`: what can be set, and what it is set to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cyclopts import App

from headway.cli.console import data

config_app = App(name="config", help="Show or explain the settings of a recipe or a run.")


@config_app.command
def show(name: str = "translate", /) -> None:
    """Print the whole configuration of a recipe or a run folder, as YAML that --config takes.

    Parameters
    ----------
    name
        A recipe (translate, words, ...: headway train --help) or a run folder.
    """
    from headway.config_files import write_yaml
    from headway.runs import recipe

    saved = Path(name) / "run.yaml"
    if saved.is_file():
        data(saved.read_text(encoding="utf-8").rstrip())
    else:
        data(write_yaml(recipe(name)).rstrip())


@config_app.command
def explain(key: str | None = None, /, *, recipe: str = "translate") -> None:
    """Say what a setting means; without a name, list them all.

    Parameters
    ----------
    key
        A dotted name, like optimizer.lr.
    recipe
        Whose settings: those of translate and of words differ.
    """
    from headway.decoding import GenerationConfig
    from headway.runs import configurations
    from headway.runs import recipe as named
    from headway.settings import explain as explain_one
    from headway.settings import fields_of

    config = named(recipe)
    if key is None:
        data("\n".join(explain_one(config, each) for each in fields_of(config)))
        return
    # What only another recipe or generation has is found too: hints name it without the recipe.
    name = key.replace("-", "_").lstrip("_")
    every: list[Any] = [*configurations(), GenerationConfig()]
    others = [other for other in every if name in fields_of(other)]
    chosen = others[0] if others and name not in fields_of(config) else config
    data(explain_one(chosen, name))
