"""The evaluation of a translator: BLEU and chrF of translations, nats per reference token."""

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
    validation_pairs,
    within_max_length,
)
from headway.training import TranslationObjective

FIVE_BEAMS = TranslationScoring()


@dataclass(frozen=True, kw_only=True)
class TranslationExamples:
    """The examples of an evaluation.

    pairs: the pairs whose source is translated. corpus: the encoded pairs whose target is scored
    for nats. tokens: the batch size in tokens for the corpus. name: their name in the terminal.
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
    """Read the pairs of files.

    config: the configuration of the run, for the names of the languages, which the options
    override. Raises DataError if there is no pair.
    """
    data, training = TranslationDataConfig(), TranslationTrainingConfig()
    if isinstance(config, TranslationRunConfig):
        data, training = config.data, config.training
    source, target = options.source or data.source, options.target or data.target
    files = [pair_files(path, source, target, data.inline_tags) for path in paths]
    pairs = [pair for pair_file in files for pair in read_pairs(pair_file)]
    name = ", ".join(pair_file.describe() for pair_file in files)
    return _full(bundle, pairs, name, training.tokens, options)


def held_out_examples(
    bundle: TranslatorBundle, run: Path, config: TranslationRunConfig, options: TranslationScoring
) -> TranslationExamples:
    """Read the test pairs of a run, or its validation pairs.

    As many validation pairs are translated as during training. Raises UsageError if the run has no
    test pairs and `options.split` is test.
    """
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
        pairs=within_max_length(pairs, bundle.tokenizer, bundle.longest, where),
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
    """Return all pairs with a source and a target, or the first `options.sentences` of them."""
    chosen = [pair for pair in pairs if pair.source and pair.target][: options.sentences]
    if not chosen:
        raise DataError("no pairs to evaluate", name)
    limit = bundle.model.max_target
    longest = bundle.longest if limit is None else min(bundle.longest, limit - 1)
    corpus = _encoded(bundle, chosen, longest)
    return TranslationExamples(pairs=chosen, corpus=corpus, tokens=tokens, name=name)


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

    nats is the mean of -log P(token) over all tokens of the reference translations, </s> included.

    progress: called before each batch that is scored and after each batch that is translated, with
    the number of pairs processed so far. Raises UsageError for a source that is too long.
    """
    with _precision(bundle, options):
        nats, tokens = _nats(bundle, examples, progress)
        translations = bundle.search(
            [pair.source for pair in examples.pairs],
            beam=options.beam,
            length_penalty=options.length_penalty,
            progress=lambda done: progress(len(examples.corpus) + done),
        )
    outputs = [best[0].text for best in translations]
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
        collate(corpus, chosen, tokenizer).to(str(bundle.device)) for chosen in buckets.epoch(0)
    )
    return mean_nats(loss, batches), tokens


def _samples(pairs: Sequence[Pair], outputs: Sequence[str], count: int) -> list[Mapping[str, str]]:
    """Return `count` pairs with their translations, evenly spaced: adjacent pairs are similar."""
    chosen = [(2 * i + 1) * len(pairs) // (2 * count) for i in range(count)]
    return [
        {"source": pairs[i].source, "reference": pairs[i].target, "output": outputs[i]}
        for i in chosen
    ]
