"""A form of outputs may have characters of which the vocabulary has only single bytes."""

import json

import pytest

from tests.fixtures.bundles import TOKENIZER
from tests.fixtures.chat_model import BUNDLE
from tests.fixtures.model_server import language_model, running

TEXTS = ["Köln", "日本", "🦊 owl", "a\u00a0b", "plain", "ÿ�x"]


@pytest.fixture(scope="module")
def client():
    with running({"ours": language_model(), "theirs": BUNDLE}) as client:
        yield client


def test_the_vocabularies_have_no_token_for_these_characters():
    for tokenizer in (TOKENIZER, BUNDLE.tokenizer):
        assert len(tokenizer.encode("🦊")) > 1 and len(tokenizer.encode("日")) > 1


@pytest.mark.parametrize("model", ["ours", "theirs"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_choice_is_written_with_all_its_characters(client, model, text):
    fields = {"model": model, "prompt": "the", "max_tokens": 60, "temperature": 0}
    reply = client.post("/v1/completions", {**fields, "guided_choice": [text]})
    assert reply.status == 200, reply.body
    (choice,) = reply.json["choices"]
    assert (choice["text"], choice["finish_reason"]) == (text, "stop")
    events = client.post("/v1/completions", {**fields, "guided_choice": [text], "stream": True})
    assert "".join(e["choices"][0]["text"] for e in events.events) == text


@pytest.mark.parametrize("model", ["ours", "theirs"])
@pytest.mark.parametrize("seed", range(4))
def test_a_text_of_a_schema_is_valid_json_in_utf_8(client, model, seed):
    schema = {"type": "object", "properties": {"city": {"enum": TEXTS}, "x": {"maxLength": 3}}}
    schema |= {"required": ["city"], "additionalProperties": False}
    schema["properties"]["x"]["type"] = "string"
    fields = {"model": model, "prompt": "the", "max_tokens": 180, "temperature": 1, "seed": seed}
    reply = client.post("/v1/completions", {**fields, "guided_json": schema})
    assert reply.status == 200, reply.body
    (choice,) = reply.json["choices"]
    if choice["finish_reason"] == "stop":
        assert json.loads(choice["text"])["city"] in TEXTS
