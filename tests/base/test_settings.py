"""Configuration: every value is checked when it is read, and every error says how to fix it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.base.config_files import YAML_LIMIT, read_yaml, write_yaml
from headway.base.errors import DataError, UsageError
from headway.base.settings import (
    differences,
    explain,
    fields_of,
    flat,
    flatten,
    override,
    section,
    setting,
    to_dict,
)


@dataclass(frozen=True, kw_only=True)
class Inner:
    lr: float = setting(7e-4, "peak learning rate", gt=0)
    steps: int = setting(100, "updates", ge=1, le=10**6)
    kind: Literal["adam", "sgd"] = setting("adam", "optimizer")


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str = setting("run", "name of the run")
    heads: int = setting(4, "attention heads; must divide 12", gt=0)
    tie: bool = setting(False, "one matrix for both")
    folder: Path | None = setting(None, "output folder")
    limit: int | None = setting(None, "maximum number", gt=0)
    widths: tuple[int, ...] = setting((3, 5), "one for each layer")
    optimizer: Inner = section(Inner)

    def __post_init__(self):
        if 12 % self.heads:
            raise ValueError(f"heads={self.heads} does not divide 12")


def changed(key, value, where="here"):
    return flat(override(Outer(), {key: value}, where))[key.replace("-", "_")]


def test_every_leaf_has_its_dotted_key_type_default_and_help():
    fields = fields_of(Outer())
    assert list(fields)[-4:] == ["widths", "optimizer.lr", "optimizer.steps", "optimizer.kind"]
    field = fields["optimizer.lr"]
    assert (field.type, field.default, field.help) == (float, 7e-4, "peak learning rate")
    assert field.expects == "a number more than 0"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("optimizer.lr", "3e-4", 3e-4),
        ("optimizer.lr", 1, 1.0),
        ("optimizer.steps", "12_000", 12000),
        ("optimizer.steps", 500.0, 500),
        ("optimizer.kind", "sgd", "sgd"),
        *[("tie", word, True) for word in ("true", "Yes", "on", True)],
        *[("tie", word, False) for word in ("false", "NO", "off", False)],
        *[("limit", word, None) for word in ("none", "null", None)],
        ("limit", "7", 7),
        ("folder", "a/b", Path("a/b")),
        ("folder", "none", None),
        ("name", "7", "7"),
        ("widths", "8,16, 32", (8, 16, 32)),
        ("widths", [8, "16"], (8, 16)),
    ],
)
def test_values_are_parsed_by_the_type_of_their_field(key, text, value):
    parsed = changed(key, text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("optimizer.lr", "fast", "must be a number more than 0"),
        ("optimizer.lr", "0", "must be a number more than 0"),
        ("optimizer.lr", "1e10", "must be at most 1,000,000,000"),
        ("optimizer.lr", "nan", "must be a number more than 0"),
        ("optimizer.lr", "1e999", "must be a number more than 0"),
        ("optimizer.lr", 10**400, "must be a number more than 0"),
        ("optimizer.lr", True, "must be a number more than 0"),
        ("optimizer.lr", None, "must be a number more than 0"),
        ("optimizer.lr", [], "must be a number more than 0"),
        ("optimizer.steps", "1.5", "must be a whole number at least 1 and at most 1,000,000"),
        ("optimizer.steps", 1.5, "must be a whole number"),
        ("optimizer.steps", "4k", "must be a whole number"),
        ("optimizer.steps", 2_000_000, "must be a whole number"),
        ("optimizer.kind", "adamw", "must be one of adam, sgd"),
        ("optimizer.kind", ["adam"], "must be one of adam, sgd"),
        ("tie", "maybe", "must be true or false"),
        ("tie", 1, "must be true or false"),
        ("limit", "0", "must be a whole number more than 0, or none"),
        ("folder", ["a"], "must be a path, or none"),
        ("name", False, "must be text"),  # YAML reads the language code `no` as false
        ("name", {"a": 1}, "must be text"),
        ("widths", "3,x", "must be a list, each a whole number"),
        ("widths", 3, "must be a list, each a whole number"),
    ],
)
def test_an_invalid_value_is_refused_with_its_key_value_source_and_the_valid_values(
    key, value, message
):
    with pytest.raises(UsageError, match=message) as caught:
        override(Outer(), {key: value}, "run.yaml")
    assert caught.value.what.startswith(f"{key}={value}: ")
    assert caught.value.where == "run.yaml"


@pytest.mark.parametrize(
    ("unknown", "closest"),
    [("optimizer.lrr", "optimizer.lr"), ("lr", "optimizer.lr"), ("head", "heads")],
)
def test_an_unknown_name_is_refused_with_the_closest_one(unknown, closest):
    with pytest.raises(UsageError, match=f"unknown option {unknown}. Did you mean {closest}?"):
        override(Outer(), {unknown: 1}, "flags")


def test_a_section_is_not_a_setting():
    with pytest.raises(UsageError, match="unknown option optimizer"):
        override(Outer(), {"optimizer": "adam"}, "flags")


def test_hyphens_and_underscores_are_equal_and_setting_both_is_refused():
    @dataclass(frozen=True, kw_only=True)
    class Named:
        num_heads: int = setting(4, "heads")

    assert override(Named(), {"num-heads": "2"}, "x") == Named(num_heads=2)
    with pytest.raises(UsageError, match="num_heads is set twice"):
        override(Named(), {"num-heads": 2, "num_heads": 3}, "x")


def test_an_error_of_the_class_names_the_source_of_the_value():
    with pytest.raises(UsageError, match="heads=7 does not divide 12") as caught:
        override(Outer(), {"heads": 7}, "--heads")
    assert caught.value.where == "--heads"


def test_the_original_is_not_changed():
    config = Outer()
    assert override(config, {"optimizer.lr": 1}, "x").optimizer.lr == 1
    assert config == Outer()


def test_differences_name_key_and_both_values():
    changed_config = override(Outer(), {"optimizer.lr": 1, "heads": 6}, "x")
    assert differences(Outer(), changed_config) == [("heads", 4, 6), ("optimizer.lr", 7e-4, 1.0)]
    assert differences(changed_config, changed_config) == []


def test_explain_gives_help_limits_and_default():
    text = explain(Outer(), "--optimizer.steps")
    assert "updates" in text and "default 100" in text and "at least 1" in text
    with pytest.raises(UsageError, match="Did you mean"):
        explain(Outer(), "optimizer.step")


def test_an_unknown_limit_is_a_programming_error():
    with pytest.raises(ValueError, match="atleast"):
        setting(1, "x", atleast=0)


# dictionaries and YAML


def test_a_dictionary_has_plain_values_and_is_read_back():
    config = override(Outer(), {"folder": "a", "widths": "7"}, "x")
    assert to_dict(config)["folder"] == "a"
    assert to_dict(config)["widths"] == [7]
    assert override(Outer(), flatten(to_dict(config)), "x") == config


@given(
    st.text(max_size=40),
    st.floats(1e-30, 1e9),
    st.booleans(),
    st.lists(st.integers(), max_size=60),
)
def test_yaml_is_read_back_unchanged_for_any_values(tmp_path_factory, name, lr, tie, widths):
    config = Outer(name=name, tie=tie, widths=tuple(widths), optimizer=Inner(lr=lr))
    path = tmp_path_factory.mktemp("yaml") / "run.yaml"
    try:
        path.write_bytes(write_yaml(config, ["made by\nhand"]).encode())
    except UnicodeEncodeError:
        pytest.fail("the text has no encoding")
    assert override(Outer(), read_yaml(path), str(path)) == config


def test_each_line_of_yaml_has_its_help_as_a_comment():
    text = write_yaml(override(Outer(), {"name": "a\nb"}, "x"), ["step 3: lr changed"])
    lines = text.splitlines()
    assert lines[0] == "# step 3: lr changed"
    assert '"name": "a\\nb"  # name of the run' in lines
    assert "widths: [3, 5]  # one for each layer" in lines
    assert "  lr: 0.0007  # peak learning rate" in lines
    assert all("#" in line or line.endswith(":") for line in lines)


def test_equal_values_of_different_types_have_lines_of_their_own():
    @dataclass(frozen=True, kw_only=True)
    class Several:
        value: object = setting(None, "")

    for value, text in ((1, "1"), (1.0, "1.0"), (True, "true"), ("1", "'1'"), (-0.0, "-0.0")):
        assert write_yaml(Several(value=value)) == f"value: {text}\n"
    assert write_yaml(Several(value=0.0)) == "value: 0.0\n"


def yaml_error(tmp_path, text):
    path = tmp_path / "run.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError) as caught:
        read_yaml(path)
    assert str(path) in caught.value.where
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is set twice"),
        ("a:\n  b: 1\n  b: 2\n", 3, "'b' is set twice"),
        ("a: 1\nb: [1\nc: 2\n", 3, "expected"),
        ("a: 1\n\tb: 2\n", 2, "cannot start any token"),
        ("a: &x 1\nb: *x\n", 2, "alias"),
        ("a: !!python/object/apply:os.system [id]\n", 1, "could not determine a constructor"),
        ("? [1, 2]\n: 3\n", 1, "plain name"),
    ],
)
def test_a_fault_in_yaml_is_named_by_file_and_line(tmp_path, text, line, message):
    error = yaml_error(tmp_path, text)
    assert error.where.endswith(f"run.yaml:{line}")
    assert message in error.what


def test_a_bomb_of_aliases_is_refused_before_it_grows(tmp_path):
    levels = [f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 60)]
    assert "alias" in yaml_error(tmp_path, "\n".join(["a0: &a0 {x: 1}", *levels])).what


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 20_000, "a: " + "9" * 10_000, "d: 2026-13-45", "- 1\n- 2", "word", "1: 2"),
        *(b"\xff\xfe\xff", b"a: \x00", "x" * (YAML_LIMIT + 1)),
    ],
    ids=range(9),
)
def test_invalid_yaml_is_a_data_error(tmp_path, text):
    yaml_error(tmp_path, text)


def test_a_file_of_many_keys_is_read_quickly(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("".join(f"k{n}: {n}\n" for n in range(5_000)))
    assert len(read_yaml(path)) == 5_000


def test_an_empty_file_changes_nothing(tmp_path):
    (tmp_path / "run.yaml").write_text("# all defaults\n")
    assert read_yaml(tmp_path / "run.yaml") == {}
