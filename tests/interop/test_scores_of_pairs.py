"""The score of a model with one label: the sigmoid of its output, unless the folder differs."""

import json

import pytest
import torch
import transformers

import headway
from headway.base.errors import DataError
from headway.models import Bert, BertClassifier
from headway.tasks.classification.model import ClassifierBundle, to_hugging_face
from headway.tasks.classification.reader import ClassReader, Numbers
from tests.fixtures import bundles
from tests.fixtures.model_server import running
from tests.fixtures.random_weights import with_noise

PAIRS = [("a fox", "the tree"), ("the tree", "a fox by the tree")]
SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"


@pytest.fixture
def folder(tmp_path):
    """A folder of a cross-encoder, whose config.json does not name an activation."""
    encoder = bundles.encoder(max_length=40)
    torch.manual_seed(5)
    model = BertClassifier(with_noise(Bert(encoder.model.config)), 1)
    torch.nn.init.normal_(model.head.weight)
    reader = ClassReader(encoder.tokenizer, (), 40, Numbers(0.0, 1.0), pairs=None)
    to_hugging_face(ClassifierBundle(model, reader), tmp_path / "hf", None)
    changed(tmp_path / "hf", problem_type=None)
    return tmp_path / "hf"


def changed(folder, **values):
    config = {**json.loads((folder / "config.json").read_text()), **values}
    (folder / "config.json").write_text(json.dumps(config))


def outputs(folder):
    """The outputs of the head, by transformers."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    first, second = map(list, zip(*PAIRS, strict=True))
    with torch.inference_mode():
        return model(**tokenizer(first, second, padding=True, return_tensors="pt")).logits[:, 0]


@pytest.mark.parametrize(
    "values, has_sigmoid",
    [
        ({}, True),
        ({"sentence_transformers": {"activation_fn": SIGMOID}}, True),
        ({"sentence_transformers": {"version": "5"}}, True),
        ({"sentence_transformers": {"activation_fn": IDENTITY}}, False),
        ({"sbert_ce_default_activation_function": IDENTITY}, False),
        ({"problem_type": "regression"}, False),
    ],
)
def test_the_score_of_one_label_is_its_sigmoid_unless_the_folder_differs(
    folder, values, has_sigmoid
):
    changed(folder, **values)
    raw = outputs(folder)
    expected = (raw.sigmoid() if has_sigmoid else raw).tolist()
    bundle = headway.load(folder)
    assert bundle.score(PAIRS) == pytest.approx(expected, abs=1e-5)
    bundle.save(folder.parent / "saved")
    assert headway.load(folder.parent / "saved").score(PAIRS) == pytest.approx(expected, abs=1e-5)


def test_an_export_keeps_the_activation(folder):
    bundle = headway.load(folder)
    to_hugging_face(bundle, folder.parent / "again", None)
    assert headway.load(folder.parent / "again").score(PAIRS) == pytest.approx(bundle.score(PAIRS))


def test_another_activation_is_refused_by_name(folder):
    changed(folder, sentence_transformers={"activation_fn": "torch.nn.modules.activation.Tanh"})
    with pytest.raises(DataError, match="Tanh"):
        headway.load(folder)


def test_documents_are_ranked_by_the_sigmoid(folder):
    bundle = headway.load(folder)
    documents = ["the tree", "a fox by the tree", "bread"]
    expected = bundle.score([("a fox", document) for document in documents])
    assert all(0 < score < 1 for score in expected)
    with running({"m": bundle}) as client:
        reply = client.post("/v1/rerank", {"query": "a fox", "documents": documents}).json
    found = {item["index"]: item["relevance_score"] for item in reply["results"]}
    assert [found[n] for n in range(3)] == pytest.approx(expected)
