"""What an operator relies on: health, keys, slow clients, and an end without losses."""

import http.client
import json
import logging
import re
import signal
import socket
import threading
import time

import pytest
import torch

from headway.base import threads
from headway.cli.serve import ServeFlags, serve
from headway.serving.engine import Engine, EngineSettings, Measurements, Metrics
from headway.serving.engine import engine as engine_module
from headway.serving.http import app as app_module
from headway.serving.http import connection, request_log
from tests.fixtures.command_line import headway
from tests.fixtures.model_server import JSON, Client, language_model, running, serve_process

BUNDLE = language_model()
KEY = "a-key-of-many-characters"


def wait_for(holds, seconds=60.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_health_ready_and_metrics():
    with running({"gpt": BUNDLE}) as client:
        assert client.get("/health").json == {"status": "ok", "sick": []}
        assert client.get("/ready").status == 200
        assert client.get("/v1/models/gpt").json["device"] == "cpu"
        client.complete(prompt="fox", max_tokens=5, seed=1, n=2)

        def value(name):
            text = client.get("/metrics").body.decode()
            values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
            return float(values[f'headway_{name}{{model="gpt"}}'])

        assert value("generated_tokens_total") >= 2
        assert value("time_to_first_token_seconds_count") == 2
        wait_for(lambda: value("running") == 0)


def test_an_engine_without_work_gives_freed_memory_back_once(monkeypatch):
    given_back = []
    monkeypatch.setattr(engine_module, "LONG_IDLE", 1)
    monkeypatch.setattr(engine_module, "return_freed_memory", lambda: given_back.append(True))
    with running({"gpt": BUNDLE}) as client:
        wait_for(lambda: len(given_back) == 1)
        client.complete(prompt="fox", max_tokens=2)
        wait_for(lambda: len(given_back) == 2)
        time.sleep(0.7)  # another turn without work
        assert len(given_back) == 2


def test_a_stuck_engine_is_unhealthy_and_a_healthy_one_again_later(monkeypatch):
    bundle = language_model()
    release = threading.Event()
    step = type(bundle.model).step

    def stuck(self, tokens, state):
        release.wait(60)
        return step(self, tokens, state)

    monkeypatch.setattr(type(bundle.model), "step", stuck)
    monkeypatch.setattr(engine_module, "STUCK", 0.3)
    with running({"gpt": bundle}) as client:
        thread = threading.Thread(target=client.complete, kwargs={"prompt": "fox", "max_tokens": 2})
        thread.start()
        wait_for(lambda: client.get("/health").status == 503)
        assert client.get("/health").json["sick"] == ["gpt"]
        release.set()
        thread.join()
        assert client.get("/health").status == 200


def test_a_dead_engine_ends_the_server(monkeypatch):
    bundle = language_model()

    def broken(self, tokens, state):
        raise RuntimeError("broken")

    monkeypatch.setattr(type(bundle.model), "step", broken)
    with running({"gpt": bundle}) as client:
        reply = client.post("/v1/completions", {"prompt": "fox", "max_tokens": 2})
        assert reply.status == 500 and "broken" not in reply.body.decode()
        wait_for(lambda: client.server.failed)


def test_a_key_is_needed_but_for_health():
    with running({"gpt": BUNDLE}, key=KEY) as client:
        assert client.get("/health").status == 200 and client.get("/ready").status == 200
        wrong = [{}, {"authorization": KEY}, {"authorization": "Bearer x"}]
        wrong += [{"authorization": f"Bearer {KEY}x"}, {"authorization": f"Basic {KEY}"}]
        for headers in wrong:
            for path in ("/v1/models", "/metrics", "/nothing", "/v1/completions"):
                reply = client.get(path, **headers)
                assert reply.status == 401 and reply.json["error"]["type"] == "authentication_error"
        assert client.get("/v1/models", authorization=f"Bearer {KEY}").status == 200


def test_other_hosts_and_origins_are_refused():
    with running({"gpt": BUNDLE}, hosts=("models.example",)) as client:
        for host in ("evil.example", "127.0.0.1", "models.example.evil", ""):
            assert client.get("/v1/models", Host=host).status == 403
        for origin in ("http://evil.example", "null", "https://models.example.evil"):
            assert client.get("/v1/models", origin=origin).status == 403
        assert client.get("/v1/models", Host="models.example").status == 200
        reply = client.get("/v1/models", Host="models.example", origin="https://models.example")
        assert reply.status == 200


def test_a_page_of_an_allowed_origin_uses_the_server():
    page = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
    with running({"gpt": BUNDLE}, origins=["https://app.example"], key=KEY) as client:
        asks = {"access-control-request-method": "POST"}
        reply = client.send("OPTIONS", "/v1/completions", **page, **asks)
        assert reply.status == 204
        assert reply.headers["access-control-allow-origin"] == "https://app.example"
        body = {"prompt": "a", "max_tokens": 2, "stream": True}
        key = {"authorization": f"Bearer {KEY}"}
        reply = client.post("/v1/completions", body, **page, **key)
        assert reply.status == 200 and reply.events
        assert reply.headers["access-control-allow-origin"] == "https://app.example"
        other = {**page, "origin": "https://evil.example"}
        assert client.post("/v1/completions", body, **other, **key).status == 403


def test_a_full_queue_and_a_drain_are_said_with_the_time_to_wait(monkeypatch):
    settings, release = EngineSettings(slots=1, queue=1), threading.Event()
    step = type(BUNDLE.model).step

    def held(self, tokens, state):
        assert release.wait(60)
        return step(self, tokens, state)

    monkeypatch.setattr(type(BUNDLE.model), "step", held)
    with running({"gpt": BUNDLE}, settings) as client:
        engine = next(iter(client.server.models)).engine
        fields = {"prompt": "fox", "max_tokens": 3}
        threads = [threading.Thread(target=client.complete, kwargs=fields) for _ in range(2)]
        for number, thread in enumerate(threads):
            thread.start()
            wait_for(lambda number=number: engine.busy and len(engine.waiting) == number)
        reply = client.post("/v1/completions", fields)
        assert reply.status == 429 and reply.json["error"]["code"] == "full"
        assert 1 <= int(reply.headers["retry-after"]) <= 60
        release.set()
        for thread in threads:
            thread.join()
        engine.waiting.draining = True
        reply = client.post("/v1/completions", {"prompt": "fox"})
        assert reply.status == 503 and "retry-after" in reply.headers
        assert client.get("/ready").status == 503 and client.get("/health").status == 200


def test_a_client_that_goes_frees_its_slot(monkeypatch):
    step = type(BUNDLE.model).step

    def slow(self, tokens, state):
        time.sleep(0.01)  # so that no output ends before its client goes
        return step(self, tokens, state)

    monkeypatch.setattr(type(BUNDLE.model), "step", slow)
    with running({"gpt": BUNDLE}, EngineSettings(slots=1)) as client:
        body = {"prompt": "fox", "max_tokens": 390, "min_tokens": 390, "stream": True}
        engine = next(iter(client.server.models)).engine
        for _ in range(3):
            one = http.client.HTTPConnection("127.0.0.1", client.port)
            one.request("POST", "/v1/completions", json.dumps(body), JSON)
            one.getresponse().read(300)
            one.close()
            wait_for(lambda: not engine.busy)
        cancelled = 'headway_cancelled_total{model="gpt"} 3.0'
        assert cancelled in client.get("/metrics").body.decode()


def test_a_slow_connection_is_closed_and_others_are_served(monkeypatch):
    monkeypatch.setattr(connection, "SECONDS", 0.5)
    with running({"gpt": BUNDLE}) as client:
        slow = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(20)]
        for n, one in enumerate(slow):
            one.settimeout(60)
            one.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"[: 10 + n])
        assert client.get("/health").status == 200
        for one in slow:
            while one.recv(1000):
                pass  # a line of an error may come before the end
            one.close()
        assert client.get("/health").status == 200


