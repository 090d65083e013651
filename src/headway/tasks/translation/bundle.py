"""The bundle of a translator: model and tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
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
    Ensemble,
    Forbidden,
    Hypothesis,
    Limits,
    MinP,
    Observer,
    Phrases,
    Row,
    Rule,
    Sampling,
    beam_search,
    check_search,
    expected_utilities,
    greedy_search,
    sample_steps,
)
from headway.decoding.search import Normalisation
from headway.errors import DataError, UsageError
from headway.models import Translator
from headway.settings import BEAMS, MOST, PENALTY, required, setting
from headway.shapes import Tensor
from headway.tasks.translation.glossary import Glossary, required_phrases
from headway.text import TokenizerPair, positions_of_words, split_sentences

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
    normalisation: Normalisation = setting(
        "gnmt",
        "Length penalty: gnmt is ((5 + length) / 6) ** length_penalty, average is "
        "length ** length_penalty.",
    )
    contain: tuple[str, ...] = setting((), "Phrases that every translation must contain.")
    avoid: tuple[str, ...] = setting((), "Phrases that no translation may contain.")
    glossary: Path | None = setting(
        None,
        "Table of source and target terms: the translation of a sentence with a source term must "
        "contain its target term.",
    )
    mbr: int = setting(
        0,
        "If set, number of sampled translations, of which the one most like all others by chrF is "
        "chosen: minimum Bayes risk.",
        ge=0,
        le=MOST,
    )
    seed: int = setting(0, "Seed of the samples of mbr.", ge=0)
    ensemble: tuple[Path, ...] = setting(
        (),
        "Further runs with the same tokenizer, whose probabilities are averaged with this one's.",
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
    each target word (`inspection.Alignment.as_dict`); None if it was not requested, if the
    translation is empty, or if the text was split.
    """

    line: int
    source: str
    translations: tuple[RankedTranslation, ...]
    alignment: Mapping[str, Any] | None = None


def _joined(sentences: Sequence[Translation]) -> RankedTranslation:
    """Return the translation of a text that was split: its score is the mean of its sentences'."""
    return RankedTranslation(
        " ".join(sentence.text for sentence in sentences),
        sum(sentence.score for sentence in sentences) / len(sentences),
        sum(sentence.log_probability for sentence in sentences),
        all(sentence.finished for sentence in sentences),
    )


