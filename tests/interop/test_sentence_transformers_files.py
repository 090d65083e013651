"""Files of sentence-transformers under their other names, and modules of a folder's own code."""

import json

import pytest

from headway import load
from headway.base.errors import DataError
from headway.interop import read_sentence_folder, write_text_model
from tests.fixtures.small_encoder import TEXTS, encoder

TYPES = ("Transformer", "Pooling", "Normalize")


def write(path, value):
    path.write_text(json.dumps(value))


def modules(types):
    return [{"type": t, "path": p} for t, p in zip(types, ("", "1_Pooling", "2"), strict=False)]


@pytest.fixture
def folder(tmp_path):
    bundle = encoder()
    write_text_model(bundle.model, bundle.tokenizer, tmp_path / "st")
    (tmp_path / "st" / "1_Pooling").mkdir()
    write(tmp_path / "st" / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    write(
        tmp_path / "st" / "modules.json",
        modules([f"sentence_transformers.models.{t}" for t in TYPES]),
    )
    return tmp_path / "st"


@pytest.mark.parametrize(
    "name", ["bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"]
)
def test_length_and_case_are_read_under_each_name_of_their_file(folder, name):
    values = {"max_seq_length": 7, "do_lower_case": True}
    write(folder / f"sentence_{name}_config.json", values)
    found = read_sentence_folder(folder)
    assert found.length == 7 and found.texts.lowers
    lower = load(folder).embed([TEXTS[0].lower()])
    assert (load(folder).embed([TEXTS[0]]) - lower).abs().max() == 0


@pytest.mark.parametrize(
    "length, expected",
    [(9, 9), (10**30, 19), (1e30, 19), (None, 19), (512, 19), (True, 19), ("9", 19)],
)
def test_without_a_length_of_its_own_the_one_of_the_tokenizer_holds(folder, length, expected):
    path = folder / "tokenizer_config.json"
    write(path, {**json.loads(path.read_text()), "model_max_length": length})
    assert load(folder).length == expected
    write(folder / "sentence_bert_config.json", {"max_seq_length": None})
    assert load(folder).length == expected
    write(folder / "sentence_bert_config.json", {"max_seq_length": 8})
    assert load(folder).length == 8


@pytest.mark.parametrize("own", ["custom_st.Transformer", "modeling.Pooling", None, 3])
def test_a_module_of_the_folders_own_code_is_refused_by_name(folder, own):
    types = [f"sentence_transformers.models.{t}" for t in TYPES]
    types[0 if str(own).endswith("Transformer") else 1] = own
    write(folder / "modules.json", modules(types))
    with pytest.raises(DataError, match=f"'{own}'"):
        load(folder)


@pytest.mark.parametrize(
    "kind",
    ["Dropout", "LayerNorm", "CNN", "LSTM", "WordEmbeddings", "WeightedLayerPooling", "Router"],
)
def test_a_module_that_headway_does_not_read_is_refused_by_name(folder, kind):
    types = [f"sentence_transformers.models.{t}" for t in ("Transformer", "Pooling", kind)]
    write(folder / "modules.json", modules(types))
    with pytest.raises(DataError, match=f"'{kind}'"):
        load(folder)
