"""Flags are made from dataclasses of settings, and checked like settings from any other source."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from cyclopts import App, CoercionError, UnknownOptionError

from headway.base.settings import Field, declared, setting
from headway.cli.flags import OUTPUT, SEVERAL, as_flags, check_name, split_words, takes


@as_flags
class Base:
    threads: int | None = setting(None, "Number of threads.", gt=0, le=8)


@as_flags
class Flags(Base):
    top: int = setting(10, "Number of texts.", ge=1, le=100)
    levels: Literal[31, 63] = setting(31, "Levels.")
    layers: Annotated[tuple[int, ...], SEVERAL] = setting((), "Layers.")
    names: list[str] | None = setting(None, "Names.")
    output: Annotated[Path | None, OUTPUT] = setting(None, "New file.")
    json: bool = setting(False, "JSON.")
    copies: int | Literal["auto"] | None = setting(None, "Number of copies.", gt=0, le=9)


DEFAULT = Flags()


def verb(run: str, /, *texts: str, flags: Flags = DEFAULT, **settings: Any) -> Any:
    """Do it."""
    return run, texts, flags, settings


def called(*words: str) -> Any:
    fields = {name: declared(Flags)[name] for name in ("top", "layers")}
    options = {"beam": fields["top"], "data.ids": fields["layers"]}
    app = App(name="headway")
    app.command(takes(options)(verb))
    return app(
        ["verb", *words], exit_on_error=False, print_error=False, result_action="return_value"
    )


def test_values_are_parsed_by_the_types_of_the_fields_own_and_inherited():
    words = "r a b --top 3 --levels 63 --layers 1 2 -o x.png --names one,two --names three --json"
    _, texts, flags, _ = called(*words.split(), "--threads", "2")
    assert texts == ("a", "b") and (flags.top, flags.levels, flags.threads) == (3, 63, 2)
    assert flags.layers == (1, 2) and flags.names == ["one,two", "three"]
    assert flags.output == Path("x.png") and flags.json
    assert called("r", "--layers", "1,2")[2].layers == (1, 2)


def test_a_verb_gets_only_the_settings_that_were_set():
    assert called("r")[2:] == (Flags(), {})
    assert called("r", "--beam", "10", "--data.ids", "5")[3] == {"beam": 10, "data.ids": (5,)}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--top 0", "--top=0: must be a whole number at least 1 and at most 100"),
        ("--top nan", "--top=nan: must be a whole number"),
        ("--beam 101", "--beam=101: must be"),
        ("--threads x", "--threads=x: must be a whole number more than 0 and at most 8, or none"),
        ("--copies x", "must be a whole number more than 0 and at most 9, or auto, or none"),
        ("--levels 32", "--levels=32: must be one of 31, 63"),
        ("--layers 1 x", "each a whole number"),
    ],
)
def test_a_wrong_value_names_the_flag_and_what_is_allowed(words, message):
    with pytest.raises(CoercionError) as caught:
        called("r", *words.split())
    assert message in str(caught.value.__cause__)


def test_the_nearest_flag_is_proposed():
    with pytest.raises(UnknownOptionError, match="--beam"):
        called("r", "--bean", "3")


def test_the_nearest_name_is_proposed():
    check_name("mask", ["mask", "words"], "figure")
    with pytest.raises(ValueError, match=r"unknown figure 'wrods'\. Did you mean words\?"):
        check_name("wrods", ["mask", "words"], "figure")


def test_a_setting_without_a_value_is_true_and_short_names_are_known():
    words = ["gpt", "text.txt", "--steps", "3", "--model=small", "--compile", "--lora.rank", "2"]
    assert split_words(words) == (
        ["gpt", "text.txt"],
        {
            "training.steps": "3",
            "model.size": "small",
            "machine.compile": "true",
            "lora.rank": "2",
        },
    )


def test_a_setting_without_a_default_is_required():
    needed = Field("context", str, dataclasses.MISSING, "A text.", {})

    @takes({"context": needed})
    def answer(run: str, /, **settings: Any) -> Any:
        return settings

    app = App(name="headway")
    app.command(answer)
    with pytest.raises(Exception, match="--context requires an argument"):
        app(["answer", "r"], exit_on_error=False, print_error=False)