@pytest.mark.parametrize("start", [b"GET /hea", b"POST /tokenize HTTP/1.1\r\n"])
def test_a_slow_second_request_behind_a_whole_one_is_closed(monkeypatch, start):
    monkeypatch.setattr(connection, "SECONDS", 0.5)
    with running({"gpt": BUNDLE}) as client:
        host = f"Host: 127.0.0.1:{client.port}\r\n".encode()
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as one:
            one.sendall(b"GET /health HTTP/1.1\r\n" + host + b"\r\n" + start)
            while one.recv(1000):
                pass  # the reply to the first request


def test_a_client_that_goes_during_its_upload_is_no_error(monkeypatch):
    errors, statuses = [], []
    monkeypatch.setattr(app_module, "log_error", lambda *error: errors.append(error))
    monkeypatch.setattr(app_module, "log_request", lambda _, status, begun: statuses.append(status))
    with running({"gpt": BUNDLE}) as client:
        head = f"POST /tokenize HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n"
        with socket.create_connection(("127.0.0.1", client.port), timeout=60) as one:
            one.sendall(head.encode() + b"Content-Length: 100\r\n\r\n{")
            time.sleep(0.2)
        wait_for(lambda: statuses)
    assert (errors, statuses) == ([], [app_module.GONE])


@pytest.fixture
def saved(tmp_path):
    BUNDLE.save(tmp_path / "gpt")
    return tmp_path / "gpt"


