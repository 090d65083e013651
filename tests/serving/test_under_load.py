"""The server under load and in bad company: the bars of reliability, most of them minutes long."""

import http.client
import json
import os
import random
import signal
import socket
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from headway.serving.engine import EngineSettings
from headway.serving.http import connection
from tests.fixtures import bundles
from tests.fixtures.model_server import JSON, language_model, running, serve_process

GPT = language_model()
TRANSLATOR = bundles.translator()
WORDS = ["the", "fox", "eats", "lemon", "and", "dog", "bread"]
USUAL = (None, True, 0.5, "x", "", {}, [], {"a": 1})
LONG = {"prompt": "fox", "max_tokens": 390, "min_tokens": 390}


def text_of(draw, most=20):
    return " ".join(draw.choices(WORDS, k=draw.randint(1, most)))


def random_fields(draw):
    """A random request for completions that succeeds."""
    fields = {
        "model": "gpt",
        "prompt": text_of(draw),
        "max_tokens": draw.randint(1, 30),
        "seed": draw.randint(0, 99),
        "n": draw.choice([1, 1, 2, 3]),
        "temperature": draw.choice([0, 0.7, 1]),
        "stop": draw.choice([None, "e", [" fox", "the"]]),
        "logprobs": draw.choice([None, 1]),
    }
    return fields if draw.random() < 0.9 else {**fields, "n": 2, **BEAMS}


BEAMS = {"use_beam_search": True, "best_of": 3, "logprobs": None, "temperature": None}


def memory():
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def same_answer(client, fields):
    """A stream joined is the plain answer: texts, offsets, usage, reasons, no cut characters."""
    plain = client.complete(**fields)
    asked = {**fields, "stream": True, "stream_options": {"include_usage": True}}
    events = client.post("/v1/completions", asked).events
    assert events[-1]["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
    for choice in plain["choices"]:
        own = [e["choices"][0] for e in events[:-1] if e["choices"][0]["index"] == choice["index"]]
        assert "".join(part["text"] for part in own) == choice["text"]
        assert own[-1]["finish_reason"] == choice["finish_reason"]
        if fields["logprobs"] is not None:
            offsets = [o for part in own for o in part["logprobs"]["text_offset"]]
            assert offsets == choice["logprobs"]["text_offset"]
        stops = [fields["stop"]] if isinstance(fields["stop"], str) else fields["stop"] or []
        assert not any(stop in choice["text"] for stop in stops)


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_streams_are_the_plain_answers(count):
    draw = random.Random(3)
    asked = [random_fields(draw) for _ in range(count)]
    asked = [fields for fields in asked if "use_beam_search" not in fields]
    with running({"gpt": GPT}) as client, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda fields: same_answer(client, fields), asked))


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_mixed_requests_with_disconnects_are_those_of_the_python_api(count):
    """Greedy, seeded, n, stop, beams and translations at once; a fifth of the clients go away."""
    draw = random.Random(5)
    settings = EngineSettings(slots=8, queue=4 * count)
    with running({"gpt": GPT, "de": TRANSLATOR}, settings) as client:

        def one(number):
            if number % 5 == 0:
                leave(client, {**LONG, "model": "gpt"}, draw.random() * 0.2)
                return None
            if number % 4 == 0:
                text = text_of(draw, 6)
                return text, client.post("/translate", {"inputs": text, "model": "de"}).json
            fields = random_fields(draw)
            return fields, client.complete(**fields)

        with ThreadPoolExecutor(16) as pool:
            answers = [answer for answer in pool.map(one, range(count)) if answer is not None]
        engine = client.server.models.named("gpt").engine
        wait_for(lambda: not engine.busy)
    wrong = sum(not as_expected(asked, got) for asked, got in answers)
    assert wrong == 0, f"{wrong} of {len(answers)} answers are wrong"


def as_expected(asked, got):
    if isinstance(asked, str):
        return got == [{"translation_text": TRANSLATOR.translate([asked])[0]}]
    beam = asked.get("best_of", 1)
    (outputs,) = GPT.generate(
        [asked["prompt"]],
        max_tokens=asked["max_tokens"],
        seed=asked["seed"],
        samples=asked["n"],
        temperature=1.0 if asked["temperature"] is None else float(asked["temperature"]),
        stop=tuple([asked["stop"]] if isinstance(asked["stop"], str) else asked["stop"] or ()),
        beam=beam,
    )
    return [choice["text"] for choice in got["choices"]] == [output.text for output in outputs]


