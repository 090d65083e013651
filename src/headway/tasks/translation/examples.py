"""The examples of a translator's evaluation: pairs of files, or the held-out pairs of a run."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.evaluation.text_overlap import TEXT_METRICS
from headway.tasks.translation.batches import max_source_tokens
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import (
    TranslationDataConfig,
    TranslationRunConfig,
    TranslationScoring,
)
from headway.tasks.translation.data import held_out_pairs, validation_pairs
from headway.tasks.translation.directions import (
    Direction,
    corpora_of,
    direction_of,
    located,
    tagged,
)
from headway.tasks.translation.pair_files import Pair, PairFiles
from headway.tasks.translation.pairs.reading import pair_files, plain_files, read_pairs
from headway.tasks.translation.parallel_corpus import Corpus
from headway.tasks.translation.parallel_corpus import prepare as prepare_corpus
from headway.tasks.translation.span_corruption import SpanCorruption, corruption_of
from headway.tasks.translation.target_languages import check_chosen
from headway.text import TokenizerPair


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
    bundle: TranslatorBundle, paths: Sequence[Path], config: object, options: TranslationScoring
) -> TranslationExamples:
    """Read the pairs of files.

    config: the configuration of the run, for the names of the languages, which the options
    override. Raises DataError if there is no pair.
    """
    bundle = between(bundle, options)
    run = config if isinstance(config, TranslationRunConfig) else TranslationRunConfig()
    source, target = options.source or run.data.source, options.target or run.data.target
    named = replace(run.data, source=source, target=target)
    files = [_test_files(bundle, path, named) for path in paths]
    plain = [list(read_pairs(pair_file)) for pair_file, _ in files]
    sources = [pair.source for pairs in plain for pair in pairs]
    further = _further_references(paths, sources, source, options.references)
    pairs = [
        tagged(pair, direction, bundle.languages)
        for of_file, (_, direction) in zip(plain, files, strict=True)
        for pair in of_file
    ]
    name = ", ".join(pair_file.describe() for pair_file, _ in files)
    examples = _full(bundle, pairs, further, name, run, options)
    notes = [
        _zero_shot(examples.pairs, run.data.directions),
        *(note for file, _ in files for note in file.notes),
    ]
    corruption = corruption_of(run.data, bundle.tokenizer, run.training.seed)
    return replace(examples, note="; ".join(filter(None, notes)), corruption=corruption)


def _test_files(
    bundle: TranslatorBundle, path: Path, data: TranslationDataConfig
) -> tuple[PairFiles, Direction | None]:
    """Return a file of pairs, and its direction if the model has several target languages.

    Raises UsageError for a target language that the model does not have.
    """
    if data.corruption:
        return plain_files([path]), None
    if not bundle.languages:
        return pair_files(path, data.source, data.target, data.inline_tags), None
    direction = direction_of(path, data)
    bundle.target_languages.check(direction.target)
    return located(path, direction, data).train, direction


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
    bundle, data = between(bundle, options), config.data
    if options.references is not None:
        raise UsageError(
            "--references names columns of a file, and no file is named",
            hint="headway eval RUN FILE --references ...",
        )
    if options.split == "test" and not data.corruption:
        files = [(c.files.test, c.direction) for c in corpora_of(data) if c.files.test is not None]
        if not files:
            raise UsageError("the run has no test pairs", hint="name a file, or --split valid")
        pairs = [
            tagged(pair, direction, bundle.languages)
            for test, direction in files
            for pair in read_pairs(test)
        ]
        name = ", ".join(test.describe() for test, _ in files)
        return _full(bundle, pairs, [], name, config, options)
    folder = run / "data" / "valid"
    if folder.is_dir():
        corpus = Corpus.open(folder, bundle.tokenizer)
    else:
        corpus = _encoded(bundle, held_out_pairs(data), data.max_length)
    examples = validation_examples(
        config,
        options,
        bundle.tokenizer,
        max_source_tokens(bundle.model),
        validation_pairs(data),
        corpus,
    )
    return replace(examples, name=f"{examples.name} of {run}", training=_training_targets(config))


def validation_examples(
    config: TranslationRunConfig,
    options: TranslationScoring,
    tokenizers: TokenizerPair,
    longest: int,
    pairs: Sequence[Pair],
    corpus: Corpus,
) -> TranslationExamples:
    """Return the validation pairs of a run that are translated at an evaluation.

    pairs: their texts, of which those with more than `longest` tokens are left out. corpus: all
    validation pairs. Raises DataError if no pair is left.
    """
    chosen = pairs[: options.sentences or config.evaluation.sentences]
    sources = tokenizers.source.encode_batch([pair.source for pair in chosen])
    short = [pair for pair, ids in zip(chosen, sources, strict=True) if len(ids) <= longest]
    if not short:
        raise DataError(
            f"all validation sentences have more than {longest:,} tokens",
            config.data.valid or ", ".join(config.data.train),
            "--data.valid FILE with shorter sentences",
        )
    return TranslationExamples(
        pairs=short,
        references=[[pair.target] for pair in short],
        corpus=corpus,
        tokens=config.training.batch_tokens,
        name="validation pairs",
        text_metrics=_uses_text_metrics(config, options),
        corruption=corruption_of(config.data, tokenizers, config.training.seed),
    )


def _uses_text_metrics(config: TranslationRunConfig, options: TranslationScoring) -> bool:
    return options.text_metrics or config.evaluation.metric in TEXT_METRICS


def _further_references(
    paths: Sequence[Path], sources: Sequence[str], source: str | None, names: str | None
) -> list[list[str]]:
    """Read further references of all sources: one list for each name, in their order.

    Raises DataError if the sources of the references are others.
    """
    further = []
    for name in [] if names is None else [name.strip() for name in names.split(",")]:
        others = [p for path in paths for p in read_pairs(pair_files(path, source, name))]
        if [p.source for p in others] != sources:
            raise DataError(
                f"the references {name!r} are not references of the same {len(sources):,} sources",
                ", ".join(map(str, paths)),
                "every source must be on the same line in all of them",
            )
        further.append([p.target for p in others])
    return further


def _training_targets(config: TranslationRunConfig) -> Callable[[], Iterable[str]] | None:
    """Return a function that reads the target sentences that a run was trained on."""
    data = config.data
    if not data.train:
        return None
    return lambda: (
        pair.target for corpus in corpora_of(data) for pair in read_pairs(corpus.files.train)
    )


def _full(
    bundle: TranslatorBundle,
    pairs: Sequence[Pair],
    further: Sequence[Sequence[str]],
    name: str,
    config: TranslationRunConfig,
    options: TranslationScoring,
) -> TranslationExamples:
    """Return all pairs with a source and a target, or the first `options.sentences` of them."""
    indices = [i for i, pair in enumerate(pairs) if pair.source and pair.target]
    indices = indices[: options.sentences]
    if not indices:
        raise DataError("no pairs to evaluate", name)
    chosen = [pairs[i] for i in indices]
    limit = bundle.model.max_target
    longest = bundle.longest if limit is None else min(bundle.longest, limit - 1)
    return TranslationExamples(
        pairs=chosen,
        references=[
            [pairs[i].target, *(texts[i] for texts in further if texts[i])] for i in indices
        ],
        corpus=_encoded(bundle, chosen, longest),
        tokens=config.training.batch_tokens,
        name=name,
        training=_training_targets(config),
        text_metrics=_uses_text_metrics(config, options),
    )


def _encoded(bundle: TranslatorBundle, pairs: Iterable[Pair], longest: int) -> Corpus:
    """Encode pairs; those whose source or target has more than `longest` tokens are left out."""
    with tempfile.TemporaryDirectory() as folder:  # the files stay mapped after they are removed
        return prepare_corpus(pairs, bundle.tokenizer, Path(folder) / "pairs", longest)
