"""The evaluation of a translator: BLEU and chrF of translations, nats per reference token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any

import torch

from headway.base.errors import UsageError
from headway.data.stream import ByTokens
from headway.evaluation import mean_nats, score_against_several
from headway.evaluation.bleu import DEFAULT, TRANSLATION_METRICS
from headway.evaluation.scores import Metric, Scores
from headway.evaluation.text_overlap import score_texts
from headway.tasks.translation.batches import TranslationBatch, collate
from headway.tasks.translation.breakdown import bleu_by_length, scores_by_direction
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationScoring
from headway.tasks.translation.examples import TranslationExamples, between
from headway.tasks.translation.learned_metric import comet_details, comet_sums, opened
from headway.tasks.translation.objective import TranslationObjective
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.placeholders import counts_of, placeholder_sums
from headway.tasks.translation.word_frequency import f1_by_frequency, word_counts

FIVE_BEAMS = TranslationScoring()


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
    of several references, over those of the first. An ensemble has none.

    progress: called before each batch that is scored and after each batch that is translated, with
    the number of pairs processed so far. Raises UsageError for a source that is too long, and what
    `Comet.open` raises.
    """
    bundle = between(bundle, options)
    comet = opened(options)
    if examples.corruption is not None:
        _check_not_searched(options)
    searching = bundle.with_members(options.ensemble, options.to, options.from_language)
    scored: list[Metric] = []
    tokens = {}
    with _precision(bundle, options):
        if searching is bundle:
            nats, tokens["target_tokens"] = _nats(bundle, examples, progress)
            scored = [Metric("nats", nats, higher_is_better=False)]
        if examples.corruption is not None:
            return Scores(tuple(scored), tokens, details={"pairs": examples.name})
        sources = [pair.source for pair in examples.pairs]
        outputs = _translated(
            searching, sources, options, lambda done: progress(len(examples.corpus) + done)
        )
        others = placeholder_sums(searching, examples.pairs, outputs, options)
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
        (*of_texts, *metrics, *scored),
        {"sentences": scores.sentences, **tokens, **counts_of(others)},
        _samples(examples.pairs, outputs, options.samples),
        details={
            **{f"{name}_signature": text for name, text in scores.signatures.items()},
            **comet_details(comet),
            **_details(examples, outputs, options),
        },
        sums={**texts, **scores.sums, **others},
    )


def _check_not_searched(options: TranslationScoring) -> None:
    """Raise UsageError for options of a search: corrupted texts are not translated."""
    if options.ensemble or options.mbr:
        raise UsageError(
            "span corruption is evaluated by the nats of one model, and nothing is translated",
            hint="leave out --ensemble and --mbr",
        )


def _translated(
    bundle: TranslatorBundle,
    sources: Sequence[str],
    options: TranslationScoring,
    progress: Callable[[int], None],
) -> list[str]:
    """Return the best translation of each source: by beam search, or of samples by chrF."""
    if options.mbr:
        ranked = bundle.sample(sources, options.mbr, options.seed, progress=progress)
    else:
        ranked = bundle.search(sources, options, progress=progress)
    return [best[0].text for best in ranked]


def _details(
    examples: TranslationExamples, outputs: Sequence[str], options: TranslationScoring
) -> dict[str, Any]:
    """Return the search, the name of the pairs, and the scores of their parts."""
    members = {"ensemble": [str(path) for path in options.ensemble]}
    return {
        **({"mbr": options.mbr, "seed": options.seed} if options.mbr else options.as_details),
        **(members if options.ensemble else {}),
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
    order = ByTokens(corpus.source.lengths, corpus.target.lengths, 10**6, 0)
    order.tokens = max(examples.tokens, int(order.longest.max()))
    pairs = tokens = 0

    def loss(batch: TranslationBatch) -> tuple[float, int]:
        nonlocal pairs, tokens
        progress(pairs)
        batch_loss = objective(bundle.model, batch)
        pairs, tokens = pairs + len(batch.indices), tokens + batch_loss.count
        return batch_loss.nats.item(), batch_loss.count

    batches = (
        collate(corpus, chosen, tokenizer, examples.corruption).to(str(bundle.device))
        for chosen in order(0)
    )
    return mean_nats(loss, batches), tokens


def _samples(pairs: Sequence[Pair], outputs: Sequence[str], count: int) -> list[Mapping[str, str]]:
    """Return `count` pairs with their translations, evenly spaced: adjacent pairs are similar."""
    chosen = [(2 * i + 1) * len(pairs) // (2 * count) for i in range(count)]
    return [
        {"source": pairs[i].source, "reference": pairs[i].target, "output": outputs[i]}
        for i in chosen
    ]
