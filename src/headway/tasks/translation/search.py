"""The searches for translations: beam search with phrases, and sampling by expected utility."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.bundle import folder_max_tokens, folder_rules, folder_stopping
from headway.decoding import (
    EarlyStopping,
    Forbidden,
    Hypothesis,
    Limits,
    MinP,
    Observer,
    Phrases,
    Prefix,
    Row,
    Rule,
    Sampling,
    TextStreamer,
    beam_search,
    check_search,
    expected_utilities,
    greedy_search,
    sample_steps,
    stream_beam,
)
from headway.decoding.search import Normalisation
from headway.interop import GenerationDefaults
from headway.models import Translator
from headway.tasks.translation.batches import collate_sources
from headway.tasks.translation.options import TranslateOptions
from headway.text import TokenizerPair

ROWS = 64
"""Maximum number of sentences that are decoded together."""

TOKENS = 4096
"""Maximum number of source tokens that are decoded together, and of one text.

The time of a search is quadratic in the length.
"""


@dataclass(frozen=True)
class Translation:
    """A translation as returned by the search: a `RankedTranslation` with its tokens."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]
    finished: bool


NOTHING = Translation("", 0.0, 0.0, (), True)
"""The translation of an empty text."""


@dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """Settings of a search. phrases: for each input, the tokens of its phrases; empty for none."""

    beam: int
    num_best: int
    alpha: float
    normalisation: Normalisation
    early_stopping: bool
    coverage: float
    phrases: Sequence[Sequence[Sequence[int]]] = ()
    avoided: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        check_search(self.beam, self.num_best, self.alpha)
        if self.coverage and self.beam == 1:
            raise UsageError(
                "the coverage penalty chooses among the outputs of a beam, and the beam width is 1",
                hint="set a beam width of at least 2, or no coverage penalty",
            )

    def of(self, chosen: Sequence[int]) -> BeamSettings:
        """Return the settings for some of the inputs."""
        if not any(self.phrases):
            return replace(self, phrases=[])
        return replace(self, phrases=[self.phrases[i] for i in chosen])


def settings_of(options: TranslateOptions) -> BeamSettings:
    """Return the settings of a search without phrases.

    Raises UsageError for options that exclude each other.
    """
    return BeamSettings(
        beam=options.beam,
        num_best=options.nbest,
        alpha=options.length_penalty,
        normalisation=options.normalisation,
        early_stopping=options.early_stopping,
        coverage=options.coverage,
    )


