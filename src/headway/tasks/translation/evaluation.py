"""The evaluation of a translator: BLEU and chrF of translations, nats per reference token."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from headway.data.batches import TranslationBatch, collate
from headway.data.bucketing import Buckets
from headway.data.formats import Pair, Splits, pair_files, plain_files, read_pairs
from headway.data.parallel_corpus import Corpus
from headway.data.parallel_corpus import prepare as prepare_corpus
from headway.data.span_corruption import SpanCorruption
from headway.errors import DataError, UsageError
from headway.evaluation import mean_nats, score_against_several
from headway.evaluation.bleu import DEFAULT, TRANSLATION_METRICS
from headway.evaluation.scores import Metric, Scores
from headway.evaluation.text_overlap import TEXT_METRICS, score_texts
from headway.evaluation.word_frequency import f1_by_frequency, word_counts
from headway.tasks.translation.breakdown import bleu_by_length, scores_by_direction
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
from headway.tasks.translation.learned_metric import comet_details, comet_sums, opened
from headway.tasks.translation.placeholders import counts_of, placeholder_sums
from headway.training import TranslationObjective

FIVE_BEAMS = TranslationScoring()


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


def read_examples(
    bundle: TranslatorBundle,
    paths: Sequence[Path],
    config: Any | None,
    options: TranslationScoring,
) -> TranslationExamples:
    """Read the pairs of files.

    config: the configuration of the run, for the names of the languages, which the options
    override. Raises DataError if there is no pair.
    """
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
        note=_zero_shot(examples.pairs, data.directions),
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


def evaluate(
    bundle: TranslatorBundle,
    examples: TranslationExamples,
    options: TranslationScoring = FIVE_BEAMS,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Compute BLEU and chrF of translations (0 to 100), and nats of the references.

    Before them, of examples with `text_metrics`, exact match, F1, ROUGE and character error rate
    (0 to 1). Of sources with placeholders, the placeholder accuracy (`placeholder_sums`, 0 to 1).
    Of texts for span corruption only nats, of the targets of epoch 0.

    nats is the mean of -log P(token) over all tokens of the reference translations, </s> included;
    of several references, over those of the first.

    progress: called before each batch that is scored and after each batch that is translated, with
    the number of pairs processed so far. Raises UsageError for a source that is too long, and what
    `Comet.open` raises.
    """
    comet = opened(options)
    with _precision(bundle, options):
        nats, tokens = _nats(bundle, examples, progress)
        metric = Metric("nats", nats, higher_is_better=False)
        if examples.corruption is not None:
            return Scores((metric,), {"target_tokens": tokens}, details={"pairs": examples.name})
        sources = [pair.source for pair in examples.pairs]
        translations = bundle.search(
            sources,
            beam=options.beam,
            length_penalty=options.length_penalty,
            coverage=options.coverage,
            progress=lambda done: progress(len(examples.corpus) + done),
        )
        outputs = [best[0].text for best in translations]
        others = placeholder_sums(bundle, examples.pairs, outputs, options)
    others |= comet_sums(comet, bundle, sources, outputs, examples.references)
    names = TRANSLATION_METRICS if options.all_metrics else DEFAULT
    scores = score_against_several(outputs, examples.references, names)
    metrics = [
        Metric(name, value, name != "ter", scores.signatures[name])
        for name, value in scores.scores.items()
    ]
    texts = score_texts(outputs, examples.references) if examples.text_metrics else {}
    of_texts = [Metric(name, sums.corpus(), name != "cer") for name, sums in texts.items()]
    metrics += [Metric(name, sums.corpus()) for name, sums in others.items()]
    return Scores(
        (*of_texts, *metrics, metric),
        {"sentences": scores.sentences, "target_tokens": tokens, **counts_of(others)},
        _samples(examples.pairs, outputs, options.samples),
        details={
            **{f"{name}_signature": text for name, text in scores.signatures.items()},
            **comet_details(comet),
            **_details(examples, outputs, options),
        },
        sums={**texts, **scores.sums, **others},
    )


def _details(
    examples: TranslationExamples, outputs: Sequence[str], options: TranslationScoring
) -> dict[str, Any]:
    """Return the search, the name of the pairs, and the scores of their parts."""
    return {
        "beam": options.beam,
        "length_penalty": options.length_penalty,
        **({"coverage": options.coverage} if options.coverage else {}),
        "pairs": examples.name,
        **scores_by_direction(examples.pairs, examples.references, outputs),
        **(_breakdown(examples, outputs) if options.breakdown else {}),
        **({"note": examples.note} if examples.note else {}),
    }


def _breakdown(examples: TranslationExamples, outputs: Sequence[str]) -> dict[str, Any]:
    """Return BLEU by source length, and F1 of words by frequency if the training pairs are known.

    Raises UsageError or DataError if the training pairs cannot be read any more.
    """
    by_length = bleu_by_length(examples.pairs, outputs)
    if examples.training is None:
        return {"by_length": by_length}
    targets = [pair.target for pair in examples.pairs]
    groups = f1_by_frequency(outputs, targets, word_counts(examples.training()))
    return {"by_length": by_length, "by_frequency": [asdict(group) for group in groups]}


def _precision(
    bundle: TranslatorBundle, options: TranslationScoring
) -> AbstractContextManager[Any]:
    if not options.float32:
        return nullcontext()
    return torch.autocast(bundle.device.type, enabled=False)


def _nats(
    bundle: TranslatorBundle, examples: TranslationExamples, progress: Callable[[int], None]
) -> tuple[float, int]:
    """Return the mean negative log-likelihood per target token, and the number of tokens."""
    corpus, tokenizer = examples.corpus, bundle.tokenizer
    objective = TranslationObjective(tokenizer.target.pad)
    buckets = Buckets(corpus.source_lengths, corpus.target_lengths, 10**6, 0)
    buckets.tokens = max(examples.tokens, int(buckets.longest.max()))
    pairs = tokens = 0

    def loss(batch: TranslationBatch) -> tuple[float, int]:
        nonlocal pairs, tokens
        progress(pairs)
        batch_loss = objective(bundle.model, batch)
        pairs, tokens = pairs + len(batch.indices), tokens + batch_loss.count
        return batch_loss.nats.item(), batch_loss.count

    batches = (
        collate(corpus, chosen, tokenizer, examples.corruption).to(str(bundle.device))
        for chosen in buckets.epoch(0)
    )
    return mean_nats(loss, batches), tokens


def _samples(pairs: Sequence[Pair], outputs: Sequence[str], count: int) -> list[Mapping[str, str]]:
    """Return `count` pairs with their translations, evenly spaced: adjacent pairs are similar."""
    chosen = [(2 * i + 1) * len(pairs) // (2 * count) for i in range(count)]
    return [
        {"source": pairs[i].source, "reference": pairs[i].target, "output": outputs[i]}
        for i in chosen
    ]
