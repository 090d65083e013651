"""The messages of a chat request, and the other values that its chat template gets."""

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from headway.data.dialogues import IMAGE, Turn
from headway.interop import ChatTemplate
from headway.interop.chat_prompts import Conversation
from headway.serving.grammar import ANY_OBJECT
from headway.serving.http.generation_fields import GenerationFields
from headway.serving.http.replies import ApiError
from headway.serving.http.tool_calls import has_known_calls

MOST_MESSAGES, MOST_TOOLS, MOST_IMAGES = 1024, 128, 64
IMAGE_PART = "image_url"
INSTEAD_OF_CONTENT = ("tool_calls", "function_call", "refusal")
"""Fields of a message of the assistant that has no content."""
RESERVED = ("messages", "tools", "documents", "add_generation_prompt", "continue_final_message")
"""Variables of a template that are fields of the request, not of chat_template_kwargs."""


class TextPart(msgspec.Struct, tag_field="type", tag="text"):
    """A part of a message."""

    text: str


class ImageURL(msgspec.Struct):
    """An image as a data: URL. detail: the resolution, which the model decides."""

    url: str
    detail: Literal["auto", "low", "high"] | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag=IMAGE_PART):
    """A part of a message of the user, for a model that reads images."""

    image_url: ImageURL


