"""Tokens over HTTP: POST /tokenize and /detokenize, GET /tokenizer_info."""

from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response

from headway.bundle import TextGenerating
from headway.serving.http.exchange import read_json
from headway.serving.http.generation_fields import Token
from headway.serving.http.known_fields import DETOKENIZE, TOKENIZE, KnownFields, RequestBody
from headway.serving.http.replies import ApiError, json_reply
from headway.serving.http.served import ServedModels
from headway.serving.http.text_sizes import LONGEST_TEXTS, beside_others
from headway.text import TextTokenizer

MOST_TOKENS = 2**18
"""Of /detokenize."""


class TokenizeRequest(RequestBody, kw_only=True):
    """add_special_tokens: whether the tokens are those of a prompt (usually with <s>)."""

    known: ClassVar[KnownFields] = TOKENIZE

    prompt: str
    model: str | None = None
    add_special_tokens: bool = True
    return_token_strs: bool = False


class DetokenizeRequest(RequestBody, kw_only=True):
    """tokens: of a text."""

    known: ClassVar[KnownFields] = DETOKENIZE

    tokens: list[Token]
    model: str | None = None


def _tokenizer(request: Request, name: str | None) -> tuple[TextGenerating, TextTokenizer]:
    models: ServedModels = request.app.state.models
    _, bundle = models.able(name, TextGenerating, "tokenize")
    return bundle, bundle.tokenizer


async def tokenize(request: Request) -> Response:
    """Return the tokens of a text."""
    fields = await read_json(request, TokenizeRequest)
    bundle, tokenizer = _tokenizer(request, fields.model)
    if len(fields.prompt) > LONGEST_TEXTS:
        message = f"the prompt has {len(fields.prompt):,} characters; the maximum of this route is "
        raise ApiError(400, f"{message}{LONGEST_TEXTS:,}", param="prompt")
    read = tokenizer.begin if fields.add_special_tokens else tokenizer.encode
    size = len(await request.body())
    ids = await beside_others(size, read, fields.prompt)
    wanted = fields.return_token_strs
    strings = await beside_others(size, tokenizer.token_strings, ids) if wanted else None
    reply = {"count": len(ids), "max_model_len": bundle.config.max_length, "tokens": ids}
    return json_reply({**reply, "token_strs": strings})


async def detokenize(request: Request) -> Response:
    """Return the text of tokens."""
    fields = await read_json(request, DetokenizeRequest)
    _, tokenizer = _tokenizer(request, fields.model)
    if len(fields.tokens) > MOST_TOKENS:
        message = f"there are {len(fields.tokens):,} tokens; the maximum is {MOST_TOKENS:,}"
        raise ApiError(400, message, param="tokens")
    if max(fields.tokens, default=0) >= tokenizer.size:
        raise ApiError(400, f"tokens must be below {tokenizer.size:,}", param="tokens")
    size = len(await request.body())
    return json_reply({"prompt": await beside_others(size, tokenizer.decode, fields.tokens)})


async def tokenizer_info(request: Request) -> Response:
    """Return the special tokens, and whether there is a chat template."""
    models: ServedModels = request.app.state.models
    served, bundle = models.able(request.query_params.get("model"), TextGenerating, "tokenize")
    tokenizer = bundle.tokenizer
    bos, eos = tokenizer.token_strings([tokenizer.bos, tokenizer.eos])
    template = served.template
    named = (template and template.special_tokens) or {}
    info = {"bos_token": bos, "eos_token": eos, "pad_token": named.get("pad_token")}
    more = {"chat_template": template and template.default, "vocab_size": tokenizer.size}
    return json_reply({**info, **more})
