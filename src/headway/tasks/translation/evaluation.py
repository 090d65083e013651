"""The evaluation of a translator: BLEU and chrF of translations, nats per reference token; scores
by sentence length, direction and frequency of the words; and the fraction of translations with the
placeholders of their source, before and after a repair.

F1 by how often a word is in the training data: Neubig et al. 2019, "compare-mt", section 3.2.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from headway.base.errors import UsageError
from headway.base.sharing import Share
from headway.data.stream import ByTokens
from headway.evaluation import nats_of, score_against_several, score_translations
from headway.evaluation.bleu import DEFAULT, TRANSLATION_METRICS
from headway.evaluation.paired import Sums
from headway.evaluation.perplexity import Nats
from headway.evaluation.scores import Metric, Scores
from headway.evaluation.text_overlap import score_texts
from headway.tasks.translation.batches import collate
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.comet import COMET, Comet
from headway.tasks.translation.config import TranslationScoring
from headway.tasks.translation.examples import TranslationExamples, between
from headway.tasks.translation.objective import TranslationObjective
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.placeholder_pattern import Placeholders
from headway.tasks.translation.texts import Text, translate_texts

PLACEHOLDERS = "placeholders"
REPAIRED = "placeholders_repaired"


def placeholder_accuracy(correct: Sequence[bool | None]) -> Sums:
    """Return the fraction of sentences whose placeholders are right, 0 to 1.

    correct / (correct + wrong), over the sentences whose source has placeholders; a sentence
    without any is None and does not count. 1 if no sentence has any, as in some samples of a paired
    bootstrap.
    """
    terms = np.array([(item is True, item is not None) for item in correct], dtype=np.float64)
    return Sums(terms.reshape(-1, 2), lambda sums: sums[0] / sums[1] if sums[1] else 1.0)


def placeholder_sums(
    bundle: TranslatorBundle,
    pairs: Sequence[Pair],
    outputs: Sequence[str],
    options: TranslationScoring,
) -> dict[str, Sums]:
    """Return the placeholder accuracy of translations, by name; {} if no source has placeholders.

    placeholders: the fraction of the sources with placeholders whose translation has exactly these
    (`Placeholders.faults`). placeholders_repaired: the same after the repair of `translate_texts`,
    as in the translation of a file, where a text that cannot be repaired stays untranslated and is
    wrong here; only if `options.repair`, since it searches again.
    """
    placeholders = Placeholders()
    correct = [
        not placeholders.faults(pair.source, output) if placeholders.find(pair.source) else None
        for pair, output in zip(pairs, outputs, strict=True)
    ]
    if all(item is None for item in correct):
        return {}
    accuracies = {PLACEHOLDERS: placeholder_accuracy(correct)}
    if options.repair:
        wrong = [pair.source for pair, item in zip(pairs, correct, strict=True) if item is False]
        repaired = iter(_are_repaired(bundle, wrong, options))
        after = [next(repaired) if item is False else item for item in correct]
        accuracies[REPAIRED] = placeholder_accuracy(after)
    return accuracies


def _are_repaired(
    bundle: TranslatorBundle, sources: Sequence[str], options: TranslationScoring
) -> list[bool]:
    """Return, for each source, whether a translation with its placeholders is found."""
    found = [False] * len(sources)
    split = [bundle.target_languages.split_tag(source) for source in sources]
    for tag in dict.fromkeys(tag for tag, _ in split):
        indices = [i for i, (of_source, _) in enumerate(split) if of_source == tag]
        searching = replace(
            bundle.default_options,
            **options.of_search,
            to=tag.strip().removeprefix("<2").removesuffix(">") or None,
        )
        texts = [Text(split[i][1]) for i in indices]
        for i, result in zip(indices, translate_texts(bundle, texts, searching), strict=True):
            found[i] = result.text is not None
    return found


GROUPS = 5
"""Number of groups of sentences by source length, of equal size."""

EDGES = (0, 1, 2, 5, 10, 100, 1000)
"""Least frequency of each group of words."""


def bleu_by_length(pairs: Sequence[Pair], outputs: Sequence[str]) -> list[tuple[int, int, float]]:
    """Return (minimum source words, maximum, BLEU) of `GROUPS` groups of equal size.

    The shortest sentences come first; those of the same length are in the same group.
    """
    lengths = [len(pair.source.split()) for pair in pairs]
    ordered = sorted(lengths)
    edges = sorted({ordered[i * len(ordered) // GROUPS] for i in range(1, GROUPS)})
    groups: list[tuple[int, int, float]] = []
    for low, high in pairwise([0, *edges, ordered[-1] + 1]):
        chosen = [i for i, length in enumerate(lengths) if low <= length < high]
        if chosen:
            scores = score_translations(
                [outputs[i] for i in chosen], [pairs[i].target for i in chosen], ["bleu"]
            )
            group_lengths = [lengths[i] for i in chosen]
            groups.append((min(group_lengths), max(group_lengths), scores.bleu))
    return groups


def scores_by_direction(
    pairs: Sequence[Pair], references: Sequence[Sequence[str]], outputs: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return BLEU, chrF and the number of sentences of each direction, if there are several."""
    names = sorted({pair.direction for pair in pairs})
    scores: dict[str, dict[str, float]] = {}
    for name in names if len(names) > 1 else ():
        chosen = [i for i, pair in enumerate(pairs) if pair.direction == name]
        of_direction = score_against_several(
            [outputs[i] for i in chosen], [references[i] for i in chosen], DEFAULT
        )
        scores[name] = {**of_direction.scores, "sentences": len(chosen)}
    return scores


