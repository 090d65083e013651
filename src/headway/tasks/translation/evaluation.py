"""How good a translator is: BLEU and chrF of its translations, nats per reference token."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.data.batches import TranslationBatch, collate
from headway.data.bucketing import Buckets
from headway.data.formats import Pair, pair_files, read_pairs
from headway.data.parallel_corpus import Corpus
from headway.data.parallel_corpus import prepare as prepare_corpus
from headway.errors import DataError, UsageError
from headway.evaluation import mean_nats, score_translations
from headway.evaluation.scores import Metric, Scores
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import (
    TranslationDataConfig,
    TranslationRunConfig,
    TranslationScoring,
    TranslationTrainingConfig,
)
from headway.tasks.translation.data import (
    held_out_pairs,
    splits_of,
    translatable,
    validation_pairs,
)
from headway.training import TranslationObjective

FIVE_BEAMS = TranslationScoring()


@dataclass(frozen=True, kw_only=True)
class TranslationExamples:
    """What a translator is evaluated on.

    pairs: those whose source side is translated. corpus: the encoded pairs whose target side is
    scored for nats. tokens: budget of a batch of these. name: what they are called in a terminal.
    """

    pairs: Sequence[Pair]
    corpus: Corpus
    tokens: int
    name: str

    def __len__(self) -> int:
        """The number of sentences that are translated."""
        return len(self.pairs)


def read_examples(
    bundle: TranslatorBundle,
    paths: Sequence[Path],
    config: Any | None,
    options: TranslationScoring,
) -> TranslationExamples:
    """The pairs of files. config: of the run, for the names of languages; the options may name
    others. DataError if there is no pair."""
    data, training = TranslationDataConfig(), TranslationTrainingConfig()
    if isinstance(config, TranslationRunConfig):
        data, training = config.data, config.training
    source, target = options.source or data.source, options.target or data.target
    files = [pair_files(path, source, target) for path in paths]
    pairs = [pair for each in files for pair in read_pairs(each)]
    name = ", ".join(each.describe() for each in files)
    return _full(bundle, pairs, name, training.tokens, options)


def held_out_examples(
    bundle: TranslatorBundle, run: Path, config: TranslationRunConfig, options: TranslationScoring
) -> TranslationExamples:
    """The test pairs of a run, or those that it validates on: as many are translated as it
    translates while training. UsageError if it has no test pairs."""
    tokens = config.training.tokens
    if options.split == "test":
        files = splits_of(config.data).test
        if files is None:
            raise UsageError("the run has no test pairs", hint="name a file, or --split valid")
        return _full(bundle, read_pairs(files), files.describe(), tokens, options)
    folder = run / "data" / "valid"
    if folder.is_dir():
        corpus = Corpus.open(folder, bundle.tokenizer)
    else:
        corpus = _encoded(bundle, held_out_pairs(config.data), config.data.max_length)
    sentences = options.sentences or config.evaluation.sentences
    pairs = validation_pairs(config.data)[:sentences]
    where = config.data.valid or config.data.train or ""
    return TranslationExamples(
        pairs=translatable(pairs, bundle.tokenizer, bundle.longest, where),
        corpus=corpus,
        tokens=tokens,
        name=f"validation pairs of {run}",
    )


def _full(
    bundle: TranslatorBundle,
    pairs: Iterable[Pair],
    name: str,
    tokens: int,
    options: TranslationScoring,
) -> TranslationExamples:
    """All of the pairs with two sides, or the first ones."""
    chosen = [pair for pair in pairs if pair.source and pair.target][: options.sentences]
    if not chosen:
        raise DataError("there is no pair to evaluate on", name)
    room = bundle.model.max_target
    longest = bundle.longest if room is None else min(bundle.longest, room - 1)
    corpus = _encoded(bundle, chosen, longest)
    return TranslationExamples(pairs=chosen, corpus=corpus, tokens=tokens, name=name)


def _encoded(bundle: TranslatorBundle, pairs: Iterable[Pair], longest: int) -> Corpus:
    """The pairs as token ids; those with more than `longest` tokens on a side are left out."""
    with tempfile.TemporaryDirectory() as folder:  # the files stay mapped after they are removed
        return prepare_corpus(pairs, bundle.tokenizer, Path(folder) / "pairs", longest)


def evaluate(
    bundle: TranslatorBundle,
    examples: TranslationExamples,
    options: TranslationScoring = FIVE_BEAMS,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """BLEU and chrF of the translations of the pairs, 0 to 100; nats, the mean of -log P(token)
    over all tokens of the reference translations and their ends.

    progress: called before each batch that is scored and after each that is translated, with the
    number of pairs processed so far. UsageError for a source that is too long to be translated.
    """
    with _precision(bundle, options):
        nats, tokens = _nats(bundle, examples, progress)
        found = bundle.search(
            [pair.source for pair in examples.pairs],
            beam=options.beam,
            length_penalty=options.length_penalty,
            progress=lambda done: progress(len(examples.corpus) + done),
        )
    outputs = [best[0].text for best in found]
    scores = score_translations(outputs, [pair.target for pair in examples.pairs])
    return Scores(
        (
            Metric("bleu", scores.bleu, signature=scores.bleu_signature),
            Metric("chrf", scores.chrf, signature=scores.chrf_signature),
            Metric("nats", nats, higher_is_better=False),
        ),
        {"sentences": scores.sentences, "target_tokens": tokens},
        _samples(examples.pairs, outputs, options.samples),
        details={
            "bleu_signature": scores.bleu_signature,
            "chrf_signature": scores.chrf_signature,
            "beam": options.beam,
            "length_penalty": options.length_penalty,
            "pairs": examples.name,
        },
    )


def _precision(
    bundle: TranslatorBundle, options: TranslationScoring
) -> AbstractContextManager[Any]:
    if not options.float32:
        return nullcontext()
    return torch.autocast(bundle.device.type, enabled=False)


def _nats(
    bundle: TranslatorBundle, examples: TranslationExamples, progress: Callable[[int], None]
) -> tuple[float, int]:
    """Mean negative log-likelihood of a target token, and how many tokens there are."""
    corpus, tokenizer = examples.corpus, bundle.tokenizer
    objective = TranslationObjective(tokenizer.target.pad)
    buckets = Buckets(corpus.source_lengths, corpus.target_lengths, 10**6, 0)
    buckets.tokens = max(examples.tokens, int(buckets.longest.max()))
    pairs = tokens = 0

    def loss(batch: TranslationBatch) -> tuple[float, int]:
        nonlocal pairs, tokens
        progress(pairs)
        of_batch = objective(bundle.model, batch)
        pairs, tokens = pairs + len(batch.indices), tokens + of_batch.count
        return of_batch.nats.item(), of_batch.count

    batches = (
        collate(corpus, chosen, tokenizer).to(str(bundle.device)) for chosen in buckets.epoch(0)
    )
    return mean_nats(loss, batches), tokens


def _samples(pairs: Sequence[Pair], outputs: Sequence[str], count: int) -> list[Mapping[str, str]]:
    """Some of the pairs with their translations, spread over the file: neighbours are alike."""
    chosen = [(2 * i + 1) * len(pairs) // (2 * count) for i in range(count)]
    return [
        {"source": pairs[i].source, "reference": pairs[i].target, "output": outputs[i]}
        for i in chosen
    ]
