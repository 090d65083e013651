"""A text embedder on the blocks of a language model, with its tokenizer: Qwen3-Embedding,
EmbeddingGemma."""

from pathlib import Path
from typing import ClassVar

import torch

from headway.base.errors import UsageError
from headway.bundle.contract import ProbeRequest
from headway.bundle.embedding import EmbeddingBundle
from headway.bundle.forward_pass import ForwardPass
from headway.bundle.probe import Probe
from headway.models import TextEmbedder
from headway.text import PretrainedTokenizer, TextTokenizer, load_tokenizer, positions_of_words


class EmbedderBundle(EmbeddingBundle):
    """A text embedder with its tokenizer. The arguments are those of `EmbeddingBundle`."""

    kind: ClassVar[str] = "text embedder"
    model: TextEmbedder
    tokenizer: PretrainedTokenizer

    @classmethod
    def load_reader(cls, model: TextEmbedder, folder: Path) -> TextTokenizer:
        return load_tokenizer(folder)

    @property
    def pad(self) -> int:
        return self.tokenizer.eos

    def reading(self, text: str) -> ForwardPass:
        """Return the forward pass over a text, whose output is the vectors of its tokens.

        Raises UsageError if the text is too long.
        """
        before, after = self.tokenizer.frame
        ids = [*before, *self.tokenizer.encode(text), *after]
        if len(ids) > self.config.max_length:
            raise UsageError(
                f"the text has {len(ids):,} tokens, but this model accepts at most "
                f"{self.config.max_length:,}",
                hint="shorten or split the text",
            )
        tokens = torch.tensor([ids], device=self.device)
        return ForwardPass(
            model=self.model,
            run=lambda: self.model.encode(tokens),
            tokens={"text": self.tokenizer.token_strings(ids)},
            axes={"decoder": ("text", "text")},
            embeddings={"text": "gpt.embedding"},
            ids={"text": ids},
            words={"text": positions_of_words(self.tokenizer, ids)},
        )

    def _probe(self, request: ProbeRequest) -> Probe:
        return Probe(
            kind=self.kind,
            reading=self.reading(request.input),
            answer="",
            readout=None,
            tokenizers={"text": self.tokenizer},
        )
