"""Every verb over HTTP gives the predictions of the Python API; no task has a route of its own."""

import base64
import io
import urllib.parse

import numpy as np
import pytest
from PIL import Image

from headway.bundle import FillInput
from headway.serving.http.known_fields import PARAMETERS as REFUSED
from headway.tasks import registry
from headway.tasks.classification.model import ClassInput
from headway.tasks.question_answering.model import AnswerInput
from headway.tasks.task import TextInput
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from tests.fixtures import bundles
from tests.fixtures.client_schemas import PARAMETERS
from tests.fixtures.image_classifiers import classifier
from tests.fixtures.images import png, saved
from tests.fixtures.model_server import running

MODELS = {
    "translator": bundles.translator(),
    "classifier": bundles.bert_classifier(),
    "pairs": bundles.bert_classifier(pairs=True),
    "encoder": bundles.encoder(max_length=40),
    "tagger": bundles.tagger(),
    "answerer": bundles.answerer(),
    "images": classifier(),
    "captioner": bundles.captioner(),
}
TEXT = bundles.SENTENCE
PICTURE = png(np.random.default_rng(0).integers(0, 256, (24, 27, 3)).astype(np.uint8))
OTHER_FORMAT = saved(Image.open(io.BytesIO(PICTURE)), "BMP")
CUT = base64.b64encode(PICTURE[:99]).decode()


@pytest.fixture(scope="module")
def client():
    with running(MODELS) as client:
        yield client


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(PICTURE)
    return path


def ask(client, verb, inputs, model=None, form="pipeline", **parameters):
    body = {"inputs": inputs, "parameters": parameters, "model": model, "form": form}
    reply = client.post(f"/{verb}", body)
    assert reply.status == 200, reply.body
    return reply.json


def predicted(name, *inputs, options=None):
    arguments = () if options is None else (options,)
    return MODELS[name].predict(list(inputs), *arguments)


def test_translations(client):
    texts = ["two dogs play", "the fox"]
    options = TranslateOptions(beam=2)
    found = predicted("translator", *(TranslateInput(text=t) for t in texts), options=options)
    best = [{"translation_text": item.translations[0].text} for item in found]
    assert ask(client, "translate", texts, beam=2) == best
    assert ask(client, "translate", texts[0], beam=2) == best[:1]
    full = ask(client, "translate", texts[0], form="full", beam=2, nbest=2)
    assert len(full["translations"]) == 2
    first = found[0].translations[0]
    assert full["translations"][0]["score"] == pytest.approx(first.score, rel=1e-6)


def test_libretranslates_form(client):
    best = ask(client, "translate", ["two dogs", "a fox"])
    expected = [item["translation_text"] for item in best]
    reply = client.post("/translate", {"q": ["two dogs", "a fox"], "source": "en", "target": "de"})
    assert reply.json == {"translatedText": expected}
    form = urllib.parse.urlencode({"q": "two dogs", "source": "en", "target": "de"}).encode()
    reply = client.post("/translate", form, content_type="application/x-www-form-urlencoded")
    assert reply.json == {"translatedText": expected[0]}
    reply = client.post("/translate", {"q": "two dogs", "target": "de", "alternatives": 2})
    assert reply.json["translatedText"] == expected[0] and len(reply.json["alternatives"]) == 2
    more = ({"q": "a", "alternatives": 99}, {"q": "a", "format": "html"})
    for wrong in ({"q": 3}, {"q": ""}, *more):
        reply = client.post("/translate", {"target": "de", **wrong})
        assert reply.status == 400 and reply.json["error"]["message"], wrong


def test_each_line_of_a_text_is_translated_alone(client):
    lines = ["two dogs play", "the fox"]
    one, two = [item["translation_text"] for item in ask(client, "translate", lines)]
    for text, expected in (
        ("two dogs play\nthe fox", f"{one}\n{two}"),
        ("two dogs play\r\n\r\n  the fox\r\n", f"{one}\r\n\r\n  {two}\r\n"),
        ("\n two dogs play\u2028the fox", f"\n {one}\u2028{two}"),
        ("two dogs play\rthe fox", f"{one}\r{two}"),
    ):
        assert ask(client, "translate", text) == [{"translation_text": expected}], text
        reply = client.post("/translate", {"q": text, "target": "de"})
        assert reply.json["translatedText"] == expected
    assert ask(client, "translate", "two dogs play\n") == [{"translation_text": one}]
    reply = client.post("/translate", {"q": "two dogs play\nthe fox", "alternatives": 2}).json
    alternatives = [client.post("/translate", {"q": t, "alternatives": 2}).json for t in lines]
    pairs = zip(*(item["alternatives"] for item in alternatives), strict=True)
    assert reply["alternatives"] == [f"{first}\n{second}" for first, second in pairs]


