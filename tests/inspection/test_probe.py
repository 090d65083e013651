"""The Bundle contract, kept by every kind of bundle, and what its probe reports of the logits."""

import pytest
import torch
from torch import nn

from headway.base.errors import UsageError
from headway.base.settings import override
from headway.bundle import BeamSearching, Bundle, ImageEncoding, Probe, Readout
from headway.inspection.beams import search_tree
from headway.inspection.walk import walk
from headway.inspection.watch import watch
from headway.models import WordsConfig, words_model
from headway.tasks.opening import spec_of
from headway.tasks.word_vectors.model import WordsBundle
from headway.text import Vocabulary
from tests.fixtures.bundles import (
    BUNDLES,
    SENTENCE,
    answerer,
    bert_classifier,
    captioner,
    encoder,
    gpt,
    image_encoder,
    tagger,
    translator,
    watch_inputs,
)
from tests.fixtures.captioners import PIXELS
from tests.fixtures.image_classifiers import classifier

ALL = pytest.mark.parametrize("name", BUNDLES)


def bundle_and_probe(name, **options):
    make, inputs = BUNDLES[name]
    bundle = make()
    positional, keywords = watch_inputs(bundle, inputs)
    return bundle, bundle.probe(*positional, **{**keywords, **options})


def logits_of(probe):
    with torch.inference_mode():
        return probe.readout.logits(probe.reading.run())


def best_names(probe):
    """The name of the greatest logit at each position."""
    return [probe.readout.names([i])[0] for i in logits_of(probe).argmax(-1).tolist()]


@ALL
def test_every_bundle_fulfils_the_contract(name, tmp_path):
    bundle, probe = bundle_and_probe(name)
    assert isinstance(bundle, Bundle) and type(bundle) is spec_of(bundle.config.family).bundle
    assert probe.kind == bundle.kind and probe.reading.model is bundle.model
    assert bundle.device == torch.device("cpu") and bundle.config is bundle.model.config
    assert isinstance(bundle, BeamSearching) == bundle.inputs.target
    assert set(probe.images) == {"image"} & set(probe.reading.tokens)
    assert bool(probe.images) == (bundle.inputs.modality == "image")
    assert set(probe.tokenizers) == set(probe.reading.ids)
    for side, ids in probe.reading.ids.items():
        assert len(ids) == len(probe.reading.tokens[side])
        assert hasattr(probe.tokenizers[side], "encode")
    bundle.save(tmp_path / "model")
    assert (tmp_path / "model" / "config.json").is_file()


@ALL
def test_a_readout_names_every_logit_at_positions_of_its_side(name):
    _, probe = bundle_and_probe(name)
    if probe.readout is None:
        assert probe.answer == ""
        return
    logits, readout = logits_of(probe), probe.readout
    assert len(logits) == len(readout.positions)
    names = readout.names(range(logits.shape[1]))
    assert len(names) == logits.shape[1] and all(
        isinstance(logit_name, str) for logit_name in names
    )
    follows = name.startswith("gpt") and name != "gpt classifier"  # also the token after the end
    count = len(probe.reading.tokens[readout.side]) + follows
    assert all(0 <= position < count for position in readout.positions)
    assert readout.equation.startswith("z = ") and callable(readout.function)


def test_the_greatest_logits_are_the_answer_of_every_kind():
    for make, inputs in (
        (bert_classifier, (SENTENCE,)),
        (lambda: bert_classifier(pairs=True), (SENTENCE, "A dog.")),
        (BUNDLES["gpt classifier"][0], ("the fox eats",)),
        (classifier, (PIXELS[2],)),
    ):
        probe = make().probe(*inputs)
        assert best_names(probe) == [probe.answer]
    probe = encoder(max_length=40).probe("The [MASK] waves to the [MASK].")
    assert ", ".join(best_names(probe)) == probe.answer and len(probe.readout.positions) == 2
    (tagged,) = tagger().tag([SENTENCE])
    probe = tagger().probe(SENTENCE)
    assert best_names(probe) == [word.tag for word in tagged.words]
    assert probe.answer == ", ".join(f"{span.text} ({span.label})" for span in tagged.spans)


def test_the_logits_of_a_language_model_predict_the_next_token():
    bundle = gpt()
    probe = bundle.probe("the fox eats", written=5)
    prompt_length = len(bundle.tokenizer.begin("the fox eats"))
    tokens = probe.reading.tokens["text"]
    predicted = dict(zip(probe.readout.positions, best_names(probe), strict=True))
    assert [predicted[i] for i in range(prompt_length, len(tokens))] == tokens[prompt_length:]
    assert len(tokens) > prompt_length and bundle.probe("the fox eats", written=0).answer == ""


