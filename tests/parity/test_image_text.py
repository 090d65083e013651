"""CLIP and SigLIP compared with transformers': logits, files, tokens, pixels and probabilities."""

import json
import shutil

import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, UsageError
from headway.bundle import ImageClassOptions, ImageInput, ImageTextBundle
from headway.interop import build, read, read_paired_texts, write
from headway.models import ImageText
from tests.fixtures.image_text import (
    LENGTH,
    WRITERS,
    clip_tokenizer,
    write_clip,
    write_photograph,
    write_siglip,
)

LABELS = ("a cat", "two Dogs", "the bread, old")
STRANGE = [
    "",
    "a photo of a cat",
    "  The FOX's   lemon\n and 12 dogs!!  ",
    "isn't it? we'll see; they've 3,000",
    '(dog) -- [bread] / "tree"',
    "- a dog",
    "Bäcker ÄÖÜ ẞß İ ΟΔΟΣ ΟΔΟΣ. naïve café",
    "中文 字符 日本語",
    "🦊 fox\u00a0tab\tend",
    "\u2581under\u2581line",
    "e\u0301 combining",
    "dog " * 90,
]


@pytest.fixture(scope="module", params=WRITERS)
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / request.param
    return path, *WRITERS[request.param](path)


def texts_of(processor, texts, kind):
    """Return ids and mask as the model of transformers is used."""
    padding = "max_length" if kind == "siglip" else True
    return processor.tokenizer(
        list(texts), padding=padding, truncation=True, max_length=LENGTH, return_tensors="pt"
    )


@torch.no_grad()
def test_logits_of_images_and_texts_are_those_of_transformers(folder):
    path, model, processor = folder
    ours = build(*read(path))
    images = torch.randn(3, 3, 20, 20)
    inputs = texts_of(processor, LABELS, path.name)
    expected = model(pixel_values=images, **inputs)
    keys = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool()
    assert_close(
        ours(images, inputs["input_ids"], keys), expected.logits_per_image, rtol=0, atol=1e-5
    )
    vectors = ours.image_vectors(images), ours.text_vectors(inputs["input_ids"], keys)
    for one, other in zip(vectors, (expected.image_embeds, expected.text_embeds), strict=True):
        assert_close(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("kind", WRITERS)
@torch.no_grad()
def test_other_activations_and_norms_have_the_logits_of_transformers(kind, activation, tmp_path):
    changes = {"hidden_act": activation, "layer_norm_eps": 0.1}
    model, processor = WRITERS[kind](tmp_path / kind, **changes)
    ours, images = build(*read(tmp_path / kind)), torch.randn(2, 3, 20, 20)
    inputs = texts_of(processor, LABELS, kind)
    keys = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool()
    expected = model(pixel_values=images, **inputs).logits_per_image
    assert_close(ours(images, inputs["input_ids"], keys), expected, rtol=0, atol=1e-5)


def test_a_round_trip_changes_no_bit_and_opens_in_transformers(folder, tmp_path):
    path, model, _ = folder
    assert write(build(*read(path)), tmp_path) == type(model).__name__
    first, second = (load_file(p / "model.safetensors") for p in (path, tmp_path))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    _, report = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report


def test_texts_have_the_tokens_of_transformers(folder):
    path, _, processor = folder
    bundle = headway.load(path)
    for text in [*STRANGE, *(f"{text} {STRANGE[-i]}" for i, text in enumerate(STRANGE))]:
        tokens, keys = bundle.texts.batch([text])
        expected = texts_of(processor, [text], path.name)["input_ids"]
        assert tokens.tolist() == expected.tolist(), text
        assert keys.all()


def test_the_two_files_of_clip_have_the_tokens_of_tokenizer_json(tmp_path):
    write_clip(tmp_path)
    config = headway.load(tmp_path).config
    tokenizer, vocabulary, merges = clip_tokenizer()
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    lines = ["#version: 0.2", *(" ".join(merge) for merge in merges)]
    (tmp_path / "merges.txt").write_text("\n".join(lines) + "\n")
    ours, frame = read_paired_texts(tmp_path, config, "clip")
    for text in STRANGE:
        expected = tokenizer(text, truncation=True, max_length=LENGTH)["input_ids"]
        assert frame.framed(ours.encode(text)) == expected, text


def test_any_labels_have_the_probabilities_of_transformers(folder, tmp_path):
    path, model, processor = folder
    photographs = [
        write_photograph(tmp_path / "a.png"),
        write_photograph(tmp_path / "b.png", 60, 9),
    ]
    options = ImageClassOptions(labels=LABELS, template="a photo of {}!")
    predicted = headway.load(path).predict([ImageInput(image=p) for p in photographs], options)
    texts = texts_of(processor, [f"a photo of {label}!" for label in LABELS], path.name)
    pixels = processor.image_processor([Image.open(p) for p in photographs], return_tensors="pt")
    with torch.no_grad():
        logits = model(**texts, **pixels).logits_per_image
    expected = logits.sigmoid() if path.name == "siglip" else logits.softmax(-1)
    for prediction, row in zip(predicted, expected, strict=True):
        values = dict(zip(LABELS, row.tolist(), strict=True))
        assert prediction.probabilities == pytest.approx(values, abs=1e-5)
        assert prediction.label == max(values, key=values.get)


def test_a_saved_bundle_has_the_same_vectors(folder, tmp_path):
    bundle = headway.load(folder[0])
    bundle.save(tmp_path / "saved")
    again = headway.load(tmp_path / "saved")
    assert isinstance(again, ImageTextBundle) and isinstance(again.model, ImageText)
    photograph = write_photograph(tmp_path / "a.png")
    assert_close(again.embed([photograph]), bundle.embed([photograph]), rtol=0, atol=1e-6)
    assert_close(again.embed_texts(STRANGE), bundle.embed_texts(STRANGE), rtol=0, atol=1e-6)
    alone = torch.cat([bundle.embed_texts([text]) for text in STRANGE])
    assert_close(alone, bundle.embed_texts(STRANGE), rtol=0, atol=1e-5)


def changed(path, **values):
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, **values}))


