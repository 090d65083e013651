"""A translator with its tokenizers: raw sentences in, sentences out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from headway.bundle import (
    Attention,
    InputSpec,
    Probe,
    ProbeRequest,
    Reading,
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
from headway.text import TokenizerPair, word_places

ROWS = 64  # sentences decoded together; longer ones fewer, so that memory stays bounded
TOKENS = 4096  # the longest text too: a search takes time that grows with its length squared


@dataclass(frozen=True, kw_only=True)
class TranslateInput:
    """One input of a translator."""

    text: str = required("the sentence that is translated")


@dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """How translations are searched for and shown."""

    beam: int = setting(4, "Beam width; 1 is greedy.", gt=0, le=BEAMS)
    nbest: int = setting(
        1,
        "Number of translations of each sentence, best first: line number, score, text.",
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
    align: bool = setting(False, "Draw which source words each translated word attends to.")


FOUR_BEAMS = TranslateOptions()


@dataclass(frozen=True)
class RankedTranslation:
    """One translation of an output. log_probability in nats; score is what the search ranked by.
    finished: whether the model ended it, and not the limit of its length."""

    text: str
    score: float
    log_probability: float
    finished: bool


@dataclass(frozen=True)
class Translated:
    """A sentence and its translations, best first.

    line: the number of the input. alignment: the words of both sides, and for each target word its
    weights on the source words (`inspection.Alignment.as_dict`); None if it was not requested, or
    if the translation is empty.
    """

    line: int
    source: str
    translations: tuple[RankedTranslation, ...]
    alignment: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Translation:
    """One translation as the search gives it: as `RankedTranslation`, with its tokens."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]
    finished: bool