def test_an_answers_logits_are_of_its_first_and_its_last_token():
    bundle = answerer()
    probe = bundle.probe("Who waves?", SENTENCE)
    output = probe.reading.run()
    begin, end = probe.readout.positions
    assert [begin, end] == output[0].argmax(0).tolist()
    assert best_names(probe) == [probe.reading.tokens["text"][i] for i in (begin, end)]
    assert probe.answer == bundle.answer("Who waves?", SENTENCE)[0].text


@pytest.mark.parametrize(("make", "input"), [(translator, "two dogs play"), (captioner, PIXELS[1])])
def test_a_search_trace_is_of_the_output_that_a_probe_shows(make, input):
    bundle = make()
    trace, probe = bundle.trace_search(input), bundle.probe(input)
    assert probe.reading.ids["read"] == [trace.first, *trace.best]
    assert trace.names([trace.first]) == probe.reading.tokens["read"][:1]
    assert any(
        (*candidate.before, candidate.token) == (*trace.best, *trace.end)
        for candidate in trace.candidates
    )


def test_a_word_model_fulfils_the_contract_and_cannot_be_probed():
    vocabulary = Vocabulary.count(["the fox eats the lemon"], 9)
    config = override(WordsConfig(), {"vocabulary": vocabulary.size}, "test")
    bundle = WordsBundle(words_model(config), vocabulary)
    assert isinstance(bundle, Bundle) and bundle.device == torch.device("cpu")
    with pytest.raises(UsageError, match="a word model has no attention to inspect"):
        bundle.probe("fox")


def test_an_image_encoder_is_recognised_by_its_methods():
    assert isinstance(image_encoder(), ImageEncoding) and isinstance(classifier(), ImageEncoding)
    assert not isinstance(captioner(), ImageEncoding) and not isinstance(gpt(), ImageEncoding)


@pytest.mark.parametrize(
    ("make", "inputs", "keywords", "message"),
    [
        (tagger, ("a", "b"), {}, "this tagger takes one input, not two"),
        (image_encoder, (PIXELS[0],), {"target": "a"}, "this image encoder generates no output"),
        (translator, ("a",), {"language": "de"}, "this translator has no output languages"),
        (encoder, (3,), {}, "must be a text that is not empty"),
        (answerer, ("Who?",), {}, "a question needs a context, and there is none"),
    ],
)
def test_an_input_that_a_bundle_does_not_read_is_refused(make, inputs, keywords, message):
    with pytest.raises(UsageError, match=message):
        make().probe(*inputs, **keywords)


def test_a_tree_is_of_an_input_that_the_bundle_reads():
    with pytest.raises(UsageError, match="no output languages"):
        search_tree(translator(), "two dogs", language="de")
    with pytest.raises(UsageError, match="not empty"):
        search_tree(translator(), " ")


class WordNumbers(Bundle):
    """A bundle that is not part of Headway: it predicts one number for each token of a text."""

    kind = "number tagger"

    def __init__(self):
        self.encoder = encoder(max_length=40, masked_lm_head=False)
        self.model, self.head = self.encoder.model, nn.Linear(24, 1)

    @classmethod
    def open(cls, model, folder, contents):
        return cls()

    def save(self, folder, *, overwrite=False):
        self.encoder.save(folder, overwrite=overwrite)

    @property
    def config(self):
        return self.model.config

    def numbers(self, hidden):
        return self.head(hidden[0])

    def _probe(self, request):
        reading = self.encoder.reading(request.input)
        with torch.inference_mode():
            numbers = self.numbers(reading.run())[:, 0]
        readout = Readout(
            side="text",
            positions=range(len(numbers)),
            logits=self.numbers,
            names=lambda ids: ["the number" for _ in ids],
            equation="z = x w + b",
            function=WordNumbers.numbers,
        )
        answer = " ".join(f"{number:.2f}" for number in numbers.tolist())
        tokenizers = {"text": self.encoder.tokenizer}
        return Probe(
            kind=self.kind, reading=reading, answer=answer, readout=readout, tokenizers=tokenizers
        )


def test_a_bundle_of_another_package_is_inspected_through_the_contract_alone():
    bundle = WordNumbers()
    frame = watch(bundle, SENTENCE)
    count = len(frame.sides["text"].tokens)
    assert len(frame.answer.split()) == count and frame.label == "number tagger"
    assert frame.predictions == [] and frame.lens is None
    assert {attribution.position for attribution in frame.attributions} == set(range(count))
    assert {attribution.of for attribution in frame.attributions} == {"the number"}
    (step,) = (step for step in walk(bundle.probe(SENTENCE, written=0)) if step.title == "Logits")
    assert step.equation == "z = x w + b"
    assert step.source.startswith("tests/inspection/test_probe.py:")
    with pytest.raises(UsageError, match="this number tagger takes one input"):
        watch(bundle, SENTENCE, "A second text.")
