"""Requests for text, of completions and of chat: jobs in, outputs and events out."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.bundle import TextGenerating
from headway.decoding import Continuation, GenerationConfig, Reason, Rule, Search, search_by_beam
from headway.serving.engine import (
    Computation,
    Event,
    Finished,
    Generation,
    Grown,
    Job,
    PromptScores,
)
from headway.serving.http.exchange import Exchange
from headway.serving.http.formats import requested_format
from headway.serving.http.generation_fields import GenerationFields, token_rules
from headway.serving.http.replies import DONE, ApiError, EventStream, event, json_reply
from headway.serving.http.served import ServedModel
from headway.serving.http.token_texts import LogProbs, TokenTexts
from headway.serving.http.tool_calls import BEGIN, END

REASONS: dict[Reason, str] = {
    "end": "stop",
    "stop": "stop",
    "length": "length",
    "context": "length",
}


@dataclass(frozen=True)
class Usage:
    """The numbers of tokens of all prompts, of those that were cached, and of all outputs."""

    prompt: int
    cached: int
    generated: int

    @property
    def fields(self) -> dict[str, object]:
        """The numbers, as completions and chat name them."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.generated,
            "total_tokens": self.prompt + self.generated,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


@dataclass(kw_only=True)
class Output:
    """One output, or the new part of one. reason: why it ended; None while it is generated."""

    index: int
    text: str
    logprobs: LogProbs | None
    reason: str | None


class Form(Protocol):
    """The form of the replies to a request. prefix: what their ids begin with."""

    prefix: str

    def reply(
        self, asked: TextRequest, outputs: Sequence[Output], usage: Usage
    ) -> dict[str, object]:
        """Return the whole reply."""
        ...

    def parts(self, asked: TextRequest, output: Output, *, first: bool) -> list[bytes]:
        """Return the new part of an output as events. first: whether it is the first part."""
        ...

    def closing(self, asked: TextRequest, usage: Usage) -> list[bytes]:
        """Return the last events of a stream."""
        ...


class ChoicesForm(ABC):
    """Replies with a list of choices, one for each output. kind, chunk_kind: "object" of a reply,
    and of an event."""

    prefix: str
    kind: str
    chunk_kind: str

    @abstractmethod
    def choice(self, output: Output) -> dict[str, object]:
        """Return a whole output as a choice."""

    @abstractmethod
    def chunks(self, output: Output, *, first: bool) -> list[dict[str, object]]:
        """Return the new part of an output as streaming chunks. first: whether nothing was sent
        before."""

    def reply(
        self, asked: TextRequest, outputs: Sequence[Output], usage: Usage
    ) -> dict[str, object]:
        choices = [self.choice(output) for output in outputs]
        return {**self._head(asked, self.kind), "choices": choices, "usage": usage.fields}

    def parts(self, asked: TextRequest, output: Output, *, first: bool) -> list[bytes]:
        head = self._head(asked, self.chunk_kind)
        return [event({**head, "choices": [one]}) for one in self.chunks(output, first=first)]

    def closing(self, asked: TextRequest, usage: Usage) -> list[bytes]:
        options = asked.fields.stream_options
        if options is None or not options.include_usage:
            return [DONE]
        head = self._head(asked, self.chunk_kind)
        return [event({**head, "choices": [], "usage": usage.fields}), DONE]

    def _head(self, asked: TextRequest, kind: str) -> dict[str, object]:
        return {
            "id": asked.name,
            "object": kind,
            "created": int(time.time()),
            "model": asked.served.name,
        }


@dataclass(kw_only=True)
class TextRequest:
    """A checked request. prompts: tokens of each prompt. echoes: the texts that outputs begin with,
    one for each prompt. logprobs: number of alternatives of each token; None for no logprobs.
    scores_prompts: whether tokens of the prompt have logprobs, too. dropped: whether the only
    generated token is dropped, since only the prompt is of interest. images: those of the only
    prompt, for a model that reads images."""

    served: ServedModel
    bundle: TextGenerating
    prompts: Sequence[Sequence[int]]
    config: GenerationConfig
    fields: GenerationFields
    form: Form
    echoes: Sequence[str] = ()
    logprobs: int | None = None
    scores_prompts: bool = False
    dropped: bool = False
    rules: Sequence[Rule] = ()
    images: Tensor | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def name(self) -> str:
        return f"{self.form.prefix}-{self.id}"


