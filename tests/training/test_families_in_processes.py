"""Each family trains in several processes as in one: losses and scores of the safety net's runs."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from headway import load
from headway.base.ranks import started
from headway.base.settings import COMMAND_LINE, flat, override
from headway.base.sharing import WHOLE, Share
from headway.blocks.dropout import Dropout
from headway.cli.flags import split_words
from headway.cli.train import configured
from headway.runs import pace, start, train
from headway.runs.recipes import saved_or_none
from headway.tasks.registry import task_of_config
from tests.fixtures.command_line import rows
from tests.fixtures.ranks import codes_of, run_ranks, start_ranks
from tests.safety_net.cases import CASES, with_prerequisites
from tests.safety_net.tiny_data import write_all

FAMILIES = [
    *("translate", "text-to-text", "span-corruption", "translate-rnn", "words", "words-cbow"),
    *("gpt", "gpt-lora", "bert-tiny", "bert", "classify", "tag", "answer", "regress"),
    *("distil", "vision", "dino", "caption", "sound", "see"),
]

FIRST, LATER = 5, 1e-3
"""Number of steps whose losses are equal to six digits; later ones differ by the growth of
rounding errors, at most by this."""


def config_of(name):
    """Return the configuration of a case without dropout, in float32.

    Muon rounds to bfloat16 on some processors. Some parameters have no gradient but rounding
    (biases of keys), which a small epsilon of AdamW would enlarge.
    """
    case = CASES[name]
    arguments, changes = split_words(case.train)
    config = configured([case.recipe, *arguments], [(COMMAND_LINE, changes)])
    without = {key: 0.0 for key in flat(config) if key.split(".")[-1] == "dropout"}
    plain = {"machine.dtype": "float32", "optimizer.kind": "adamw", "optimizer.eps": 1e-5}
    return override(config, {**without, **plain}, "the test")


def train_families(kind):
    """Train each case alone and together, and print the difference of its losses and scores.

    kind: of `machine.shard`.
    """
    shown, evaluated = {}, {}
    start.untrained = without_dropout
    with started(lambda error: print(error, file=sys.stderr)) as ranks:
        if ranks.is_first:
            write_all(Path())
        ranks.totals([0.0], "the data")
        for name in with_prerequisites(FAMILIES):
            alone, together = Path("runs", name), Path("together", name)
            expected, losses = Losses(), Losses()
            with ranks.watch.long(name):
                if ranks.is_first:
                    train(config_of(name), alone, observers=[expected])
            ranks.totals([0.0], f"{name} alone")
            config = override(config_of(name), {"machine.shard": kind}, "the test")
            train(config, together, observers=[losses], ranks=ranks)
            difference = difference_of_evaluations(alone, ranks)
            if ranks.is_first:
                shown[name] = [
                    furthest(expected.of_steps[:FIRST], losses.of_steps[:FIRST]),
                    furthest(expected.of_steps, losses.of_steps),
                    furthest(scores(alone), scores(together)),
                ]
                evaluated[name] = difference
    if shown:
        print(json.dumps([shown, evaluated]))


def difference_of_evaluations(run, ranks):
    """Return by how much a shared evaluation of a model differs from that of one process."""
    config, bundle = saved_or_none(run), load(run, "cpu")
    task = task_of_config(config)
    held_out = task.held_out(bundle, run, config, task.evaluation())
    (alone, shared) = (
        task.evaluate(bundle, held_out, task.evaluation(), share)
        for share in (WHOLE, Share(ranks=ranks))
    )
    assert alone.counts == shared.counts and alone.samples == shared.samples
    return furthest(alone.numbers().values(), shared.numbers().values())


def without_dropout(job, machine):
    """Return the state of a run before its first step; heads have a dropout that is no setting."""
    run = pace.untrained(job, machine)
    for module in run.model.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
    return run


class Losses:
    """Observer that keeps the loss of each step."""

    def __init__(self):
        self.of_steps = []

    def after_step(self, run, report):
        self.of_steps.append(report.loss)


def furthest(expected, numbers):
    """Return the largest relative difference."""
    pairs = zip(expected, numbers, strict=True)
    return max((abs(a - b) / max(abs(a), 1e-9) for a, b in pairs), default=0.0)


def scores(run):
    """Return the negative log-likelihoods of the held-out data, where the task has any."""
    return [
        row["nats"] for row in rows(run / "metrics.jsonl") if "is_best" in row and "nats" in row
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "kind"), [(size, kind) for kind in ("replicate", "shard") for size in (2, 4)]
)
def test_each_family_has_the_losses_of_one_process(size, kind, tmp_path):
    printed = run_ranks(partial(train_families, kind), size, tmp_path)
    shown, evaluated = json.loads(printed[0].splitlines()[-1])
    assert set(FAMILIES) <= shown.keys()
    print(json.dumps(shown, indent=1))
    assert not any(evaluated.values())
    assert all(first < 1e-6 for first, *_ in shown.values())
    assert all(max(numbers) < LATER for numbers in shown.values())


@pytest.mark.slow
def test_a_loss_over_the_whole_batch_is_refused(tmp_path):
    def run():
        with started(lambda error: print(error, file=sys.stderr)) as ranks:
            if ranks.is_first:
                write_all(Path())
                train(config_of("bert-tiny"), Path("runs", "bert-tiny"))
            ranks.totals([0.0], "the data")
            train(config_of("embed"), Path("runs", "embed"), ranks=ranks)

    assert codes_of(start_ranks(run, 2, tmp_path)) == [1, 75]
    assert "2 processes cannot share a batch" in (tmp_path / "rank-0.txt").read_text()
    assert not (tmp_path / "runs" / "embed").exists()