def test_a_line_break_is_white_space_for_a_classifier_and_a_tagger(client):
    text = TEXT.replace(" ", "\n", 1)
    assert ask(client, "classify", text, "classifier") == ask(
        client, "classify", TEXT, "classifier"
    )
    spans, usual = ask(client, "tag", text), ask(client, "tag", TEXT)
    assert [(item["start"], item["end"]) for item in spans] == [
        (item["start"], item["end"]) for item in usual
    ]


@pytest.mark.parametrize(
    "body, param",
    [
        ({"inputs": "a fox", "beam": 2}, "beam"),
        ({"inputs": "a fox", "src_lang": "en"}, "src_lang"),
        ({"q": "a fox", "length_penalty": 2}, "length_penalty"),
    ],
)
def test_an_option_beside_the_inputs_is_named(client, body, param):
    reply = client.post("/translate", body)
    assert reply.status == 400 and reply.json["error"]["param"] == param
    assert "parameters" in reply.json["error"]["message"]


def test_languages_that_no_file_names_are_named_as_ignored(client):
    fields = {"q": "a fox", "source": "en", "target": "de", "api_key": "x", "other": 1}
    reply = client.post("/translate", fields)
    assert reply.headers["x-headway-ignored-fields"] == "other, source, target"
    assert client.get("/languages").json == []


def test_classes(client):
    (found,) = predicted("classifier", ClassInput(text=TEXT))
    scores = [{"label": k, "score": pytest.approx(v)} for k, v in found.probabilities.items()]
    assert ask(client, "classify", TEXT, "classifier") == [scores]
    assert ask(client, "classify", TEXT, "classifier", top_k=1) == [scores[:1]]
    assert client.post("/classify?model=classifier", {"inputs": TEXT}).json == [scores]
    both = client.post("/classify?model=images", {"inputs": TEXT, "model": "classifier"})
    assert both.json == [scores]
    (pair,) = predicted("pairs", ClassInput(text=TEXT, second="A dog."))
    both = ask(client, "classify", {"text": TEXT, "second": "A dog."}, "pairs", form="full")
    assert both["label"] == pair.label and "file" not in both


def test_masked_words(client):
    text = "The old [MASK] waves."
    (found,) = predicted("encoder", FillInput(text=text))
    (words,) = found.predictions
    reply = ask(client, "fill", text)
    assert [item["token_str"] for item in reply] == [word.word for word in words]
    assert [item["score"] for item in reply] == [pytest.approx(w.probability) for w in words]
    assert [item["token"] for item in reply] == [word.token for word in words]
    assert reply[0]["sequence"] == MODELS["encoder"].filled(text, 0, words[0])
    assert "[MASK]" not in reply[0]["sequence"] and reply[0]["sequence"].startswith("The old")
    two = ask(client, "fill", "The [MASK] and the [MASK].", top_k=2)
    assert [len(words) for words in two] == [2, 2]


def test_spans_and_answers(client):
    (found,) = predicted("tagger", TextInput(text=TEXT))
    reply = ask(client, "tag", TEXT)
    assert [item["word"] for item in reply] == [span.text for span in found.spans]
    assert all(TEXT[item["start"] : item["end"]] == item["word"] for item in reply)
    question = {"question": "Who waves?", "context": TEXT}
    (answered,) = predicted("answerer", AnswerInput(**question))
    reply = ask(client, "answer", question)
    best = answered.answers[0]
    assert (reply["answer"], reply["start"]) == (best.text, best.start)
    assert reply["score"] == pytest.approx(best.probability)


def test_images_as_a_body_and_in_base64(client, picture):
    from headway.bundle import ImageInput
    from headway.tasks.captioning.model import CaptionInput

    (found,) = predicted("images", ImageInput(image=picture))
    coded = base64.b64encode(PICTURE).decode()
    scores = [{"label": k, "score": pytest.approx(v)} for k, v in found.probabilities.items()]
    assert ask(client, "classify", coded, "images") == scores
    assert ask(client, "classify", [f"data:image/png;base64,{coded}"], "images") == [scores]
    raw = client.post("/classify?model=images", PICTURE, content_type="image/png")
    assert raw.json == scores
    bare = client.post("/classify?model=images", PICTURE)  # without a type, as from Python's bytes
    assert bare.json == scores
    text = client.post("/classify?model=classifier", PICTURE, content_type="image/png")
    assert text.status == 415 and "application/json" in text.json["error"]["message"]
    wider = client.post("/classify?model=images", OTHER_FORMAT, content_type="image/x-ms-bmp")
    assert wider.json == scores  # the bytes decide, not the declared type
    flac = client.post("/classify?model=images", b"fLaC" + bytes(40), content_type="audio/flac")
    assert flac.status == 400
    assert "must be an image" in flac.json["error"]["message"]
    assert "a FLAC sound; convert it: ffmpeg" in flac.json["error"]["message"]
    full = ask(client, "classify", coded, "images", form="full")
    assert "file" not in full and full["label"] == found.label
    (caption,) = predicted("captioner", CaptionInput(image=picture))
    assert ask(client, "caption", coded) == [{"generated_text": caption.captions[0].text}]


