"""POST /v1/responses is chat in another form: the same prompt, the same text, items and events."""

import json
from types import SimpleNamespace

import pytest

from headway.decoding import GenerationConfig
from headway.serving.http.replies import ApiError
from headway.serving.http.responses import ResponsesForm, ResponsesRequest, chat_request
from headway.serving.http.texts import Output, TextRequest, Usage
from tests.fixtures.chat_model import BUNDLE, TEMPLATE
from tests.fixtures.model_server import running

QUESTION, TOKENS = "The old baker", 6
MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": QUESTION}]
CALL = '<tool_call>{"name": "weather", "arguments": {"place": "Paris"}}</tool_call>'


@pytest.fixture(scope="module")
def client():
    with running({"chat": BUNDLE}, templates={"chat": TEMPLATE}) as client:
        yield client


@pytest.fixture(scope="module")
def expected(client):
    fields = {"messages": MESSAGES, "temperature": 0, "max_tokens": TOKENS}
    return client.post("/v1/chat/completions", fields).json


def respond(client, **fields):
    body = {"instructions": "Be kind.", "input": QUESTION, "temperature": 0, **fields}
    return client.post("/v1/responses", {"max_output_tokens": TOKENS, **body})


def events_of(body):
    """Return the events of a stream; the name of each is its type."""
    events = []
    for part in body.decode().split("\n\n")[:-1]:
        name, data = part.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


@pytest.mark.parametrize(
    "given",
    [
        QUESTION,
        [{"role": "user", "content": QUESTION}],
        [
            {
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": QUESTION}],
            }
        ],
    ],
)
def test_the_text_is_that_of_chat(client, expected, given):
    reply = respond(client, input=given)
    assert reply.status == 200, reply.body
    made = reply.json
    (item,) = made["output"]
    (part,) = item["content"]
    assert (item["type"], item["role"], part["type"]) == ("message", "assistant", "output_text")
    assert part["text"] == expected["choices"][0]["message"]["content"]
    assert made["usage"]["input_tokens"] == expected["usage"]["prompt_tokens"]
    assert made["usage"]["output_tokens"] == expected["usage"]["completion_tokens"]
    cut = expected["choices"][0]["finish_reason"] == "length"
    assert made["status"] == ("incomplete" if cut else "completed")
    assert (made["incomplete_details"] is not None) == cut


def test_a_stream_has_the_same_text_in_parts(client):
    whole = respond(client).json
    events = events_of(respond(client, stream=True).body)
    kinds = [event["type"].removeprefix("response.") for event in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    ends = ["output_text.done", "content_part.done", "output_item.done", whole["status"]]
    assert kinds[-4:] == ends and set(kinds[4:-4]) == {"output_text.delta"}
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    text = "".join(event.get("delta", "") for event in events)
    last = events[-1]["response"]
    assert (
        text == last["output"][0]["content"][0]["text"] == whole["output"][0]["content"][0]["text"]
    )
    assert last["usage"] == {
        **whole["usage"],
        "input_tokens_details": last["usage"]["input_tokens_details"],
    }
    assert last["id"] == events[0]["response"]["id"]


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "stores no responses"),
        ({"background": True}, "background", "not available"),
        ({"messages": MESSAGES}, "messages", "use input"),
        ({"max_output_tokens": 0}, "max_output_tokens", "at least 1"),
        ({"input": [{"type": "reasoning", "summary": []}]}, "input", "type 'reasoning'"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input", "input_file"),
        ({"input": []}, "input", "length"),
        ({"tools": [{"type": "web_search"}]}, "tools", "web_search"),
        ({"text": {"format": {"type": "poem"}}}, "text", "poem"),
    ],
)
def test_what_the_server_cannot_do_is_refused_by_name(client, fields, param, words):
    reply = respond(client, **fields)
    assert reply.status == 400, reply.body
    assert reply.json["error"]["param"] == param and words in reply.json["error"]["message"]


def test_the_text_has_the_schema_that_is_asked_for(client):
    schema = {"type": "object", "properties": {"a": {"enum": [7]}}, "required": ["a"]}
    wanted = {"type": "json_schema", "name": "x", "schema": schema, "strict": True}
    made = respond(client, text={"format": wanted}, max_output_tokens=40).json
    assert json.loads(made["output"][0]["content"][0]["text"]) == {"a": 7}
    assert made["text"]["format"] == wanted


def test_items_of_tools_are_turns_of_a_conversation():
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    call = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    items = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Rain?"},
        call,
        {**call, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": "no"},
    ]
    asked = chat_request(ResponsesRequest(input=items, tools=[tool]))
    system, _, calls, result = asked.messages
    assert system["role"] == "system" and result == {
        "role": "tool",
        "tool_call_id": "c1",
        "content": "no",
    }
    assert calls["content"] is None and [one["id"] for one in calls["tool_calls"]] == ["c1", "c2"]
    function = {"name": "weather", "parameters": {"type": "object"}}
    assert asked.tools == [{"type": "function", "function": function}]
    with pytest.raises(ApiError, match="no_such_type"):
        chat_request(ResponsesRequest(input=[{"type": "no_such_type"}]))


ASKED = object.__new__(TextRequest)  # a form reads these fields only
ASKED.id, ASKED.config, ASKED.served = "1", GenerationConfig(), SimpleNamespace(name="m")


def output(text, reason=None):
    return Output(index=0, text=text, logprobs=None, reason=reason)


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_call_in_the_text_is_an_item_in_the_reply_and_in_a_stream(size):
    text = f"Let me see. {CALL}"
    whole = ResponsesForm(ResponsesRequest(input="?"), reads_calls=True)
    made = whole.reply(ASKED, [output(text, "stop")], Usage(3, 0, 9))
    message, call = made["output"]
    assert message["content"][0]["text"] == "Let me see. " and call["name"] == "weather"
    assert json.loads(call["arguments"]) == {"place": "Paris"} and call["call_id"]

    form = ResponsesForm(ResponsesRequest(input="?"), reads_calls=True)
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    sent = []
    for number, piece in enumerate(pieces):
        reason = "stop" if number == len(pieces) - 1 else None
        sent += form.parts(ASKED, output(piece, reason), first=number == 0)
    sent += form.closing(ASKED, Usage(3, 0, 9))
    events = events_of(b"".join(sent))
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    assert [item["type"] for item in done] == ["message", "function_call"]
    assert done[0]["content"] == message["content"]
    assert {name: done[1][name] for name in ("name", "arguments")} == {
        name: call[name] for name in ("name", "arguments")
    }
    assert [e["output_index"] for e in events if "item" in e] == [0, 0, 1, 1]


def test_an_output_without_text_is_an_empty_message():
    form = ResponsesForm(ResponsesRequest(input="?"))
    events = events_of(b"".join(form.parts(ASKED, output("", "stop"), first=True)))
    assert [event["item"]["type"] for event in events if "item" in event] == ["message"] * 2
