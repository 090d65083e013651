"""Training the variants of a plan, one after the other, and measuring what came out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.data.formats import Pair, read_pairs
from headway.errors import DataError, HeadwayError, UsageError
from headway.evaluation import score_translations
from headway.files import lock, read_json, write_file
from headway.inspection import align, attention_entropies
from headway.machine import prepare as prepare_machine
from headway.models import parameter_count
from headway.recipes.catalogue import check_same, recipe
from headway.recipes.plans import Plan
from headway.recipes.run import Outcome
from headway.tasks.opening import load_as
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.config import TranslationRunConfig
from headway.tasks.translation.data import splits_of
from headway.tasks.translation.job import check
from headway.training import read_metrics

GROUPS = 5  # of test sentences by source length, equally many in each
LOOKED_AT = 100  # sentences whose attention's entropy is measured

Trainer = Callable[[TranslationRunConfig, Path], Outcome]


@dataclass(frozen=True)
class Measured:
    """What one finished run is like. Scores on the test pairs, or validation where there is none.

    by_length: (fewest, most source words, BLEU) a group. curve: (seconds, step, nats, BLEU) of each
    evaluation. entropies: layer -> mean over heads, 0 = one key, 1 = all alike.
    """

    name: str
    variant: str
    seed: int
    parameters: int
    bleu: float
    chrf: float
    signature: str
    sentences: int
    nats: float
    steps: int
    seconds: float
    targets_per_second: float
    by_length: list[tuple[int, int, float]]
    curve: list[tuple[float, int, float, float]]
    entropies: dict[str, float]
    alignments: list[dict[str, Any]]

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Measured:
        """What `asdict` wrote: JSON makes lists of its tuples."""
        rows = {name: [tuple(row) for row in saved[name]] for name in ("by_length", "curve")}
        return cls(**{**saved, **rows})


@dataclass(frozen=True)
class Comparison:
    """All that is known: finished runs, failed ones with their errors, and whether it is all."""

    plan: Plan
    measured: list[Measured]
    failed: dict[str, str]
    interrupted: bool


def settings_of(plan: Plan, common: Sequence[tuple[str, Any]]) -> dict[str, TranslationRunConfig]:
    """The configuration of every run; what cannot work is said before anything is trained.

    `common`: layers of settings over the plan's own (the command line's).
    """
    found = {}
    for variant, seed, name in plan.runs():
        layers = [("the plan", plan.common), *common, (f"variant {variant.name}", variant.changes)]
        config = recipe(plan.recipe, *layers, ("seeds", {"training.seed": seed}))
        if not isinstance(config, TranslationRunConfig):
            raise UsageError(f"{plan.recipe} cannot be compared: only translators can so far")
        check(config)
        found[name] = config
    return found


def compare(
    plan: Plan,
    configs: dict[str, TranslationRunConfig],
    folder: Path,
    train: Trainer,
    *,
    beam: int = 5,
    announce: Callable[[str, int, int], None] = lambda name, number, total: None,
) -> Comparison:
    """Train and measure each run in `folder`/NAME. Call it again to go on where it stopped.

    A finished run is not trained again, a measured one not measured again. A run that fails is
    noted, and the others go on. `train` gets a configuration and a folder; `announce` hears the
    name of the run that begins and which of how many it is.
    """
    measured: list[Measured] = []
    failed: dict[str, str] = {}
    with lock(folder):
        for name, config in configs.items():
            check_same(folder / name, config)
        runs = list(plan.runs())
        for number, (variant, seed, name) in enumerate(runs, start=1):
            place, config = folder / name, configs[name]
            try:
                if not is_finished(place):
                    announce(name, number, len(runs))
                    if train(config, place).stop == "interrupted":
                        return Comparison(plan, measured, failed, True)
                measured.append(_measured(place, config, (name, variant.name, seed), beam))
            except Exception as error:
                failed[name] = str(error) if isinstance(error, HeadwayError) else repr(error)
    return Comparison(plan, measured, failed, False)


def is_finished(folder: Path) -> bool:
    """Whether the run in `folder` came to its end, and did not just stop."""
    ends = read_metrics(folder / "metrics.jsonl", "finished")
    return bool(ends) and ends[-1]["stop"] != "interrupted"


def _measured(
    folder: Path, config: TranslationRunConfig, who: tuple[str, str, int], beam: int
) -> Measured:
    """Measure a finished run, or read what was measured before with the same beam."""
    place = folder / "comparison.json"
    if place.is_file():
        saved = read_json(place)
        if isinstance(saved, dict) and saved.get("beam") == beam:
            return Measured.from_json(saved["measured"])
    found = _measure(folder, config, who, beam)
    text = json.dumps({"beam": beam, "measured": asdict(found)}, ensure_ascii=False)
    write_file(place, (text + "\n").encode())
    return Measured.from_json(json.loads(text)["measured"])


def _measure(
    folder: Path, config: TranslationRunConfig, who: tuple[str, str, int], beam: int
) -> Measured:
    machine = prepare_machine(config.machine)
    bundle = load_as(TranslatorBundle, folder, machine.device)
    pairs = _pairs(config)
    with machine.precision():
        outputs = bundle.translate([pair.source for pair in pairs], beam=beam)
    scores = score_translations(outputs, [pair.target for pair in pairs])
    log = folder / "metrics.jsonl"
    valid, train = read_metrics(log, "valid"), read_metrics(log, "train")
    name, variant, seed = who
    best = [row for row in valid if row["is_best"]][-1]
    return Measured(
        name=name,
        variant=variant,
        seed=seed,
        parameters=parameter_count(bundle.model),
        bleu=scores.bleu,
        chrf=scores.chrf,
        signature=scores.bleu_signature,
        sentences=scores.sentences,
        nats=best["nats"],
        steps=valid[-1]["step"],
        seconds=valid[-1]["seconds"],
        targets_per_second=_mean([row["targets_per_second"] for row in train]),
        by_length=_by_length(pairs, outputs),
        curve=[(row["seconds"], row["step"], row["nats"], row["bleu"]) for row in valid],
        entropies=_entropies(bundle, pairs),
        alignments=_alignments(bundle, pairs),
    )


def _pairs(config: TranslationRunConfig) -> list[Pair]:
    """Test pairs; validation pairs where there is no test set."""
    splits = splits_of(config.data)
    files = splits.test or splits.valid
    if files is None:
        raise DataError("there are no held-out pairs to compare on", hint="name some: --test FILE")
    return [pair for pair in read_pairs(files) if pair.source and pair.target]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _by_length(pairs: list[Pair], outputs: list[str]) -> list[tuple[int, int, float]]:
    """BLEU of equally large groups of sentences, shortest first; equal lengths stay together."""
    lengths = [len(pair.source.split()) for pair in pairs]
    ordered = sorted(lengths)
    edges = sorted({ordered[i * len(ordered) // GROUPS] for i in range(1, GROUPS)})
    groups: list[tuple[int, int, float]] = []
    for low, high in zip([0, *edges], [*edges, ordered[-1] + 1], strict=True):
        chosen = [i for i, length in enumerate(lengths) if low <= length < high]
        if chosen:
            scores = score_translations(
                [outputs[i] for i in chosen], [pairs[i].target for i in chosen]
            )
            own = [lengths[i] for i in chosen]
            groups.append((min(own), max(own), scores.bleu))
    return groups


def _entropies(bundle: TranslatorBundle, pairs: list[Pair]) -> dict[str, float]:
    chosen = pairs[:: max(1, len(pairs) // LOOKED_AT)][:LOOKED_AT]
    found = attention_entropies(bundle, [p.source for p in chosen], [p.target for p in chosen])
    return {layer: _mean(heads) for layer, heads in found.items()}


def _alignments(bundle: TranslatorBundle, pairs: list[Pair]) -> list[dict[str, Any]]:
    """Of the same sentences in every run, the reference as target; none without attention."""
    ordered = sorted(pairs, key=lambda pair: len(pair.source.split()))
    chosen = [ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10]]
    found = []
    for pair in chosen:
        try:
            found.append(align(bundle, pair.source, pair.target).as_dict())
        except UsageError:
            return []
    return found
