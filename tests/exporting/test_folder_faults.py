"""A broken Hugging Face or CTranslate2 folder is never handed over: the runtime finds it."""

import json
import shutil

import pytest
import torch

from headway.base.errors import HeadwayError
from headway.base.tensors import read_tensors, write_tensors
from headway.bundle import TextBundle
from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.exporting.verified import compare_models
from headway.interop import ctranslate2_spec as specification
from tests.fixtures.bundles import translator
from tests.fixtures.gguf_models import LLAMA, bpe, model

WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
BLOCK = "model.layers.0."


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A small model with a window, and its verified folder."""
    pytest.importorskip("transformers")
    tokenizer = bpe()
    made = model(tokenizer, **LLAMA, layers="l", window=7)
    bundle = TextBundle(made, tokenizer)
    folder = tmp_path_factory.mktemp("hf") / "out"
    assert len(export(bundle, folder, HUGGING_FACE).difference) == 2
    return bundle, folder


def verify(target, bundle, folder):
    """Compare a folder with the bundle as an export does."""
    (first, *_) = [*target.run(bundle, folder)]
    texts = target.real_texts(bundle)
    compare_models(bundle.model, first.bundle.model, "here", target.tolerance(bundle), texts)
    target.compare_files(bundle, first.bundle, folder, "here")


def tensors_of(folder, change):
    found = read_tensors(folder / WEIGHTS)
    change(found)
    write_tensors(folder / WEIGHTS, found)


def content_of(name, change):
    """Return the edit of a JSON file."""

    def edit(folder):
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return edit


def matrix(name, change):
    """Return the edit of a tensor of the first block."""

    def edit(folder):
        tensors_of(folder, lambda found: found.update({BLOCK + name: change(found[BLOCK + name])}))

    return edit


def swapped_rows(weight):
    order = torch.arange(len(weight))
    order[:2] = torch.tensor([1, 0])
    return weight[order].contiguous()


def heads_backwards(weight):
    return weight.view(4, -1, weight.shape[1]).flip(0).reshape(weight.shape).contiguous()


def swapped_norms(folder):
    names = [f"{BLOCK}{kind}_layernorm.weight" for kind in ("input", "post_attention")]

    def swap(found):
        found[names[0]], found[names[1]] = found[names[1]].clone(), found[names[0]].clone()

    tensors_of(folder, swap)


FAULTS = {
    "two rows of a matrix are in each other's place": matrix(
        "self_attn.q_proj.weight", swapped_rows
    ),
    "a matrix is not transposed": matrix("self_attn.o_proj.weight", lambda w: w.T.contiguous()),
    "the heads are in another order": matrix("self_attn.q_proj.weight", heads_backwards),
    "a matrix has another scale": matrix("mlp.up_proj.weight", lambda weight: weight * 1.001),
    "the norms of a block are in each other's place": swapped_norms,
    "a tensor is missing": lambda folder: tensors_of(
        folder, lambda found: found.pop(f"{BLOCK}mlp.up_proj.weight")
    ),
    "a tensor is unknown": lambda folder: tensors_of(
        folder, lambda found: found.update(further=torch.zeros(2))
    ),
    "a value is not finite": matrix(
        "mlp.gate_proj.weight", lambda weight: weight.index_fill(0, torch.tensor([3]), torch.nan)
    ),
    "the norms have another epsilon": content_of(CONFIG, lambda c: c.update(rms_norm_eps=1e-3)),
    "the window is one token longer": content_of(
        CONFIG, lambda c: c.update(sliding_window=c["sliding_window"] + 1)
    ),
    "positions have another base": content_of(
        CONFIG,
        lambda c: c.update(
            rope_theta=900.0, rope_parameters={"rope_theta": 900.0, "rope_type": "default"}
        ),
    ),
    "another activation": content_of(CONFIG, lambda c: c.update(hidden_act="gelu")),
    "an added token is missing": content_of(TOKENIZER, lambda c: c.update(added_tokens=[])),
    "a merge is missing": content_of(TOKENIZER, lambda c: c["model"]["merges"].pop(0)),
    "another token ends a text": content_of(
        "generation_config.json", lambda c: c.update(eos_token_id=7)
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_hugging_face_folder_is_found(exported, tmp_path, fault):
    bundle, folder = exported
    copy = shutil.copytree(folder, tmp_path / "copy")
    FAULTS[fault](copy)
    with pytest.raises(HeadwayError):
        verify(HUGGING_FACE, bundle, copy)


def test_an_unbroken_copy_is_accepted(exported, tmp_path):
    bundle, folder = exported
    verify(HUGGING_FACE, bundle, shutil.copytree(folder, tmp_path / "copy"))


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A small translator and its verified CTranslate2 folder."""
    pytest.importorskip("ctranslate2")
    bundle = translator(norm="pre")
    folder = tmp_path_factory.mktemp("ct2") / "out"
    assert export(bundle, folder, CTRANSLATE2).tokens > 0
    return bundle, folder


def swapped_tokens(names):
    names[20], names[21] = names[21], names[20]


FILE_FAULTS = {
    "the norms have another epsilon": content_of(
        CONFIG, lambda c: c.update(layer_norm_epsilon=1e-2)
    ),
    "two tokens are in each other's place": content_of("shared_vocabulary.json", swapped_tokens),
    "another token begins a target": content_of(
        CONFIG, lambda c: c.update(decoder_start_token="e")
    ),
    "the end of a source is missing": content_of(CONFIG, lambda c: c.update(add_source_eos=False)),
    "a merge is missing": content_of(TOKENIZER, lambda c: c["model"]["merges"].pop(0)),
    "an added token is missing": content_of(TOKENIZER, lambda c: c.update(added_tokens=[])),
}


@pytest.mark.parametrize("fault", FILE_FAULTS)
def test_a_broken_file_of_ctranslate2_is_found(there, tmp_path, fault):
    bundle, folder = there
    copy = shutil.copytree(folder, tmp_path / "copy")
    FILE_FAULTS[fault](copy)
    with pytest.raises(HeadwayError):
        verify(CTRANSLATE2, bundle, copy)


def filled_otherwise(change):
    """Return the function that fills a layer in with changed weights."""
    fill = specification._fill_linear

    def filled(spec, *layers):
        fill(spec, *layers)
        spec.weight = change(torch.from_numpy(spec.weight)).numpy()

    return filled


WEIGHT_FAULTS = {
    "two rows of a matrix are in each other's place": swapped_rows,
    "a matrix has another scale": lambda weight: weight * 1.01,
    "the last row is missing": lambda weight: torch.cat((weight[:-1], weight[-1:] * 0)),
}


@pytest.mark.parametrize("fault", WEIGHT_FAULTS)
def test_a_broken_matrix_of_ctranslate2_is_found(there, tmp_path, monkeypatch, fault):
    monkeypatch.setattr(specification, "_fill_linear", filled_otherwise(WEIGHT_FAULTS[fault]))
    with pytest.raises(HeadwayError, match="the folder was removed"):
        export(there[0], tmp_path / "out", CTRANSLATE2)
    assert not list(tmp_path.iterdir())
