"""POST /v1/completions, in OpenAI's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headway.bundle import TextGenerating
from headway.serving.http.exchange import read_json
from headway.serving.http.generation_fields import (
    GenerationFields,
    check_unsupported,
    generation_config,
)
from headway.serving.http.replies import ApiError
from headway.serving.http.served import ServedModel, ServedModels
from headway.serving.http.text_sizes import SHORT, beside_others
from headway.serving.http.texts import Output, TextRequest, answer, format_rules
from headway.text import TextTokenizer

Token = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
MOST_PROMPTS = 64


class CompletionRequest(GenerationFields, kw_only=True):
    """A request for completions of one or several prompts, as texts or tokens."""

    prompt: str | list[str | Token | list[Token]]
    max_tokens: Annotated[int, msgspec.Meta(ge=0, le=2**20)] | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    echo: bool = False
    suffix: str | None = None


class CompletionForm:
    """Replies of completions."""

    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def choice(self, output: Output) -> dict[str, Any]:
        return {
            "index": output.index,
            "text": output.text,
            "logprobs": None if output.logprobs is None else output.logprobs.lists,
            "finish_reason": output.reason,
        }

    def chunks(self, output: Output, *, first: bool) -> list[dict[str, Any]]:
        return [self.choice(output)]


async def completions(request: Request) -> Response:
    """Continue prompts."""
    models: ServedModels = request.app.state.models
    fields = await read_json(request, CompletionRequest)
    check_unsupported(fields, {"suffix": (fields.suffix, ("",))})
    served, bundle = models.able(fields.model, TextGenerating, "continue texts")
    size = len(await request.body())
    prompts = await beside_others(size, read_prompts, fields.prompt, served)
    max_tokens = 16 if fields.max_tokens is None else fields.max_tokens
    if max_tokens == 0 and not fields.echo:
        raise ApiError(400, "max_tokens must be at least 1, except with echo", param="max_tokens")
    if fields.echo and fields.stream and fields.logprobs is not None:
        raise ApiError(400, "echo with logprobs cannot be streamed", param="stream")
    asked = TextRequest(
        served=served,
        bundle=bundle,
        prompts=prompts,
        config=generation_config(bundle, fields, max(1, max_tokens), fields.logprobs or 0),
        fields=fields,
        form=CompletionForm(),
        echoes=await beside_others(size, _texts, fields.prompt, prompts, bundle.tokenizer)
        if fields.echo
        else (),
        logprobs=fields.logprobs,
        scores_prompts=fields.echo and fields.logprobs is not None,
        dropped=max_tokens == 0,
        rules=await format_rules(served, fields),
    )
    return await answer(request, asked, models.seconds)


def read_prompts(prompt: str | list[Any], served: ServedModel) -> list[list[int]]:
    """Return the tokens of each prompt: a text, a list of texts, tokens, or lists of tokens.

    Raises ApiError 400 for an empty list, for mixed forms, for a token that does not exist, and for
    a text that is too long, before any is tokenized.
    """
    given = [prompt] if isinstance(prompt, str) else prompt
    if given and isinstance(given[0], int):
        given = [given]
    if not 1 <= len(given) <= MOST_PROMPTS:
        raise ApiError(400, f"prompt must have 1 to {MOST_PROMPTS} prompts", param="prompt")
    for n, item in enumerate(given):
        if isinstance(item, str) and len(item) > SHORT:
            served.check_prompt(len(item), f"prompt[{n}]", "prompt")
    bundle: Any = served.bundle
    return [_tokens(item, f"prompt[{n}]", bundle.tokenizer) for n, item in enumerate(given)]


def _tokens(item: Any, name: str, tokenizer: TextTokenizer) -> list[int]:
    if isinstance(item, str):
        return tokenizer.begin(item)
    if not isinstance(item, list) or not all(isinstance(token, int) for token in item):
        raise ApiError(400, f"{name}: texts and tokens cannot be mixed", param="prompt")
    if not item:
        raise ApiError(400, f"{name} must have at least one token", param="prompt")
    if max(item) >= tokenizer.size:
        message = f"{name}: token {max(item)} is outside the vocabulary of {tokenizer.size:,}"
        raise ApiError(400, message, param="prompt")
    return list(item)


def _texts(
    prompt: str | list[Any], prompts: Sequence[Sequence[int]], tokenizer: TextTokenizer
) -> list[str]:
    """Return the text of each prompt."""
    if isinstance(prompt, str):
        return [prompt]
    texts = [item for item in prompt if isinstance(item, str)]
    if texts:  # `read_prompts` refuses texts and tokens together
        return texts
    return [tokenizer.decode(tokens) for tokens in prompts]