@dataclass(frozen=True)
class Translation:
    """A translation as returned by the search: a `RankedTranslation` with its tokens."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]
    finished: bool


@dataclass(frozen=True, kw_only=True)
class _Search:
    """Settings of a search. phrases: for each input, the tokens of its phrases; empty for none."""

    beam: int
    num_best: int
    alpha: float
    normalisation: Normalisation
    phrases: Sequence[Sequence[Sequence[int]]]
    avoided: Sequence[Sequence[int]]


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
        self._stepper: Any = model

    def ensemble(self, others: Sequence[TranslatorBundle]) -> TranslatorBundle:
        """Return a bundle that translates with the mean of the probabilities of several models.

        Inspection and saving concern this model alone. Raises DataError if a tokenizer differs.
        """
        for number, other in enumerate(others, start=2):
            if other.tokenizer.fingerprint != self.tokenizer.fingerprint:
                raise DataError(
                    f"model {number} of the ensemble has another tokenizer than the first",
                    hint="train both with one tokenizer: train the first, copy its tokenizer.json "
                    "into the new run folder, train the second there",
                )
        joint = TranslatorBundle(self.model, self.tokenizer)
        joint._stepper = Ensemble([self.model, *(other.model for other in others)])
        return joint

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

        A text of more than `longest` tokens is split at the ends of its sentences, and the
        translations of its sentences are joined; it has one translation and no alignment.

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
        bundle = self.ensemble(_loaded(options.ensemble, self.device)) if options.ensemble else self
        parts = [self._parts(text, f"text {line}") for line, text in enumerate(texts, start=first)]
        lists = iter(bundle._lists([part for of_text in parts for part in of_text], options, first))
        outputs = []
        for line, (text, of_text) in enumerate(zip(texts, parts, strict=True), start=first):
            if len(of_text) > 1:
                joined = _joined([next(lists)[0] for _ in of_text])
                outputs.append(Translated(line, text, (joined,)))
                continue
            ranked = tuple(
                RankedTranslation(best.text, best.score, best.log_probability, best.finished)
                for best in next(lists)
            )
            words = self._aligned(text, ranked[0].text) if options.align else None
            outputs.append(Translated(line, text, ranked, words))
        return outputs

    def _parts(self, text: str, name: str) -> list[str]:
        """Return a text, or its sentences if it is too long. Raises UsageError for a sentence that
        is too long."""
        length = len(self.tokenizer.source.encode(text.strip()))
        if length <= self.longest:
            return [text]
        sentences = split_sentences(text)
        for number, sentence in enumerate(sentences, start=1):
            tokens = len(self.tokenizer.source.encode(sentence))
            self._check_source(
                tokens, name if len(sentences) == 1 else f"{name}, sentence {number},"
            )
        return sentences

    def _lists(
        self, texts: Sequence[str], options: TranslateOptions, first: int
    ) -> list[list[Translation]]:
        """Return the translations of each text: by beam search, or the samples by expected chrF."""
        if options.mbr:
            if options.contain or options.avoid or options.glossary is not None:
                raise UsageError(
                    "--mbr samples translations, which cannot be made to contain phrases",
                    hint="leave out --mbr, or --contain, --avoid and --glossary",
                )
            sampled = self.sample(texts, options.mbr, options.seed, first=first)
            return [ranked[: options.nbest] for ranked in sampled]
        glossary = None if options.glossary is None else Glossary.read(options.glossary)
        return self.search(
            texts,
            beam=options.beam,
            num_best=options.nbest,
            length_penalty=options.length_penalty,
            normalisation=options.normalisation,
            contain=required_phrases(texts, options.contain, glossary),
            avoid=options.avoid,
            first=first,
        )

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
        normalisation: Normalisation = "gnmt",
        contain: Sequence[Sequence[str]] = (),
        avoid: Sequence[str] = (),
        first: int = 1,
        progress: Callable[[int], None] = lambda done: None,
        observe: Observer | None = None,
    ) -> list[list[Translation]]:
        """Find the `num_best` best translations of each text by beam search, best first.

        Sentences of similar length are decoded together; the result of a text does not depend on
        the other texts. An empty text translates to an empty text.

        length_penalty, normalisation: see `decoding.length_penalty`. contain: for each text, the
        phrases that its translations must contain; empty for no phrases. avoid: phrases that none
        may contain. first: the number of the first text, in errors. progress: called with the
        number of texts translated so far. observe: receives the candidates of every step of the
        search; only for a single text. Raises UsageError for a text of more than `longest` tokens,
        and if no translation fits the phrases.
        """
        if isinstance(texts, str):
            raise UsageError("texts must be a list of sentences, not one string", hint="[text]")
        check_search(beam, num_best, length_penalty)
        if contain and len(contain) != len(texts):
            raise ValueError(f"phrases for {len(contain)} texts, but there are {len(texts)}")
        encode = self.tokenizer.target.encode
        phrases = [[encode(phrase.strip()) for phrase in of_text] for of_text in contain]
        avoided = [encode(phrase.strip()) for phrase in avoid]
        if not all(avoided) or not all(map(all, phrases)):
            raise UsageError("a phrase is empty", hint="write at least one word")
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
            search = _Search(
                beam=beam,
                num_best=num_best,
                alpha=length_penalty,
                normalisation=normalisation,
                phrases=[phrases[i] for i in chosen] if any(phrases) else [],
                avoided=avoided,
            )
            decoded = self._decode(rows, search, observe)
            for i, hypotheses in zip(chosen, decoded, strict=True):
                results[i] = [self._translation(h) for h in hypotheses]
            done += len(chosen)
            progress(done)
        return results

    def _decode(
        self, rows: list[list[int]], search: _Search, observe: Observer | None = None
    ) -> list[list[Hypothesis]]:
        target, inputs = self.tokenizer.target, self._inputs(rows)
        rules: list[Rule] = [Forbidden([[target.pad], [target.bos], *search.avoided])]
        if search.phrases:
            rules.append(Phrases(search.phrases, target.eos))
        limits = Limits(
            target.bos,
            target.eos,
            self._max_lengths(rows),
            rules,
            normalisation=search.normalisation,
        )
        if search.beam == 1 and not search.phrases:  # greedy search does not look for phrases
            return [[h] for h in greedy_search(self._stepper, inputs, limits, search.alpha)]
        return beam_search(
            self._stepper,
            inputs,
            limits,
            width=search.beam,
            alpha=search.alpha,
            num_best=search.num_best,
            observe=observe,
        )

    def _inputs(self, rows: list[list[int]]) -> tuple[Tensor, Tensor | None]:
        source, keys = collate_sources(rows, self.tokenizer.source)
        return source.to(self.device), None if keys is None else keys.to(self.device)

    def _max_lengths(self, rows: list[list[int]]) -> list[int]:
        limit = self.model.max_target
        return [min(2 * len(row) + 10, limit - 1 if limit else 10**9) for row in rows]

    def sample(
        self, texts: Sequence[str], count: int, seed: int = 0, *, first: int = 1
    ) -> list[list[Translation]]:
        """Sample `count` translations of each text, ranked by expected chrF, distinct ones once.

        Sample i of every text has the seed `seed` + i. Tokens below 2 % of the largest probability
        are not sampled. The score of a translation is its mean chrF against all samples (minimum
        Bayes risk), its log-probability that of its tokens. Raises UsageError for a text that is
        too long.
        """
        ids = self.tokenizer.source.encode_batch([text.strip() for text in texts])
        for number, row in enumerate(ids, start=first):
            self._check_source(len(row), f"text {number}")
        results = [[Translation("", 0.0, 0.0, (), True)] for _ in texts]
        for group in _groups(ids):
            at_once = max(1, 4 * ROWS // count)
            for start in range(0, len(group), at_once):
                chosen = group[start : start + at_once]
                sampled = self._sampled([ids[i] for i in chosen], count, seed)
                for i, samples in zip(chosen, sampled, strict=True):
                    results[i] = samples
        return results

    def _sampled(self, rows: list[list[int]], count: int, seed: int) -> list[list[Translation]]:
        target, lengths = self.tokenizer.target, self._max_lengths(rows)
        outputs = [
            Row(prompt=[target.bos], item=i, seed=seed + j, limit=lengths[i], full="length")
            for i in range(len(rows))
            for j in range(count)
        ]
        rules: list[Rule] = [Forbidden([[target.pad], [target.bos]]), MinP(0.02)]
        sampling = Sampling(eos=target.eos, max_tokens=max(lengths), rules=rules)
        with torch.inference_mode():
            state = self._stepper.start(*self._inputs(rows))
            state = state.reorder([output.item for output in outputs])
        for _ in sample_steps(self._stepper, outputs, sampling, state):
            pass
        by_item = [outputs[i : i + count] for i in range(0, len(outputs), count)]
        return [self._by_expected_chrf(samples) for samples in by_item]

    def _by_expected_chrf(self, samples: Sequence[Row]) -> list[Translation]:
        texts = [self.tokenizer.target.decode(row.tokens) for row in samples]
        utilities = expected_utilities(texts, texts)
        ranked = sorted(range(len(texts)), key=lambda i: -utilities[i])
        distinct: dict[str, Translation] = {}
        for i in ranked:
            row = samples[i]
            log_p, is_finished = sum(row.log_probabilities), row.reason == "end"
            sampled = Translation(texts[i], utilities[i], log_p, tuple(row.tokens), is_finished)
            distinct.setdefault(texts[i], sampled)
        return list(distinct.values())

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


@lru_cache(maxsize=4)
def _loaded(paths: tuple[Path, ...], device: torch.device) -> tuple[TranslatorBundle, ...]:
    """Load the other members of an ensemble. Raises UsageError for a model of another kind."""
    from headway.tasks.opening import load

    bundles = []
    for path in paths:
        bundle = load(path, str(device))
        if not isinstance(bundle, TranslatorBundle):
            raise UsageError(f"{path} is a {bundle.kind}, not a translator", "--ensemble")
        bundles.append(bundle)
    return tuple(bundles)


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
