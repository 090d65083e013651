"""Every finished output is valid by an independent validator, or the schema was refused."""

import json
import random
import re
from contextlib import suppress

import pytest
import torch

from headway.base.errors import UsageError
from headway.decoding import PartialOutput
from headway.serving.grammar import Grammar
from tests.fixtures.bundles import TOKENIZER
from tests.fixtures.cpu_time import within
from tests.fixtures.json_schemas import validate
from tests.fixtures.model_server import language_model, running

GRAMMAR = Grammar(TOKENIZER)


@pytest.fixture(scope="module")
def client():
    with running({"plain": language_model()}) as client:
        yield client


def random_schema(draw, depth=3):
    """A schema of all that users write: objects, arrays, texts, numbers, choices, references."""
    inner = ["object", "array", "anyOf", "reference"] if depth else []
    kind = draw.choice(["string", "integer", "number", "boolean", "null", "enum", "const", *inner])
    if kind == "string":
        least = draw.randint(0, 2)
        limits = {"minLength": least, "maxLength": least + draw.randint(0, 3)}
        return {"type": "string", **draw.choice([limits, {"pattern": "^[a-d]{1,3}$"}])}
    if kind in ("integer", "number"):
        low = draw.randint(-9, 9)
        limits = {"minimum": low, draw.choice(["maximum", "exclusiveMaximum"]): low + 5}
        return {"type": kind, **limits}
    if kind == "enum":
        return {"enum": draw.sample(["fox", "dog", 3, -1, None, True, "ü"], draw.randint(1, 4))}
    if kind == "const":
        return {"const": draw.choice(["the fox", 7, None, False])}
    if kind == "object":
        names = draw.sample(["a", "b", "c", "long name", "é"], draw.randint(1, 3))
        required = [name for name in names if draw.random() < 0.7]
        properties = {name: random_schema(draw, depth - 1) for name in names}
        form = {"type": "object", "properties": properties, "required": required}
        return {**form, "additionalProperties": False}
    if kind == "array":
        least = draw.randint(0, 2)
        limits = {"minItems": least, "maxItems": least + draw.randint(0, 2)}
        return {"type": "array", "items": random_schema(draw, depth - 1), **limits}
    if kind == "anyOf":
        return {"anyOf": [random_schema(draw, depth - 1) for _ in range(draw.randint(1, 3))]}
    if kind == "reference":
        return {"$ref": "#/$defs/one", "$defs": {"one": random_schema(draw, 0)}}
    return {"type": kind}


