"""`headway config`: shows and explains settings; `headway schema`: the settings for editors."""

from pathlib import Path

from headway.base.config_files import RUN_FILE, read_run_file, write_yaml
from headway.base.settings import Configuration, fields_of, setting
from headway.base.settings import explain as explain_one
from headway.base.settings_schema import schema_of
from headway.cli.flags import as_flags
from headway.terminal.console import data, data_json


def show(name: str = "translate", /) -> None:
    """Print the configuration of a recipe or a run folder as YAML, in the format of --config.

    Parameters
    ----------
    name
        A recipe (translate, words, ...; headway train --help lists all) or a run folder.
    """
    from headway.runs import recipe  # imports torch, and the help needs none

    saved = Path(name) / RUN_FILE
    if saved.is_file():
        read_run_file(Path(name))  # raises DataError for a damaged file
        data(saved.read_text(encoding="utf-8").rstrip())
    else:
        schema = f"{name}.schema.json"
        editors = [f"headway schema {name} > {schema}", f"yaml-language-server: $schema={schema}"]
        data(write_yaml(recipe(name), editors).rstrip())


@as_flags
class ExplainFlags:
    recipe: str = setting(
        "translate", "Recipe whose settings are explained; headway train --help lists all recipes."
    )


def explain(key: str | None = None, /, *, flags: ExplainFlags = ExplainFlags()) -> None:
    """Explain a setting; without a name, list all settings of a recipe.

    Parameters
    ----------
    key
        Dotted name of a setting, such as optimizer.lr.
    """
    from headway.decoding import GenerationConfig
    from headway.runs import configurations, recipe

    config = recipe(flags.recipe)
    if key is None:
        data("\n".join(explain_one(config, name) for name in fields_of(config)))
        return
    # Hints name settings of other recipes and of generation without a recipe.
    name = key.replace("-", "_").lstrip("_")
    configs: list[Configuration] = [config, *configurations(), GenerationConfig()]
    with_setting = [candidate for candidate in configs if name in fields_of(candidate)]
    data(explain_one(with_setting[0] if with_setting else config, name))


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
