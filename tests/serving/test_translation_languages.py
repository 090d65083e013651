"""The languages of a request are those of the model, which the files beside it name."""

import json

import pytest

from headway.tasks.translation.directions import Direction
from headway.tasks.translation.origin import Origin, origin_of_foreign, origin_of_run
from tests.fixtures import bundles
from tests.fixtures.model_server import running


def translator(*directions, by_line=True):
    bundle = bundles.translator()
    bundle.origin = Origin(tuple(Direction.parse(text) for text in directions), by_line)
    return bundle


@pytest.fixture(scope="module")
def client():
    with running({"french": translator("en-fr"), "text": translator(by_line=False)}) as client:
        yield client


@pytest.mark.parametrize(
    "fields",
    [
        {"source": "en", "target": "fr"},
        {"source": "auto", "target": "fr"},
        {"source": "EN", "target": "fr-FR"},
        {"source": "en-US", "target": "fr"},
        {"target": "fr"},
        {},
    ],
)
def test_a_direction_of_the_model_is_translated(client, fields):
    body = {"q": "the fox", "model": "french", **fields}
    reply = client.post("/translate", body)
    assert reply.status == 200, reply.body
    assert "x-headway-ignored-fields" not in reply.headers


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"source": "en", "target": "de"}, "target"),
        ({"source": "auto", "target": "de"}, "target"),
        ({"target": "de"}, "target"),
        ({"target": "en"}, "target"),
        ({"source": "fr", "target": "en"}, "source"),
        ({"source": "de", "target": "fr"}, "source"),
        ({"source": "de"}, "source"),
    ],
)
def test_another_direction_is_refused_with_those_of_the_model(client, fields, param):
    reply = client.post("/translate", {"q": "the fox", "model": "french", **fields})
    error = reply.json["error"]
    assert reply.status == 400 and error["param"] == param
    assert error["message"].startswith(param) and "en to fr" in error["message"]


def test_the_languages_are_listed(client):
    expected = [{"code": "en", "name": "en", "targets": ["fr"]}]
    assert client.get("/languages").json == expected
    assert client.get("/languages?model=text").json == []
    assert client.get("/languages?model=other").status == 404


def test_a_model_of_several_directions_checks_the_pair():
    with running({"m": translator("en-fr", "fr-de", "en-es")}) as client:
        listed = {item["code"]: item["targets"] for item in client.get("/languages").json}
        assert listed == {"en": ["fr", "es"], "fr": ["de"]}
        reply = client.post("/translate", {"q": "a", "source": "en", "target": "de"})
        assert reply.status == 400 and "fr to de" in reply.json["error"]["message"]
        assert client.post("/translate", {"q": "a", "target": "de"}).status == 200


def test_a_model_of_any_texts_reads_line_breaks_as_it_was_trained(client):
    text = "the fox\nbread"
    (reply,) = client.post("/translate", {"inputs": text, "model": "text"}).json
    assert reply["translation_text"] == bundles.translator().translate([text])[0]


@pytest.mark.parametrize(
    "values, expected",
    [
        ({"data": {"source": "en", "target": "fr"}}, Origin((Direction("en", "fr"),))),
        (
            {"data": {"directions": ["en-de", "en:pt-BR"]}},
            Origin((Direction("en", "de"), Direction("en", "pt-BR"))),
        ),
        ({"data": {"train": ["x/ted.en-de.tsv"]}}, Origin((Direction("en", "de"),))),
        ({"data": {"source": "1", "target": "2", "train": ["pairs.tsv"]}}, Origin()),
        ({"recipe": "text-to-text", "data": {"train": ["pairs.tsv"]}}, Origin((), by_line=False)),
    ],
)
def test_a_run_names_the_languages_of_its_model(tmp_path, values, expected):
    (tmp_path / "run.yaml").write_text(json.dumps({"recipe": "translate", **values}))
    (tmp_path / "model").mkdir()
    assert origin_of_run(tmp_path / "model") == origin_of_run(tmp_path) == expected


def test_a_foreign_folder_names_the_languages_of_its_model(tmp_path):
    assert origin_of_foreign(tmp_path, "marian") == Origin()
    assert origin_of_foreign(tmp_path, "t5") == Origin((), by_line=False)
    config = {"source_lang": "en", "target_lang": "fr"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert origin_of_foreign(tmp_path, "marian") == Origin((Direction("en", "fr"),))
    assert origin_of_foreign(tmp_path, "m2m_100") == Origin()