def test_sections_that_old_files_repeat_replace_those_of_their_name(tmp_path):
    write_clip(tmp_path)
    changed(tmp_path / "config.json", text_config_dict={"layer_norm_eps": 0.25})
    assert build(*read(tmp_path)).config.text.norm_eps == 0.25


@pytest.mark.parametrize(
    ("section", "values", "reason"),
    [
        ("vision_config", {"vision_use_head": False}, "vision_use_head"),
        ("vision_config", {"hidden_act": "mish"}, "hidden_act"),
        ("text_config", {"projection_size": 20}, "shared_dim"),
        ("text_config", {"is_decoder": True}, "is_decoder"),
    ],
)
def test_an_unsupported_key_of_a_section_is_refused(section, values, reason, tmp_path):
    write_siglip(tmp_path)
    path = tmp_path / "config.json"
    part = json.loads(path.read_text())[section]
    changed(path, **{section: {**part, **values}})
    with pytest.raises(DataError, match=reason):
        read(tmp_path)


def test_missing_files_are_named(folder, tmp_path):
    shutil.copytree(folder[0], tmp_path / "copy")
    for name in ("preprocessor_config.json", "processor_config.json"):
        (tmp_path / "copy" / name).unlink(missing_ok=True)
    with pytest.raises(DataError, match="there is no preprocessor_config"):
        headway.load(tmp_path / "copy")
    shutil.copytree(folder[0], tmp_path / "other")
    for name in ("tokenizer.json", "spiece.model"):
        (tmp_path / "other" / name).unlink(missing_ok=True)
    with pytest.raises(DataError, match="there is no tokenizer"):
        headway.load(tmp_path / "other")


def test_labels_and_templates_that_cannot_be_used_are_refused(folder, tmp_path):
    bundle = headway.load(folder[0])
    inputs = [ImageInput(image=write_photograph(tmp_path / "a.png"))]
    for options, reason in (
        ({}, "labels are missing"),
        ({"labels": ("a", "a")}, "different labels"),
        ({"labels": ("a", " ")}, "different labels"),
        ({"labels": ("a",), "template": "no place"}, "must contain {} once"),
    ):
        with pytest.raises(UsageError, match=reason):
            bundle.predict(inputs, ImageClassOptions(**options))
    with pytest.raises(UsageError, match="own pooling"):
        bundle.embed([inputs[0].image], pooling="mean")


def test_the_learned_query_of_siglip_is_recorded_over_the_image(tmp_path):
    from headway.inspection.image_attention import image_attention_of_heads

    write_siglip(tmp_path / "siglip")
    photograph = write_photograph(tmp_path / "a.png")
    bundle = headway.load(tmp_path / "siglip")
    looks = image_attention_of_heads(bundle, photograph)
    assert looks.maps.shape == (2, 5, 5)
    assert_close(looks.maps.sum((1, 2)), torch.ones(2), rtol=0, atol=1e-5)
    with pytest.raises(UsageError, match="has no layers"):
        image_attention_of_heads(bundle, photograph, layer=0)
    maps = bundle.attention(photograph).maps
    assert [tuple(x.shape) for x in maps.values()] == [(2, 25, 25)] * 3


def test_an_end_to_end_pipeline_agrees(folder, tmp_path):
    path, model, processor = folder
    photograph = write_photograph(tmp_path / "a.png")
    theirs = transformers.pipeline(
        "zero-shot-image-classification",
        model=model,
        tokenizer=processor.tokenizer,
        image_processor=processor.image_processor,
    )
    expected = theirs(str(photograph), candidate_labels=["cat", "dog", "old tree"])
    options = ImageClassOptions(labels=("cat", "dog", "old tree"))
    (ours,) = headway.load(path).predict([ImageInput(image=photograph)], options)
    assert ours.probabilities == pytest.approx(
        {item["label"]: item["score"] for item in expected}, abs=1e-5
    )
