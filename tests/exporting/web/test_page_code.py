"""The code of an exported page, run in Node without the packages that compute in it."""

import json
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch

from headway.data.image_reader import ImageReader
from headway.inspection.entropy import relative_entropy
from headway.inspection.page.byte_weights import thumbnails, to_codes
from tests.fixtures.web_pages import in_node

READERS = {
    "squashed": {"height": 9, "width": 14},
    "shorter": {"height": 8, "width": 6, "shorter": 11, "resampling": "bilinear"},
    "enlarged": {"height": 70, "width": 80, "resampling": "lanczos"},
    "box": {"height": 5, "width": 5, "squashed": (7, 9), "resampling": "box"},
    "hamming": {"height": 12, "width": 5, "resampling": "hamming"},
}


def test_the_code_of_the_page_is_part_of_the_package_and_parses_no_markup():
    """No test of the source tree would notice a file that an installed Headway lacks."""
    root = Path(__file__).resolve().parents[3]
    settings = tomllib.loads((root / "pyproject.toml").read_text())
    assert "exporting/web/browser/*" in settings["tool"]["setuptools"]["package-data"]["headway"]
    for file in (files("headway.exporting.web") / "browser").iterdir():
        text = file.read_text("utf-8")
        assert file.name.endswith((".js", ".css")) and text.count("\n") < 400
        for forbidden in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch("):
            assert forbidden not in text, file.name


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_size_become_those_of_the_reader(tmp_path, channels):
    """A value differs by 1 of 255 at most: Pillow computes with integers."""
    image = np.random.default_rng(0).integers(0, 256, (31, 43, 3)).astype(np.uint8)
    readers = {
        name: ImageReader(mean=(0.1,) * channels, deviation=(0.4,) * channels, **settings)
        for name, settings in READERS.items()
    }
    given = {"height": 31, "width": 43, "channels": 3}
    described = [{**vars(reader)} for reader in readers.values()]
    code = (
        f"{json.dumps(described)}.map((reader) => {{ const data = "
        f"Uint8ClampedArray.from({image.ravel().tolist()}); const small = module_pixels.sized("
        f"{{...{json.dumps(given)}, data}}, reader); return {{bytes: [...small.data], "
        "values: [...module_pixels.normalised(small, reader)]}; })"
    )
    for reader, found in zip(readers.values(), in_node(["pixels"], code, tmp_path), strict=True):
        ours = reader.sized(image)
        theirs = np.array(found["bytes"]).reshape(ours.shape)
        assert np.abs(ours.astype(int) - theirs).max() <= 1
        values = torch.tensor(found["values"]).view(reader.batch([image]).shape)
        exact = reader.normalised(torch.from_numpy(theirs.transpose(2, 0, 1))[None])
        torch.testing.assert_close(values, exact)


def test_the_next_token_is_the_most_probable_one_or_follows_the_probabilities(tmp_path):
    logits = [1.0, 3.0, 2.5, -1.0]
    code = (
        f"[0, 0.2, 0.6, 0.999].map((p) => module_choosing.chosen({logits}, 2, () => p))"
        f".concat([module_choosing.chosen({logits}, 0, () => 0.9)])"
        f".concat(module_choosing.best({logits}, 3).ids)"
    )
    p = (torch.tensor(logits) / 2).softmax(-1).cumsum(-1)
    expected = [int((p <= point).sum()) for point in (0, 0.2, 0.6, 0.999)]
    assert in_node(["choosing"], code, tmp_path) == [*expected, 1, 1, 2, 0]


def test_characters_become_ids_and_an_unknown_one_is_named(tmp_path):
    described = json.dumps({"characters": "ab🙂", "special": [0]})
    code = (
        f"(() => {{ const one = module_tokenizing.tokenizerOf({described}); let error = ''; "
        "try { one.encode('c'); } catch (problem) { error = problem.message; } "
        "return [one.encode('a🙂b'), one.decode([1, 0, 3]), error]; })()"
    )
    ids, text, error = in_node(["tokenizing"], code, tmp_path)
    assert (ids, text) == ([1, 3, 2], "a🙂") and '"c"' in error


def test_the_document_of_an_answer_has_the_maps_and_the_entropies_of_the_inspection(tmp_path):
    heads, length = 2, 70  # longer than a thumbnail
    weights = torch.rand(heads, length, length).tril()
    weights = weights / weights.sum(-1, keepdim=True)
    described = {
        **{"title": "t", "examples": [], "modality": "text", "facts": {}, "sides": ["text"]},
        **{"predicts": "text", "size": 3, "labels": ["no", "yes", "perhaps"]},
        "tokens": {"text": {"strings": ["a", " b", "</s>"], "begins": "011", "special": [2]}},
        "maps": [
            {
                **{"name": "decoder", "queries": "text", "keys": "text", "causal": True},
                **{"outputs": ["w"], "layers": ["decoder.blocks.0"]},
            }
        ],
    }
    ids = [2, 0, 0, 1, 0] + [1] * (length - 5)
    answered = {"ids": {"text": {"values": ids, "generated": 3}}, "rows": [0], "positions": [0]}
    shape, values = [1, heads, length, length], weights.flatten().tolist()
    code = (
        f"(() => {{ const outputs = {{w: {{dims: {shape}, data: Float32Array.from({values})}}, "
        "logits: {dims: [1, 3], data: Float32Array.from([1, 3, 2])}}; "
        f"const {{header, blocks}} = module_document.documentOf({{described: "
        f"{json.dumps(described)}}}, {{...{json.dumps(answered)}, outputs}}, {{}}); "
        "const plain = [...blocks].map(([name, bytes]) => [name, [...bytes]]); "
        "return {header, blocks: Object.fromEntries(plain)}; })()"
    )
    found = in_node(["document", "choosing", "weights"], code, tmp_path)
    (frame,) = found["header"]["frames"]
    assert frame["answer"] == "yes" and frame["predictions"][0]["tokens"] == [
        "yes",
        "perhaps",
        "no",
    ]
    assert frame["sides"]["text"]["words"][:4] == [[0], [1, 2], [3, 4], [5]]
    (maps,) = frame["maps"]
    codes = to_codes(weights, {"kind": "sqrt", "scale": 1.0})
    assert np.abs(np.array(found["blocks"]["decoder 0"]) - codes.ravel().astype(int)).max() <= 1
    pooled = np.array(found["blocks"]["decoder small"]).reshape(heads, 64, 64)
    assert np.abs(pooled - thumbnails(codes, signed=False).astype(int)).max() <= 1
    entropy = relative_entropy(weights, causal=True).nanmean(-1)
    torch.testing.assert_close(torch.tensor(maps["entropy"][0]), entropy.float(), atol=1e-4, rtol=0)
