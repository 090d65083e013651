"""Clients of bad will: hostile bodies, wrong keys and origins, connections that send nothing."""

import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headway.serving.http import connection
from tests.fixtures import bundles
from tests.fixtures.model_server import (
    Client,
    for_seconds,
    language_model,
    memory,
    running,
    seconds_of_health,
    serve_process,
)

GPT = language_model()
USUAL = (None, True, 0.5, "x", "", {}, [], {"a": 1})
JSON_HEADER = {"content_type": "application/json"}


def hostile_bodies():
    """Bodies that no client of good will sends, as (path, body)."""
    path = "/v1/completions"
    ok = {"prompt": "a"}
    values = [None, True, -1, 0.5, 10**30, -(10**30), "x", "", [], {}, [[]], [None], {"a": 1}]
    bodies = []
    for field in ("temperature", "top_p", "n", "stop", "logit_bias", "min_p", "stream_options"):
        for value in values:
            bodies.append((path, {**ok, field: value}))
    bodies += [(path, {"prompt": value}) for value in (None, 3, {}, [None], [1.5], [True], [[[]]])]
    raw = [b"", b"null", b"[]", b"3", b"\x00", b"\xff\xfe", b"{", b'{"prompt":', b'{"prompt": NaN}']
    raw += [b'{"prompt": 1e999}', b"[" * 200_000, b'{"a":' * 100_000, b'"\\ud800"', b"{}" * 9]
    raw += [b'{"prompt": "\\ud800"}', b'{"prompt": "a", "max_tokens": 1e400}']
    bodies += [(path, body) for body in raw]
    bodies += [("/v1/embeddings", {"input": value}) for value in ("", [], [[]], 3, None, ["", "a"])]
    bodies += [("/tokenize", {"prompt": 3}), ("/detokenize", {"tokens": [-1]})]
    bodies += [("/detokenize", {"tokens": [10**9]}), ("/detokenize", {"tokens": "x"})]
    return bodies


def test_hostile_bodies_are_refused_and_memory_stays():
    """What is accepted is a valid request whose unusual value is a default (null, true)."""
    bodies = hostile_bodies()
    assert len(bodies) >= 120
    with running({"gpt": GPT, "encoder": bundles.encoder(max_length=40)}) as client:
        client.complete(model="gpt", prompt="a", max_tokens=1)
        before = memory()
        accepted = []
        for path, body in bodies:
            given = body if isinstance(body, bytes) else {"max_tokens": 1, **body}
            if isinstance(given, dict) and path == "/v1/completions":
                given["model"] = "gpt"
            reply = client.post(path, given, content_type="application/json")
            assert reply.status in (200, 400, 415, 422), (path, body, reply.body)
            if reply.status == 200:
                accepted.append(body)
            else:
                assert reply.json["error"]["message"]
        assert memory() - before < 20
        assert client.get("/health").status == 200
        for body in accepted:  # only defaults and values that the API allows
            assert any(value in USUAL for value in body.values()), body


@pytest.mark.slow
def test_health_is_answered_within_50_ms_at_full_load_and_beside_hostile_bodies(tmp_path):
    """So long every other client waits, too, besides its time in the queue."""
    GPT.save(tmp_path / "gpt")
    fields = {"prompt": "the dog", "max_tokens": 300, "min_tokens": 300, "temperature": 0}
    with serve_process(tmp_path / "gpt", "--slots", 16) as (_, port):
        client = Client(port, None)
        quiet = seconds_of_health(port, for_seconds(3))
        is_under_way = for_seconds(12)

        def load():
            while is_under_way():
                client.complete(**fields)

        def attack():
            while is_under_way():
                for path, body in hostile_bodies():
                    client.post(path, body, content_type="application/json")

        with ThreadPoolExecutor(16) as pool:
            loads = [pool.submit(load) for _ in range(16)]
            loaded = seconds_of_health(port, is_under_way)
            [one.result() for one in loads]
        is_under_way = for_seconds(12)
        with ThreadPoolExecutor(1) as pool:
            attacked = pool.submit(attack)
            beside = seconds_of_health(port, is_under_way)
            attacked.result()
    milliseconds = [round(1000 * one, 1) for one in (quiet, loaded, beside)]
    print("p99 of /health in ms: quiet, 16 streams, beside hostile bodies:", milliseconds)
    assert loaded <= 0.05 and beside <= quiet + 0.05


def test_the_door(tmp_path):
    """500 requests with wrong keys, hosts and origins: none is answered."""
    draw = random.Random(9)
    key = "a-key-of-many-characters"
    keys = ["", "Bearer", "Bearer ", f"Bearer {key}x", f"Bearer {key[:-1]}", f"Basic {key}", key]
    hosts = ["evil.example", "127.0.0.1", "localhost", "", "127.0.0.1:1", "[::1]", "a" * 900]
    origins = ["http://evil.example", "null", "https://evil.example", "file://", "http://127.0.0.1"]
    paths = ["/v1/models", "/metrics", "/v1/completions", "/openapi.json", "/tokenizer_info"]
    with running({"gpt": GPT}, key=key) as client:
        right = {"authorization": f"Bearer {key}"}
        for _ in range(500):
            kind = draw.randrange(3)
            headers = dict(right)
            if kind == 0:
                headers["authorization"] = draw.choice(keys)
            elif kind == 1:
                headers["Host"] = draw.choice(hosts)
            else:
                headers["origin"] = draw.choice(origins)
            method = draw.choice(["GET", "POST"])
            reply = client.send(method, draw.choice(paths), b"{}", **headers, **JSON_HEADER)
            assert reply.status in (401, 403), (headers, reply.status)
        assert client.get("/v1/models", **right).status == 200


@pytest.mark.slow
def test_200_slow_connections_do_not_keep_others_out(monkeypatch):
    monkeypatch.setattr(connection, "SECONDS", 10.0)
    with running({"gpt": GPT}) as client:
        slow = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(200)]
        begun = time.monotonic()
        opened = dict.fromkeys(slow, True)
        canary = []
        while time.monotonic() - begun < 15:
            for one in [one for one in slow if opened[one]]:
                try:
                    one.sendall(b"P" if time.monotonic() - begun < 1 else b"a")
                except OSError:
                    opened[one] = False
            canary.append(client.get("/health").status)
            time.sleep(0.2)
        for one in slow:
            one.settimeout(1)
            try:
                opened[one] = bool(one.recv(1000)) and bool(one.recv(1000))
            except OSError:
                opened[one] = False
            one.close()
        assert set(canary) == {200} and not any(opened.values())