def leave(client, fields, seconds):
    """Send a request, and go away after so many seconds."""
    one = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
    one.request("POST", "/v1/completions", json.dumps(fields), JSON)
    time.sleep(seconds)
    one.close()


def wait_for(holds, seconds=20.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_cancelled_requests_free_their_slots_within_250_ms(count):
    """In the queue, in the prompt, while decoding, and in a beam search."""
    draw = random.Random(7)
    kinds = [
        {**LONG, "stream": True},
        {**LONG, "prompt": "fox " * 300, "max_tokens": 20, "min_tokens": 0},
        {**LONG, "use_beam_search": True, "best_of": 16},
        {**LONG, "n": 2},
    ]
    with running({"gpt": GPT}, EngineSettings(slots=2, queue=64)) as client:
        engine = client.server.models.named("gpt").engine
        late = []
        for number in range(count):
            leave(client, kinds[number % 4], draw.random() * 0.03)
            begun = time.monotonic()
            wait_for(lambda: not engine.busy)
            late.append(time.monotonic() - begun)
        assert sorted(late)[int(0.99 * len(late))] < 0.25, sorted(late)[-5:]
        reply = client.complete(prompt="fox", max_tokens=5, temperature=0)
        (expected,) = GPT.generate(["fox"], max_tokens=5, temperature=0.0)
        assert reply["choices"][0]["text"] == expected[0].text


@pytest.mark.parametrize(
    ("seconds", "most"), [(2, 2.0), pytest.param(60, 0.1, marks=pytest.mark.slow)]
)
def test_an_overload_is_refused_fast_and_what_is_accepted_is_right(tmp_path, seconds, most):
    """Requests arrive at ten times the rate that the server can answer, whatever it answers."""
    GPT.save(tmp_path / "gpt")
    fields = {"prompt": "the dog", "max_tokens": 60, "min_tokens": 60, "temperature": 0}
    ((expected,),) = GPT.generate(["the dog"], max_tokens=60, min_tokens=60, temperature=0.0)
    with (
        serve_process(tmp_path / "gpt", "--slots", 4, "--queue", 4) as (_, port),
        LastingConnections(port) as client,
        ThreadPoolExecutor(200) as pool,
    ):
        begun = time.monotonic()
        for _ in range(2):
            assert {one[0] for one in pool.map(client.complete, [fields] * 4)} == {200}
        rate = 10 * 8 / (time.monotonic() - begun)
        begun, sent = time.monotonic(), []
        while (now := time.monotonic() - begun) < seconds:
            due = int(rate * now) - len(sent)
            sent += [pool.submit(client.complete, fields) for _ in range(due)]
            time.sleep(0.002)
        answers = [answer.result() for answer in sent]
        begun = time.monotonic()
        assert client.complete(fields)[1] == expected.text
        assert time.monotonic() - begun < 5
    refused = sorted(took for status, _, took in answers if status == 429)
    assert {text for status, text, _ in answers if status == 200} == {expected.text}
    assert len(refused) > len(answers) / 2 and {status for status, *_ in answers} == {200, 429}
    p99 = refused[int(0.99 * len(refused))]
    print(f"refusals: median {1000 * statistics.median(refused):.0f} ms, p99 {1000 * p99:.0f} ms")
    assert p99 < most


class LastingConnections(ExitStack):
    """Completions over connections that stay open, one for each thread that asks."""

    def __init__(self, port):
        super().__init__()
        self.port, self.local = port, threading.local()

    def complete(self, fields):
        """Return the status, the text, and the seconds until the answer was read."""
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            self.callback(self.local.connection.close)
        begun = time.monotonic()
        self.local.connection.request("POST", "/v1/completions", json.dumps(fields), JSON)
        response = self.local.connection.getresponse()
        reply = json.loads(response.read())
        took = time.monotonic() - begun
        if response.status != 200:
            assert int(response.headers["retry-after"]) >= 1
            return response.status, "", took
        return response.status, reply["choices"][0]["text"], took


def test_an_answer_on_an_open_connection_waits_for_no_acknowledgement(tmp_path):
    """With Nagle's algorithm, each answer after the first would take 40 ms."""
    GPT.save(tmp_path / "gpt")
    with serve_process(tmp_path / "gpt") as (_, port):
        one, times = http.client.HTTPConnection("127.0.0.1", port, timeout=60), []
        for _ in range(10):
            begun = time.monotonic()
            one.request("GET", "/health")
            assert one.getresponse().read()
            times.append(time.monotonic() - begun)
        one.close()
    assert min(times[1:]) < 0.02


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


JSON_HEADER = {"content_type": "application/json"}


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


@pytest.mark.slow
def test_50_signals_with_32_requests_lose_nothing(tmp_path):
    GPT.save(tmp_path / "gpt")
    draw = random.Random(11)
    codes = []
    for _ in range(50):
        with serve_process(tmp_path / "gpt") as (process, port):
            codes += signalled(process, port, 0.05 + draw.random() * 0.4)
    numbers = [codes.count(status) for status in (200, 503, 0)]
    print("answered, refused, not connected:", numbers)
    assert codes.count(200) > 100


def signalled(process, port, seconds):
    """Send 32 requests and a signal; return the status of each, 0 for a refused connection."""

    def ask(number):
        one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        fields = {"prompt": "fox", "max_tokens": 60, "min_tokens": 60, "seed": number}
        try:
            one.connect()
        except ConnectionRefusedError:
            return 0  # the server had ended
        try:
            one.request("POST", "/v1/completions", json.dumps(fields), JSON)
            response = one.getresponse()
            reply = json.loads(response.read())
        except (http.client.RemoteDisconnected, ConnectionResetError):
            return 0  # it was accepted by the system, and never by the server
        finally:
            one.close()
        if response.status == 200:
            assert reply["usage"]["completion_tokens"] == 60
        else:
            assert response.status == 503 and reply["error"]["type"] == "server_error"
        return response.status

    with ThreadPoolExecutor(32) as pool:
        answers = [pool.submit(ask, number) for number in range(32)]
        time.sleep(seconds)
        process.send_signal(signal.SIGTERM)
        return [answer.result() for answer in answers]


@pytest.mark.slow
def test_ten_minutes_of_mixed_load_leave_nothing_behind():
    minutes = float(os.environ.get("HEADWAY_SOAK_MINUTES", "10"))
    models = {"gpt": GPT, "de": TRANSLATOR, "encoder": bundles.encoder(max_length=40)}
    with running(models, EngineSettings(slots=8, queue=64)) as client:

        def load(seed, seconds):
            draw, end, done = random.Random(seed), time.monotonic() + seconds, 0
            while time.monotonic() < end:
                done += 1
                kind = draw.random()
                if kind < 0.2:
                    leave(client, {**LONG, "model": "gpt", "stream": True}, draw.random() * 0.2)
                elif kind < 0.4:
                    text = text_of(draw, 6)
                    assert client.post("/translate", {"inputs": text}).status == 200
                elif kind < 0.5:
                    body = {"input": text_of(draw), "model": "encoder"}
                    assert client.post("/v1/embeddings", body).status == 200
                elif kind < 0.6:
                    assert client.post("/v1/completions", {"prompt": 3}).status == 400
                else:
                    client.complete(**random_fields(draw))
            return done

        def loaded(seconds):
            with ThreadPoolExecutor(8) as pool:
                return sum(pool.map(lambda seed: load(seed, seconds), range(8)))

        loaded(min(60.0, 6 * minutes))
        before, files = memory(), len(os.listdir("/proc/self/fd"))
        threads = threading.active_count()
        done = loaded(60 * minutes)
        engine = client.server.models.named("gpt").engine
        wait_for(lambda: not engine.busy)
        time.sleep(1)
        print(f"{done} requests, memory {memory() - before:+.1f} MiB")
        assert memory() - before < 20
        assert len(os.listdir("/proc/self/fd")) <= files + 2
        assert threading.active_count() <= threads + 1