@dataclass(frozen=True)
class TranslationSearch:
    """Searches with a model, or with an ensemble. stepper: gives the probabilities. model: the
    model that limits the lengths. generation: the defaults of a pretrained model."""

    stepper: Any
    model: Translator
    tokenizer: TokenizerPair
    generation: GenerationDefaults | None = None

    def by_beam(
        self,
        rows: Sequence[Sequence[int]],
        search: BeamSettings,
        observe: Observer | None = None,
    ) -> list[list[Translation]]:
        """Return the best translations of the ids of each text, best first."""
        inputs, limits = self._inputs(rows), self._limits(rows, search)
        if search.beam == 1 and not search.phrases:  # greedy search does not look for phrases
            best = greedy_search(self.stepper, inputs, limits, search.alpha)
            return [[self._translation(hypothesis)] for hypothesis in best]
        lists = beam_search(
            self.stepper,
            inputs,
            limits,
            width=search.beam,
            alpha=search.alpha,
            early_stopping=self._early_stopping(search),
            num_best=search.num_best,
            coverage=search.coverage,
            observe=observe,
        )
        return [[self._translation(hypothesis) for hypothesis in best] for best in lists]

    def streamed(self, row: Sequence[int], search: BeamSettings) -> Iterator[str]:
        """Yield the text of the best translation of the ids of one text, as it becomes certain."""
        writer = TextStreamer(self.tokenizer.target)
        parts = stream_beam(
            self.stepper,
            self._inputs([row]),
            self._limits([row], search),
            width=search.beam,
            alpha=search.alpha,
            early_stopping=self._early_stopping(search),
            coverage=search.coverage,
        )
        for token in itertools.chain.from_iterable(parts):
            if text := writer.feed(token):
                yield text
        if text := writer.finish():
            yield text

    def _limits(self, rows: Sequence[Sequence[int]], search: BeamSettings) -> Limits:
        """Return the limits of a search. Where phrases are required, its outputs are ranked as in
        transformers, but none is cut."""
        target, generation = self.tokenizer.target, self.generation
        as_transformers = search.normalisation == "transformers" and not search.phrases
        lengths = self._max_lengths(rows, cut=as_transformers)
        rules = self._rules(lengths, search.avoided, cut=as_transformers)
        if search.phrases:
            rules.append(Phrases(search.phrases, target.ends))
        ranked = search.normalisation
        return Limits(
            target.bos,
            target.ends,
            lengths,
            rules,
            prompts=[] if generation is None else [[target.bos]] * len(rows),
            cut=as_transformers,
            normalisation="average" if ranked == "transformers" and search.phrases else ranked,
            renormalise=generation is not None and generation.renormalise,
        )

    def _early_stopping(self, search: BeamSettings) -> EarlyStopping:
        """Return when the search ends: as the user chose, or as the pretrained folder says."""
        if self.generation is None or search.normalisation != "transformers":
            return search.early_stopping
        return folder_stopping(self.generation, search.early_stopping)

    def _rules(
        self,
        lengths: Sequence[int],
        avoided: Sequence[Sequence[int]] = (),
        *,
        cut: bool = False,
    ) -> list[Rule]:
        """Return the rules of the outputs for texts with these maximum lengths: special tokens
        that none contains, and the prefix of all. cut: see `Limits`."""
        target, generation = self.tokenizer.target, self.generation
        if generation is not None:
            rules = folder_rules(generation, target.ends, lengths, prefix=target.prefix, cut=cut)
            return [Forbidden(avoided), *rules] if avoided else rules
        never = {target.pad, target.bos} - set(target.ends)
        rules = [Forbidden([*([token] for token in sorted(never)), *avoided])]
        return [*rules, Prefix([target.prefix] * len(lengths))] if target.prefix else rules

    def _inputs(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
        source, keys = collate_sources(rows, self.tokenizer.source)
        device = next(self.model.parameters()).device
        return source.to(device), None if keys is None else keys.to(device)

    def _max_lengths(self, rows: Sequence[Sequence[int]], *, cut: bool = False) -> list[int]:
        """Return the maximum number of tokens of each output. cut: see `Limits`."""
        limit = self.model.max_target
        room = 10**9 if limit is None else limit if cut else limit - 1
        longest = None if self.generation is None else folder_max_tokens(self.generation)
        if longest is not None:
            return [max(1, min(longest if cut else longest - 1, room))] * len(rows)
        # a forced </s> is one of the tokens
        ends = int(cut and self.generation is not None and bool(self.generation.forced_end))
        return [min(2 * len(row) + 10 + ends, room) for row in rows]

    def by_sampling(
        self, rows: Sequence[Sequence[int]], count: int, seed: int
    ) -> list[list[Translation]]:
        """Return distinct samples of the ids of each text, by expected chrF."""
        target, lengths = self.tokenizer.target, self._max_lengths(rows)
        outputs = [
            Row(prompt=[target.bos], item=i, seed=seed + j, limit=lengths[i], full="length")
            for i in range(len(rows))
            for j in range(count)
        ]
        rules = [*self._rules(lengths), MinP(0.02)]
        sampling = Sampling(eos=target.ends, max_tokens=max(lengths), rules=rules)
        with torch.inference_mode():
            state = self.stepper.start(*self._inputs(rows))
            state = state.reorder([output.item for output in outputs])
        for _ in sample_steps(self.stepper, outputs, sampling, state):
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
            tokens, is_finished = tuple(row.tokens), row.reason == "end"
            sampled = Translation(texts[i], utilities[i], row.log_probability, tokens, is_finished)
            distinct.setdefault(texts[i], sampled)
        return list(distinct.values())

    def _translation(self, best: Hypothesis) -> Translation:
        text = self.tokenizer.target.decode(best.tokens)
        return Translation(text, best.score, best.log_probability, best.tokens, best.finished)


def encoded_phrases(
    tokenizer: TokenizerPair, phrases: Sequence[Sequence[str]], count: int
) -> list[list[list[int]]]:
    """Return the tokens of the phrases of `count` texts. Raises UsageError for an empty phrase."""
    if phrases and len(phrases) != count:
        raise ValueError(f"phrases for {len(phrases)} texts, but there are {count}")
    target = tokenizer.target
    start = len(target.prefix)
    tokens = [[target.encode(phrase.strip())[start:] for phrase in of_text] for of_text in phrases]
    if not all(map(all, tokens)):
        raise UsageError("a phrase is empty", hint="write at least one word")
    return tokens


def groups_by_length(
    ids: Sequence[Sequence[int]], max_rows: int, max_tokens: int
) -> Iterator[list[int]]:
    """Group the indices of texts by length, longest first; empty texts are left out."""
    order = sorted((i for i, row in enumerate(ids) if row), key=lambda i: -len(ids[i]))
    while order:
        rows = max(1, min(max_rows, max_tokens // (len(ids[order[0]]) + 1)))
        yield order[:rows]
        order = order[rows:]


def in_groups(
    ids: Sequence[Sequence[int]],
    groups: Iterable[list[int]],
    decode: Callable[[list[int]], list[list[Translation]]],
    progress: Callable[[int], None],
) -> list[list[Translation]]:
    """Return the translations of all texts, decoded in groups; an empty text has an empty one."""
    results = [[NOTHING] for _ in ids]
    done = sum(1 for row in ids if not row)
    for chosen in groups:
        for i, translations in zip(chosen, decode(chosen), strict=True):
            results[i] = translations
        done += len(chosen)
        progress(done)
    return results


def max_source_tokens(model: Translator) -> int:
    """Return the maximum number of tokens of a text that the model translates."""
    limit = model.max_source
    return TOKENS if limit is None else min(TOKENS, limit - 1)
