"""CLIP and SigLIP from the command line and over HTTP: labels, search, vectors, attention."""

import base64
import json

import numpy as np
import pytest

from headway.tasks.opening import load
from tests.fixtures.command_line import headway
from tests.fixtures.image_text import WRITERS, write_photograph
from tests.fixtures.model_server import running

pytest.importorskip("transformers")
LABELS = "a cat, two dogs,the old tree"


@pytest.fixture(scope="module", params=WRITERS)
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("image-text")
    WRITERS[request.param](path / "model")
    for name, sides in (("wide", (20, 44)), ("high", (50, 23)), ("small", (5, 7))):
        (path / "photos" / name).mkdir(parents=True)
        write_photograph(path / "photos" / name / f"{name}.png", *sides)
    return path


def lines_of(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_images_are_classified_by_labels_and_the_labels_are_evaluated(folder):
    photo = "photos/wide/wide.png"
    result = headway("classify", "model", photo, "--labels", LABELS, "--json", cwd=folder)
    (found,) = lines_of(result)
    assert set(found["probabilities"]) == {"a cat", "two dogs", "the old tree"}
    shown = headway("classify", "model", photo, "--labels", LABELS, "--top", "1", cwd=folder)
    assert shown.stdout.split("\t")[:2] == [photo, found["label"]]
    missing = headway("classify", "model", photo, cwd=folder, check=2)
    assert "labels are missing" in missing.stderr and '--labels "a cat,a dog"' in missing.stderr
    scores = headway("eval", "model", "photos", cwd=folder)
    assert "of 3 images correct" in scores.stdout


def test_texts_and_images_are_found_by_texts_and_images(folder):
    words = ("--json", "--top", "5")
    by_text = lines_of(headway("similar", "model", "a cat", "photos", *words, cwd=folder))
    assert {item["text"] for item in by_text} == {
        f"photos/{name}/{name}.png" for name in ("wide", "high", "small")
    }
    photo = "photos/wide/wide.png"
    by_image = lines_of(
        headway("similar", "model", photo, "photos", "a cat", "a dog", *words, cwd=folder)
    )
    assert by_image[0] == {"text": photo, "cosine": pytest.approx(1, abs=1e-4)}
    bundle = load(folder / "model")
    expected = bundle.embed([folder / photo]) @ bundle.embed_texts(["a cat"]).T
    (cat,) = [item["cosine"] for item in by_image if item["text"] == "a cat"]
    assert cat == pytest.approx(expected.item(), abs=1e-3)


def test_vectors_of_both_are_written(folder, tmp_path):
    output = tmp_path / "vectors.npz"
    headway("embed", "model", "photos", "a cat", "--output", str(output), cwd=folder)
    stored = np.load(output)
    assert list(stored["texts"])[-1] == "a cat" and len(stored["vectors"]) == 4
    words = ("similar", "model", "a cat", str(output), "--json", "--top", "1")
    assert lines_of(headway(*words, cwd=folder))[0]["text"] == "a cat"
    assert np.linalg.norm(stored["vectors"], axis=1) == pytest.approx(np.ones(4), abs=1e-5)


def test_attention_is_drawn_over_the_image(folder, tmp_path):
    picture, page = tmp_path / "attention.png", tmp_path / "page.html"
    photo = "photos/high/high.png"
    headway("look", "model", photo, "--output", str(picture), cwd=folder)
    assert picture.read_bytes().startswith(b"\x89PNG")
    headway("inspect", "model", photo, "--html", str(page), cwd=folder)
    assert page.stat().st_size > 10_000


def test_a_served_model_classifies_by_the_labels_of_a_request(folder):
    bundle = load(folder / "model")
    coded = base64.b64encode((folder / "photos/wide/wide.png").read_bytes()).decode()
    with running({"images": bundle}) as client:
        names = {"candidate_labels": ["a cat", "a dog"], "hypothesis_template": "a photo of {}"}
        reply = client.post("/classify", {"inputs": coded, "parameters": names})
        assert reply.status == 200, reply.body
        classifier = bundle.classifier(["a cat", "a dog"], "a photo of {}")
        assert {item["label"] for item in reply.json} == set(classifier.labels)
        without = client.post("/classify", {"inputs": coded})
        assert without.status == 400 and "labels are missing" in without.json["error"]["message"]
