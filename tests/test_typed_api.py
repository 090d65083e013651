"""Types of the Python API, which mypy checks in this file, too."""

from pathlib import Path
from typing import assert_type

import pytest

import headway
from headway.base.errors import UsageError
from headway.bundle import Bundle, TextBundle
from headway.tasks.translation.bundle import TranslatorBundle
from tests.fixtures.bundles import gpt


def test_the_class_of_a_loaded_model_is_the_one_that_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    gpt().save(folder)
    assert_type(headway.load(folder), Bundle)
    writer = headway.load(folder, kind=TextBundle)
    assert_type(writer, TextBundle)
    assert len(writer.generate(["a"], max_tokens=2)) == 1
    with pytest.raises(UsageError, match="holds a language model, and this needs a translator"):
        headway.load(folder, kind=TranslatorBundle)
    with pytest.raises(UsageError, match="kind='translator': must be a class"):
        headway.load(folder, kind="translator")  # type: ignore[arg-type]
