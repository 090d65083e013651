"""Folders that are damaged on purpose, and the words of their refusal."""

import json

import pytest
from safetensors.torch import load_file, save_file

from headway.errors import DataError
from headway.interop import read, write


def written(model, place, family, **facts):
    """A good folder of that family but for these facts of its config.json."""
    write(model, place, family)
    path = place / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    return place


def change(folder, edit):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)


def refused(folder, *said):
    with pytest.raises(DataError) as caught:
        read(folder)
    for words in said:
        assert words in str(caught.value)