async def answer(request: Request, asked: TextRequest, seconds: float) -> Response:
    """Answer a request for text, in one reply or as a stream of events."""
    check_lengths(asked)
    exchange = Exchange(request, seconds)
    await exchange.open()
    try:
        for number in range(len(asked.prompts)):
            exchange.submit(asked.served.engine, partial(_job, asked, number, exchange.deadline))
        if not asked.fields.stream:
            reply = _reply(asked, await exchange.results())
            await exchange.close()
            return json_reply(reply)
        events = exchange.events()
        first = await anext(events)  # its errors still have a status
    except BaseException:
        await exchange.close()
        raise
    return EventStream(_stream(asked, first, events), exchange.close)


async def request_rules(
    served: ServedModel, fields: GenerationFields, functions: Mapping[str, object] | None = None
) -> list[Rule]:
    """Return the rules that a request asks for, made outside of the engine. That of a form of
    outputs is made outside of the event loop, too.

    functions: those of which the output must call one, with the schemas of their arguments.
    Raises ApiError 400 for fields that are invalid or cannot be enforced, or exclude each other.
    """
    rules = token_rules(fields, served.language_model.tokenizer)
    wanted = requested_format(fields)
    field = "tool_choice" if functions else wanted.field if wanted is not None else None
    if field is None:
        return rules
    if functions and wanted is not None:
        raise ApiError(400, f"tool_choice excludes {wanted.field}", param=wanted.field)
    for name in ("use_beam_search", "ignore_eos"):
        if getattr(fields, name):
            raise ApiError(400, f"{field} excludes {name}", param=name)

    def compiled() -> Rule:
        if wanted is not None:
            return wanted.rule(served.grammar)
        return served.grammar.of_call(functions or {}, f"{BEGIN}\n", f"\n{END}")

    try:
        return [*rules, await run_in_threadpool(compiled)]
    except UsageError as error:
        raise ApiError(400, error.what, param=field) from error


def check_lengths(asked: TextRequest) -> None:
    """Raise ApiError 400 for prompts and numbers of outputs beyond the limits of the model."""
    slots = asked.served.engine.settings.slots
    if asked.config.samples > slots and asked.config.beam == 1:
        raise ApiError(400, f"n must be at most {slots} on this server", param="n")
    context = asked.served.context
    for prompt in asked.prompts:
        if len(prompt) > context:
            raise ApiError(
                400,
                f"the prompt has {len(prompt):,} tokens; the maximum is {context:,}",
                param="prompt",
                code="context_length_exceeded",
            )


def _job(asked: TextRequest, number: int, deadline: float, report: Callable[[Event], None]) -> Job:
    """Return the job of one prompt."""
    prompt, config = asked.prompts[number], asked.config
    cost = len(prompt) + config.max_tokens * max(config.samples, config.beam)
    common: dict[str, Any] = {"report": report, "deadline": deadline, "cost": cost}
    if config.beam > 1:
        if asked.scores_prompts:
            raise ApiError(400, "beam search takes no echo with logprobs", param="echo")
        model: Any = asked.served.bundle.model

        def search(prompts: list[Any]) -> Search[list[Any]]:
            return search_by_beam(model, asked.bundle.tokenizer, prompts, config)

        return Computation(group=repr(config), inputs=[prompt], compute=search, **common)
    return Generation(
        prompt=prompt,
        config=config,
        scored=(asked.logprobs or 0) if asked.scores_prompts else None,
        caches=asked.fields.cache_prompt is not False,
        salt=asked.fields.cache_salt or "",
        rules=asked.rules,
        stop_tokens=frozenset(asked.fields.stop_token_ids or ()),
        ignores_eos=bool(asked.fields.ignore_eos),
        keeps_stop=bool(asked.fields.include_stop_str_in_output),
        images=asked.images,
        shown=bool(asked.fields.stream),
        **common,
    )