class Function(msgspec.Struct, kw_only=True):
    """What a tool does. strict: whether calls are bound to the schema `parameters`, as those are
    that `tool_choice` demands."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, object] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, kw_only=True):
    """A tool that the model may call. It may have further fields, which the template gets."""

    type: Literal["function"]
    function: Function


class NamedFunction(msgspec.Struct):
    """The name of a function."""

    name: str


class NamedTool(msgspec.Struct, kw_only=True):
    """The choice of a tool that must be called."""

    type: Literal["function"]
    function: NamedFunction


class Message(msgspec.Struct, kw_only=True):
    """A turn of a conversation. It may have further fields, which the template gets as they are."""

    role: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[dict[str, object]] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str | None:
        """The text of the content; None without content."""
        if self.content is None or isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


Messages = Annotated[list[dict[str, object]], msgspec.Meta(min_length=1, max_length=MOST_MESSAGES)]
Tools = Annotated[list[dict[str, object]], msgspec.Meta(max_length=MOST_TOOLS)]


class ConversationFields(GenerationFields, kw_only=True):
    """The fields of a request, with those from which its chat template makes the prompt."""

    messages: Messages
    tools: Tools | None = None
    tool_choice: str | dict[str, object] | None = None
    parallel_tool_calls: bool | None = None
    documents: list[dict[str, object]] | None = None
    chat_template_kwargs: dict[str, object] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None


def conversation_of(
    fields: ConversationFields, template: ChatTemplate, *, reads_images: bool = False
) -> Conversation:
    """Return the conversation of a request. ApiError 400 names an invalid field, and one that the
    template does not use. reads_images: whether messages of the user may have images, which stay in
    their content (`turn_of`)."""
    tools = tools_of(fields)
    source = template.selected(None, has_tools=tools is not None)
    if tools is not None and not _uses(source, "tools"):
        message = "the chat template of this model does not use tools; describe them in a message"
        raise ApiError(400, message, param="tools")
    variables = fields.chat_template_kwargs or {}
    for name in variables:
        if name in RESERVED or name.endswith("_token") or not _uses(source, name):
            why = "is no variable of the chat template of this model"
            raise ApiError(
                400, f"chat_template_kwargs: {name[:64]!r} {why}", param="chat_template_kwargs"
            )
    if fields.documents and not _uses(source, "documents"):
        message = "the chat template of this model does not use documents"
        raise ApiError(400, message, param="documents")
    continues = bool(fields.continue_final_message)
    if continues and fields.add_generation_prompt:
        message = "continue_final_message and add_generation_prompt exclude each other"
        raise ApiError(400, message, param="continue_final_message")
    begins = fields.add_generation_prompt
    return Conversation(
        messages=[_checked(n, message, reads_images) for n, message in enumerate(fields.messages)],
        tools=tools,
        documents=fields.documents or None,
        variables=variables,
        add_generation_prompt=not continues if begins is None else begins,
        continued_field="content" if continues else None,
    )


def tools_of(fields: ConversationFields) -> list[dict[str, object]] | None:
    """Return the tools that the template gets; None for none. ApiError 400 for one that is not
    valid, and for a field that asks for more than the server does."""
    tools, choice = fields.tools or [], fields.tool_choice
    is_free = choice in (None, "none", "auto")
    if not tools and not is_free:
        raise ApiError(400, "tool_choice must be auto or none without tools", param="tool_choice")
    if tools and is_free and fields.parallel_tool_calls is False:
        message = "parallel_tool_calls: the model decides by itself how many tools it calls"
        raise ApiError(400, message, param="parallel_tool_calls")
    for number, values in enumerate(tools):
        try:
            tool = msgspec.convert(values, Tool)
        except msgspec.ValidationError as error:
            raise ApiError(400, f"tools[{number}]: {error}", param="tools") from None
        if tool.function.strict and is_free:
            why = "calls are bound to the schema of a tool only if tool_choice demands a call"
            raise ApiError(400, f"tools[{number}].function.strict: {why}", param="tools")
    return None if choice == "none" or not tools else tools


def demanded_functions(fields: ConversationFields, template: str) -> dict[str, object]:
    """Return the functions of which the output must call one: name -> schema of the arguments.

    They are empty if the model decides. template: the text of the chat template, which must ask for
    calls in the known form. ApiError 400 otherwise, or for a name that is not among the tools.
    """
    choice = fields.tool_choice
    if choice in (None, "none", "auto"):
        return {}
    tools = [msgspec.convert(tool, Tool).function for tool in fields.tools or ()]
    functions: dict[str, object] = {one.name: one.parameters or ANY_OBJECT for one in tools}
    if not has_known_calls(template):
        why = "the server does not know the form of calls that the chat template asks for"
        raise ApiError(400, f"tool_choice must be auto or none: {why}", param="tool_choice")
    if choice == "required":
        return functions
    try:
        name = msgspec.convert(choice, NamedTool).function.name
    except msgspec.ValidationError:
        name = ""
    if name not in functions:
        message = "tool_choice must be none, auto, required, or name a function of tools"
        raise ApiError(400, message, param="tool_choice")
    return {name: functions[name]}


def _uses(source: str, name: str) -> bool:
    """Return whether the text of a template has the name."""
    return re.search(rf"\b{re.escape(name)}\b", source) is not None


def _checked(
    number: int, values: Mapping[str, object], reads_images: bool = False
) -> dict[str, object]:
    """Return a message for the template: its content as one text, its tool calls as objects. With
    images, its content stays a list of parts."""
    where = f"messages[{number}]"
    content = values.get("content")
    parts = content if isinstance(content, list) else []
    kinds = [part.get("type") if isinstance(part, dict) else None for part in parts]
    has_images = IMAGE_PART in kinds
    if has_images and reads_images and values.get("role") == "user":
        return {**values, "content": parts}
    for n, kind in enumerate(kinds):
        if kind is not None and kind != "text":
            reason = (
                f"is of type {str(kind)[:40]!r}, but this model reads only parts of type 'text'"
            )
            if reads_images and kind == IMAGE_PART:
                reason = "is an image, but only messages of the role 'user' may have images"
            raise ApiError(400, f"{where}.content[{n}] {reason}", param="messages")
    try:
        message = msgspec.convert(values, Message)
    except msgspec.ValidationError as error:
        raise ApiError(400, f"{where}: {error}", param="messages") from None
    if values.get("audio") is not None:
        raise ApiError(400, f"{where}: audio is not available on this server", param="messages")
    may_be_empty = message.role == "assistant" and any(map(values.get, INSTEAD_OF_CONTENT))
    if message.text is None and not may_be_empty:
        expected = "a text, except beside tool_calls of the assistant"
        raise ApiError(400, f"{where}.content must be {expected}", param="messages")
    checked = {**values, "content": message.text}
    if message.tool_calls is not None:
        checked["tool_calls"] = _with_objects(message.tool_calls)
    return checked


def turns_of(messages: Sequence[Mapping[str, object]]) -> list[Turn]:
    """Return checked messages as turns, with the bytes of their images.

    ApiError 400 names a part that is no text and no image as a data: URL; nothing is downloaded.
    """
    turns = []
    for number, message in enumerate(messages):
        content = message["content"]
        images: list[bytes] = []
        if isinstance(content, list):
            texts = []
            for n, part in enumerate(content):
                found = _part(part, f"messages[{number}].content[{n}]")
                images += [found] if isinstance(found, bytes) else []
                texts.append(IMAGE if isinstance(found, bytes) else found.replace(IMAGE, " "))
            content = "".join(texts)
        turns.append(Turn(str(message["role"]), str(content or ""), images=tuple(images)))
    if sum(len(turn.images) for turn in turns) > MOST_IMAGES:
        raise ApiError(400, f"messages have more than {MOST_IMAGES} images", param="messages")
    return turns


def _part(part: object, where: str) -> str | bytes:
    """Return the text of a part, or the bytes of its image."""
    try:
        checked = msgspec.convert(part, TextPart | ImagePart)
    except msgspec.ValidationError as error:
        raise ApiError(400, f"{where}: {error}", param="messages") from None
    if isinstance(checked, TextPart):
        return checked.text
    url = checked.image_url.url
    head, _, coded = url.partition(";base64,")
    if not head.lower().startswith("data:"):
        raise ApiError(
            400,
            f"{where}.image_url.url must be a data: URL with the image in base64, not "
            f"{head[:40]!r}: this server downloads nothing",
            param="messages",
        )
    try:
        return base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        message = f"{where}.image_url.url must have the image in base64, after ';base64,'"
        raise ApiError(400, message, param="messages") from None


def _with_objects(calls: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return tool calls with their arguments as objects, as templates read them; clients send the
    text that a model wrote, which stays as it is if it is no JSON object."""
    made = []
    for call in calls:
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            try:
                arguments = json.loads(function["arguments"] or "{}")
            except (ValueError, RecursionError):
                arguments = None
            if isinstance(arguments, dict):
                call = {**call, "function": {**function, "arguments": arguments}}
        made.append(dict(call))
    return made
