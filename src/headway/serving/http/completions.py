"""POST /v1/completions, in OpenAI's form."""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headway.bundle import TextGenerating
from headway.serving.http.exchange import read_json
from headway.serving.http.generation_fields import (
    GenerationFields,
    Token,
    check_fields,
    generation_config,
    max_tokens_of,
    truncated,
)
from headway.serving.http.known_fields import COMPLETIONS, KnownFields
from headway.serving.http.replies import ApiError
from headway.serving.http.served import ServedModel, ServedModels
from headway.serving.http.text_sizes import SHORT, beside_others
from headway.serving.http.texts import ChoicesForm, Output, TextRequest, answer, request_rules
from headway.text import TextTokenizer

MOST_PROMPTS = 64


class CompletionRequest(GenerationFields, kw_only=True):
    """A request for completions of one or several prompts, as texts or tokens."""

    known: ClassVar[KnownFields] = COMPLETIONS

    prompt: str | list[str | Token | list[Token]]
    max_tokens: Annotated[int, msgspec.Meta(ge=-1, le=2**20)] | None = None
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    echo: bool | None = None
    add_special_tokens: bool | None = None


class CompletionForm(ChoicesForm):
    """Replies of completions."""

    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def choice(self, output: Output) -> dict[str, object]:
        return {
            "index": output.index,
            "text": output.text,
            "logprobs": None if output.logprobs is None else output.logprobs.lists,
            "finish_reason": output.reason,
        }

    def chunks(self, output: Output, *, first: bool) -> list[dict[str, object]]:
        return [self.choice(output)]


async def completions(request: Request) -> Response:
    """Continue prompts."""
    models: ServedModels = request.app.state.models
    fields = await read_json(request, CompletionRequest)
    check_fields(fields)
    served, bundle = models.able(fields.model, TextGenerating, "continue texts")
    size = len(await request.body())
    prompts = await beside_others(size, read_prompts, fields, served)
    wanted = 16 if fields.max_tokens is None else fields.max_tokens
    only_echo = wanted == 0 and bool(fields.echo)
    max_tokens = max_tokens_of("max_tokens", wanted or int(only_echo), prompts, served)
    if fields.echo and fields.stream and fields.logprobs is not None:
        raise ApiError(400, "echo with logprobs cannot be streamed", param="stream")
    asked = TextRequest(
        served=served,
        bundle=bundle,
        prompts=prompts,
        config=generation_config(bundle, fields, max_tokens, fields.logprobs or 0),
        fields=fields,
        form=CompletionForm(),
        echoes=await beside_others(size, _texts, fields, prompts, bundle.tokenizer)
        if fields.echo
        else (),
        logprobs=fields.logprobs,
        scores_prompts=bool(fields.echo) and fields.logprobs is not None,
        dropped=only_echo,
        rules=await request_rules(served, fields),
    )
    return await answer(request, asked, models.seconds)


def read_prompts(fields: CompletionRequest, served: ServedModel) -> list[list[int]]:
    """Return the tokens of each prompt: a text, a list of texts, tokens, or lists of tokens.

    With `truncate_prompt_tokens` they are its last tokens.
    Raises ApiError 400 for an empty list, for mixed forms, for a token that does not exist, and for
    a text that is too long, before any is tokenized.
    """
    given: Sequence[object] = [fields.prompt] if isinstance(fields.prompt, str) else fields.prompt
    if given and isinstance(given[0], int):
        given = [given]
    if not 1 <= len(given) <= MOST_PROMPTS:
        raise ApiError(400, f"prompt must have 1 to {MOST_PROMPTS} prompts", param="prompt")
    for n, item in enumerate(given):
        if isinstance(item, str) and len(item) > SHORT:
            served.check_prompt(len(item), f"prompt[{n}]", "prompt")
    tokenizer = served.language_model.tokenizer
    read = tokenizer.encode if fields.add_special_tokens is False else tokenizer.begin
    prompts = [_tokens(item, f"prompt[{n}]", tokenizer, read) for n, item in enumerate(given)]
    return [truncated(prompt, fields, served) for prompt in prompts]


def _tokens(
    item: object, name: str, tokenizer: TextTokenizer, read: Callable[[str], list[int]]
) -> list[int]:
    if isinstance(item, str):
        if tokens := read(item):
            return tokens
        raise ApiError(400, f"{name} has no tokens without special tokens", param="prompt")
    if not isinstance(item, list) or not all(isinstance(token, int) for token in item):
        raise ApiError(400, f"{name}: texts and tokens cannot be mixed", param="prompt")
    if not item:
        raise ApiError(400, f"{name} must have at least one token", param="prompt")
    if max(item) >= tokenizer.size:
        message = f"{name}: token {max(item)} is outside the vocabulary of {tokenizer.size:,}"
        raise ApiError(400, message, param="prompt")
    return list(item)


def _texts(
    fields: CompletionRequest, prompts: Sequence[Sequence[int]], tokenizer: TextTokenizer
) -> list[str]:
    """Return the text of each prompt."""
    if fields.truncate_prompt_tokens is not None:
        return [tokenizer.decode(tokens) for tokens in prompts]
    given = [fields.prompt] if isinstance(fields.prompt, str) else fields.prompt
    texts = [item for item in given if isinstance(item, str)]
    if texts:  # `read_prompts` refuses texts and tokens together
        return texts
    return [tokenizer.decode(tokens) for tokens in prompts]
