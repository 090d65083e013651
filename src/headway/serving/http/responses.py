"""POST /v1/responses, OpenAI's later form of chat: items in, items out.

An item is a message, a call of a tool, or what a tool returned. The conversation is that of
/v1/chat/completions in another form. Nothing is stored: a client sends all items each time.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headway.serving.http.chat import ChatForm, ChatRequest, asked_turn
from headway.serving.http.conversations import MOST_MESSAGES
from headway.serving.http.exchange import read_json
from headway.serving.http.generation_fields import Share
from headway.serving.http.known_fields import RESPONSES, KnownFields, RequestBody
from headway.serving.http.replies import ApiError, event
from headway.serving.http.served import ServedModels
from headway.serving.http.texts import Output, TextRequest, Usage, answer

Item = dict[str, object]
TEXTS = ("input_text", "output_text", "text")
"""The types of parts of a message that are texts."""
BEGINNING = ("created", "in_progress")
"""The first events of a stream."""
ROLES = {"developer": "system"}
"""Role -> the role that chat templates know in its place."""


class TextOptions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The form of the text. format: as `response_format` in chat, without the level of
    `json_schema`."""

    format: dict[str, object] | None = None
    verbosity: Literal["medium"] | None = None


class ResponsesRequest(RequestBody, kw_only=True):
    """A request for the next items of a conversation."""

    known: ClassVar[KnownFields] = RESPONSES

    input: str | Annotated[list[Item], msgspec.Meta(min_length=1, max_length=MOST_MESSAGES)]
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**20)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    top_p: Share | None = None
    seed: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    stream: bool | None = None
    text: TextOptions | None = None
    tools: list[Item] | None = None
    tool_choice: str | Item | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: Item | None = None


async def create(request: Request) -> Response:
    """Return the next items of a conversation."""
    models: ServedModels = request.app.state.models
    fields = await read_json(request, ResponsesRequest)
    asked = await asked_turn(
        request, chat_request(fields), lambda reads: ResponsesForm(fields, reads_calls=reads)
    )
    return await answer(request, asked, models.seconds)


def chat_request(fields: ResponsesRequest) -> ChatRequest:
    """Return the same request to /v1/chat/completions. ApiError 400 names an item that has no
    counterpart there."""
    if fields.max_output_tokens == 0:
        message = "max_output_tokens must be at least 1, or -1 for no limit"
        raise ApiError(400, message, param="max_output_tokens")
    values: dict[str, object] = {
        "model": fields.model,
        "messages": messages_of(fields.instructions, fields.input),
        "max_tokens": fields.max_output_tokens,
        "temperature": fields.temperature,
        "top_p": fields.top_p,
        "seed": fields.seed,
        "stream": fields.stream,
        "response_format": _format(fields.text),
        "tools": None if fields.tools is None else [_tool(tool) for tool in fields.tools],
        "tool_choice": _choice(fields.tool_choice),
        "parallel_tool_calls": fields.parallel_tool_calls,
        "chat_template_kwargs": fields.chat_template_kwargs,
    }
    try:
        return msgspec.convert(values, ChatRequest)
    except msgspec.ValidationError as error:
        param = "text" if "response_format" in str(error) else "input"
        raise ApiError(400, str(error), param=param) from None


def messages_of(instructions: str | None, given: str | Sequence[Item]) -> list[Item]:
    """Return items as the messages of a chat; the instructions are its system message."""
    messages: list[Item] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    for number, item in enumerate(given):
        where, kind = f"input[{number}]", item.get("type", "message")
        if kind == "message":
            role = str(item.get("role"))
            messages.append({"role": ROLES.get(role, role), "content": _content(item, where)})
        elif kind == "function_call":
            call = {
                "id": item.get("call_id"),
                "type": "function",
                "function": {name: item.get(name) for name in ("name", "arguments")},
            }
            last = messages[-1] if messages else {}
            if last.get("role") == "assistant":  # its text and all its calls are one message
                calls = last.get("tool_calls", [])
                messages[-1] = {**last, "tool_calls": [*_list(calls), call]}
            else:
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "function_call_output":
            content = _content({"content": item.get("output")}, where)
            messages.append(
                {"role": "tool", "tool_call_id": item.get("call_id"), "content": content}
            )
        else:
            message = (
                f"{where} is of type {str(kind)[:40]!r}; this server reads items of type message, "
                "function_call and function_call_output"
            )
            raise ApiError(400, message, param="input")
    return messages


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []


def _content(item: Mapping[str, object], where: str) -> object:
    """Return the content of an item as that of a message of a chat."""
    content = item.get("content")
    if not isinstance(content, list):
        return content
    parts: list[Item] = []
    for n, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in TEXTS:
            parts.append({"type": "text", "text": part.get("text")})
        elif kind == "input_image":
            image = {"url": part.get("image_url"), "detail": part.get("detail")}
            parts.append({"type": "image_url", "image_url": image})
        else:
            message = f"{where}.content[{n}] is of type {str(kind)[:40]!r}; expected "
            raise ApiError(400, message + "input_text, output_text or input_image", param="input")
    return parts


def _tool(tool: Item) -> Item:
    """Return a function as a tool of a chat; a tool of another type stays as it is, and is refused
    there."""
    if tool.get("type") != "function" or "function" in tool:
        return tool
    function = {name: value for name, value in tool.items() if name != "type"}
    return {"type": "function", "function": function}


def _choice(choice: str | Item | None) -> str | Item | None:
    """Return the choice of a tool in the form of chat, in which the name is one level below."""
    return _tool(choice) if isinstance(choice, dict) else choice