def test_embeddings(client):
    bundle = MODELS["encoder"]
    texts = [TEXT, "A fox looks on."]
    vectors = bundle.embed(texts).numpy()
    reply = client.post("/v1/embeddings", {"input": texts, "encoding_format": "float"}).json
    got = np.array([item["embedding"] for item in reply["data"]])
    assert np.abs(got - vectors).max() < 1e-6
    assert reply["usage"]["prompt_tokens"] == sum(bundle.lengths(texts))
    coded = client.post("/v1/embeddings", {"input": TEXT, "encoding_format": "base64"}).json
    decoded = np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), "<f4")
    assert np.abs(decoded - vectors[0]).max() < 1e-6
    short = client.post("/v1/embeddings", {"input": TEXT, "dimensions": 5}).json
    cut = np.array(short["data"][0]["embedding"])
    assert len(cut) == 5 and np.linalg.norm(cut) == pytest.approx(1)
    assert np.abs(cut - vectors[0, :5] / np.linalg.norm(vectors[0, :5])).max() < 1e-6
    similar = {"source_sentence": TEXT, "sentences": texts}
    scores = client.post("/embed", {"inputs": similar}).json
    assert scores == pytest.approx([1.0, float(vectors[0] @ vectors[1])])
    cut = client.post("/v1/embeddings", {"input": "a fox " * 200}).json
    assert cut["usage"]["total_tokens"] == bundle.length < sum(bundle.lengths(["a fox " * 200]))
    refused = client.post("/embed", {"inputs": "a fox " * 200, "truncate": False})
    assert refused.status == 400 and refused.json["error"]["param"] == "truncate"
    assert client.post("/embed", {"inputs": "a fox", "truncate": False}).status == 200
    first = client.post("/embed", {"inputs": TEXT, "dimensions": 5, "normalize": False}).json
    assert first == [bundle.embed([TEXT], normalise=False)[0, :5].tolist()]
    wide = client.post("/v1/embeddings", {"input": TEXT, "dimensions": 9999})
    assert wide.status == 400 and wide.json["error"]["param"] == "dimensions"


def test_pairs_are_scored_and_ranked(client):
    documents = ["A dog.", "A fox looks on.", "bread"]
    texts = [ClassInput(text=TEXT, second=document) for document in documents]
    probabilities = [p.probabilities["b"] for p in predicted("pairs", *texts)]
    fields = {"model": "pairs", "label": "b"}
    reply = client.post("/v1/score", {"text_1": TEXT, "text_2": documents, **fields}).json
    assert [item["score"] for item in reply["data"]] == pytest.approx(probabilities)
    ranked = client.post("/v1/rerank", {"query": TEXT, "documents": documents, **fields}).json
    order = [item["index"] for item in ranked["results"]]
    assert order == sorted(range(3), key=lambda n: -probabilities[n])
    assert ranked["results"][0]["document"] == {"text": documents[order[0]]}
    best = {"query": TEXT, "documents": documents, "top_n": 1, "return_documents": False, **fields}
    for route in ("/v1/rerank", "/v2/rerank", "/rerank"):
        (first,) = client.post(route, best).json["results"]
        assert first["index"] == order[0] and "document" not in first
    every = client.post("/rerank", {**best, "top_n": 0}).json["results"]
    assert [item["index"] for item in every] == order
    vectors = MODELS["encoder"].embed([TEXT, *documents]).numpy()
    both = {"text_1": [TEXT] * 3, "text_2": documents, "model": "encoder"}
    found = client.post("/v1/score", both).json["data"]
    assert [item["score"] for item in found] == pytest.approx(list(vectors[1:] @ vectors[0]))
    for wrong in ({"label": "z"}, {"label": None}, {"text_2": ["a", "b"], "text_1": ["a"] * 3}):
        reply = client.post("/v1/score", {"text_1": TEXT, "text_2": documents, **fields, **wrong})
        assert reply.status == 400, reply.body
    reply = client.post("/v1/score", {"text_1": "a", "text_2": "b", "model": "translator"})
    assert reply.status == 400 and "cannot score" in reply.json["error"]["message"]


