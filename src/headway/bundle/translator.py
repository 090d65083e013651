"""A translator with its tokenizers: raw sentences in, sentences out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from headway.attention import record_attention
from headway.bundle.files import check_fingerprint, save_files
from headway.data.batches import collate_sources
from headway.decoding import Forbidden, Hypothesis, Limits, beam_search, greedy_search
from headway.errors import DataError, UsageError
from headway.models import Translator, TranslatorConfig
from headway.shapes import Float, Tensor
from headway.text import TokenizerPair

ROWS = 64  # sentences decoded together; longer ones fewer, so that memory stays bounded
TOKENS = 4096


@dataclass(frozen=True)
class Translation:
    """One translation. log_probability in nats; score is what the search ranked by."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]
    finished: bool


@dataclass(frozen=True)
class Attention:
    """All attention weights of one input. maps: layer name -> Float "H T S", rows sum to 1.

    source and target: the pieces along the axes. Row t of a decoder map is the query that predicted
    target piece t; encoder rows are the source pieces.
    """

    source: list[str]
    target: list[str]
    maps: dict[str, Float[Tensor, "H T S"]]


class TranslatorBundle:
    """A translator with its tokenizers: raw sentences in, sentences out."""

    kind: ClassVar[str] = "translator"

    def __init__(self, model: Translator, tokenizer: TokenizerPair) -> None:
        config = model.config
        for side, size in (
            ("source", config.source_vocabulary),
            ("target", config.target_vocabulary),
        ):
            pieces = getattr(tokenizer, side).size
            if pieces != size:
                raise DataError(
                    f"the {side} tokenizer has {pieces:,} pieces, the model {size:,}",
                    hint="the model and the tokenizer are not from the same training",
                )
        self.model = model.eval()
        self.tokenizer = tokenizer

    @classmethod
    def open(cls, model: Translator, folder: Path, facts: dict[str, Any]) -> TranslatorBundle:
        """The model with the tokenizers that stand beside it, which must be those of `facts`."""
        tokenizer = TokenizerPair.load(folder)
        check_fingerprint(facts, tokenizer.fingerprint, folder)
        return cls(model, tokenizer)

    @property
    def config(self) -> TranslatorConfig:
        return self.model.config

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def translate(
        self, texts: Sequence[str], *, beam: int = 4, length_penalty: float = 1.0
    ) -> list[str]:
        """The best translation of each text, in the order given. beam=1 is greedy."""
        found = self.search(texts, beam=beam, length_penalty=length_penalty)
        return [best[0].text for best in found]

    def search(
        self,
        texts: Sequence[str],
        *,
        beam: int = 4,
        num_best: int = 1,
        length_penalty: float = 1.0,
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[list[Translation]]:
        """The `num_best` best translations of each text, best first.

        Sentences of like length are decoded together, and each gets what it would get alone. An
        empty text translates to an empty text. `progress` hears how many texts are done.
        """
        if isinstance(texts, str):
            raise UsageError("texts must be a list of sentences, not one string", hint="[text]")
        if not 1 <= num_best <= beam:
            raise UsageError(f"{num_best=} must be between 1 and {beam=}")
        ids = self.tokenizer.source.encode_batch([text.strip() for text in texts])
        for place, row in enumerate(ids):
            self._check_room(len(row), self.model.max_source, f"text {place + 1}")
        nothing = [Translation("", 0.0, 0.0, (), True)]
        results: list[list[Translation]] = [list(nothing) for _ in texts]
        done = sum(1 for row in ids if not row)
        for chosen in _groups(ids):
            rows = [ids[i] for i in chosen]
            found = self._decode(rows, (beam, num_best, length_penalty))
            for i, hypotheses in zip(chosen, found, strict=True):
                results[i] = [self._translation(h) for h in hypotheses]
            done += len(chosen)
            progress(done)
        return results

    def _decode(self, rows: list[list[int]], how: tuple[int, int, float]) -> list[list[Hypothesis]]:
        beam, num_best, alpha = how
        target = self.tokenizer.target
        source, keys = collate_sources(rows, self.tokenizer.source)
        inputs = source.to(self.device), None if keys is None else keys.to(self.device)
        room = self.model.max_target
        longest = [min(2 * len(row) + 10, room - 1 if room else 10**9) for row in rows]
        never = Forbidden([[target.pad], [target.bos]])
        limits = Limits(target.bos, target.eos, longest, [never])
        if beam == 1:
            return [[h] for h in greedy_search(self.model, inputs, limits, alpha)]
        return beam_search(self.model, inputs, limits, width=beam, alpha=alpha, num_best=num_best)

    @staticmethod
    def _check_room(pieces: int, room: int | None, what: str) -> None:
        """A learned table has no vector for a place that it never had."""
        if room is not None and pieces >= room:
            raise UsageError(
                f"{what} has {pieces} pieces, and this model's learned positions end at {room - 1}",
                hint="cut it into sentences, or train with --model.positions sinusoidal",
            )

    def _translation(self, found: Hypothesis) -> Translation:
        text = self.tokenizer.target.decode(found.tokens)
        return Translation(text, found.score, found.log_probability, found.tokens, found.finished)

    @torch.inference_mode()
    def attention(
        self, source: str, target: str | None = None, layers: Sequence[str] = ()
    ) -> Attention:
        """Attention weights while `target` (given, or the model's own translation) is predicted."""
        if not source.strip():
            raise UsageError("there is nothing to look at in an empty text")
        source_ids = self.tokenizer.source.encode(source.strip())
        if target is None:
            target_ids = list(self.search([source])[0][0].tokens)
        else:
            target_ids = self.tokenizer.target.encode(target.strip())
        self._check_room(len(source_ids), self.model.max_source, "the source")
        self._check_room(len(target_ids), self.model.max_target, "the target")
        side = self.tokenizer.target
        tokens, keys = collate_sources([source_ids], self.tokenizer.source)
        read = torch.tensor([[side.bos, *target_ids]], device=self.device)
        with record_attention(self.model, layers) as maps:
            self.model(tokens.to(self.device), read, keys)
        return Attention(
            self.tokenizer.source.pieces([*source_ids, self.tokenizer.source.eos]),
            side.pieces([*target_ids, side.eos]),
            # A layer that is called once a step (an RNN decoder's) gives its rows one by one.
            {name: torch.cat(found, dim=2)[0].cpu() for name, found in maps.items()},
        )

    def save(self, folder: Path, *, overwrite: bool = False) -> None:
        """Write config.json, model.safetensors and the tokenizers durably: `files.save_files`."""
        save_files(folder, self.model, self.tokenizer, overwrite)


def _groups(ids: list[list[int]]) -> Iterator[list[int]]:
    """Places of texts of like length, longest first; empty ones are nobody's."""
    order = sorted((i for i, row in enumerate(ids) if row), key=lambda i: -len(ids[i]))
    while order:
        rows = max(1, min(ROWS, TOKENS // (len(ids[order[0]]) + 1)))
        yield order[:rows]
        order = order[rows:]
