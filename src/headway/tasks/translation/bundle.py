"""The bundle of a translator: model and tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from headway.bundle import (
    Attention,
    ForwardPass,
    InputSpec,
    Probe,
    ProbeRequest,
    SearchTrace,
    StoredBundle,
    attention_of,
    next_token_readout,
)
from headway.data.batches import collate_sources
from headway.decoding import (
    Candidate,
    Forbidden,
    Hypothesis,
    Limits,
    Observer,
    beam_search,
    check_search,
    greedy_search,
)
from headway.errors import DataError, UsageError
from headway.models import Translator
from headway.settings import BEAMS, MOST, PENALTY, required, setting
from headway.text import TokenizerPair, positions_of_words

ROWS = 64
"""Maximum number of sentences that are decoded together."""

TOKENS = 4096
"""Maximum number of source tokens that are decoded together, and of one text.

The time of a search is quadratic in the length.
"""


@dataclass(frozen=True, kw_only=True)
class TranslateInput:
    """One input of a translator."""

    text: str = required("the sentence that is translated")


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """Options of the search, and of the output."""

    beam: int = setting(4, "Beam width; 1 is greedy.", gt=0, le=BEAMS)
    nbest: int = setting(
        1,
        "Number of translations per sentence, best first: line number, score, text.",
        gt=0,
        le=MOST,
    )
    length_penalty: float = setting(
        1.0,
        "Exponent of ((5 + length) / 6), by which the sum of log-probabilities is divided.",
        ge=0,
        le=PENALTY,
    )
    scores: bool = setting(False, "Print the score before each translation.")
    align: bool = setting(False, "Show the attention of each translated word to the source words.")


FOUR_BEAMS = TranslateOptions()


@dataclass(frozen=True)
class RankedTranslation:
    """One of the translations of a sentence.

    log_probability: in nats. score: the value by which translations are ranked. finished: False if
    it was truncated at the maximum length.
    """

    text: str
    score: float
    log_probability: float
    finished: bool


@dataclass(frozen=True)
class Translated:
    """A sentence and its translations, best first.

    line: the number of the input. alignment: source and target words, and the attention weights of
    each target word (`inspection.Alignment.as_dict`); None if it was not requested, or if the
    translation is empty.
    """

    line: int
    source: str
    translations: tuple[RankedTranslation, ...]
    alignment: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Translation:
    """A translation as returned by the search: a `RankedTranslation` with its tokens."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]
    finished: bool


