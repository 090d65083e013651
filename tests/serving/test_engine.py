"""Exactness of the engine under random arrivals: every output is that of the Python API."""

import threading
import time

import pytest

from headway.attention import masks
from headway.base.errors import UsageError
from headway.bundle import TextBundle
from headway.decoding import GenerationConfig, generate_from_tokens
from headway.models import GPT
from headway.serving.engine import (
    Cancelled,
    Computation,
    Engine,
    EngineSettings,
    Expired,
    Failed,
    Measurements,
    Metrics,
    Refused,
    at_once,
)
from headway.transforms.fast.table import prepare_for_inference
from tests.fixtures.engine_jobs import WORDS, Box, check_mixed, engine_of, generation, run_mixed
from tests.fixtures.model_server import language_model

EXACT = {"model_dim": 64, "num_heads": 2, "ffn_dim": 128}


@pytest.fixture(scope="module")
def bundle():
    return language_model()


@pytest.fixture
def engine(bundle):
    engine = engine_of(bundle, slots=5, queue=2000)
    yield engine
    engine.stop()
    assert engine.error is None


@pytest.mark.parametrize("fast", [False, True], ids=["plain", "fast"])
def test_outputs_at_random_arrivals_are_those_of_the_python_api(fast):
    bundle = language_model(positions="rotary" if fast else "learned")
    if fast:
        prepare_for_inference(bundle.model)
    engine = engine_of(bundle, slots=5, queue=2000)
    answered = run_mixed(bundle, engine, 30)
    engine.stop()
    assert len(answered) >= 20
    check_mixed(bundle, answered)
    assert not engine.busy and engine.error is None


@pytest.mark.slow
def test_a_thousand_outputs_at_random_arrivals_are_those_of_the_python_api(bundle, engine):
    answered = run_mixed(bundle, engine, 1000, seed=1)
    assert len(answered) >= 750
    check_mixed(bundle, answered)


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_exact_outputs_have_the_same_bits_alone_and_at_random_arrivals(positions, count):
    """The log-probabilities are equal, not close: with others or alone, cached or not."""
    bundle = language_model(positions=positions, **EXACT)
    prepare_for_inference(bundle.model)
    engine = engine_of(bundle, slots=6, queue=2000, exact=True)
    answered = run_mixed(bundle, engine, count, seed=4)
    assert len(answered) >= 0.7 * count
    different = 0
    for number, (job, box) in enumerate(answered):
        alone = Box()
        engine.submit(generation(alone, job.prompt, job.config, caches=number % 2 == 0))
        same = [o.log_probabilities for o in alone.result] == [
            o.log_probabilities for o in box.result
        ]
        different += not (same and alone.result == box.result)
    engine.stop()
    assert different == 0, f"{different} of {len(answered)} differ"


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"ffn_dim": 40}, "ffn_dim=40"),
        ({"positions": "rotary", "num_heads": 4}, "dimension of a head, 16"),
        ({"attention": "window"}, "the attention of"),
    ],
)
def test_a_model_that_cannot_be_exact_is_refused(changes, words):
    bundle = language_model(**{**EXACT, **changes})
    prepare_for_inference(bundle.model)
    with pytest.raises(UsageError, match=words):
        engine_of(bundle, exact=True)


def test_a_planted_fault_in_the_mask_fails(monkeypatch):
    bundle = language_model()
    engine = engine_of(bundle, slots=5, queue=2000)
    dense = masks.Mask.dense

    def unmasked(self, num_queries, num_keys, device):  # sequences of the batch see too much
        allowed = dense(self, num_queries, num_keys, device)
        return allowed if self.past is None else allowed | True

    monkeypatch.setattr(masks.Mask, "dense", unmasked)
    answered = run_mixed(bundle, engine, 30)
    engine.stop()
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        check_mixed(bundle, answered)


def test_a_cancelled_output_makes_room_at_once_and_others_go_on(bundle, engine):
    long = GenerationConfig(max_tokens=100, temperature=1.0, seed=3, min_tokens=100)
    boxes, jobs = [], []
    for n in range(5):
        boxes.append(Box())
        jobs.append(generation(boxes[-1], bundle.tokenizer.begin(WORDS[n]), long))
        engine.submit(jobs[-1])
    waiting = Box()
    short = GenerationConfig(max_tokens=2, temperature=0.0)
    engine.submit(generation(waiting, bundle.tokenizer.begin("fox"), short))
    jobs[2].cancelled = True
    assert len(waiting.result[0].tokens) <= 2
    assert isinstance(boxes[2].last, Failed) and isinstance(boxes[2].last.error, Cancelled)
    for n in (0, 1, 3, 4):
        ((expected,),) = generate_from_tokens(
            bundle.model, bundle.tokenizer, [jobs[n].prompt], long
        )
        assert boxes[n].result[0].tokens == expected.tokens


