"""POST /v1/chat/completions, in OpenAI's form, for models with a chat template."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headway.base.errors import HeadwayError
from headway.base.shapes import Tensor
from headway.bundle import ImageReading, TextGenerating
from headway.interop.control_tokens import strings_in
from headway.serving.http.chat_templates import Templates
from headway.serving.http.conversations import (
    ConversationFields,
    conversation_of,
    demanded_functions,
    turns_of,
)
from headway.serving.http.exchange import read_json
from headway.serving.http.generation_fields import (
    check_fields,
    generation_config,
    max_tokens_of,
    truncated,
)
from headway.serving.http.known_fields import CHAT, KnownFields
from headway.serving.http.replies import ApiError
from headway.serving.http.served import ServedModel, ServedModels
from headway.serving.http.text_sizes import SHORT
from headway.serving.http.texts import ChoicesForm, Form, Output, TextRequest, answer, request_rules
from headway.serving.http.tool_calls import CallReader, has_known_calls

ONLY_TEXTS = ("continue_final_message", "use_beam_search", "truncate_prompt_tokens")
"""Fields of a request that must be unset if the conversation has images."""


class ChatRequest(ConversationFields, kw_only=True):
    """A request for the next turn of a conversation."""

    known: ClassVar[KnownFields] = CHAT

    max_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**20)] | None = None
    max_completion_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**20)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None


class ChatForm(ChoicesForm):
    """Replies of chat. reads_calls: whether tool calls in the text are a field of their own."""

    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, *, reads_calls: bool = False) -> None:
        self._reads_calls = reads_calls
        self._readers: dict[int, CallReader] = {}

    def choice(self, output: Output) -> dict[str, object]:
        text, calls, reason = self.separated(output)
        message: dict[str, object] = {"role": "assistant", "content": text}
        if calls:
            message |= {"content": text if text.strip() else None, "tool_calls": calls}
        return {
            "index": output.index,
            "message": message,
            "logprobs": _content(output),
            "finish_reason": reason,
        }

    def chunks(self, output: Output, *, first: bool) -> list[dict[str, object]]:
        def chunk(
            delta: dict[str, object], logprobs: object, reason: str | None
        ) -> dict[str, object]:
            common = {"index": output.index, "delta": delta}
            return {**common, "logprobs": logprobs, "finish_reason": reason}

        made = [chunk({"role": "assistant", "content": ""}, None, None)] if first else []
        text, calls, reason = self.separated(output)
        delta: dict[str, object] = {"content": text} if text else {}
        if calls:
            begun = len(self._readers[output.index].calls) - len(calls)
            delta["tool_calls"] = [{"index": begun + n, **call} for n, call in enumerate(calls)]
        return [*made, chunk(delta, _content(output), reason)]

    def separated(self, output: Output) -> tuple[str, list[dict[str, object]], str | None]:
        """Return the text of an output, its tool calls, and why it ended."""
        if not self._reads_calls:
            return output.text, [], output.reason
        reader = self._readers.setdefault(output.index, CallReader())
        text, calls = reader.feed(output.text, ends=output.reason is not None)
        ends_with_calls = output.reason == "stop" and reader.calls
        return text, calls, "tool_calls" if ends_with_calls else output.reason


def _content(output: Output) -> dict[str, object] | None:
    """Return the log-probabilities of an output in the form of chat."""
    if output.logprobs is None:
        return None
    lists = output.logprobs

    def item(token: str, log_p: float) -> dict[str, object]:
        coded = None if token.startswith("token_id:") else list(token.encode())
        return {"token": token, "logprob": log_p, "bytes": coded}

    content = []
    for token, log_p, top in zip(
        lists.tokens, lists.token_logprobs, lists.top_logprobs, strict=True
    ):
        best = sorted((top or {}).items(), key=lambda pair: -pair[1])[: lists.count]
        content.append({**item(token, log_p or 0.0), "top_logprobs": [item(*p) for p in best]})
    return {"content": content}


async def chat_completions(request: Request) -> Response:
    """Return the next turn of a conversation."""
    models: ServedModels = request.app.state.models
    fields = await read_json(request, ChatRequest)
    asked = await asked_turn(request, fields, lambda reads: ChatForm(reads_calls=reads))
    return await answer(request, asked, models.seconds)


async def asked_turn(
    request: Request, fields: ChatRequest, form: Callable[[bool], Form]
) -> TextRequest:
    """Return the checked request for the next turn of a conversation.

    form: the form of the replies; its argument is whether tool calls in the text are fields of
    their own.
    """
    models: ServedModels = request.app.state.models
    check_fields(fields)
    served, bundle = models.able(fields.model, TextGenerating, "chat")
    if served.template is None:
        raise ApiError(
            400, f"{served.name} has no chat template; use POST /v1/completions", param="messages"
        )
    if fields.top_logprobs and not fields.logprobs:
        raise ApiError(400, "top_logprobs needs logprobs", param="top_logprobs")
    templates: Templates = request.app.state.templates
    reads_images = isinstance(bundle, ImageReading)
    conversation = conversation_of(fields, served.template, reads_images=reads_images)
    given = [
        conversation.messages,
        conversation.tools,
        conversation.documents,
        conversation.variables,
    ]
    characters = sum(map(len, strings_in(given)))
    if characters > SHORT:
        await run_in_threadpool(served.check_prompt, characters, "the conversation", "messages")
    images: Tensor | None = None
    if any(isinstance(message["content"], list) for message in conversation.messages):
        prompt, images = await _with_images(fields, conversation.messages, bundle)
    else:
        prompt = await templates.tokens(served.template, conversation, bundle.tokenizer)
        prompt = truncated(prompt, fields, served)
    source = served.template.selected(None, has_tools=True)
    reads_calls = conversation.tools is not None and has_known_calls(source)
    demanded = demanded_functions(fields, source)
    wanted = _max_tokens(fields, prompt, served)
    return TextRequest(
        served=served,
        bundle=bundle,
        prompts=[prompt],
        config=generation_config(bundle, fields, wanted, fields.top_logprobs or 0),
        fields=fields,
        form=form(reads_calls),
        logprobs=(fields.top_logprobs or 0) if fields.logprobs else None,
        rules=await request_rules(served, fields, demanded),
        images=images,
    )


async def _with_images(
    fields: ChatRequest, messages: Sequence[Mapping[str, object]], bundle: ImageReading
) -> tuple[list[int], Tensor]:
    """Return the tokens of a conversation with images, and the images.

    ApiError 400 for an image that cannot be read, and for a field that images exclude.
    """
    for name in ONLY_TEXTS:
        if getattr(fields, name) not in (None, False):
            raise ApiError(400, f"{name} is available only without images", param=name)
    turns = turns_of(messages)

    def made() -> tuple[list[int], Tensor]:
        return bundle.prompt(turns), bundle.pixels([i for turn in turns for i in turn.images])

    try:
        return await run_in_threadpool(made)
    except HeadwayError as error:
        message = f"{error.where}: {error.what}" if error.where else error.what
        raise ApiError(400, message, param="messages") from error


def _max_tokens(fields: ChatRequest, prompt: list[int], served: ServedModel) -> int:
    """Return the maximum number of tokens of an output; if unset, what the context has room for."""
    for name in ("max_completion_tokens", "max_tokens"):
        if (value := getattr(fields, name)) is not None:
            return max_tokens_of(name, value, [prompt], served)
    return max_tokens_of("max_tokens", -1, [prompt], served)