class TranslatorBundle(StoredBundle):
    """A translator with its tokenizers: translates plain sentences."""

    kind: ClassVar[str] = "translator"
    inputs: ClassVar[InputSpec] = InputSpec(target=True)
    reader_class = TokenizerPair
    model: Translator

    def __init__(self, model: Translator, tokenizer: TokenizerPair) -> None:
        config = model.config
        for side, size in (
            ("source", config.source_vocabulary),
            ("target", config.target_vocabulary),
        ):
            vocabulary = getattr(tokenizer, side).size
            if vocabulary != size:
                raise DataError(
                    f"the {side} tokenizer has {vocabulary:,} tokens, but the {side} vocabulary "
                    f"size of the model is {size:,}",
                    hint="use the tokenizer with which the model was trained",
                )
        super().__init__(model, tokenizer)
        self.tokenizer = tokenizer

    @property
    def longest(self) -> int:
        """The maximum number of tokens of a text."""
        return max_source_tokens(self.model)

    def translate(
        self, texts: Sequence[str], *, beam: int = 4, length_penalty: float = 1.0
    ) -> list[str]:
        """Return the best translation of each text, in order. beam: the width; 1 is greedy."""
        translations = self.search(texts, beam=beam, length_penalty=length_penalty)
        return [best[0].text for best in translations]

    def predict(
        self,
        inputs: Sequence[TranslateInput],
        options: TranslateOptions = FOUR_BEAMS,
        *,
        first: int = 1,
    ) -> list[Translated]:
        """Translate the inputs, in order, with alignments if they are requested.

        first: the number of the first input. Raises UsageError for more translations than beams,
        and if an alignment is requested of a model without attention.
        """
        if options.align:
            from headway.inspection import check_aligns

            check_aligns(self)
        if options.nbest > options.beam:
            raise UsageError(
                f"--nbest {options.nbest}: must be between 1 and the beam width, {options.beam}"
            )
        texts = [item.text for item in inputs]
        lists = self.search(
            texts,
            beam=options.beam,
            num_best=options.nbest,
            length_penalty=options.length_penalty,
            first=first,
        )
        outputs = []
        for line, (text, translations) in enumerate(zip(texts, lists, strict=True), start=first):
            ranked = tuple(
                RankedTranslation(best.text, best.score, best.log_probability, best.finished)
                for best in translations
            )
            words = self._aligned(text, ranked[0].text) if options.align else None
            outputs.append(Translated(line, text, ranked, words))
        return outputs

    def _aligned(self, source: str, target: str) -> dict[str, Any] | None:
        """Return the alignment of a translation; None for an empty translation."""
        from headway.inspection import align

        return align(self, source, target).as_dict() if target else None

    def search(
        self,
        texts: Sequence[str],
        *,
        beam: int = 4,
        num_best: int = 1,
        length_penalty: float = 1.0,
        first: int = 1,
        progress: Callable[[int], None] = lambda done: None,
        observe: Observer | None = None,
    ) -> list[list[Translation]]:
        """Find the `num_best` best translations of each text by beam search, best first.

        Sentences of similar length are decoded together; the result of a text does not depend on
        the other texts. An empty text translates to an empty text.

        first: the number of the first text, in errors. progress: called with the number of texts
        translated so far. observe: receives the candidates of every step of the search; only for a
        single text. Raises UsageError for a text of more than `longest` tokens.
        """
        if isinstance(texts, str):
            raise UsageError("texts must be a list of sentences, not one string", hint="[text]")
        check_search(beam, num_best, length_penalty)
        ids = self.tokenizer.source.encode_batch([text.strip() for text in texts])
        for number, row in enumerate(ids, start=first):
            self._check_source(len(row), f"text {number}")
        if observe is not None and (len(texts) != 1 or beam == 1):
            raise UsageError(
                "observe needs a single text and a beam width above 1", hint="[text], beam=4"
            )
        empty = [Translation("", 0.0, 0.0, (), True)]
        results: list[list[Translation]] = [list(empty) for _ in texts]
        done = sum(1 for row in ids if not row)
        for chosen in _groups(ids):
            rows = [ids[i] for i in chosen]
            decoded = self._decode(rows, (beam, num_best, length_penalty), observe)
            for i, hypotheses in zip(chosen, decoded, strict=True):
                results[i] = [self._translation(h) for h in hypotheses]
            done += len(chosen)
            progress(done)
        return results

    def _decode(
        self,
        rows: list[list[int]],
        search: tuple[int, int, float],
        observe: Observer | None = None,
    ) -> list[list[Hypothesis]]:
        beam, num_best, alpha = search
        target = self.tokenizer.target
        source, keys = collate_sources(rows, self.tokenizer.source)
        inputs = source.to(self.device), None if keys is None else keys.to(self.device)
        limit = self.model.max_target
        longest = [min(2 * len(row) + 10, limit - 1 if limit else 10**9) for row in rows]
        forbidden = Forbidden([[target.pad], [target.bos]])
        limits = Limits(target.bos, target.eos, longest, [forbidden])
        if beam == 1:
            return [[h] for h in greedy_search(self.model, inputs, limits, alpha)]
        return beam_search(
            *(self.model, inputs, limits),
            width=beam,
            alpha=alpha,
            num_best=num_best,
            observe=observe,
        )

    def _check_source(self, length: int, name: str) -> None:
        self._check_room(length, self.model.max_source, name)
        if length > self.longest:
            raise UsageError(
                f"{name} has {length:,} tokens, but the maximum length of a sentence is "
                f"{self.longest:,} tokens",
                hint="split it into sentences, one on each line",
            )

    @staticmethod
    def _check_room(length: int, limit: int | None, name: str) -> None:
        """Raise UsageError if a text has more tokens than the model has learned positions."""
        if limit is not None and length >= limit:
            raise UsageError(
                f"{name} has {length} tokens, but the model has learned positions for at most "
                f"{limit - 1}",
                hint="split it into sentences, or train with --model.positions sinusoidal",
            )

    def _translation(self, best: Hypothesis) -> Translation:
        text = self.tokenizer.target.decode(best.tokens)
        return Translation(text, best.score, best.log_probability, best.tokens, best.finished)

    def reading(self, source: str, target: str | Sequence[int] | None = None) -> ForwardPass:
        """Prepare a forward pass over a sentence and a translation, for inspection.

        target: the translation, as text or ids; None: the model's own translation. The input of the
        decoder is its target shifted by one token. Raises UsageError for an empty or too long text.
        """
        if not source.strip():
            raise UsageError("the source text is empty, so there is nothing to inspect")
        first, second = self.tokenizer.source, self.tokenizer.target
        source_ids = first.encode(source.strip())
        if target is None:
            target_ids = list(self.search([source])[0][0].tokens)
        else:
            target_ids = second.encode(target.strip()) if isinstance(target, str) else [*target]
        self._check_source(len(source_ids), "the source")
        self._check_room(len(target_ids), self.model.max_target, "the target")
        tokens, keys = collate_sources([source_ids], first)
        tokens, keys = tokens.to(self.device), None if keys is None else keys.to(self.device)
        ids = {
            "source": [*source_ids, first.eos],
            "read": [second.bos, *target_ids],
            "target": [*target_ids, second.eos],
        }
        read = torch.tensor([ids["read"]], device=self.device)
        sides = {"source": first, "read": second, "target": second}
        return ForwardPass(
            model=self.model,
            run=lambda: self.model(tokens, read, keys),
            tokens={name: side.token_strings(ids[name]) for name, side in sides.items()},
            axes={
                "encoder": ("source", "source"),
                "decoder": ("read", "read"),
                "cross": ("target", "source"),
            },
            embeddings={"source": "source_embedding", "read": "target_embedding"},
            ids=ids,
            words={name: positions_of_words(side, ids[name]) for name, side in sides.items()},
        )

    def attention(
        self,
        source: str,
        target: str | None = None,
        layers: Sequence[str] = (),
        heads: Sequence[int] = (),
    ) -> Attention:
        """Return the attention weights of a forward pass over a sentence and a translation.

        target: the translation; None: the model's own translation. layers, heads: the layers and
        heads to return; if empty, all.
        """
        return attention_of(self.reading(source, target), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input, request.target)
        source, target = self.tokenizer.source, self.tokenizer.target
        ids = reading.ids["target"]
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=target.decode(ids),
            readout=next_token_readout(
                self.model, "target", range(len(ids)), target.size, target.token_strings
            ),
            tokenizers={"source": source, "read": target, "target": target},
        )

    def trace_search(
        self, input: str, *, language: str | None = None, beam: int = 4
    ) -> SearchTrace:
        """Return all candidates that the beam search for the best translation scored.

        language: has no effect.
        """
        candidates: list[Candidate] = []
        ((best,),) = self.search([input], beam=beam, observe=candidates.append)
        target = self.tokenizer.target
        return SearchTrace(
            candidates=candidates,
            first=target.bos,
            best=best.tokens,
            end=(target.eos,) if best.finished else (),
            names=target.token_strings,
        )


def max_source_tokens(model: Translator) -> int:
    """Return the maximum number of tokens of a text that the model translates."""
    limit = model.max_source
    return TOKENS if limit is None else min(TOKENS, limit - 1)


def _groups(ids: list[list[int]]) -> Iterator[list[int]]:
    """Group the indices of texts by length, longest first; empty texts are left out."""
    order = sorted((i for i, row in enumerate(ids) if row), key=lambda i: -len(ids[i]))
    while order:
        rows = max(1, min(ROWS, TOKENS // (len(ids[order[0]]) + 1)))
        yield order[:rows]
        order = order[rows:]