def with_references_at_the_top(schema):
    """Return the schema in a root whose $defs its references name."""
    definitions = {}

    def moved(part):
        if isinstance(part, list):
            return [moved(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            name = f"d{len(definitions)}"
            definitions[name] = part["$defs"]["one"]
            return {"$ref": f"#/$defs/{name}"}
        return {key: moved(value) for key, value in part.items()}

    return {**moved(schema), "$defs": definitions}


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_every_finished_output_is_valid_by_its_schema(client, count):
    draw = random.Random(count)
    accepted, finished = 0, 0
    for number in range(count):
        schema = with_references_at_the_top(random_schema(draw))
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        body = {"prompt": "fox", "max_tokens": 120, "response_format": form, "seed": number}
        reply = client.post("/v1/completions", {**body, "n": 3})
        assert reply.status in (200, 400), reply.body
        if reply.status == 400:
            continue
        accepted += 1
        for choice in reply.json["choices"]:
            if choice["finish_reason"] == "stop":
                finished += 1
                validate(json.loads(choice["text"]), schema)
    print(f"{accepted} of {count} accepted, {finished} outputs finished, all valid")
    assert accepted >= 0.9 * count and finished >= 1.5 * count


def test_a_json_object(client):
    fields = {"model": "plain", "prompt": "fox", "max_tokens": 80}
    reply = client.complete(**fields, n=5, seed=2, response_format={"type": "json_object"})
    for choice in reply["choices"]:
        assert choice["text"].startswith("{")
        if choice["finish_reason"] == "stop":
            assert isinstance(json.loads(choice["text"]), dict)


def test_outputs_of_more_prompts_than_slots_are_all_valid(client):
    """An output that begins when another one has ended gets a state of its own."""
    schema = {"type": "object", "properties": {"a": {"enum": ["fox", "b"]}}, "required": ["a"]}
    schema = {**schema, "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    fields = {"model": "plain", "prompt": ["fox"] * 60, "max_tokens": 60, "seed": 1}
    choices = client.complete(**fields, response_format=form)["choices"]
    assert len(choices) == 60
    for choice in choices:
        assert choice["finish_reason"] == "stop", choice
        validate(json.loads(choice["text"]), schema)


def test_a_new_output_with_the_id_of_an_old_one_begins_at_the_start():
    rule, logits = GRAMMAR.of_schema({"type": "integer"}), torch.zeros(1, TOKENIZER.size)
    allowed, ids = rule(logits, [PartialOutput()]), set()
    for _ in range(50):
        output = PartialOutput()
        assert torch.equal(rule(logits, [output]), allowed)
        ids.add(id(output))
        output.tokens.append(TOKENIZER.encode("7")[0])
        rule(logits, [output])
        del output
    assert len(ids) < 50  # otherwise nothing was tested


def nested(levels):
    schema = {"type": "null"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


REFUSED = [
    3,
    [],
    {"type": "nonsense"},
    {"type": ["string", 3]},
    {"$ref": "#/nothing"},
    {"$ref": "http://127.0.0.1:1/x"},
    {"$ref": "file:///etc/passwd"},
    {"$dynamicRef": "#x"},
    {"type": "string", "pattern": "("},
    {"type": "string", "pattern": "(?=a)b"},
    {"type": "string", "pattern": r"(a)\1"},
    {"type": "string", "format": "no such format"},
    {"type": "array", "items": {}, "uniqueItems": True},
    {"type": "array", "contains": {"type": "string"}},
    {"not": {"type": "string"}},
    {"if": {"type": "string"}, "then": {"maxLength": 3}},
    {"type": "object", "propertyNames": {"maxLength": 2}},
    {"type": "object", "dependentRequired": {"a": ["b"]}},
    {"type": "integer", "minimum": 5, "maximum": 3},
    {"type": "integer", "minimum": "3"},
    {"enum": []},
    {"enum": "fox"},
    {"type": "object", "required": "a"},
    {"type": "object", "properties": []},
    {"type": "object", "properties": {f"key{n}": {"type": "string"} for n in range(20_000)}},
    {"enum": [str(n) * 9 for n in range(9000)]},
    {"const": "x" * 70_000},
    nested(40),
    {"type": "array", "minItems": 3, "maxItems": 2},
    False,
]
"""Schemas that cannot be enforced."""

HARD = [
    {"$ref": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"type": "string", "pattern": "^(a+)+$"},
    {"type": "string", "pattern": "^(a|aa)*b(a|aa)*c(a|aa)*d$"},
    {"type": "string", "pattern": "^(a{1,1000}){1,1000}$"},
    {"type": "string", "pattern": "^.*a.{200}$"},
    {"type": "string", "minLength": 10**9},
    {"type": "string", "maxLength": 10**9},
    {"type": "array", "items": {"type": "null"}, "minItems": 10**9},
    {"type": "number", "multipleOf": 1e-300},
    {"type": "integer", "minimum": -(10**300), "maximum": 10**300},
    {"anyOf": [{"type": "string", "pattern": f"^[a-z]*{n}[a-z]*$"} for n in range(500)]},
    {"allOf": [{"type": "string", "pattern": f"^.*{n}.*$"} for n in range(30)]},
    {"type": "object", "properties": {f"k{n}": {"type": "string"} for n in range(700)}},
    {"type": "object", "additionalProperties": {"$ref": "#"}},
    {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"type": "null"}]}},
]
"""Schemas that take much time or memory, if nothing limits them."""


@pytest.mark.parametrize("schema", REFUSED, ids=lambda schema: str(schema)[:40])
def test_a_schema_that_cannot_be_enforced_is_refused_fast(schema):
    with within(1), pytest.raises(UsageError):
        GRAMMAR.of_schema(schema)


@pytest.mark.parametrize("schema", HARD, ids=lambda schema: str(schema)[:40])
def test_a_hard_schema_is_refused_fast_or_obeyed_fast(schema):
    """At most a second to compile it and to choose 20 tokens."""
    draw, output = random.Random(1), PartialOutput()
    with within(1), suppress(UsageError):
        rule = GRAMMAR.of_schema(schema)
        while len(output.tokens) < 20 and output.tokens[-1:] != [TOKENIZER.eos]:
            allowed = rule(torch.zeros(1, TOKENIZER.size), [output])[0].isfinite()
            output.tokens.append(draw.choice(allowed.nonzero()[:, 0].tolist()))
    if output.tokens[-1:] == [TOKENIZER.eos]:
        validate(json.loads(TOKENIZER.decode(output.tokens[:-1])), schema)


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    "fields, pattern",
    [
        ({"guided_regex": "[a-c]{3}-[0-9]{2}"}, "[a-c]{3}-[0-9]{2}"),
        ({"structured_outputs": {"regex": "(fox|dog) [0-9]"}}, "(fox|dog) [0-9]"),
        ({"grammar": {"type": "regex", "value": "x[yz]+w"}}, "x[yz]+w"),
        ({"guided_choice": ['the "fox"', "dog\n", "ü"]}, 'the "fox"|dog\n|ü'),
        ({"structured_outputs": {"choice": ["fox"], "regex": None}}, "fox"),
    ],
)
def test_an_output_has_the_form_that_a_request_names(client, fields, pattern):
    for seed in range(3):
        body = {"prompt": "fox", "max_tokens": 60, "seed": seed, "top_k": 200, **fields}
        (choice,) = client.complete(**body)["choices"]
        if choice["finish_reason"] == "stop":
            assert re.fullmatch(pattern, choice["text"]), choice["text"]
        else:
            assert fields.get("grammar"), "only the last one has no end"


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_json": NUMBER},
        {"guided_json": json.dumps(NUMBER)},
        {"structured_outputs": {"json": NUMBER, "json_object": None}},
        {"grammar": {"type": "json", "value": NUMBER}},
        {"grammar": {"type": "json_schema", "value": {"name": "n", "schema": NUMBER}}},
    ],
)
def test_a_schema_has_several_names(client, fields):
    named = {"type": "json_schema", "json_schema": {"schema": NUMBER}}
    body = {"prompt": "fox", "max_tokens": 40, "seed": 4}
    usual = client.complete(**body, response_format=named)["choices"]
    assert client.complete(**body, **fields)["choices"] == usual
