"""The searches for translations: beam search with phrases, and sampling by expected utility."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Tensor
from headway.bundle import best_outputs, folder_max_tokens, folder_rules, with_normalisation
from headway.decoding import (
    BeamSettings,
    Ensemble,
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
    Search,
    TextStreamer,
    expected_utilities,
    run,
    sample_search,
    stream_beam,
)
from headway.interop import GenerationDefaults
from headway.models import Translator
from headway.tasks.translation.batches import TOKENS, collate_sources
from headway.text import TokenizerPair

Output = TypeVar("Output")

ROWS = 64
"""Maximum number of sentences that are decoded together."""

NOTHING = Hypothesis((), 0.0, 0.0)
"""The translation of an empty text."""


@dataclass(frozen=True)
class Wording:
    """What the translations of some texts must contain and avoid: the tokens of phrases.

    required: for each text; empty if no text has any.
    """

    required: Sequence[Sequence[Sequence[int]]] = ()
    avoided: Sequence[Sequence[int]] = ()

    def of(self, chosen: Sequence[int]) -> Wording:
        """Return the wording of some of the texts."""
        required = [self.required[i] for i in chosen] if self.required else ()
        return Wording(required, self.avoided)


FREE = Wording()


@dataclass(frozen=True)
class TranslationSearch:
    """Searches with a model, or with an ensemble. stepper: gives the probabilities. model: the
    model that limits the lengths. generation: the defaults of a pretrained model.

    A search takes the ids of texts. Texts of similar length are decoded together; an empty text has
    an empty translation. progress: called with the number of texts translated so far.
    """

    stepper: Translator | Ensemble
    model: Translator
    tokenizer: TokenizerPair
    generation: GenerationDefaults | None = None

    def by_beam(
        self,
        ids: Sequence[Sequence[int]],
        settings: BeamSettings,
        num_best: int = 1,
        wording: Wording = FREE,
        progress: Callable[[int], None] = lambda done: None,
        observe: Observer | None = None,
    ) -> Search[list[list[Hypothesis]]]:
        """Return the best translations of each text, best first. observe: as in `beam_search`.

        Raises UsageError for settings that exclude each other.
        """
        settings.check(num_best)
        settings = self._for_wording(settings, wording)
        is_greedy = settings.beam == 1 and not wording.required  # which looks for no phrases

        def decode(chosen: list[int]) -> Search[list[list[Hypothesis]]]:
            rows, of_rows = [ids[i] for i in chosen], wording.of(chosen)
            inputs, limits = self._inputs(rows), self._limits(rows, settings, of_rows)
            search = best_outputs(
                self.stepper,
                inputs,
                limits,
                settings,
                is_greedy=is_greedy,
                num_best=num_best,
                observe=observe,
            )
            lists = yield from self._driven(search)
            return [[self._with_text(hypothesis) for hypothesis in best] for best in lists]

        return in_groups(ids, ROWS, decode, progress)

    def streamed(self, row: Sequence[int], settings: BeamSettings) -> Iterator[str]:
        """Yield the text of the best translation of the ids of one text, as it becomes certain."""
        writer = TextStreamer(self.tokenizer.target)
        settings = self._for_wording(settings, FREE)
        limits = self._limits([row], settings, FREE)
        parts = stream_beam(self.stepper, self._inputs([row]), limits, settings)
        for token in itertools.chain.from_iterable(parts):
            if text := writer.feed(token):
                yield text
        if text := writer.finish():
            yield text

    def _driven(self, search: Search[Output]) -> Search[Output]:
        """Return the output of a search: its steps are those of the model, or of an ensemble, whose
        steps no one else can compute."""
        if self.stepper is self.model:
            return (yield from search)
        return run(self.stepper, search)

    def _for_wording(self, settings: BeamSettings, wording: Wording) -> BeamSettings:
        """Return the settings with a normalisation. Where phrases are required, outputs are ranked
        as in transformers, but none is cut."""
        chosen = with_normalisation(settings, self.generation)
        if chosen.as_transformers and wording.required:
            return replace(chosen, normalisation="average")
        return chosen

    def _limits(
        self, rows: Sequence[Sequence[int]], settings: BeamSettings, wording: Wording
    ) -> Limits:
        target, generation, cut = self.tokenizer.target, self.generation, settings.as_transformers
        lengths = self._max_lengths(rows, cut=cut)
        rules = self._rules(lengths, wording.avoided, cut=cut)
        if wording.required:
            rules.append(Phrases(wording.required, target.ends))
        return Limits(
            target.bos,
            target.ends,
            lengths,
            rules,
            prompts=[] if generation is None else [[target.bos]] * len(rows),
            cut=cut,
            renormalise=generation is not None and generation.renormalise,
            never_early=generation is not None and generation.early_stopping == "never",
        )

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
        self,
        ids: Sequence[Sequence[int]],
        count: int,
        seed: int,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Search[list[list[Hypothesis]]]:
        """Return distinct samples of each text, by expected chrF."""

        def decode(chosen: list[int]) -> Search[list[list[Hypothesis]]]:
            return self._samples([ids[i] for i in chosen], count, seed)

        return in_groups(ids, max(1, min(ROWS, 4 * ROWS // count)), decode, progress)

    def _samples(
        self, rows: Sequence[Sequence[int]], count: int, seed: int
    ) -> Search[list[list[Hypothesis]]]:
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
        yield from self._driven(sample_search(self.stepper, outputs, sampling, state))
        by_item = [outputs[i : i + count] for i in range(0, len(outputs), count)]
        return [self._by_expected_chrf(samples) for samples in by_item]

    def _by_expected_chrf(self, samples: Sequence[Row]) -> list[Hypothesis]:
        texts = [self.tokenizer.target.decode(row.tokens) for row in samples]
        utilities = expected_utilities(texts, texts)
        ranked = sorted(range(len(texts)), key=lambda i: -utilities[i])
        distinct: dict[str, Hypothesis] = {}
        for i in ranked:
            distinct.setdefault(texts[i], samples[i].output(texts[i], utilities[i]))
        return list(distinct.values())

    def _with_text(self, hypothesis: Hypothesis) -> Hypothesis:
        return replace(hypothesis, text=self.tokenizer.target.decode(hypothesis.tokens))


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


def in_groups(
    ids: Sequence[Sequence[int]],
    max_rows: int,
    decode: Callable[[list[int]], Search[list[list[Hypothesis]]]],
    progress: Callable[[int], None],
) -> Search[list[list[Hypothesis]]]:
    """Return the translations of all texts, decoded in groups of similar length, longest first.

    An empty text has an empty translation. decode: returns those of the texts at some indices.
    """
    results = [[NOTHING] for _ in ids]
    order = sorted((i for i, row in enumerate(ids) if row), key=lambda i: -len(ids[i]))
    done = len(ids) - len(order)
    while order:
        rows = max(1, min(max_rows, TOKENS // (len(ids[order[0]]) + 1)))
        chosen, order = order[:rows], order[rows:]
        lists = yield from decode(chosen)
        for i, translations in zip(chosen, lists, strict=True):
            results[i] = translations
        done += len(chosen)
        progress(done)
    return results
