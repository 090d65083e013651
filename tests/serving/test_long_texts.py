"""Texts that are too long are refused before they are tokenized; no other request waits for it."""

import threading
import time

import pytest

from tests.fixtures import bundles
from tests.fixtures.model_server import language_model, running, seconds_of_health

MODELS = {
    "gpt": language_model(),
    "translator": bundles.translator(),
    "classifier": bundles.bert_classifier(),
    "pairs": bundles.bert_classifier(pairs=True),
    "encoder": bundles.encoder(max_length=40),
}
LONG = "the old fox waves " * 200_000  # 3.6 million characters, in a body of at most 4 MB
HUGE = "the old fox waves " * 1_400_000  # 25 MB
"""More than the maximum of a body of texts."""


@pytest.fixture(scope="module")
def client():
    with running(MODELS, templates={"gpt": "{{ messages[0].content }}"}) as client:
        client.complete(model="gpt", prompt="a", max_tokens=1)  # reads the vocabulary
        yield client


REFUSED = [
    ("/v1/completions", {"model": "gpt", "prompt": LONG}, "is 400 tokens"),
    ("/v1/completions", {"model": "gpt", "prompt": ["a", LONG], "echo": True}, "prompt[1]"),
    ("/v1/chat/completions", {"model": "gpt", "messages": [LONG]}, "is 400 tokens"),
    ("/tokenize", {"model": "gpt", "prompt": LONG}, "1,000,000"),
    ("/detokenize", {"model": "gpt", "tokens": [9] * 300_000}, "262,144"),
    ("/v1/embeddings", {"model": "encoder", "input": ["a", LONG]}, "text 1 has 3,600,000"),
    ("/v1/embeddings", {"model": "encoder", "input": [LONG[:90_000]] * 12}, "in one request"),
    ("/embed", {"model": "encoder", "inputs": LONG}, "100,000"),
    ("/v1/rerank", {"model": "pairs", "query": "a", "documents": [LONG]}, "100,000"),
    ("/translate", {"model": "translator", "inputs": LONG}, "100,000"),
    ("/translate", {"model": "translator", "q": LONG, "target": "de"}, "100,000"),
    ("/classify", {"model": "classifier", "inputs": LONG}, "100,000"),
    ("/classify", {"model": "classifier", "inputs": ["a " * 45_000] * 12}, "in one request"),
]


@pytest.mark.parametrize("path, body, words", REFUSED, ids=lambda item: str(item)[:20])
def test_a_text_that_is_too_long_is_refused(client, path, body, words):
    if "messages" in body:
        body = {**body, "messages": [{"role": "user", "content": LONG}]}
    reply = client.post(path, body)
    assert reply.status == 400 and words in reply.json["error"]["message"], reply.body[:300]


@pytest.mark.parametrize(
    "path, body",
    [
        ("/v1/completions", {"model": "gpt", "prompt": HUGE}),
        ("/translate", {"model": "translator", "inputs": HUGE}),
        ("/v1/embeddings", {"model": "encoder", "input": [9] * 5_000_000}),
    ],
    ids=["completions", "translate", "embeddings"],
)
def test_a_body_of_texts_is_limited(client, path, body):
    reply = client.post(path, body)
    assert reply.status == 413 and "4,000,000" in reply.json["error"]["message"]


def test_the_prompt_of_most_characters_is_accepted(client):
    served = next(m for m in client.server.models if m.name == "gpt")
    longest = max(map(len, served.bundle.tokenizer.token_strings(range(300))))
    assert served.longest_prompt == 400 * longest
    text = "the fox " * 90
    assert client.complete(model="gpt", prompt=text, max_tokens=1)["usage"]["prompt_tokens"] > 90


def test_others_do_not_wait_while_a_long_text_is_tokenized(client):
    """The tokenizer lets other threads run."""
    bodies = [
        ("/tokenize", {"model": "gpt", "prompt": LONG[:1_000_000]}),
        ("/v1/completions", {"model": "gpt", "prompt": LONG}),
        ("/translate", {"model": "translator", "inputs": LONG}),
    ]
    done, statuses = threading.Event(), []

    def attack():
        for path, body in bodies * 2:
            statuses.append(client.post(path, body).status)
        done.set()

    attacker = threading.Thread(target=attack)
    begun = time.monotonic()
    attacker.start()
    # not the slowest ones: a tokenizer that holds the lock delays all, a busy machine only some
    beside = seconds_of_health(client.port, lambda: not done.is_set(), percentile=75)
    attacker.join()
    took = time.monotonic() - begun
    assert statuses == [200, 400, 400] * 2
    assert beside <= took / 12, (beside, took)  # half of what a text takes, on any machine
