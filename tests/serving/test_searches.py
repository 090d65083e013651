"""Searches of several computations on one model share their steps, and none sees another."""

import random
import sys
import threading
import time
from functools import partial

import pytest
import torch

from headway.decoding import GenerationConfig, generate_from_tokens, search_by_beam
from headway.serving.engine import (
    Cancelled,
    Computation,
    Engine,
    EngineSettings,
    Failed,
    Finished,
    Generation,
    Measurements,
    Metrics,
    at_once,
)
from headway.serving.engine.continuous import ContinuousBatch
from headway.serving.engine.searches import RunningSearch
from headway.tasks.captioning.model import CaptionInput, CaptionOptions
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.transforms.fast.table import prepare_for_inference
from tests.fixtures import bundles
from tests.fixtures.captioners import PIXELS
from tests.fixtures.images import png

WORDS = ["the", "old", "baker", "waves", "to", "a", "fox", "."]
KINDS = {
    "transformer": {},
    "fast": {},
    "rotary": {"positions": "rotary"},
    "recurrent": {"encoder": "rnn", "decoder": "rnn", "cell": "gru"},
    "input feeding": {"encoder": "rnn", "decoder": "rnn", "cell": "lstm", "input_feeding": True},
    "without attention": {"encoder": "rnn", "decoder": "rnn", "attention": "none", "cell": "lstm"},
}


def translator(kind):
    bundle = bundles.translator(**KINDS[kind])
    bundle.model.eval()
    if kind == "fast":
        prepare_for_inference(bundle.model)
    return bundle


def inputs_of(draw):
    return [
        TranslateInput(text=" ".join(draw.choices(WORDS, k=draw.randint(1, 12))))
        for _ in range(draw.randint(1, 3))
    ]


def job_of(bundle, inputs, options, report):
    return Computation(
        report=report,
        deadline=time.monotonic() + 60,
        cost=len(inputs),
        group=repr(options),
        inputs=inputs,
        compute=partial(bundle.predicting, options=options),
    )


def run_together(bundle, work):
    """Run searches that begin at different steps: for each, inputs and options, or a function that
    makes its job. Return the results in order, and the greatest number of searches and of rows in
    one step."""
    batch, results, most = ContinuousBatch(bundle.model), {}, [0, 0]
    waiting = list(enumerate(work))
    for step in range(10_000):
        if waiting and (step % 3 == 0 or not batch.searches):
            number, make = waiting.pop(0)
            if isinstance(make, tuple):
                make = partial(job_of, bundle, *make)
            search = RunningSearch([make(results.setdefault(number, []).append)])
            search.start()
            batch.searches += [] if search.done else [search]
        if not batch.searches and not waiting:
            break
        if batch.searches:
            rows = sum(len(search.tokens) for search in batch.searches)
            most = [max(most[0], len(batch.searches)), max(most[1], rows)]
            with torch.inference_mode():
                answers = batch.step()
            for search, logits in answers:
                search.resume(logits)
            batch.searches = [search for search in batch.searches if not search.done]
    return [results[n][-1] for n in range(len(work))], most


def same(found, expected):
    assert isinstance(found, Finished), found
    for ours, theirs in zip(found.result, expected, strict=True):
        assert [t.text for t in ours.translations] == [t.text for t in theirs.translations]
        for a, b in zip(ours.translations, theirs.translations, strict=True):
            assert a.log_probability == pytest.approx(b.log_probability, abs=1e-4)
            assert (a.finished, a.score) == (b.finished, pytest.approx(b.score, abs=1e-4))


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", KINDS)
def test_searches_that_begin_at_different_steps_find_what_they_find_alone(kind):
    bundle, draw = translator(kind), random.Random(3)
    options = [TranslateOptions(beam=1), TranslateOptions(mbr=4, nbest=1), TranslateOptions(beam=2)]
    work = [(inputs_of(draw), draw.choice(options)) for _ in range(12)]
    expected = [bundle.predict(inputs, settings) for inputs, settings in work]
    found, (searches, rows) = run_together(bundle, work)
    assert searches >= 3 and rows >= 6
    for one, other in zip(found, expected, strict=True):
        same(one, other)