class TranslatorBundle(StoredBundle):
    """A translator with its tokenizers: raw sentences in, sentences out."""

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
            pieces = getattr(tokenizer, side).size
            if pieces != size:
                raise DataError(
                    f"the {side} tokenizer has {pieces:,} pieces, the model {size:,}",
                    hint="the model and the tokenizer are not from the same training",
                )
        super().__init__(model, tokenizer)
        self.tokenizer = tokenizer

    @property
    def longest(self) -> int:
        """The most tokens of a text that is translated."""
        return longest_source(self.model)

    def translate(
        self, texts: Sequence[str], *, beam: int = 4, length_penalty: float = 1.0
    ) -> list[str]:
        """The best translation of each text, in the order given. beam=1 is greedy."""
        found = self.search(texts, beam=beam, length_penalty=length_penalty)
        return [best[0].text for best in found]

    def predict(
        self,
        inputs: Sequence[TranslateInput],
        options: TranslateOptions = FOUR_BEAMS,
        *,
        first: int = 1,
    ) -> list[Translated]:
        """The best translations of each input, in order, and which words they attend to.

        first: the number of the first input. UsageError for more translations than beams, and for
        an alignment by a model that has none.
        """
        if options.align:
            from headway.inspection import check_aligns

            check_aligns(self)
        if options.nbest > options.beam:
            raise UsageError(
                f"--nbest {options.nbest}: must be between 1 and the beam width, {options.beam}"
            )
        texts = [each.text for each in inputs]
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
                RankedTranslation(each.text, each.score, each.log_probability, each.finished)
                for each in translations
            )
            words = self._aligned(text, ranked[0].text) if options.align else None
            outputs.append(Translated(line, text, ranked, words))
        return outputs

    def _aligned(self, source: str, target: str) -> dict[str, Any] | None:
        """Which source words each target word attends to; None for an empty translation."""
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
        """The `num_best` best translations of each text, best first.

        Sentences of like length are decoded together, and each gets what it would get alone. An
        empty text translates to an empty text. `progress` hears how many texts are done. `observe`
        hears what a beam weighs, of one text. first: the number of the first text, in errors.
        UsageError for a text of more than `longest` tokens.
        """
        if isinstance(texts, str):
            raise UsageError("texts must be a list of sentences, not one string", hint="[text]")
        check_search(beam, num_best, length_penalty)
        ids = self.tokenizer.source.encode_batch([text.strip() for text in texts])
        for number, row in enumerate(ids, start=first):
            self._check_source(len(row), f"text {number}")
        if observe is not None and (len(texts) != 1 or beam == 1):
            raise UsageError("one text in several beams can be observed", hint="[text], beam=4")
        nothing = [Translation("", 0.0, 0.0, (), True)]
        results: list[list[Translation]] = [list(nothing) for _ in texts]
        done = sum(1 for row in ids if not row)
        for chosen in _groups(ids):
            rows = [ids[i] for i in chosen]
            found = self._decode(rows, (beam, num_best, length_penalty), observe)
            for i, hypotheses in zip(chosen, found, strict=True):
                results[i] = [self._translation(h) for h in hypotheses]
            done += len(chosen)
            progress(done)
        return results

    def _decode(
        self,
        rows: list[list[int]],
        how: tuple[int, int, float],
        observe: Observer | None = None,
    ) -> list[list[Hypothesis]]:
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
        return beam_search(
            *(self.model, inputs, limits),
            width=beam,
            alpha=alpha,
            num_best=num_best,
            observe=observe,
        )

    def _check_source(self, pieces: int, what: str) -> None:
        self._check_room(pieces, self.model.max_source, what)
        if pieces > self.longest:
            raise UsageError(
                f"{what} has {pieces:,} tokens, and at most {self.longest:,} are translated at "
                "once",
                hint="split it into sentences, one on each line",
            )

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

    def reading(self, source: str, target: str | Sequence[int] | None = None) -> Reading:
        """What is read while `target` (a text, ids, or the model's own translation) is predicted.
        What the decoder reads begins one token earlier than what it predicts."""
        if not source.strip():
            raise UsageError("there is nothing to look at in an empty text")
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
        return Reading(
            model=self.model,
            run=lambda: self.model(tokens, read, keys),
            pieces={name: side.pieces(ids[name]) for name, side in sides.items()},
            axes={
                "encoder": ("source", "source"),
                "decoder": ("read", "read"),
                "cross": ("target", "source"),
            },
            embeddings={"source": "source_embedding", "read": "target_embedding"},
            ids=ids,
            words={name: word_places(side, ids[name]) for name, side in sides.items()},
        )

    def attention(
        self,
        source: str,
        target: str | None = None,
        layers: Sequence[str] = (),
        heads: Sequence[int] = (),
    ) -> Attention:
        """Attention weights while `target` (given, or the model's own translation) is predicted.
        layers, heads: those to keep; none: all."""
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
                self.model, "target", range(len(ids)), target.size, target.pieces
            ),
            tokenizers={"source": source, "read": target, "target": target},
        )

    def trace_search(
        self, input: str, *, language: str | None = None, beam: int = 4
    ) -> SearchTrace:
        """Everything that the search for the best translation scored. language: of no effect."""
        candidates: list[Candidate] = []
        ((best,),) = self.search([input], beam=beam, observe=candidates.append)
        target = self.tokenizer.target
        return SearchTrace(
            candidates=candidates,
            first=target.bos,
            best=best.tokens,
            end=(target.eos,) if best.finished else (),
            names=target.pieces,
        )


def longest_source(model: Translator) -> int:
    """The most tokens of a text that the model translates."""
    room = model.max_source
    return TOKENS if room is None else min(TOKENS, room - 1)


def _groups(ids: list[list[int]]) -> Iterator[list[int]]:
    """Places of texts of like length, longest first; empty ones are nobody's."""
    order = sorted((i for i, row in enumerate(ids) if row), key=lambda i: -len(ids[i]))
    while order:
        rows = max(1, min(ROWS, TOKENS // (len(ids[order[0]]) + 1)))
        yield order[:rows]
        order = order[rows:]