def test_the_log_has_no_texts_and_no_keys(saved, tmp_path):
    (tmp_path / "key.txt").write_text(KEY)
    with serve_process(saved, "--key-file", tmp_path / "key.txt", "--log") as (process, port):
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        secret = {"prompt": "swordfish", "max_tokens": 2}
        headers = {**JSON, "authorization": f"Bearer {KEY}"}
        for path, body in (("/v1/completions?q=swordfish", secret), ("/v1/embeddings", secret)):
            one.request("POST", path, json.dumps(body), headers)
            one.getresponse().read()
        one.close()
        process.send_signal(signal.SIGTERM)
        lines = process.stderr.read().splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    assert [(line["path"], line["status"]) for line in logged] == [
        ("/v1/completions", 200),
        ("/v1/embeddings", 400),
    ]
    assert all(line["ms"] >= 0 and line["method"] == "POST" for line in logged)
    assert "swordfish" not in str(lines) and KEY not in str(lines)


@pytest.fixture
def loggers():
    """The loggers that a server changes, which are restored."""
    changed = (request_log.REQUESTS, request_log.ERRORS, logging.getLogger("asyncio"))
    before = [(logger.handlers, logger.level, logger.propagate) for logger in changed]
    yield changed
    for logger, (handlers, level, propagate) in zip(changed, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_clients_that_leave_early_are_no_lines_of_the_log(loggers):
    """asyncio warns of each, in plain text, where the log has lines of JSON."""
    assert loggers[-1].isEnabledFor(logging.WARNING)
    request_log.write_log(requests=True)
    assert not loggers[-1].isEnabledFor(logging.WARNING)
    assert loggers[-1].isEnabledFor(logging.ERROR)


def test_a_signal_ends_the_server_when_it_has_answered(saved):
    answers = []

    def ask(n):
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = {"prompt": "fox", "max_tokens": 200, "min_tokens": 200, "seed": n}
        one.request("POST", "/v1/completions", json.dumps(body), JSON)
        response = one.getresponse()
        answers.append((response.status, json.loads(response.read())))
        one.close()

    with serve_process(saved) as (process, port):
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        observer = Client(port, None)
        while not re.search(rb'headway_running{model="gpt"} [1-9]', observer.get("/metrics").body):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
    for status, reply in answers:
        assert status in (200, 503)
        assert status != 200 or reply["usage"]["completion_tokens"] == 200
    assert sum(status == 200 for status, _ in answers) >= 1, answers


@pytest.mark.parametrize("flag, expected", [(2, 2), (None, 3)])
def test_only_the_engine_computes_with_several_threads(saved, monkeypatch, flag, expected):
    """Threads that once computed for the main thread would slow every step down."""
    numbers = []

    def served(bundles, settings, ready, templates, examples):
        engine = Engine(bundles["gpt"], settings.engine, Measurements(Metrics(), "gpt"))
        monkeypatch.setattr(engine, "_turn", lambda: numbers.append(torch.get_num_threads()))
        numbers.append(torch.get_num_threads())
        engine.start()
        while len(numbers) < 2:
            time.sleep(0.01)
        engine.stop()
        return True

    monkeypatch.setattr(threads, "_is_of_user", lambda number: False)
    monkeypatch.setattr(threads, "fastest_threads", lambda **_: 3)
    monkeypatch.setattr("headway.cli.serve.serve_bundles", served)
    before = torch.get_num_threads()
    try:
        serve(str(saved), flags=ServeFlags(threads=flag))
    finally:
        torch.set_num_threads(before)
    assert numbers[:2] == [1, expected]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--host", "0.0.0.0"], "without a key"),
        (["--key-file", "short.txt"], "at least 16"),
        (["--key-file", "missing.txt"], "missing.txt"),
        (["--allow-origin", "*"], "the origin '*' cannot be allowed: any page"),
        (["--name", "a", "--name", "b"], "--name names 2 models"),
        (["--slots", "0"], "at least 1"),
    ],
)
def test_wrong_arguments_are_refused(saved, tmp_path, arguments, words):
    (tmp_path / "short.txt").write_text("secret\n")
    done = headway("serve", str(saved), *arguments, cwd=tmp_path, check=None)
    assert done.returncode in (2, 3) and words in done.stderr and not done.stdout