def _reply(asked: TextRequest, results: Sequence[Finished]) -> dict[str, object]:
    """Return the whole reply."""
    outputs = []
    for number, finished in enumerate(results):
        # beam search returns the outputs of each of its inputs, of which there is one
        found = finished.result[0] if asked.config.beam > 1 else finished.result
        for k, output in enumerate(found):
            index = number * asked.config.samples + k
            outputs.append(_whole(asked, number, index, output, finished.prompt))
    generated = sum(_generated(asked, finished) for finished in results)
    cached = sum(finished.cached for finished in results)
    return asked.form.reply(asked, outputs, _usage(asked, generated, cached))


def _generated(asked: TextRequest, finished: Finished) -> int:
    outputs = finished.result[0] if asked.config.beam > 1 else finished.result
    return 0 if asked.dropped else sum(len(output.tokens) for output in outputs)


def _whole(
    asked: TextRequest, number: int, index: int, output: Continuation, scores: PromptScores
) -> Output:
    """Return one output of a prompt, with the prompt before it if it is echoed."""
    echo = asked.echoes[number] if asked.echoes else ""
    logprobs, prompt = None, asked.prompts[number]
    if asked.logprobs is not None:
        before = () if asked.scores_prompts else prompt
        offset = 0 if asked.scores_prompts else len(echo)
        texts = TokenTexts(asked.bundle.tokenizer, before)
        logprobs = LogProbs(texts, asked.logprobs, offset)
        if asked.scores_prompts:
            logprobs.add(prompt[0], None, ())
            scored = zip(prompt[1:], scores.log_probabilities, scores.alternatives, strict=True)
            for token, log_p, alternatives in scored:
                logprobs.add(token, log_p, alternatives)
        if not asked.dropped:
            _add_tokens(logprobs, output)
    text = echo if asked.dropped else echo + output.text
    return Output(index=index, text=text, logprobs=logprobs, reason=REASONS[output.reason])


def _add_tokens(logprobs: LogProbs, output: Continuation | Grown) -> None:
    alternatives = output.alternatives or ((),) * len(output.tokens)
    scored = zip(output.tokens, output.log_probabilities, alternatives, strict=True)
    for token, log_p, best in scored:
        logprobs.add(token, log_p, best)


async def _stream(
    asked: TextRequest, first: tuple[int, Event], rest: AsyncIterator[tuple[int, Event]]
) -> AsyncIterator[bytes]:
    """Yield the events of a stream."""
    logprobs: dict[int, LogProbs] = {}
    seen: set[int] = set()
    generated = cached = 0

    def grown(number: int, news: Grown) -> list[bytes]:
        index = number * asked.config.samples + news.index
        echo = asked.echoes[number] if asked.echoes and index not in seen else ""
        if asked.logprobs is not None and index not in logprobs:
            texts = TokenTexts(asked.bundle.tokenizer, asked.prompts[number])
            logprobs[index] = LogProbs(texts, asked.logprobs, len(echo))
        if index in logprobs:
            logprobs[index].clear()
            _add_tokens(logprobs[index], news)
        reason = None if news.reason is None else REASONS[news.reason]
        text = echo + news.text
        output = Output(index=index, text=text, logprobs=logprobs.get(index), reason=reason)
        return asked.form.parts(asked, output, first=index not in seen)

    def parts(number: int, news: Event) -> list[bytes]:
        nonlocal generated, cached
        if isinstance(news, Grown):
            made = grown(number, news)
            seen.add(number * asked.config.samples + news.index)
            generated += len(news.tokens)
            return made
        cached += news.cached if isinstance(news, Finished) else 0
        return []

    for part in parts(*first):
        yield part
    async for number, news in rest:
        for part in parts(number, news):
            yield part
    for part in asked.form.closing(asked, _usage(asked, generated, cached)):
        yield part


def _usage(asked: TextRequest, generated: int, cached: int) -> Usage:
    return Usage(sum(map(len, asked.prompts)), cached, generated)
