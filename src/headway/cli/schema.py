"""`headway schema`: the settings of a recipe for editors."""

from __future__ import annotations

from headway.base.settings_schema import schema_of
from headway.terminal.console import data_json


def schema(name: str = "translate", /) -> None:
    """Print a JSON schema of the settings of a recipe, for editors of YAML files.

    An editor with a YAML language server completes and checks the file of headway config show,
    whose first lines name the schema: headway schema translate > translate.schema.json

    Parameters
    ----------
    name
        A recipe; headway train --help lists all.
    """
    from headway.runs import recipe  # imports torch, and the help needs none

    data_json(schema_of(recipe(name), f"Settings of headway train {name}"))
