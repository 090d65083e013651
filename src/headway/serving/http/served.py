"""The models of a server, by name."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from headway.bundle import Bundle, TextEmbedding, TextGenerating, Transcribing
from headway.interop import ChatTemplate
from headway.serving.engine import Engine
from headway.serving.grammar import Grammar
from headway.serving.http.replies import ApiError
from headway.tasks.registry import TASKS, task
from headway.tasks.task import AnyPredicts

LONGEST_PROMPT = 2**15  # tokens, for a model without a maximum length


@dataclass
class ServedModel:
    """A model with its engine.

    template: its chat templates; None if it has none. examples: held-out inputs that the page
    offers. verbs: verb -> how models of its kind predict by it.
    """

    name: str
    bundle: Bundle
    engine: Engine
    template: ChatTemplate | None = None
    examples: Sequence[str] = ()
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def language_model(self) -> TextGenerating:
        """The bundle, for routes that only language models have."""
        return cast("TextGenerating", self.bundle)

    @cached_property
    def grammar(self) -> Grammar:
        """The grammars of the vocabulary of a language model; made when it is first needed."""
        return Grammar(self.language_model.tokenizer)

    @cached_property
    def context(self) -> int:
        """The maximum number of tokens of a prompt of a language model."""
        context = getattr(self.bundle.config, "max_length", None) or LONGEST_PROMPT
        unbounded = getattr(self.bundle.model, "max_length", None) is None
        return max(context, LONGEST_PROMPT) if unbounded else context

    def room(self, prompt: int) -> int:
        """The number of tokens that an output without a limit may have after `prompt` tokens.

        The prompt and the output together have the length that the model's configuration names,
        which the list of models shows. Only a longer prompt, which a model without learned
        positions can read, is continued further: up to the longest prompt that is accepted.
        """
        length = getattr(self.bundle.config, "max_length", None) or LONGEST_PROMPT
        return max(1, (length if prompt < length else self.context) - prompt)

    @cached_property
    def longest_prompt(self) -> int:
        """The maximum number of characters of a prompt: if each of its tokens was the longest of
        the vocabulary, it would fill the context."""
        tokenizer = self.language_model.tokenizer
        tokens = tokenizer.token_strings(range(tokenizer.size))
        return self.context * max(map(len, tokens), default=1)

    def check_prompt(self, characters: int, name: str, param: str) -> None:
        """Raise ApiError 400 for a prompt that cannot fit into the context, without tokenizing it.

        Takes a while the first time: call it outside of the event loop.
        """
        if characters > self.longest_prompt:
            raise ApiError(
                400,
                f"{name} has {characters:,} characters; the maximum of this model is "
                f"{self.context:,} tokens, or {self.longest_prompt:,} characters",
                param=param,
                code="context_length_exceeded",
            )

    @property
    def verbs(self) -> dict[str, AnyPredicts]:
        names = [name for name, entry in TASKS.items() if self.bundle.kind in entry.kinds]
        return {verb: task(name).prediction for name in names if (verb := TASKS[name].verb)}


class ServedModels:
    """All models of a server. seconds: the time after which a request fails."""

    def __init__(self, models: Sequence[ServedModel], seconds: float) -> None:
        self._by_name = {model.name: model for model in models}
        self.seconds = seconds

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._by_name.values())

    def named(self, name: str | None) -> ServedModel:
        """Return the model of that name, or the only one. Raises ApiError 404."""
        if name is None and len(self._by_name) == 1:
            return next(iter(self))
        known = ", ".join(self._by_name)
        if name is None:
            raise ApiError(400, f"model must be one of: {known}", param="model")
        if name not in self._by_name:
            raise ApiError(
                404,
                f"there is no model {name!r} here; models: {known}",
                param="model",
                code="model_not_found",
            )
        return self._by_name[name]

    def able(self, name: str | None, kind: Any, action: str) -> tuple[ServedModel, Any]:
        """Return the model of that name and its bundle, which must be a `kind`, a protocol.

        Without a name, the only model that can do it. Raises ApiError 400 otherwise, with what the
        model can do. action: what is asked of it, in words.
        """
        if name is None:
            able = [model for model in self if isinstance(model.bundle, kind)]
            name = able[0].name if len(able) == 1 else None
        model = self.named(name)
        if not isinstance(model.bundle, kind):
            raise cannot(model, action)
        return model, model.bundle


def cannot(model: ServedModel, action: str) -> ApiError:
    """Return the error for a model that cannot do what is asked."""
    routes = ", ".join(f"POST {route}" for route in routes_of(model)) or "none"
    return ApiError(
        400, f"{model.name} is a {model.bundle.kind}, which cannot {action}; its routes: {routes}"
    )


def routes_of(model: ServedModel) -> list[str]:
    """Return the routes that answer for a model."""
    routes = [f"/{verb}" for verb in model.verbs]
    if isinstance(model.bundle, TextGenerating):
        routes += ["/v1/completions", *(["/v1/chat/completions"] if model.template else [])]
    if isinstance(model.bundle, TextEmbedding):
        routes += ["/v1/embeddings", "/embed"]
    if isinstance(model.bundle, Transcribing):
        routes += ["/v1/audio/transcriptions"]
        routes += ["/v1/audio/translations"] if model.bundle.translates else []
    return routes
