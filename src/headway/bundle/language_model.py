"""A language model with its tokenizer: prompts in, continuations out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from headway.bundle.arguments import checked
from headway.bundle.contract import ProbeRequest
from headway.bundle.files import check_vocabulary_size
from headway.bundle.forward_pass import Attention, ForwardPass, attention_of
from headway.bundle.probe import Probe, next_token_readout
from headway.bundle.with_reader import StoredBundle
from headway.decoding import (
    Continuation,
    GenerationConfig,
    ModelDraft,
    generate,
    stream,
)
from headway.errors import UsageError
from headway.models import GPT
from headway.settings import override
from headway.text import TextTokenizer, load_tokenizer, positions_of_words


class TextBundle(StoredBundle):
    """A language model (GPT) with its tokenizer."""

    kind: ClassVar[str] = "language model"
    model: GPT

    def __init__(self, model: GPT, tokenizer: TextTokenizer) -> None:
        check_vocabulary_size(tokenizer.size, model.config.vocabulary)
        super().__init__(model, tokenizer)
        self.tokenizer = tokenizer

    @classmethod
    def load_reader(cls, model: GPT, folder: Path) -> TextTokenizer:
        return load_tokenizer(folder)

    @checked
    def generate(
        self, prompts: Sequence[str], *, draft: TextBundle | None = None, **settings: Any
    ) -> list[list[Continuation]]:
        """Return the continuations of each prompt, in order; settings as in `GenerationConfig`.

        The output for a prompt does not depend on the other prompts. draft: a smaller model with
        the same tokenizer for speculative decoding, which is faster and has the same distribution.
        """
        config = _config(settings)
        proposer = self._proposer(draft, config)
        return generate(self.model, self.tokenizer, prompts, config, proposer)

    @checked
    def stream(
        self, prompt: str, *, draft: TextBundle | None = None, **settings: Any
    ) -> Iterator[str]:
        """Yield the continuation of one prompt while it is generated, in whole characters."""
        config = _config(settings)
        return stream(self.model, self.tokenizer, prompt, config, self._proposer(draft, config))

    def _proposer(self, draft: TextBundle | None, config: GenerationConfig) -> ModelDraft | None:
        if draft is None:
            return None
        if draft.tokenizer.fingerprint != self.tokenizer.fingerprint:
            raise UsageError(
                "the draft model has another tokenizer than the model",
                hint="train the draft model with --data.tokenizer RUN, RUN being the model's run",
            )
        return ModelDraft(draft.model, config.draft_tokens)

    def reading(self, text: str, written: Sequence[int] = ()) -> ForwardPass:
        """Return the forward pass for a text and the tokens generated after it.

        Raises UsageError if they are longer than the context of a model with learned positions.
        """
        ids = [*self.tokenizer.begin(text), *written]
        room = self.model.max_length
        if room is not None and len(ids) > room:
            raise UsageError(
                f"the text has {len(ids)} tokens, but the model has learned positions for at most "
                f"{room}",
                hint="shorten the text",
            )
        tokens = torch.tensor([ids], device=self.device)
        return ForwardPass(
            model=self.model,
            run=lambda: self.model(tokens),
            tokens={"text": self.tokenizer.token_strings(ids)},
            axes={"decoder": ("text", "text")},
            embeddings={"text": "embedding"},
            ids={"text": ids},
            words={"text": positions_of_words(self.tokenizer, ids)},
        )

    def attention(
        self, text: str, layers: Sequence[str] = (), heads: Sequence[int] = ()
    ) -> Attention:
        """Return the attention weights for a text; row t is the query that predicts token t + 1.

        layers, heads: which to return; if empty, all.
        """
        return attention_of(self.reading(text), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        tokens, answer = self._written(request.input, request.written)
        reading = self.reading(request.input, tokens)
        tokenizer, count = self.tokenizer, len(reading.ids["text"])
        # row t predicts the token at t + 1; the last row predicts the token after the text
        positions = range(1, count + 1)
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=answer,
            readout=next_token_readout(
                self.model, "text", positions, tokenizer.size, tokenizer.token_strings
            ),
            tokenizers={"text": tokenizer},
        )

    def _written(self, text: str, max_tokens: int) -> tuple[Sequence[int], str]:
        """Return the tokens of the greedy continuation, cut to the context, and its text."""
        if max_tokens < 1:
            return (), ""
        ((best,),) = self.generate([text], max_tokens=max_tokens, temperature=0.0)
        room = self.model.max_length
        if room is None:
            return best.tokens, best.text
        return best.tokens[: max(0, room - len(self.tokenizer.begin(text)))], best.text


def _config(settings: dict[str, Any]) -> GenerationConfig:
    return override(GenerationConfig(), settings, "generation")