def test_captions_that_are_searched_and_sampled_together_are_those_of_each_alone(tmp_path):
    bundle = bundles.captioner()
    bundle.model.eval()
    paths = [tmp_path / f"{n}.png" for n in range(len(PIXELS))]
    for path, pixels in zip(paths, PIXELS, strict=True):
        path.write_bytes(png(pixels))
    images = [CaptionInput(image=path) for path in paths]
    greedy, sampled = CaptionOptions(beam=1), CaptionOptions(sample=3, temperature=1.0, seed=5)
    work = [(images[:1], greedy), (images, sampled), (images[1:], greedy), (images[:2], greedy)]
    expected = [bundle.predict(inputs, options) for inputs, options in work]
    found, (searches, rows) = run_together(bundle, work)
    assert searches >= 2 and rows >= 5
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, Finished), one
        texts = [[caption.text for caption in file.captions] for file in one.result]
        assert texts == [[caption.text for caption in file.captions] for file in other]


def test_texts_that_are_searched_by_beams_together_are_those_of_each_alone():
    bundle, config = bundles.gpt(), GenerationConfig(beam=3, samples=2, max_tokens=9)
    model, tokenizer = bundle.model.eval(), bundle.tokenizer
    prompts = [tokenizer.begin(text) for text in ("the fox", "a", "old bakers wave to the fox")]

    def job(prompt, report):
        return Computation(
            report=report,
            deadline=time.monotonic() + 60,
            cost=1,
            group="",
            inputs=[prompt],
            compute=lambda inputs: search_by_beam(model, tokenizer, inputs, config),
        )

    found, (searches, rows) = run_together(bundle, [partial(job, prompt) for prompt in prompts])
    assert searches == 3 and rows == 9
    for finished, prompt in zip(found, prompts, strict=True):
        (outputs,), (expected,) = (
            finished.result,
            generate_from_tokens(model, tokenizer, [prompt], config),
        )
        assert [output.tokens for output in outputs] == [output.tokens for output in expected]


def test_streams_and_beams_of_a_language_model_share_their_steps():
    bundle, rows = bundles.gpt(), []
    bundle.model.eval()
    step = bundle.model.step
    engine = Engine(bundle, EngineSettings(), Measurements(Metrics(), "m"))
    bundle.model.step = lambda tokens, state: (rows.append(len(tokens)), step(tokens, state))[1]
    beams, sampled = GenerationConfig(beam=3, max_tokens=9), GenerationConfig(max_tokens=12)
    prompts = [bundle.tokenizer.begin(text) for text in ("the fox", "a", "bread")]
    boxes = [Box() for _ in prompts]
    deadline = time.monotonic() + 60
    for prompt, box in zip(prompts[:2], boxes[:2], strict=True):
        engine.submit(
            Generation(report=box, deadline=deadline, cost=9, prompt=prompt, config=sampled)
        )
    search = partial(search_by_beam, bundle.model, bundle.tokenizer, config=beams)
    engine.submit(
        Computation(
            report=boxes[2],
            deadline=deadline,
            cost=9,
            group="",
            inputs=prompts[2:],
            compute=search,
        )
    )
    engine.start()
    found = [box.last.result[0] for box in boxes]
    engine.stop()
    assert max(rows) == 5, "two streams and three beams"
    for prompt, output, config in zip(
        prompts, [*found[:2], found[2][0]], [sampled] * 2 + [beams], strict=True
    ):
        ((expected,),) = generate_from_tokens(bundle.model, bundle.tokenizer, [prompt], config)
        assert output.tokens == expected.tokens


class Box:
    """Waits for the last event of a job, and notes the time."""

    def __init__(self):
        self.done = threading.Event()

    def __call__(self, event):
        self.event, self.at = event, time.monotonic()
        self.done.set()

    @property
    def last(self):
        assert self.done.wait(60)
        return self.event


@pytest.fixture
def engine():
    bundle = translator("transformer")
    engine = Engine(bundle, EngineSettings(queue=300), Measurements(Metrics(), "m"))
    engine.start()
    yield engine
    engine.stop()
    assert engine.error is None and not engine.busy and engine._batch._state is None


LONG = [TranslateInput(text=" ".join(WORDS * 8))]
SHORT = [TranslateInput(text="fox")]


class SlowSteps:
    """Makes every step of a model last a while and </s> improbable, and counts its rows.

    opened: no step begins before it is set. before: called before each step.
    """

    def __init__(self, bundle, monkeypatch):
        self.rows, self.fails, self._step = [], False, bundle.model.step
        self.opened, self.before = threading.Event(), lambda: None
        self.opened.set()
        self._eos = bundle.tokenizer.target.eos
        monkeypatch.setattr(bundle.model, "step", self)

    def __call__(self, tokens, state):
        self.rows.append(len(tokens))
        time.sleep(0.002)
        assert self.opened.wait(60)
        self.before()
        if self.fails and len(tokens) > 1:
            raise RuntimeError("out of memory")
        logits, state = self._step(tokens, state)
        return logits.index_fill(2, torch.tensor([self._eos]), -1e4), state


