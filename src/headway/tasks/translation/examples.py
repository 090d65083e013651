"""The examples of a translator's evaluation: pairs of files, or the held-out pairs of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, UsageError
from headway.evaluation.text_overlap import TEXT_METRICS
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import (
    TranslationDataConfig,
    TranslationRunConfig,
    TranslationScoring,
    TranslationTrainingConfig,
)
from headway.tasks.translation.data import (
    corruption_of,
    held_out_pairs,
    validation_pairs,
    within_max_length,
)
from headway.tasks.translation.directions import (
    DirectedSplits,
    corpora_of,
    direction_of,
    located,
    tagged,
)
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.pairs.reading import pair_files, plain_files, read_pairs
from headway.tasks.translation.pairs.splits import Splits
from headway.tasks.translation.parallel_corpus import Corpus
from headway.tasks.translation.parallel_corpus import prepare as prepare_corpus
from headway.tasks.translation.span_corruption import SpanCorruption
from headway.tasks.translation.target_languages import check_chosen


@dataclass(frozen=True, kw_only=True)
class TranslationExamples:
    """The examples of an evaluation.

    pairs: the pairs whose source is translated. references: all references of each pair, that of
    the pair first. training: reads the training targets, if the run is known. corpus: the encoded
    pairs whose target is scored for nats. tokens: the batch size in tokens for the corpus. name:
    their name in the terminal.
    note: a warning about the pairs, or empty. text_metrics: whether `TEXT_METRICS` are computed.
    corruption: if set, the targets are texts, and the spans of these are scored for nats only.
    """

    pairs: Sequence[Pair]
    references: Sequence[Sequence[str]]
    corpus: Corpus
    tokens: int
    name: str
    training: Callable[[], Iterable[str]] | None = None
    note: str = ""
    text_metrics: bool = False
    corruption: SpanCorruption | None = None

    def __len__(self) -> int:
        """The number of sentences that are translated."""
        return len(self.pairs)


def between(bundle: TranslatorBundle, options: TranslationScoring) -> TranslatorBundle:
    """Return the bundle for the languages of the options.

    Raises UsageError if the model needs languages, and none is chosen.
    """
    chosen = bundle.into(options.to, options.from_language)
    check_chosen(chosen.tokenizer)
    return chosen


def read_examples(
    bundle: TranslatorBundle, paths: Sequence[Path], config: Any, options: TranslationScoring
) -> TranslationExamples:
    """Read the pairs of files.

    config: the configuration of the run, for the names of the languages, which the options
    override. Raises DataError if there is no pair.
    """
    bundle = between(bundle, options)
    data, training = TranslationDataConfig(), TranslationTrainingConfig()
    if isinstance(config, TranslationRunConfig):
        data, training = config.data, config.training
    source, target = options.source or data.source, options.target or data.target
    named = replace(data, source=source, target=target)
    corpora = [_test_files(bundle, path, named) for path in paths]
    files = [(corpus.files.train, corpus.direction) for corpus in corpora]
    name = ", ".join(pair_file.describe() for pair_file, _ in files)
    plain = [pair for pair_file, _ in files for pair in read_pairs(pair_file)]
    further = _further_references(paths, plain, source, options.references)
    pairs = [
        tagged(pair, direction, bundle.languages)
        for pair_file, direction in files
        for pair in read_pairs(pair_file)
    ]
    targets = _training_targets(config)
    examples = _full(bundle, pairs, further, name, training.batch_tokens, options, targets)
    return replace(
        examples,
        note="; ".join(
            note
            for note in (
                _zero_shot(examples.pairs, data.directions),
                *(note for pair_file, _ in files for note in pair_file.notes),
            )
            if note
        ),
        text_metrics=_uses_text_metrics(config, options),
        corruption=corruption_of(data, bundle.tokenizer, training.seed),
    )


def _test_files(
    bundle: TranslatorBundle, path: Path, data: TranslationDataConfig
) -> DirectedSplits:
    """Return a file of pairs. Its direction is known if the model has several target languages.

    Raises UsageError for a target language that the model does not have.
    """
    if data.corruption:
        return DirectedSplits(Splits(train=plain_files([path])), None)
    if not bundle.languages:
        files = pair_files(path, data.source, data.target, data.inline_tags)
        return DirectedSplits(Splits(train=files), None)
    direction = direction_of(path, data)
    bundle.target_languages.check(direction.target)
    return DirectedSplits(located(path, direction, data), direction)


def _zero_shot(pairs: Sequence[Pair], trained: Sequence[str]) -> str:
    """Return a note on the directions of the pairs that have no training pairs, or ""."""
    names = sorted({p.direction for p in pairs if p.direction} - set(trained)) if trained else []
    if not names:
        return ""
    return (
        f"{', '.join(names)}: no training pairs of this direction (zero-shot); "
        f"trained on {', '.join(sorted(set(trained)))}"
    )


def held_out_examples(
    bundle: TranslatorBundle, run: Path, config: TranslationRunConfig, options: TranslationScoring
) -> TranslationExamples:
    """Read the test pairs of a run, or its validation pairs.

    As many validation pairs are translated as during training. Raises UsageError if the run has no
    test pairs and `options.split` is test.
    """
    bundle = between(bundle, options)
    tokens = config.training.batch_tokens
    if options.references is not None:
        raise UsageError(
            "--references names columns of a file, and no file is named",
            hint="headway eval RUN FILE --references ...",
        )
    targets = _training_targets(config)
    if options.split == "test" and not config.data.corruption:
        corpora = corpora_of(config.data)
        files = [(c.files.test, c.direction) for c in corpora if c.files.test is not None]
        if not files:
            raise UsageError("the run has no test pairs", hint="name a file, or --split valid")
        pairs = [
            tagged(pair, direction, bundle.languages)
            for test, direction in files
            for pair in read_pairs(test)
        ]
        name = ", ".join(test.describe() for test, _ in files)
        examples = _full(bundle, pairs, [], name, tokens, options, targets)
        return replace(examples, text_metrics=_uses_text_metrics(config, options))
    folder = run / "data" / "valid"
    if folder.is_dir():
        corpus = Corpus.open(folder, bundle.tokenizer)
    else:
        corpus = _encoded(bundle, held_out_pairs(config.data), config.data.max_length)
    sentences = options.sentences or config.evaluation.sentences
    pairs = validation_pairs(config.data)[:sentences]
    where = config.data.valid or ", ".join(config.data.train)
    pairs = within_max_length(pairs, bundle.tokenizer, bundle.longest, where)
    return TranslationExamples(
        pairs=pairs,
        references=[[pair.target] for pair in pairs],
        corpus=corpus,
        tokens=tokens,
        name=f"validation pairs of {run}",
        training=targets,
        text_metrics=_uses_text_metrics(config, options),
        corruption=corruption_of(config.data, bundle.tokenizer, config.training.seed),
    )


def _uses_text_metrics(config: Any | None, options: TranslationScoring) -> bool:
    if options.text_metrics or not isinstance(config, TranslationRunConfig):
        return options.text_metrics
    return config.evaluation.metric in TEXT_METRICS


def _further_references(
    paths: Sequence[Path], pairs: Sequence[Pair], source: str | None, names: str | None
) -> list[list[str]]:
    """Read further references of all pairs: one list for each name, in the order of the pairs.

    Raises DataError if their sources are not those of the pairs.
    """
    further = []
    for name in [] if names is None else [name.strip() for name in names.split(",")]:
        others = [p for path in paths for p in read_pairs(pair_files(path, source, name))]
        if [p.source for p in others] != [p.source for p in pairs]:
            raise DataError(
                f"the references {name!r} are not references of the same {len(pairs):,} sources",
                ", ".join(map(str, paths)),
                "every source must be on the same line in all of them",
            )
        further.append([p.target for p in others])
    return further


def _training_targets(config: Any | None) -> Callable[[], Iterable[str]] | None:
    """Return a function that reads the target sentences that a run was trained on."""
    if not isinstance(config, TranslationRunConfig) or not config.data.train:
        return None
    data = config.data
    return lambda: (
        pair.target for corpus in corpora_of(data) for pair in read_pairs(corpus.files.train)
    )


def _full(
    bundle: TranslatorBundle,
    pairs: Sequence[Pair],
    further: Sequence[Sequence[str]],
    name: str,
    tokens: int,
    options: TranslationScoring,
    training: Callable[[], Iterable[str]] | None,
) -> TranslationExamples:
    """Return all pairs with a source and a target, or the first `options.sentences` of them."""
    indices = [i for i, pair in enumerate(pairs) if pair.source and pair.target]
    indices = indices[: options.sentences]
    if not indices:
        raise DataError("no pairs to evaluate", name)
    chosen = [pairs[i] for i in indices]
    references = [[pairs[i].target, *(texts[i] for texts in further if texts[i])] for i in indices]
    limit = bundle.model.max_target
    longest = bundle.longest if limit is None else min(bundle.longest, limit - 1)
    corpus = _encoded(bundle, chosen, longest)
    return TranslationExamples(
        pairs=chosen,
        references=references,
        corpus=corpus,
        tokens=tokens,
        name=name,
        training=training,
    )


def _encoded(bundle: TranslatorBundle, pairs: Iterable[Pair], longest: int) -> Corpus:
    """Encode pairs; those whose source or target has more than `longest` tokens are left out."""
    with tempfile.TemporaryDirectory() as folder:  # the files stay mapped after they are removed
        return prepare_corpus(pairs, bundle.tokenizer, Path(folder) / "pairs", longest)
