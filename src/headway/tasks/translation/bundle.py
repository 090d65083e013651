"""The bundle of a translator: model and tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import torch

from headway.base.errors import DataError, UsageError
from headway.bundle import (
    ForwardPass,
    InputSpec,
    Probe,
    ProbeRequest,
    SearchingBundle,
    SearchTrace,
    next_token_readout,
)
from headway.bundle.arguments import checked
from headway.decoding import BeamSettings, Ensemble, Hypothesis, Observer, Search, run
from headway.inspection import align, check_aligns
from headway.interop import NO_SETTINGS, FolderSettings, Kind
from headway.models import Translator
from headway.tasks.translation.glossary import Glossary, required_phrases
from headway.tasks.translation.options import Translated, TranslateInput, TranslateOptions
from headway.tasks.translation.origin import UNKNOWN, Origin, origin_of_run
from headway.tasks.translation.search import TranslationSearch, Wording, encoded_phrases
from headway.tasks.translation.source_texts import (
    SourceTexts,
    check_positions,
    forward_pass,
    ranked_line,
    text_of_lines,
)
from headway.tasks.translation.target_languages import TargetLanguages
from headway.text import TokenizerPair


class TranslatorBundle(SearchingBundle[TranslateInput, TranslateOptions, Translated]):
    """A translator with its tokenizers: translates plain sentences."""

    kind: ClassVar[str] = "translator"
    settings_kind: ClassVar[Kind | None] = "translator"
    inputs: ClassVar[InputSpec] = InputSpec(target=True)
    reader_class = TokenizerPair
    usual = TranslateOptions()
    model: Translator

    def __init__(
        self,
        model: Translator,
        tokenizer: TokenizerPair,
        *,
        origin: Origin = UNKNOWN,
        settings: FolderSettings = NO_SETTINGS,
    ) -> None:
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
        super().__init__(model, tokenizer, settings)
        self.tokenizer, self.origin = tokenizer, origin
        self._others: tuple[Translator, ...] = ()  # further members of an ensemble
        self.target_languages = TargetLanguages(tuple(sorted(tokenizer.source.language_tags)))
        if self.languages or tokenizer.languages is not None:
            self.inputs = InputSpec(target=True, language=True)  # type: ignore[misc]

    @classmethod
    def open(cls, model: Any, folder: Path, contents: dict[str, object]) -> TranslatorBundle:
        """See `StoredBundle.open`. The run of the folder, if any, names the languages."""
        bundle = super().open(model, folder, contents)
        assert isinstance(bundle, TranslatorBundle)
        bundle.origin = origin_of_run(folder)
        return bundle

    @property
    def languages(self) -> tuple[str, ...]:
        """The target languages of a model for several, sorted; empty for one direction."""
        return self.target_languages.names

    @checked
    def into(self, language: str | None, source: str | None = None) -> TranslatorBundle:
        """Return a bundle that translates texts without a tag into `language`, unless it is None.

        source: the language of the texts, for a pretrained model that has tokens for it; None
        changes nothing. Raises UsageError, with known languages, for another one.
        """
        if language is None and source is None:
            return self
        tokenizer = self.tokenizer
        if tokenizer.languages is not None:
            tokenizer = tokenizer.between(source, language)
        elif source is not None:
            raise UsageError(
                f"source language {source!r}: the model has no tokens for source languages",
                hint="leave it out (--from-language); only mBART, M2M100 and NLLB have such tokens",
            )
        elif language is not None:
            self.target_languages.check(language)
        bundle = self._with_tokenizer(tokenizer)
        bundle._others = self._others
        if tokenizer.languages is None:
            bundle.target_languages = replace(self.target_languages, chosen=language)
        return bundle

    def _with_tokenizer(self, tokenizer: TokenizerPair) -> TranslatorBundle:
        return TranslatorBundle(self.model, tokenizer, origin=self.origin, settings=self.settings)

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
        joint = self._with_tokenizer(self.tokenizer)
        joint.target_languages = self.target_languages
        joint._others = tuple(other.model for other in others)
        return joint

    @property
    def _search(self) -> TranslationSearch:
        stepper = Ensemble([self.model, *self._others]) if self._others else self.model
        return TranslationSearch(stepper, self.model, self.tokenizer, self.settings.generation)

    @property
    def _sources(self) -> SourceTexts:
        return SourceTexts(self.model, self.tokenizer, self.target_languages)

    @property
    def longest(self) -> int:
        """The maximum number of tokens of a text, without a language tag."""
        return self._sources.longest

    @checked
    def translate(self, texts: Sequence[str], **settings: Any) -> list[str]:
        """Return the best translation of each text, in order.

        settings: those of `BeamSettings`, such as beam=1 for greedy search. What is unset is that
        of `default_options`.
        """
        return [best[0].text for best in self.search(texts, **settings)]

    def predicting(
        self,
        inputs: Sequence[TranslateInput],
        options: TranslateOptions | None = None,
        *,
        first: int = 1,
    ) -> Search[list[Translated]]:
        """Translate the inputs, in order, with alignments if they are requested.

        Each line of a text is translated alone, and blank lines stay, unless the model reads texts
        of any form (`origin.by_line`). A line of more than `longest` tokens is split at the ends of
        its sentences; it has one translation. A text that was split has no alignment.

        options: if unset, `default_options`. first: the number of the first input. Raises
        UsageError for more translations than beams,
        and if an alignment is requested of a model without attention.
        """
        options = options or self.default_options
        if options.align:
            check_aligns(self)
        if options.nbest > options.beam:
            raise UsageError(
                f"nbest={options.nbest}: must be between 1 and the beam width, {options.beam}"
            )
        bundle = self.into(options.to, options.from_language)
        searching = bundle.with_members(options.ensemble, options.to, options.from_language)
        texts = [item.text for item in inputs]
        lines_of = partial(bundle._sources.lines, by_line=self.origin.by_line)
        of_texts = [lines_of(text, f"text {n}") for n, text in enumerate(texts, start=first)]
        parts = [part for lines in of_texts for line in lines for part in line.parts]
        translations = iter((yield from searching._translations(parts, options, first)))
        outputs = []
        for number, (text, lines) in enumerate(zip(texts, of_texts, strict=True), start=first):
            best = text_of_lines(lines, [ranked_line(line, translations) for line in lines])
            is_whole = [len(line.parts) for line in lines] == [1]
            aligned = options.align and is_whole and best[0].text
            words = align(bundle, text, best[0].text).as_dict() if aligned else None
            outputs.append(Translated(number, text, best, words))
        return outputs

    def with_members(
        self, folders: Sequence[Path], to: str | None, from_language: str | None
    ) -> TranslatorBundle:
        """Return the ensemble of this model and those in `folders`; without any, the bundle itself.

        to, from_language: the languages of the others. Raises UsageError for a model of another
        kind, and DataError for another tokenizer.
        """
        if not folders:
            return self
        others = _loaded(tuple(folders), self.device)
        return self.ensemble([other.into(to, from_language) for other in others])

    def _translations(
        self, texts: Sequence[str], options: TranslateOptions, first: int
    ) -> Search[list[list[Hypothesis]]]:
        """Return the translations of each text: by beam search, or samples by expected chrF."""
        ids = self._sources.encoded(texts, first)
        if options.mbr:
            if options.contain or options.avoid or options.glossary is not None:
                raise UsageError(
                    "--mbr samples translations, which cannot be made to contain phrases",
                    hint="leave out --mbr, or --contain, --avoid and --glossary",
                )
            sampled = yield from self._search.by_sampling(ids, options.mbr, options.seed)
            return [ranked[: options.nbest] for ranked in sampled]
        glossary = None if options.glossary is None else Glossary.read(options.glossary)
        required = required_phrases(texts, options.contain, glossary)
        wording = self._wording(len(texts), required, options.avoid)
        return (yield from self._search.by_beam(ids, options, options.nbest, wording))

    def _wording(
        self, count: int, contain: Sequence[Sequence[str]], avoid: Sequence[str]
    ) -> Wording:
        """Encode the phrases that the translations of `count` texts must contain, or avoid."""
        required = encoded_phrases(self.tokenizer, contain, count)
        avoided = encoded_phrases(self.tokenizer, [avoid], 1)[0]
        return Wording(required if any(required) else (), avoided)

    @checked
    def search(
        self,
        texts: Sequence[str],
        settings: BeamSettings | None = None,
        *,
        num_best: int = 1,
        contain: Sequence[Sequence[str]] = (),
        avoid: Sequence[str] = (),
        progress: Callable[[int], None] = lambda done: None,
        observe: Observer | None = None,
        **changes: object,
    ) -> list[list[Hypothesis]]:
        """Find the `num_best` best translations of each text by beam search, best first.

        Sentences of similar length are decoded together; the result of a text does not depend on
        the other texts. An empty text translates to an empty text.

        settings: if unset, `default_options`. changes: other values of them, by name. contain: for
        each text, the phrases that its translations must contain; empty for no phrases. avoid:
        phrases that none may contain. progress: called with the number of texts translated so far.
        observe: receives the candidates of every step of the search; only for a single text. Raises
        UsageError for a text of more than `longest` tokens, and if no translation fits the phrases.
        """
        settings = self._settings(settings, changes)
        if observe is not None and (len(texts) != 1 or settings.beam == 1):
            problem = "observe needs a single text and a beam width above 1"
            raise UsageError(problem, hint="[text], beam=4")
        wording, ids = self._wording(len(texts), contain, avoid), self._sources.encoded(texts)
        search = self._search.by_beam(ids, settings, num_best, wording, progress, observe)
        return run(self.model, search)

    def stream(self, text: str, **settings: object) -> Iterator[str]:
        """Yield the translation of a text in parts, as soon as they are certain.

        A part is certain if everything that the beam search can still return begins with it. The
        parts, joined, are the translation that `search` returns for the same settings. Raises
        UsageError for a text of more than `longest` tokens.
        """
        chosen = self._settings(None, settings)
        chosen.check()
        (row,) = self._sources.encoded([text])
        if row:
            yield from self._search.streamed(row, chosen)

    def sample(
        self,
        texts: Sequence[str],
        count: int,
        seed: int = 0,
        *,
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[list[Hypothesis]]:
        """Sample `count` translations of each text, ranked by expected chrF, distinct ones once.

        Sample i of every text has the seed `seed` + i. Tokens below 2 % of the largest probability
        are not sampled. The score of a translation is its mean chrF against all samples (minimum
        Bayes risk), its log-probability that of its tokens. progress: as in `search`. Raises
        UsageError for a text that is too long.
        """
        ids = self._sources.encoded(texts)
        return run(self.model, self._search.by_sampling(ids, count, seed, progress))

    def reading(self, source: str, target: str | Sequence[int] | None = None) -> ForwardPass:
        """Prepare a forward pass over a sentence and a translation, for inspection.

        target: the translation, as text or ids; None: the model's own translation. The input of the
        decoder is its target shifted by one token. Raises UsageError for an empty or too long text.
        """
        if not source.strip():
            raise UsageError("the source text is empty, so there is nothing to inspect")
        (source_ids,) = self._sources.encoded([source], name="the source")
        if target is None:
            target = self.search([source])[0][0].tokens
        encode = self.tokenizer.target.encode
        target_ids = encode(target.strip()) if isinstance(target, str) else [*target]
        check_positions(len(target_ids), self.model.max_target, "the target")
        return forward_pass(self.model, self.tokenizer, source_ids, target_ids)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.into(request.language).reading(request.input, request.target)
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
            generated={"read": 1, "target": 0},
        )

    def trace_search(
        self, input: str, *, language: str | None = None, beam: int = 4
    ) -> SearchTrace:
        """Return all candidates that the beam search for the best translation scored.

        language: the target language, of a model with several.
        """
        translator, target = self.into(language), self.tokenizer.target
        return self._trace(
            lambda observe: translator.search([input], beam=beam, observe=observe)[0][0],
            target.bos,
            target.token_strings,
        )


@lru_cache(maxsize=4)
def _loaded(paths: tuple[Path, ...], device: torch.device) -> tuple[TranslatorBundle, ...]:
    """Return the further members of an ensemble."""
    from headway.tasks.opening import load  # which imports the bundles of all tasks

    bundles = []
    for path in paths:
        bundle = load(path, str(device))
        if not isinstance(bundle, TranslatorBundle):
            raise UsageError(f"{path} is a {bundle.kind}, not a translator", "--ensemble")
        bundles.append(bundle)
    return tuple(bundles)
