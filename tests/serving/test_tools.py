"""Tools of a chat request reach a chat template that uses them; others are refused by name."""

import json

import pytest

from headway.serving.http.chat import ChatForm
from headway.serving.http.texts import Output
from headway.serving.http.tool_calls import CallReader
from tests.fixtures.chat_model import BUNDLE, HELLO, START, TEMPLATE
from tests.fixtures.model_server import running

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object"},
    },
}
WITH_TOOLS = (
    "{% if tools %}TOOLS {% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    + TEMPLATE
)


@pytest.fixture(scope="module")
def client():
    models = {"plain": BUNDLE, "tools": BUNDLE}
    with running(models, templates={"plain": TEMPLATE, "tools": WITH_TOOLS}) as client:
        yield client


def chat(client, **fields):
    body = {"model": "tools", "messages": HELLO, "temperature": 0, "max_tokens": 4, **fields}
    return client.post("/v1/chat/completions", body)


def completed(client, prompt):
    ids = BUNDLE.tokenizer.encode_with_special_tokens(prompt)
    reply = client.complete(model="tools", prompt=ids, temperature=0, max_tokens=4)
    return reply["choices"][0]["text"], len(ids)


WITHOUT = f"{START}user\nThe old baker<|stop|>\n{START}assistant\n"


@pytest.mark.parametrize(
    "fields, number",
    [
        ({"tools": [WEATHER]}, 1),
        ({"tools": [WEATHER, WEATHER], "tool_choice": "auto", "parallel_tool_calls": True}, 2),
        ({"tools": [WEATHER], "tool_choice": "none"}, 0),
        ({"tools": [WEATHER], "tool_choice": None, "parallel_tool_calls": None}, 1),
        ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": False}, 0),
        ({"tools": None, "tool_choice": "none"}, 0),
    ],
)
def test_the_template_gets_the_tools(client, fields, number):
    reply = chat(client, **fields)
    assert reply.status == 200, reply.body
    listed = "TOOLS " + f"{json.dumps(WEATHER)}\n" * number if number else ""
    (choice,) = reply.json["choices"]
    found = choice["message"]["content"], reply.json["usage"]["prompt_tokens"]
    assert found == completed(client, listed + WITHOUT)
    assert "x-headway-ignored-fields" not in reply.headers


@pytest.mark.parametrize(
    "fields, param, words",
    [
        ({"model": "plain", "tools": [WEATHER]}, "tools", "template of this model does not use"),
        ({"tools": [{}]}, "tools", "tools[0]"),
        ({"tools": [WEATHER, {"type": "custom", "custom": {"name": "a"}}]}, "tools", "tools[1]"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools", "name"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools", "name"),
        ({"tools": {"a": 1}}, "tools", "tools"),
        ({"tools": [WEATHER], "tool_choice": "required"}, "tool_choice", "auto or none"),
        (
            {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "w"}}},
            "tool_choice",
            "auto or none",
        ),
        ({"tool_choice": "required"}, "tool_choice", "without tools"),
        ({"tools": [WEATHER], "parallel_tool_calls": False}, "parallel_tool_calls", "how many"),
        (
            {"tools": [{**WEATHER, "function": {**WEATHER["function"], "strict": True}}]},
            "tools",
            "tools[0].function.strict",
        ),
        ({"functions": [WEATHER["function"]]}, "functions", "use tools"),
    ],
)
def test_what_the_model_cannot_do_with_tools_is_refused_by_name(client, fields, param, words):
    reply = chat(client, **fields)
    error = reply.json["error"]
    assert reply.status == 400 and error["param"] == param, reply.body
    assert words in error["message"]


def test_a_template_without_tools_takes_a_request_that_uses_none_of_them(client):
    assert chat(client, model="plain", tools=[WEATHER], tool_choice="none").status == 200


def test_a_name_in_a_tool_never_becomes_a_special_token(client):
    named = {"type": "function", "function": {"name": START}}
    with_mark = chat(client, tools=[named]).json["usage"]["prompt_tokens"]
    longer = len(BUNDLE.tokenizer.encode(f"TOOLS {json.dumps(named)}\n"))
    (start,) = BUNDLE.tokenizer.encode_with_special_tokens(START)
    assert start not in BUNDLE.tokenizer.encode(START)
    assert with_mark == completed(client, WITHOUT)[1] + longer