def _format(options: TextOptions | None) -> Item | None:
    if options is None or options.format is None:
        return None
    kind, rest = options.format.get("type"), dict(options.format)
    rest.pop("type", None)
    return {"type": kind, "json_schema": rest} if kind == "json_schema" else {**rest, "type": kind}


class ResponsesForm:
    """Replies with a list of items: messages and calls of tools. It holds the state of one stream.

    reads_calls: whether tool calls in the text are items of their own.
    """

    prefix = "resp"

    def __init__(self, fields: ResponsesRequest, *, reads_calls: bool = False) -> None:
        self._fields = fields
        self._chat = ChatForm(reads_calls=reads_calls)
        self._created = int(time.time())
        self._items: list[Item] = []  # the complete ones
        self._open: str | None = None  # the id of the message that is being written
        self._text = ""  # of that message
        self._reason: str | None = None
        self._sent = 0

    def reply(
        self, asked: TextRequest, outputs: Sequence[Output], usage: Usage
    ) -> dict[str, object]:
        (output,) = outputs
        text, calls, self._reason = self._chat.separated(output)
        if text.strip() or not calls:
            self._items.append(_message(_new("msg"), text))
        self._items += [_call(call) for call in calls]
        return self._response(asked, usage)

    def parts(self, asked: TextRequest, output: Output, *, first: bool) -> list[bytes]:
        made: list[bytes] = []
        if first:
            response = self._response(asked, None)
            made += [self._event(f"response.{name}", response=response) for name in BEGINNING]
        text, calls, self._reason = self._chat.separated(output)
        is_last_and_empty = self._reason is not None and not (self._items or calls)
        if text or (is_last_and_empty and self._open is None):
            made += self._written(text)
        for call in calls:
            made += [*self._closed(), *self._called(_call(call))]
        return [*made, *self._closed()] if self._reason is not None else made

    def closing(self, asked: TextRequest, usage: Usage) -> list[bytes]:
        response = self._response(asked, usage)
        return [self._event(f"response.{response['status']}", response=response)]

    def _written(self, text: str) -> list[bytes]:
        """Return the events for a new part of a message, which begins if none is open."""
        made: list[bytes] = []
        if self._open is None:
            self._open, self._text = _new("msg"), ""
            item = {**_message(self._open, ""), "status": "in_progress", "content": []}
            made = [
                self._event("response.output_item.added", **self._at, item=item),
                self._event("response.content_part.added", **self._place, part=_part("")),
            ]
        self._text += text
        if text:
            delta = {**self._place, "delta": text, "logprobs": []}
            made.append(self._event("response.output_text.delta", **delta))
        return made

    def _closed(self) -> list[bytes]:
        """Return the events for the end of the message that is open, if one is."""
        if self._open is None:
            return []
        text, place = self._text, self._place
        made = [
            self._event("response.output_text.done", **place, text=text, logprobs=[]),
            self._event("response.content_part.done", **place, part=_part(text)),
        ]
        item = _message(self._open, text)
        made.append(self._event("response.output_item.done", **self._at, item=item))
        self._items.append(item)
        self._open = None
        return made

    def _called(self, item: Item) -> list[bytes]:
        """Return the events for a call, which comes as a whole."""
        place, arguments = {**self._at, "item_id": item["id"]}, item["arguments"]
        begun = {**item, "arguments": "", "status": "in_progress"}
        named = {**place, "name": item["name"], "arguments": arguments}
        made = [
            self._event("response.output_item.added", **self._at, item=begun),
            self._event("response.function_call_arguments.delta", **place, delta=arguments),
            self._event("response.function_call_arguments.done", **named),
            self._event("response.output_item.done", **self._at, item=item),
        ]
        self._items.append(item)
        return made

    @property
    def _at(self) -> Item:
        return {"output_index": len(self._items)}

    @property
    def _place(self) -> Item:
        return {**self._at, "item_id": self._open, "content_index": 0}

    def _event(self, kind: str, **values: Any) -> bytes:
        self._sent += 1
        return event({"type": kind, "sequence_number": self._sent - 1, **values}, kind)

    def _response(self, asked: TextRequest, usage: Usage | None) -> Item:
        """Return the response as it is. usage: None while it is generated."""
        fields, is_cut = self._fields, self._reason == "length"
        ended = "incomplete" if is_cut else "completed"
        config = asked.config
        return {
            "id": f"{self.prefix}_{asked.id}",
            "object": "response",
            "created_at": self._created,
            "status": "in_progress" if usage is None else ended,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": fields.instructions,
            "max_output_tokens": fields.max_output_tokens,
            "model": asked.served.name,
            "output": [*self._items],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "store": False,
            "temperature": config.temperature,
            "text": {"format": (fields.text and fields.text.format) or {"type": "text"}},
            "tool_choice": fields.tool_choice or "auto",
            "tools": fields.tools or [],
            "top_p": config.top_p,
            "truncation": "disabled",
            "usage": None if usage is None else _usage(usage),
        }


def _new(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def _part(text: str) -> Item:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(name: str, text: str) -> Item:
    done = {"id": name, "type": "message", "role": "assistant", "status": "completed"}
    return {**done, "content": [_part(text)]}


def _call(call: Mapping[str, object]) -> Item:
    """Return a call in the form of chat as an item."""
    function = call["function"]
    assert isinstance(function, dict)
    done = {"id": _new("fc"), "type": "function_call", "status": "completed"}
    return {**done, "call_id": call["id"], **function}


def _usage(usage: Usage) -> Item:
    return {
        "input_tokens": usage.prompt,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.generated,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt + usage.generated,
    }
