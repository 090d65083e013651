"""`headway config`: what can be set, and what it is set to."""

from __future__ import annotations

from pathlib import Path

from cyclopts import App

from headway.cli.console import data

config_app = App(name="config", help="See every setting of a recipe or a run.")


@config_app.command
def show(name: str = "translate", /) -> None:
    """Print the whole configuration of a recipe or a run folder, as YAML that --config takes.

    Parameters
    ----------
    name
        A recipe (translate, translate-multi30k, emoji-names) or a run folder.
    """
    from headway.recipes import recipe
    from headway.settings import write_yaml

    saved = Path(name) / "run.yaml"
    if saved.is_file():
        data(saved.read_text(encoding="utf-8").rstrip())
    else:
        data(write_yaml(recipe(name)).rstrip())


@config_app.command
def explain(key: str | None = None, /) -> None:
    """Say what a setting means; without a name, list them all.

    Parameters
    ----------
    key
        A dotted name, like optimizer.lr.
    """
    from headway.recipes import RunConfig
    from headway.settings import explain as explain_one
    from headway.settings import fields_of

    config = RunConfig()
    data("\n".join(explain_one(config, k) for k in ([key] if key else fields_of(config))))