@pytest.mark.parametrize(
    "verb, body, words",
    [
        ("translate", {"inputs": "a", "parameters": {"glossary": "/etc/passwd"}}, "names a file"),
        ("translate", {"inputs": "a", "parameters": {"ensemble": ["x"]}}, "names a file"),
        ("translate", {"inputs": "a", "parameters": {"beams": 4}}, "beam"),
        ("translate", {"inputs": "a", "parameters": {"beam": 0}}, "beam"),
        ("translate", {"inputs": "a", "parameters": []}, "object"),
        ("translate", {"inputs": ""}, "not empty"),
        ("translate", {"inputs": "a\0b"}, "NUL"),
        ("translate", {"inputs": []}, "1 to 256"),
        ("translate", {"inputs": [3]}, "str"),
        ("translate", {"inputs": {"text": "a", "line": 3}}, "line"),
        ("translate", {"text": "a"}, "inputs"),
        ("translate", {"inputs": "a", "form": "xml"}, "xml"),
        ("classify", {"inputs": "a", "model": "translator"}, "cannot classify"),
        ("classify", {"inputs": "a"}, "model must be one of"),
        ("classify", {"inputs": "a", "model": "images"}, "base64"),
        ("classify", {"inputs": "QUJD", "model": "images"}, "must be an image"),
        ("classify", {"inputs": CUT, "model": "images"}, "image"),
        ("answer", {"inputs": "who?"}, "context"),
        ("fill", {"inputs": "no mask"}, "no [MASK]"),
    ],
)
def test_what_is_wrong_is_said(client, verb, body, words):
    reply = client.post(f"/{verb}", body)
    assert reply.status == 400, reply.body
    message = reply.json["error"]["message"]
    assert words in message and "/tmp" not in message, message


def test_a_context_is_never_read_from_a_file_of_the_server(client, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("The password is swordfish. " * 3)
    question = {"question": "What is the password?", "context": str(secret)}
    assert "swordfish" not in str(ask(client, "answer", question))


def test_routes_and_models(client):
    listed = {item["id"]: item["routes"] for item in client.get("/v1/models").json["data"]}
    assert listed["translator"] == ["/translate"] and listed["images"] == ["/classify"]
    assert listed["encoder"] == ["/fill", "/v1/embeddings", "/embed"]
    assert client.get("/v1/models/tagger").json["id"] == "tagger"
    assert client.get("/v1/models/other").status == 404
    assert client.get("/nothing").status == 404 and client.get("/translate").status == 405
    reply = client.post("/v1/completions", {"prompt": "a", "model": "tagger"})
    assert reply.status == 400 and "POST /tag" in reply.json["error"]["message"]


VERBS = {
    "tag": {"inputs": TEXT},
    "classify": {"inputs": TEXT, "model": "classifier"},
    "translate": {"inputs": "two dogs"},
    "fill": {"inputs": "The old [MASK] waves."},
    "answer": {"inputs": {"question": "Who waves?", "context": TEXT}},
    "caption": {"inputs": base64.b64encode(PICTURE).decode()},
}
SENT = [(verb, name) for verb, names in PARAMETERS.items() for name in names.split()]


@pytest.mark.parametrize("verb, name", SENT)
def test_a_parameter_of_a_client_is_honoured_or_named(client, verb, name):
    task = registry.task(next(key for key, entry in registry.TASKS.items() if entry.verb == verb))
    usual = client.post(f"/{verb}", VERBS[verb])
    for value in (None, *getattr(REFUSED[verb].get(name), "neutral", ())):
        reply = client.post(f"/{verb}", {**VERBS[verb], "parameters": {name: value}})
        assert reply.status == 200 and reply.body == usual.body, (value, reply.body)
    reply = client.post(f"/{verb}", {**VERBS[verb], "parameters": {name: {"x": 1}}})
    error = reply.json["error"]
    own = task.predicts.pipeline.option_names.get(name, name)
    assert reply.status == 400 and error["param"] == name
    assert name in error["message"] or own in error["message"]


@pytest.mark.parametrize("strategy", ["none", "simple", "first", "average", "max"])
def test_an_aggregation_of_the_tags_of_tokens(strategy, client):
    (found,) = MODELS["tagger"].entities([TEXT], strategy)
    reply = ask(client, "tag", TEXT, aggregation_strategy=strategy)
    assert [item["word"] for item in reply] == [entity.word for entity in found.entities]
    assert reply
    label = "entity" if strategy == "none" else "entity_group"
    assert all(label in item and ("index" in item) == (strategy == "none") for item in reply)


def test_an_unknown_aggregation_is_named_with_those_that_there_are(client):
    body = {"inputs": TEXT, "parameters": {"aggregation_strategy": "last"}}
    error = client.post("/tag", body).json["error"]
    assert error["param"] == "aggregation_strategy" and "average" in error["message"]
    unknown = client.post("/tag", {"inputs": TEXT, "parameters": {"xyz": 1}}).json["error"]
    assert unknown["param"] == "xyz" and "aggregation_strategy" in unknown["message"]
