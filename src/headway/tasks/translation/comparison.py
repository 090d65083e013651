"""Comparisons of translators: BLEU by sentence length, attention entropies and alignments."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.base.errors import UsageError
from headway.base.sharing import WHOLE
from headway.evaluation.scores import Scores
from headway.inspection import align, attention_entropies
from headway.inspection.plots import Panel, grouped_bars, plot_attention_maps
from headway.tasks.task import Details
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationRunConfig, TranslationScoring
from headway.tasks.translation.directions import corpora_of
from headway.tasks.translation.evaluation import bleu_by_length, evaluate
from headway.tasks.translation.examples import TranslationExamples, between
from headway.tasks.translation.pair_files import Pair

ATTENDED = 100
"""Number of sentences on which the entropy of attention is measured."""

PANELS = 12
"""Maximum number of panels of a plot."""

KINDS = {"encoder": "encoder, self", "decoder": "decoder, self", "cross": "cross"}


def comparison_options(config: TranslationRunConfig) -> dict[str, str]:
    """Return the options of the evaluation: the validation pairs if there are no test pairs."""
    has_test = any(corpus.files.test is not None for corpus in corpora_of(config.data))
    return {} if has_test else {"split": "valid"}


def evaluate_in_depth(
    bundle: TranslatorBundle, examples: TranslationExamples, options: TranslationScoring
) -> Scores:
    """Evaluate a translator, with details for JSON.

    by_length: (minimum source words, maximum, BLEU) of each group of sentences. entropies: layer ->
    mean entropy over its heads, from 0 (all weight on one key) to 1 (uniform). alignments: those of
    two sentences, the same for every model, with the reference as target; empty without attention.
    """
    bundle = between(bundle, options)
    if examples.corruption is not None:
        raise UsageError(
            "span corruption writes no translations that could be compared",
            hint="headway eval RUN gives the nats of each model",
        )
    scores = evaluate(bundle, examples, replace(options, samples=len(examples)), WHOLE)
    outputs = [sample["output"] for sample in scores.samples]
    pairs = list(examples.pairs)
    details = {
        **scores.details,
        "by_length": bleu_by_length(pairs, outputs),
        "entropies": _entropies(bundle, pairs),
        "alignments": _alignments(bundle, pairs),
    }
    return replace(scores, samples=(), details=details)


def tables(variants: Details) -> list[str]:
    """Return the tables of BLEU by length and of the entropies, as Markdown."""
    return [_length_table(variants), _entropy_table(variants)]


def plots(variants: Details, folder: Path, title: str) -> list[tuple[str, str]]:
    """Plot BLEU by length and the alignments in `folder`; return their titles and file names."""
    grouped_bars(
        folder / "lengths.svg",
        _groups(variants),
        {name: _length_bleu(runs) for name, runs in variants.items()},
        title=f"{title}: BLEU by sentence length",
        x_label="source words",
        y_label="BLEU",
    )
    files = [("BLEU by sentence length", "lengths.svg")]
    firsts = {name: runs[0]["alignments"] for name, runs in variants.items()}
    for i in range(max(map(len, firsts.values()))):
        panels = [
            Panel(name, words[i]["target"], words[i]["source"], words[i]["weights"])
            for name, words in firsts.items()
            if len(words) > i
        ]
        name = f"alignment-{i + 1}.svg"
        plot_attention_maps(folder / name, panels[:PANELS], title="alignment")
        files.append((f"Alignment of sentence {i + 1}", name))
    return files


def _entropies(bundle: TranslatorBundle, pairs: Sequence[Pair]) -> dict[str, float]:
    chosen = pairs[:: max(1, len(pairs) // ATTENDED)][:ATTENDED]
    by_head = attention_entropies(bundle, [p.source for p in chosen], [p.target for p in chosen])
    return {layer: statistics.fmean(heads) for layer, heads in by_head.items()}


def _alignments(bundle: TranslatorBundle, pairs: Sequence[Pair]) -> list[dict[str, object]]:
    ordered = sorted(pairs, key=lambda pair: len(pair.source.split()))
    chosen = [ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]]
    try:
        return [align(bundle, pair.source, pair.target).as_dict() for pair in chosen]
    except UsageError:
        return []


def _groups(variants: Details) -> list[str]:
    first = next(iter(variants.values()))[0]
    return [f"{low}" if low == high else f"{low}-{high}" for low, high, _ in first["by_length"]]


def _length_bleu(runs: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the mean BLEU of each group over seeds; all runs have the same test sentences."""
    groups = zip(*(run["by_length"] for run in runs), strict=True)
    return [statistics.fmean(bleu for _, _, bleu in group) for group in groups]


def _length_table(variants: Details) -> str:
    rows = [[name, *(f"{b:.1f}" for b in _length_bleu(runs))] for name, runs in variants.items()]
    return _table(["BLEU at source words", *_groups(variants)], rows)


def _entropy_table(variants: Details) -> str:
    """Return the table of the mean entropy of attention by layer, from the first layer on."""
    rows = []
    for name, runs in variants.items():
        cells = []
        for kind in KINDS:
            layers = [layer for layer in runs[0]["entropies"] if _kind(layer) == kind]
            means = [statistics.fmean(run["entropies"][layer] for run in runs) for layer in layers]
            cells.append(" ".join(f"{mean:.2f}" for mean in means) or "-")
        rows.append([name, *cells])
    return _table(["attention entropy / log keys, by layer", *KINDS.values()], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    first, *others = [f"| {' | '.join(cells)} |" for cells in [header, *rows]]
    return "\n".join([first, "|---" * len(header) + "|", *others])


def _kind(layer: str) -> str:
    return "cross" if layer.endswith(".cross") else layer.split(".")[0]