CALL = '<tool_call>\n{"name": "weather", "arguments": {"place": "Köln"}}\n</tool_call>'
WRITTEN = {
    "one": (CALL, "", 1),
    "text before": (f"Let me look.\n{CALL}", "Let me look.\n", 1),
    "two": (f"{CALL}\n{CALL}\n", "", 2),
    "none": ("a < b and <tool", "a < b and <tool", 0),
    "no end": (CALL[:-3], CALL[:-3], 0),
    "no JSON": ("<tool_call>look</tool_call> x", "<tool_call>look</tool_call> x", 0),
    "no name": ('<tool_call>{"a": 1}</tool_call>', '<tool_call>{"a": 1}</tool_call>', 0),
    "text after": (f"{CALL}\n done", "done", 1),
    "a list": ("<tool_call>[1]</tool_call>", "<tool_call>[1]</tool_call>", 0),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_calls_are_separated_from_the_text_in_parts_of_any_size(name, size):
    written, text, count = WRITTEN[name]
    reader, texts, calls = CallReader(), [], []
    for start in range(0, len(written), size):
        ends = start + size >= len(written)
        new, found = reader.feed(written[start : start + size], ends=ends)
        texts.append(new)
        calls += found
    assert "".join(texts) == text and len(calls) == count
    for call in calls:
        function = call["function"]
        assert function["name"] == "weather" and call["type"] == "function"
        assert json.loads(function["arguments"]) == {"place": "Köln"}


def test_text_that_cannot_be_a_call_is_not_held_back():
    reader = CallReader()
    assert reader.feed("a <tool", ends=False)[0] == "a "
    assert reader.feed("box", ends=False)[0] == "<toolbox"


def outputs(parts):
    """The parts of an output with this text, the last of which ends it."""
    last = len(parts) - 1
    return [
        Output(index=0, text=part, logprobs=None, reason="stop" if n == last else None)
        for n, part in enumerate(parts)
    ]


def test_a_reply_has_its_calls_as_a_field_of_their_own():
    (output,) = outputs([f"Wait.{CALL}{CALL}"])
    choice = ChatForm(reads_calls=True).choice(output)
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] == "Wait."
    ids = {call["id"] for call in choice["message"]["tool_calls"]}
    assert len(ids) == 2
    assert ChatForm(reads_calls=True).choice(outputs([CALL])[0])["message"]["content"] is None
    plain = ChatForm().choice(output)
    assert plain["message"] == {"role": "assistant", "content": output.text}
    assert plain["finish_reason"] == "stop"


def test_a_stream_has_each_call_in_one_event():
    form = ChatForm(reads_calls=True)
    whole = f"Wait.{CALL}{CALL}"
    parts = outputs([whole[i : i + 9] for i in range(0, len(whole), 9)])
    events = [e for n, part in enumerate(parts) for e in form.chunks(part, first=n == 0)]
    assert "".join(e["delta"].get("content", "") for e in events) == "Wait."
    calls = [call for e in events for call in e["delta"].get("tool_calls", ())]
    assert [call["index"] for call in calls] == [0, 1]
    assert [e["finish_reason"] for e in events][-1] == "tool_calls"


@pytest.mark.parametrize("choice, is_field", [("auto", True), ("none", False)])
def test_calls_are_read_only_if_the_template_had_the_tools(choice, is_field):
    template = WITH_TOOLS + "{# <tool_call></tool_call> #}"
    with running({"tools": BUNDLE}, templates={"tools": template}) as client:
        forced = {"guided_choice": [CALL], "max_tokens": 150}
        reply = chat(client, tools=[WEATHER], tool_choice=choice, **forced)
    assert reply.status == 200, reply.body
    (answer,) = reply.json["choices"]
    assert ("tool_calls" in answer["message"]) == is_field
    assert answer["finish_reason"] == ("tool_calls" if is_field else "stop")


SIZES = {"type": "object", "properties": {"n": {"enum": [7, 8]}}, "required": ["n"]}
TWO = [
    {"type": "function", "function": {"name": name, "parameters": SIZES, "strict": True}}
    for name in ("grow", "shrink")
]


@pytest.fixture(scope="module")
def calling():
    template = "{% if tools %}T{% endif %}{# <tool_call></tool_call> #}" + TEMPLATE
    with running({"tools": BUNDLE}, templates={"tools": template}) as client:
        yield client


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"grow", "shrink"}),
        ({"type": "function", "function": {"name": "shrink"}}, {"shrink"}),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_demanded_has_the_schema_of_its_tool(calling, choice, names, stream):
    fields = {"tools": TWO, "tool_choice": choice, "parallel_tool_calls": False}
    reply = chat(calling, **fields, max_tokens=150, stream=stream, temperature=1, seed=3)
    assert reply.status == 200, reply.body
    if stream:
        (call,) = [
            call
            for event in reply.events
            for call in event["choices"][0]["delta"].get("tool_calls", ())
        ]
    else:
        (call,) = reply.json["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] in names
    assert json.loads(call["function"]["arguments"])["n"] in (7, 8)


def test_the_responses_route_demands_calls_too(calling):
    tool = {"type": "function", "name": "grow", "parameters": SIZES, "strict": True}
    choice = {"type": "function", "name": "grow"}
    body = {"input": "?", "tools": [tool], "tool_choice": choice, "max_output_tokens": 150}
    reply = calling.post("/v1/responses", body)
    assert reply.status == 200, reply.body
    (item,) = reply.json["output"]
    assert item["type"] == "function_call" and json.loads(item["arguments"])["n"] in (7, 8)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "no"}}}, "tool_choice", "name"),
        ({"tool_choice": "maybe"}, "tool_choice", "must be none, auto, required"),
        ({"tool_choice": "required", "guided_regex": "a"}, "guided_regex", "excludes"),
        ({"tool_choice": "required", "use_beam_search": True}, "use_beam_search", "excludes"),
    ],
)
def test_a_demand_that_cannot_be_met_is_refused_by_name(calling, fields, param, words):
    reply = chat(calling, tools=TWO, **fields)
    error = reply.json["error"]
    assert reply.status == 400 and error["param"] == param and words in error["message"]
