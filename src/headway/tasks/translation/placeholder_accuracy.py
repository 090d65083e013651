"""The fraction of translations with the placeholders of their source, before and after a repair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from headway.evaluation.paired import Sums
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationScoring
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
