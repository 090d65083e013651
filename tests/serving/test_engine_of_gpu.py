"""The engine as it works on a GPU, here on the CPU: it runs ahead, and reads prompts together."""

import random
from copy import deepcopy
from functools import partial

import pytest

from headway.decoding import GenerationConfig
from headway.serving.engine import (
    Engine,
    EngineSettings,
    Finished,
    Measurements,
    Metrics,
    continuous,
)
from headway.serving.engine import engine as engine_module
from headway.serving.engine.prompts import PromptReader
from headway.transforms import replay_steps
from headway.transforms.fast.table import prepare_for_inference
from tests.fixtures.emulated_graph import EmulatedGraph, storage_of
from tests.fixtures.engine_jobs import (
    WORDS,
    Box,
    check_mixed,
    engine_of,
    generation,
    random_config,
    run_mixed,
)
from tests.fixtures.model_server import language_model


@pytest.mark.parametrize("replays", [False, True], ids=["steps", "replays"])
def test_steps_that_begin_before_the_last_tokens_are_read_change_no_output(monkeypatch, replays):
    """As on a GPU, where the CPU reads the tokens of a step while the next one is computed."""
    bundle, begun = language_model(num_layers=1), []
    served = deepcopy(bundle)
    if replays:
        replay_steps(served.model, recorder=EmulatedGraph, smallest=64)
    monkeypatch.setattr(continuous, "RUNS_AHEAD", ("cpu",))
    begin = continuous.ContinuousBatch._begin

    def counted(self, tokens, unread=0):
        begun.append(unread)
        return begin(self, tokens, unread)

    monkeypatch.setattr(continuous.ContinuousBatch, "_begin", counted)
    engine = engine_of(served, slots=5, queue=2000)
    answered = run_mixed(bundle, engine, 20 if replays else 60, seed=2, penalised=False)
    engine.stop()
    check_mixed(bundle, answered)
    assert sum(begun) > 20 and not engine.busy and engine.error is None
    assert engine._batch._state is None and engine._batch._begun is None


@pytest.mark.parametrize("fast", [False, True], ids=["plain", "fast"])
def test_short_prompts_that_are_read_together_change_no_output(monkeypatch, fast):
    bundle, together = language_model(positions="rotary", num_layers=1), []
    if fast:
        prepare_for_inference(bundle.model)
    monkeypatch.setattr(engine_module, "PROMPTS_AT_ONCE", {"cpu": 4})
    read_together = engine_module.read_together

    def counted(readers):
        together.append(len(readers))
        return read_together(readers)

    monkeypatch.setattr(engine_module, "read_together", counted)
    engine = Engine(bundle, EngineSettings(slots=8), Measurements(Metrics(), "m"))
    draw, answered = random.Random(3), []
    for words in (
        1,
        3,
        20,
        90,
        2,
        2,
        5,
        0,
        4,
        4,
        7,
        1,
        2,
        3,
    ):  # 90: some blocks; 0: nothing to read
        prompt = bundle.tokenizer.begin(" ".join(draw.choices(WORDS, k=words)))
        box = Box()
        job = generation(box, prompt, random_config(draw), shown=True)
        answered.append((job, box))
        engine.submit(job)
    engine.start()
    assert all(isinstance(box.last, Finished) for _, box in answered)
    engine.stop()
    check_mixed(bundle, answered)
    assert sum(together) >= 4 and max(together) <= 4
    assert not engine.busy and engine.error is None


@pytest.mark.parametrize("samples", [1, 3])
def test_the_keys_and_values_of_a_prompt_are_freed_once_they_are_in_the_batch(monkeypatch, samples):
    bundle, held = language_model(num_layers=1), []
    prepare_for_inference(bundle.model)
    finish = PromptReader.finish

    def watched_finish(reader):
        layers = reader.state.cache.layers
        held.append([storage_of(x) for layer in layers for x in layer.stores])
        return finish(reader)

    monkeypatch.setattr(PromptReader, "finish", watched_finish)
    engine = Engine(bundle, EngineSettings(slots=8, prefix_bytes=0), Measurements(Metrics(), "m"))
    config = GenerationConfig(max_tokens=40, samples=samples)
    for number, word in enumerate(("fox", "dog")):
        prompt = bundle.tokenizer.begin(f"{word} " * 80)
        engine.submit(generation(Box(), prompt, config))
        while len(held) <= number:
            engine._turn()
    assert len(engine._batch.streams) == 2 * samples
    assert held[1] and all(storage.expired() for storage in held[1])


@pytest.mark.parametrize("prefix_bytes", [0, 2**28])
def test_a_long_prompt_is_read_in_larger_blocks_with_a_step_of_the_others_after_each(
    monkeypatch, prefix_bytes
):
    bundle, calls = language_model(num_layers=1), []
    monkeypatch.setattr(engine_module, "PROMPTS_AT_ONCE", {"cpu": 4})
    monkeypatch.setattr(engine_module, "TOKENS_AT_ONCE", {"cpu": 128})
    settings = EngineSettings(slots=8, prefix_bytes=prefix_bytes)
    engine = Engine(bundle, settings, Measurements(Metrics(), "m"))
    for name in ("extend", "step"):
        monkeypatch.setattr(
            bundle.model, name, partial(counted, calls, getattr(bundle.model, name))
        )
    config, answered = GenerationConfig(max_tokens=30), []
    long = [3 + number % 250 for number in range(301)]
    for prompt, scored in [(long[:10], None), (long, None), (long[:150], 0)]:
        box = Box()
        answered.append((generation(box, prompt, config, scored=scored), box))
        engine.submit(answered[-1][0])
        engine._turn()
    while engine._reading or len(engine.waiting):
        engine._turn()
    assert calls == [9, 1, 128, 1, 128, 1, 44, 1, 64, 1, 64, 1, 21, 1]
    while engine.busy:
        engine._turn()
    check_mixed(bundle, answered)


def counted(calls, method, tokens, state):
    """Call a method of a model; append the number of tokens of each sequence to `calls`."""
    calls.append(tokens.shape[1])
    return method(tokens, state)