def test_a_short_translation_overtakes_a_long_one(engine, monkeypatch):
    steps = SlowSteps(engine.bundle, monkeypatch)
    greedy, boxes = TranslateOptions(beam=1), [Box(), Box()]
    steps.opened.clear()
    engine.submit(job_of(engine.bundle, LONG, greedy, boxes[0]))
    while not steps.rows:
        time.sleep(0.001)
    engine.submit(job_of(engine.bundle, SHORT, greedy, boxes[1]))
    steps.opened.set()
    assert isinstance(boxes[1].last, Finished) and isinstance(boxes[0].last, Finished)
    assert boxes[1].at < boxes[0].at
    assert steps.rows[0] == steps.rows[-1] == 1 and max(steps.rows) == 2


def test_a_cancelled_search_ends_within_a_step_and_the_others_go_on(engine, monkeypatch):
    steps = SlowSteps(engine.bundle, monkeypatch)
    greedy, boxes = TranslateOptions(beam=1), [Box(), Box()]
    jobs = [job_of(engine.bundle, LONG, greedy, box) for box in boxes]
    jobs[0].group = "another search"
    late = []

    def cancel():
        """Cancel the first job in the third step of both; count the later steps until it ends."""
        if steps.rows.count(2) >= 3:
            jobs[0].cancelled = True
            late.append(not boxes[0].done.is_set())

    steps.before = cancel
    steps.opened.clear()
    for job in jobs:
        engine.submit(job)
    steps.opened.set()
    assert isinstance(boxes[0].last, Failed) and isinstance(boxes[0].last.error, Cancelled)
    same(boxes[1].last, engine.bundle.predict(LONG, greedy))
    assert sum(late) == 1


def test_a_step_that_fails_ends_its_searches_and_no_later_one(engine, monkeypatch):
    steps = SlowSteps(engine.bundle, monkeypatch)
    greedy, boxes = TranslateOptions(beam=1), [Box(), Box()]
    steps.opened.clear()
    engine.submit(job_of(engine.bundle, LONG, greedy, boxes[0]))
    while not steps.rows:
        time.sleep(0.001)
    steps.fails = True
    engine.submit(job_of(engine.bundle, SHORT, greedy, boxes[1]))
    steps.opened.set()
    assert [str(box.last.error) for box in boxes] == ["out of memory"] * 2
    again = Box()
    engine.submit(job_of(engine.bundle, SHORT, greedy, again))
    same(again.last, engine.bundle.predict(SHORT, greedy))


def test_a_computation_with_too_few_results_fails_alone(engine):
    boxes = [Box(), Box()]
    jobs = [job_of(engine.bundle, SHORT, TranslateOptions(beam=1), box) for box in boxes]
    jobs[0].group, jobs[0].compute = "broken", at_once(lambda items: [])
    for job in jobs:
        engine.submit(job)
    assert isinstance(boxes[0].last, Failed) and isinstance(boxes[1].last, Finished)
    assert "0 results for 1 inputs" in str(boxes[0].last.error)


def test_an_engine_that_died_in_a_computation_can_be_stopped(monkeypatch):
    """One of its searches has ended with the error, another one waits for its next step."""
    bundle = translator("transformer")
    engine = Engine(bundle, EngineSettings(), Measurements(Metrics(), "m"))
    steps, greedy, boxes = SlowSteps(bundle, monkeypatch), TranslateOptions(beam=1), [Box(), Box()]
    engine.start()
    engine.submit(job_of(bundle, LONG, greedy, boxes[0]))
    while not steps.rows:
        time.sleep(0.001)
    fatal = job_of(bundle, SHORT, greedy, boxes[1])
    fatal.group, fatal.compute = "fatal", at_once(lambda items: sys.exit("broken"))
    engine.submit(fatal)
    assert all(isinstance(box.last, Failed) for box in boxes)
    engine._thread.join(10)
    assert isinstance(engine.error, SystemExit) and not engine.healthy
    stopping = threading.Thread(target=engine.stop, daemon=True)
    stopping.start()
    stopping.join(10)
    assert not stopping.is_alive(), "stop() waits for a search that has ended"