def test_a_computation_ends_when_no_client_waits_for_it(bundle, engine):
    started = threading.Event()

    def endless(items):
        while True:
            started.set()
            bundle.model(bundle.model.embedding.tokens.weight.new_zeros(1, 3).long())

    box = Box()
    job = Computation(
        report=box,
        deadline=time.monotonic() + 60,
        cost=1,
        group="x",
        inputs=[0],
        compute=at_once(endless),
    )
    engine.submit(job)
    assert started.wait(30) and engine.busy and engine.healthy
    job.cancelled = True
    assert isinstance(box.last.error, Cancelled)
    after = Box()
    engine.submit(generation(after, bundle.tokenizer.begin("fox"), GenerationConfig(max_tokens=1)))
    assert after.result


def test_jobs_of_one_group_are_computed_together_and_fail_alone(bundle):
    calls = []

    def squares(items):
        calls.append(list(items))
        if None in items:
            raise ValueError("no number")
        return [item * item for item in items]

    engine = Engine(bundle, EngineSettings(), Measurements(Metrics(), "m"))
    boxes = [Box() for _ in range(4)]
    for box, inputs in zip(boxes, ([1, 2], [None], [3], [5]), strict=True):
        group = "other" if inputs == [5] else "squares"
        common = {"deadline": time.monotonic() + 60, "cost": 1, "compute": at_once(squares)}
        engine.submit(Computation(report=box, inputs=inputs, group=group, **common))
    engine.start()
    assert [box.result for box in (boxes[0], boxes[2], boxes[3])] == [[1, 4], [9], [25]]
    assert isinstance(boxes[1].last.error, ValueError)
    assert calls[0] == [1, 2, None, 3] and calls[-1] == [5]
    engine.stop()


def test_the_queue_is_bounded_and_deadlines_hold(bundle):
    engine = Engine(bundle, EngineSettings(queue=3), Measurements(Metrics(), "m"))
    config = GenerationConfig(max_tokens=2)
    boxes = [Box() for _ in range(3)]
    for box in boxes:
        engine.submit(generation(box, [1], config, seconds=-1.0))
    with pytest.raises(Refused) as refused:
        engine.submit(generation(Box(), [1], config))
    assert refused.value.why == "full" and 1 <= refused.value.retry_after <= 60
    engine.start()
    assert all(isinstance(box.last.error, Expired) for box in boxes)
    engine.waiting.draining = True
    with pytest.raises(Refused, match="draining"):
        engine.submit(generation(Box(), [1], config))
    engine.stop()


def test_an_error_in_one_output_concerns_its_job_only(bundle, engine):
    good, bad = Box(), Box()
    everything = range(bundle.tokenizer.size)
    from headway.decoding import Bias

    config = GenerationConfig(max_tokens=20, temperature=0.0)
    forbidden = Bias(dict.fromkeys(everything, float("-inf")))
    prompt = bundle.tokenizer.begin("fox")
    engine.submit(generation(good, prompt, config))
    engine.submit(generation(bad, prompt, config, rules=(forbidden,)))
    assert "every token is forbidden" in str(bad.last.error)
    ((expected,),) = generate_from_tokens(bundle.model, bundle.tokenizer, [prompt], config)
    assert good.result[0].tokens == expected.tokens


def test_a_dead_engine_says_so_and_fails_its_jobs(bundle):
    class Broken(GPT):
        def step(self, tokens, state):
            raise RuntimeError("broken")

    torn = TextBundle(Broken(bundle.model.config), bundle.tokenizer)
    engine = engine_of(torn)
    box = Box()
    engine.submit(generation(box, [1, 2], GenerationConfig(max_tokens=2)))
    assert isinstance(box.last.error, RuntimeError)
    for _ in range(200):
        if not engine.healthy:
            break
        time.sleep(0.01)
    assert not engine.healthy and "broken" in str(engine.error)
    with pytest.raises(Refused, match="dead"):
        engine.submit(generation(Box(), [1], GenerationConfig(max_tokens=2)))