@dataclass(frozen=True)
class WordGroup:
    """F1 of the words with `least` to `most` occurrences in training; most: None without limit.

    words: their number in the references. f1: 0 to 100.
    """

    least: int
    most: int | None
    words: int
    f1: float


def word_counts(texts: Iterable[str]) -> Counter[str]:
    """Count the words of texts, by the tokenization of BLEU (13a), cased."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_words(text))
    return counts


def f1_by_frequency(
    outputs: Sequence[str], references: Sequence[str], frequency: Mapping[str, int]
) -> list[WordGroup]:
    """Return F1 of each group of words that is in a reference, rarest first.

    A word of an output is correct if it is in the reference, each occurrence once.
    """
    written, wanted, correct = (Counter[int]() for _ in range(3))
    for output, reference in zip(outputs, references, strict=True):
        ours, theirs = Counter(_words(output)), Counter(_words(reference))
        for words, total in ((ours, written), (theirs, wanted), (ours & theirs, correct)):
            for word, count in words.items():
                total[_group(frequency.get(word, 0))] += count
    limits: list[tuple[int, int | None]] = [(low, high - 1) for low, high in pairwise(EDGES)]
    limits.append((EDGES[-1], None))
    return [
        WordGroup(*limits[i], wanted[i], 200 * correct[i] / (written[i] + wanted[i]))
        for i in sorted(wanted)
    ]


def _group(frequency: int) -> int:
    return sum(frequency >= edge for edge in EDGES) - 1


def _words(text: str) -> list[str]:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenize: Callable[[str], str] = Tokenizer13a()  # type: ignore[no-untyped-call]
    return tokenize(text).split()


def evaluate(
    bundle: TranslatorBundle,
    examples: TranslationExamples,
    options: TranslationScoring,
    share: Share,
) -> Scores:
    """Compute BLEU and chrF of translations (0 to 100), and nats of the references.

    Before them, of examples with `text_metrics`, exact match, F1, ROUGE and character error rate
    (0 to 1). Of sources with placeholders, the placeholder accuracy (`placeholder_sums`, 0 to 1).
    Of texts for span corruption only nats, of the targets of epoch 0.

    nats is the mean of -log P(token) over all tokens of the reference translations, </s> included;
    of several references, over those of the first. An ensemble has none.

    Raises UsageError for a source that is too long, and what `Comet.open` raises.
    """
    bundle = between(bundle, options)
    comet = None if options.comet is None else Comet.open(options.comet)
    if examples.corruption is not None and (options.ensemble or options.mbr):
        raise UsageError(
            "span corruption is evaluated by the nats of one model, and nothing is translated",
            hint="leave out --ensemble and --mbr",
        )
    searching = bundle.with_members(options.ensemble, options.to, options.from_language)
    scored: list[Metric] = []
    counts: dict[str, int] = {}
    scored_pairs = len(examples.corpus) if searching is bundle else 0
    searched = 0 if examples.corruption is not None else len(examples.pairs)
    share = share.in_examples(len(examples), scored_pairs + searched)
    in_float32 = torch.autocast(bundle.device.type, enabled=False)
    with in_float32 if options.float32 else nullcontext():
        if searching is bundle:
            nats = _nats(bundle, examples, share)
            counts["target_tokens"] = nats.count
            scored = [Metric("nats", nats.mean, higher_is_better=False)]
        if examples.corruption is not None:
            return Scores(tuple(scored), counts, details={"pairs": examples.name})
        sources = [pair.source for pair in examples.pairs]
        outputs = _translated(searching, sources, options, share.after(scored_pairs))
        others = placeholder_sums(searching, examples.pairs, outputs, options)
    if PLACEHOLDERS in others:
        counts["with_placeholders"] = int(others[PLACEHOLDERS].terms.sum(0)[1])
    signatures = {}
    if comet is not None:
        untagged = [bundle.target_languages.split_tag(source)[1] for source in sources]
        first = [references[0] for references in examples.references]
        gpus = int(bundle.device.type == "cuda")
        others[COMET] = comet.score(untagged, outputs, first, gpus)
        signatures = {f"{COMET}_signature": comet.signature}
    scores = _scores(examples, outputs, others, options)
    return replace(
        scores,
        metrics=(*scores.metrics, *scored),
        counts={**scores.counts, **counts},
        details={**signatures, **scores.details},
    )


def _scores(
    examples: TranslationExamples,
    outputs: Sequence[str],
    others: Mapping[str, Sums],
    options: TranslationScoring,
) -> Scores:
    """Return the scores of translations. others: further metrics."""
    names = TRANSLATION_METRICS if options.all_metrics else DEFAULT
    scores = score_against_several(outputs, examples.references, names)
    texts = score_texts(outputs, examples.references) if examples.text_metrics else {}
    return Scores(
        (
            *(Metric(name, sums.corpus(), name != "cer") for name, sums in texts.items()),
            *(
                Metric(name, value, name != "ter", scores.signatures[name])
                for name, value in scores.scores.items()
            ),
            *(Metric(name, sums.corpus()) for name, sums in others.items()),
        ),
        {"sentences": scores.sentences},
        _samples(examples.pairs, outputs, options.samples),
        details={
            **{f"{name}_signature": text for name, text in scores.signatures.items()},
            **_details(examples, outputs, options),
        },
        sums={**texts, **scores.sums, **others},
    )


def _translated(
    bundle: TranslatorBundle,
    sources: Sequence[str],
    options: TranslationScoring,
    share: Share,
) -> list[str]:
    """Return the best translation of each source: by beam search, or of samples by chrF."""

    def compute(part: list[str]) -> list[str]:
        if options.mbr:
            ranked = bundle.sample(part, options.mbr, options.seed, progress=share.progress)
        else:
            ranked = bundle.search(part, options, progress=share.progress)
        return [best[0].text for best in ranked]

    return share.split(sources, compute)


def _details(
    examples: TranslationExamples, outputs: Sequence[str], options: TranslationScoring
) -> dict[str, object]:
    """Return the search, the name of the pairs, and the scores of their parts.

    With `options.breakdown`, BLEU by source length, and F1 of words by frequency if the training
    pairs are known. Raises UsageError or DataError if these cannot be read any more.
    """
    details: dict[str, object] = (
        {"mbr": options.mbr, "seed": options.seed} if options.mbr else {**options.as_details}
    )
    if options.ensemble:
        details["ensemble"] = [str(path) for path in options.ensemble]
    details["pairs"] = examples.name
    if by_direction := scores_by_direction(examples.pairs, examples.references, outputs):
        details["by_direction"] = by_direction
    if options.breakdown:
        details["by_length"] = bleu_by_length(examples.pairs, outputs)
        if examples.training is not None:
            targets = [pair.target for pair in examples.pairs]
            groups = f1_by_frequency(outputs, targets, word_counts(examples.training()))
            details["by_frequency"] = [asdict(group) for group in groups]
    if examples.note:
        details["note"] = examples.note
    return details


def _nats(bundle: TranslatorBundle, examples: TranslationExamples, share: Share) -> Nats:
    """Return the negative log-likelihood of the references."""
    corpus, tokenizer = examples.corpus, bundle.tokenizer
    objective = TranslationObjective(tokenizer.target.pad)
    sides = corpus.source.lengths, corpus.target.lengths
    longest = 1 + max(int(lengths.max()) for lengths in sides)
    order = ByTokens(sides[0], sides[1], max(examples.tokens, longest), seed=0)

    def loss(chosen: npt.NDArray[np.int64]) -> tuple[float, int]:
        batch = collate(corpus, chosen, tokenizer, examples.corruption)
        batch_loss = objective(bundle.model, batch.to(str(bundle.device)))
        return batch_loss.nats.item(), batch_loss.count

    return nats_of(loss, order(0), share, len)


def _samples(pairs: Sequence[Pair], outputs: Sequence[str], count: int) -> list[Mapping[str, str]]:
    """Return `count` pairs with their translations, evenly spaced: adjacent pairs are similar."""
    chosen = [(2 * i + 1) * len(pairs) // (2 * count) for i in range(count)]
    return [
        {"source": pairs[i].source, "reference": pairs[i].target, "output": outputs[i]}
        for i in chosen
    ]
