"""The server decodes by CUDA graphs where the model can; here those of `emulated_graph.py`."""

import base64
import threading
from copy import deepcopy

import pytest
import torch

from headway.base.errors import HeadwayWarning
from headway.serving.engine import EngineSettings
from headway.serving.engine.computations import watched
from headway.tasks.captioning.model import CaptionInput, CaptionOptions
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.transforms import replay_steps
from tests.fixtures import bundles
from tests.fixtures.captioners import PIXELS
from tests.fixtures.emulated_graph import EmulatedGraph
from tests.fixtures.graph_pairs import REFUSED, awaiting
from tests.fixtures.image_classifiers import classifier
from tests.fixtures.images import png
from tests.fixtures.model_server import language_model, running
from tests.fixtures.small_encoder import encoder

PROMPTS = ["the fox eats", "the dog", "lemon and bread", "bread"]
TEXTS = ["two dogs play", "the old baker waves to a fox", "bread"]


def replaying(bundle):
    """Return a copy of a bundle that replays graphs."""
    bundle = deepcopy(bundle)
    replay_steps(bundle.model.eval(), recorder=EmulatedGraph, smallest=8)
    return bundle


def awaiting_bundle(bundle):
    """Return a copy of a bundle whose steps no graph can record."""
    bundle = deepcopy(bundle)
    awaiting(bundle.model)
    return bundle


@pytest.fixture
def graphs():
    """Return a function that returns the numbers of graphs and of replays since the last call."""
    last = [EmulatedGraph.count, EmulatedGraph.replays]

    def since():
        before, last[:] = list(last), [EmulatedGraph.count, EmulatedGraph.replays]
        return [now - earlier for now, earlier in zip(last, before, strict=True)]

    return since


def at_once(calls):
    """Return the results of functions that are called at the same time."""
    results = [None] * len(calls)

    def keep(number):
        results[number] = calls[number]()

    threads = [threading.Thread(target=keep, args=[number]) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def completion(client, prompt, **fields):
    return client.complete(prompt=prompt, max_tokens=8, **fields)["choices"][0]["text"]


@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"seed": 3}], ids=["greedy", "sampled"])
def test_the_server_replays_graphs_for_one_text_and_for_several(graphs, fields):
    bundle = language_model(num_layers=1)
    with running({"gpt": bundle}) as client:
        expected = [completion(client, prompt, **fields) for prompt in PROMPTS]
    assert graphs() == [0, 0]
    with running({"gpt": replaying(bundle)}) as client:
        assert completion(client, PROMPTS[0], **fields) == expected[0]
        recorded, replayed = graphs()
        assert recorded and replayed >= 6
        calls = [lambda p=prompt: completion(client, p, **fields) for prompt in PROMPTS]
        assert at_once(calls) == expected
        assert graphs()[1] >= 6


def test_a_model_whose_step_cannot_be_recorded_is_served_without_graphs(graphs):
    bundle = language_model(num_layers=1)
    with running({"gpt": awaiting_bundle(bundle)}) as client:
        expected = [completion(client, prompt, seed=3) for prompt in PROMPTS]
    with (
        pytest.warns(HeadwayWarning, match=REFUSED) as warned,
        running({"gpt": awaiting_bundle(replaying(bundle))}) as client,
    ):
        assert [completion(client, prompt, seed=3) for prompt in PROMPTS] == expected
        calls = [lambda p=prompt: completion(client, p, seed=3) for prompt in PROMPTS]
        assert at_once(calls) == expected
        assert client.get("/health").status == 200
    assert len(warned) == 1 and graphs()[1] == 0


@pytest.mark.parametrize("beam", [1, 2])
def test_the_server_replays_graphs_for_translations(graphs, beam):
    bundle = bundles.translator()
    inputs = [TranslateInput(text=text) for text in TEXTS]
    expected = [
        item.translations[0].text for item in bundle.predict(inputs, TranslateOptions(beam=beam))
    ]
    # `shape_checks` wraps the generator of beam search, which then runs without its inference mode
    settings = EngineSettings(slots=3, precision=torch.inference_mode)
    with running({"m": replaying(bundle)}, settings) as client:

        def translated(text):
            fields = {"inputs": text, "parameters": {"beam": beam}, "form": "full"}
            return client.post("/translate", fields).json["translations"][0]["text"]

        assert translated(TEXTS[0]) == expected[0]
        recorded, replayed = graphs()
        assert recorded and replayed
        assert at_once([lambda t=text: translated(t) for text in TEXTS]) == expected
        assert graphs()[1]


def test_the_server_replays_graphs_for_captions(graphs, tmp_path):
    bundle = bundles.captioner()
    bundle.model.eval()
    images = [png(pixels) for pixels in PIXELS[:2]]
    (tmp_path / "0.png").write_bytes(images[0])
    options = CaptionOptions(beam=1)
    (expected,) = bundle.predict([CaptionInput(image=tmp_path / "0.png")], options)
    with running({"m": replaying(bundle)}) as client:
        coded = [base64.b64encode(image).decode() for image in images]
        fields = {"inputs": coded, "parameters": {"beam": 1}, "form": "full"}
        reply = client.post("/caption", fields)
        assert reply.status == 200, reply.body
        assert reply.json[0]["captions"][0]["text"] == expected.captions[0].text
        recorded, replayed = graphs()
        assert recorded and replayed


@pytest.mark.parametrize(
    ("make", "compute", "passes"),
    [
        (bundles.bert_classifier, lambda bundle: bundle.classify(["a fox"] * 100), 2),
        (bundles.tagger, lambda bundle: bundle.tag(["a fox"] * 100), 2),
        (bundles.answerer, lambda bundle: bundle.answer("Who?", "a fox"), 1),
        (lambda: encoder(max_length=40), lambda bundle: bundle.embed(["a fox"] * 100), 2),
        (classifier, lambda bundle: bundle.classify([PIXELS[2]]), 1),
        (classifier, lambda bundle: bundle.embed([PIXELS[2]]), 1),
        (bundles.gpt, lambda bundle: bundle.generate(["fox"], max_tokens=6, beam=2), 5),
        (bundles.translator, lambda bundle: bundle.predict([TranslateInput(text="fox")]), 3),
    ],
)
def test_each_batch_and_each_step_is_a_heartbeat_without_a_hook(make, compute, passes):
    bundle, beats = make(), []
    model = bundle.model.eval()
    methods = dict(vars(model))

    def beat():
        assert not any(m._forward_pre_hooks or m._forward_hooks for m in model.modules())
        beats.append(1)

    with watched(model, beat):
        compute(bundle)
    assert len(beats) >= passes and dict(vars(model)) == methods


def test_methods_that_replay_graphs_are_restored():
    model = replaying(bundles.gpt()).model
    replayed = model.step
    with watched(model, lambda: None):
        assert model.step is not replayed
    assert model.step is replayed and "forward" not in vars(model)


def test_a_method_that_was_replaced_meanwhile_stays():
    model = bundles.gpt().model
    with watched(model, lambda: None):
        model.step = other = model.start
    assert model.step is other and "forward" not in vars(model)
