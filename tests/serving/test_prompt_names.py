"""A client names the prompt of a text encoder that precedes its texts."""

import numpy as np
import pytest

from headway.bundle import EncoderBundle
from headway.interop.sentence_transformers import EmbeddedTexts
from tests.fixtures import bundles
from tests.fixtures.model_server import running

ENCODER = bundles.encoder(max_length=40)
PROMPTS = {"query": "the red fox: ", "passage": ""}
MODELS = {
    "prompted": EncoderBundle(
        ENCODER.model, ENCODER.tokenizer, texts=EmbeddedTexts(prompts=PROMPTS)
    ),
    "plain": ENCODER,
}
TEXTS = ["two dogs play", "a lemon tree"]


@pytest.fixture(scope="module")
def client():
    with running(MODELS) as client:
        yield client


def vectors(reply, route):
    assert reply.status == 200, reply.body
    rows = reply.json if route == "/embed" else [item["embedding"] for item in reply.json["data"]]
    return np.array(rows)


def body(route, **fields):
    return {"inputs" if route == "/embed" else "input": TEXTS, **fields}


@pytest.mark.parametrize("route", ["/embed", "/v1/embeddings"])
def test_texts_are_embedded_after_the_named_prompt(route, client):
    for name in ("query", "passage", None):
        reply = client.post(route, body(route, model="prompted", prompt_name=name))
        expected = MODELS["prompted"].embed(TEXTS, prompt=name).numpy()
        np.testing.assert_allclose(vectors(reply, route), expected, atol=1e-5)


def test_the_usage_counts_the_tokens_of_the_prompt(client):
    used = [
        client.post("/v1/embeddings", body("", model="prompted", prompt_name=name)).json["usage"]
        for name in PROMPTS
    ]
    of_prompt = len(ENCODER.tokenizer.encode(PROMPTS["query"]))
    assert used[0]["prompt_tokens"] == used[1]["prompt_tokens"] + of_prompt * len(TEXTS)


@pytest.mark.parametrize("route", ["/embed", "/v1/embeddings"])
@pytest.mark.parametrize(("model", "known"), [("prompted", "query, passage"), ("plain", "none")])
def test_an_unknown_prompt_is_named_with_those_that_there_are(route, model, known, client):
    reply = client.post(route, body(route, model=model, prompt_name="title"))
    error = reply.json["error"]
    assert reply.status == 400 and error["param"] == "prompt_name"
    assert error["message"].endswith(f"its prompts are: {known}")
