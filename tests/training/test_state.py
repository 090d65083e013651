"""Checkpoints, logs, observers."""

import json

import pytest
import torch
from torch import nn

from headway.base.errors import DataError
from headway.base.metrics_file import read_metrics
from headway.base.sharing import Interrupted
from headway.evaluation.scores import Metric, Scores
from headway.training import (
    Checkpointing,
    Evaluation,
    MetricsLog,
    StepReport,
    TrainingState,
    WeightAverage,
    load_state,
    save_state,
)
from headway.transforms import lora, quantize

REPORT = StepReport(1.0, 1.0, 4, 0.5, 0.1, 0.01)


def fresh(width: int = 3, seed: int = 0) -> TrainingState:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, 1))
    return TrainingState(
        model, torch.optim.AdamW(model.parameters(), lr=0.01), WeightAverage(model, 0.9)
    )


def advance(run: TrainingState, steps: int) -> None:
    """Run steps whose noise comes from torch's generator, as that of dropout does."""
    for _ in range(steps):
        run.optimizer.zero_grad()
        run.model(torch.randn(6, 3)).square().mean().backward()
        run.optimizer.step()
        run.step += 1
        run.average.update(run.model, run.step)


def same(a: TrainingState, b: TrainingState) -> bool:
    first, second = ([*r.model.parameters(), *r.average.weights.values()] for r in (a, b))
    return all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def test_a_saved_state_resumes_bit_identically(tmp_path):
    whole = fresh()
    advance(whole, 12)
    first = fresh()
    advance(first, 5)
    first.best, first.stale, first.epoch, first.position = 3.25, 2, 1, 7
    first.unlogged = {"loss": 0.1 + 0.2}
    save_state(first, tmp_path / "step-5")
    torch.manual_seed(99)
    second = fresh(seed=8)
    load_state(second, tmp_path / "step-5")
    assert (second.best, second.stale, second.epoch, second.position) == (3.25, 2, 1, 7)
    assert second.unlogged == {"loss": 0.1 + 0.2}
    advance(second, 7)
    assert same(second, whole)


def test_a_state_of_another_shape_is_refused(tmp_path):
    run = fresh()
    advance(run, 1)
    save_state(run, tmp_path / "step-1")
    with pytest.raises(DataError, match="shape"):
        load_state(fresh(width=5), tmp_path / "step-1")
    larger = fresh()
    larger.model.append(nn.Linear(1, 1))
    with pytest.raises(DataError, match="does not fit"):
        load_state(larger, tmp_path / "step-1")


def test_the_newest_two_checkpoints_remain_and_a_damaged_one_is_skipped(tmp_path):
    run, save = fresh(), Checkpointing(tmp_path, every=2)
    for _ in range(7):
        advance(run, 1)
        save.after_step(run, REPORT)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-4", "step-6"]
    whole = tmp_path / "step-6" / "state.safetensors"
    whole.write_bytes(whole.read_bytes()[:-1])
    (tmp_path / "step-8.tmp-0123456789ab").mkdir()
    again = fresh()
    newest, skipped = save.resume(again)
    assert newest == tmp_path / "step-4" and again.step == 4
    assert len(skipped) == 1 and skipped[0].startswith("step-6 (now damaged-1-step-6): ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["damaged-1-step-6", "step-4"]


@pytest.mark.parametrize("keep", [1, 2])
def test_damaged_checkpoints_count_neither_as_saved_nor_as_the_newest(tmp_path, keep):
    """Else a run that has fallen back would delete its intact ones, and not save some steps."""
    run = fresh()
    for step in (10, 20, 30):
        run.step = step
        Checkpointing(tmp_path, every=10, keep=3).save(run)
    for step in (20, 30):
        damage(tmp_path / f"step-{step}")
    save, run = Checkpointing(tmp_path, every=5, keep=keep), fresh()
    assert save.resume(run)[0] == tmp_path / "step-10"
    for step in (15, 20):
        run.step = step
        save.after_step(run, REPORT)
        again = fresh()
        assert save.resume(again) == (tmp_path / f"step-{step}", []) and again.step == step
    damage(tmp_path / "step-20")
    if keep == 2:
        assert save.resume(fresh())[0] == tmp_path / "step-15"
        names = ["damaged-1-step-20", "damaged-1-step-30", "damaged-2-step-20", "step-15"]
        assert sorted(p.name for p in tmp_path.iterdir()) == names


def test_a_run_all_of_whose_checkpoints_are_damaged_does_not_begin_again(tmp_path):
    run, save = fresh(), Checkpointing(tmp_path, every=1)
    for run.step in (1, 2):
        save.save(run)
        damage(tmp_path / f"step-{run.step}")
    with pytest.raises(DataError, match=r"every checkpoint is damaged.*step-2: .*; step-1: "):
        save.resume(fresh())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-1", "step-2"]


def damage(checkpoint):
    file = checkpoint / "state.json"
    file.write_bytes(file.read_bytes()[:-5])


@pytest.mark.parametrize("change", ["fewer layers", "without adapters", "no average"])
def test_a_checkpoint_with_tensors_that_the_model_lacks_is_refused(tmp_path, change):
    run = fresh()
    if change == "without adapters":
        lora(run.model, 1, targets=["*"])
        optimizer = torch.optim.AdamW(run.model.parameters())
        run = TrainingState(run.model, optimizer, WeightAverage(run.model, 0.9))
    advance(run, 1)
    save_state(run, tmp_path / "step-1")
    again = fresh()
    if change == "fewer layers":
        del again.model[2]
    elif change == "no average":
        again.average = None
    if change in ("fewer layers", "without adapters"):
        with pytest.raises(DataError, match=r"does not fit the model: .* unknown .first: "):
            load_state(again, tmp_path / "step-1")
    else:
        load_state(again, tmp_path / "step-1")
        assert again.step == 1 and torch.equal(again.model[0].weight, run.model[0].weight)


def test_only_trained_parameters_are_averaged():
    """A quantised base has codes, of which there is no average."""
    model = quantize(nn.Sequential(nn.Linear(48, 40), nn.Linear(40, 32)), "int8")
    lora(model, 2, targets=["*"])
    codes = model[0].weight_int8.clone()
    average = WeightAverage(model, 0.5)
    assert set(average.weights) == {n for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        model[1].lora_b.fill_(1.0)
    average.update(model, 100)
    with average.applied(model):
        assert torch.equal(model[1].lora_b, torch.full_like(model[1].lora_b, 0.5))
    assert bool((model[1].lora_b == 1).all()) and torch.equal(model[0].weight_int8, codes)


def test_resuming_removes_repeated_steps_and_a_partial_line_from_the_log(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3, 4):
        log({"kind": "train", "step": step, "loss": 1 / step})
    with log.path.open("a") as file:
        file.write('{"kind": "train", "st')
    log.rewind(2, 2)
    rows = [json.loads(line) for line in log.path.read_text().strip().split("\n")]
    assert [row["step"] for row in rows] == [1, 2]
    assert [row["loss"] for row in read_metrics(log.path, "train")] == [1.0, 0.5]
    assert read_metrics(log.path, "valid") == []


def test_resuming_removes_a_repeated_evaluation_from_the_log(tmp_path):
    """The checkpoint of a step may be older than the evaluation at that step."""
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for step in (2, 4):
        for kind in ("train", "valid", "sample"):
            log({"kind": kind, "step": step})
    log.rewind(4, 2)
    rows = [json.loads(line) for line in log.path.read_text().splitlines()]
    assert [(row["kind"], row["step"]) for row in rows] == [
        *(("train", 2), ("valid", 2), ("sample", 2)),
        ("train", 4),
    ]


def evaluation(values, **more) -> tuple[Evaluation, list[int]]:
    bests: list[int] = []
    observer = Evaluation(
        lambda model: Scores((Metric("bleu", values.pop(0)),)),
        "bleu",
        1,
        lambda: bests.append(1),
        **more,
    )
    return observer, bests


def test_the_best_model_is_saved_and_patience_stops_the_run():
    run = fresh()
    observer, bests = evaluation([1.0, 3.0, 2.0, 3.0, 2.5], patience=3)
    for _ in range(5):
        run.step += 1
        observer.after_step(run, REPORT)
    assert (run.best, run.best_step, len(bests)) == (3.0, 2, 2)
    assert run.stop == "early stop" and run.stale == 3


def losses(values) -> Evaluation:
    return Evaluation(
        lambda model: Scores((Metric("loss", values.pop(0), higher_is_better=False),)),
        "loss",
        1,
        lambda: None,
    )


def test_the_lowest_loss_is_the_best():
    run = fresh()
    observer = losses([2.0, 1.5, 1.8])
    for _ in range(3):
        run.step += 1
        observer.after_step(run, REPORT)
    assert (run.best, run.best_step, run.metric) == (1.5, 2, "loss")


def test_the_best_value_of_another_metric_is_not_compared():
    run = fresh()
    run.best, run.metric, run.step = 0.1, "accuracy", 5
    losses([1.8]).evaluate(run)
    assert (run.best, run.metric, run.best_step) == (1.8, "loss", 5)


def test_an_evaluation_is_done_once_per_step_and_repeated_after_a_resume_if_interrupted():
    run = fresh()
    observer, _ = evaluation([1.0, 2.0])
    run.step = 1
    observer.after_step(run, REPORT)
    observer.catch_up(run)
    assert run.best == 1.0
    run.step = 2
    observer.catch_up(run)
    assert run.best == 2.0 and run.evaluated == 2


def test_an_interrupted_evaluation_records_no_scores():
    run = fresh()

    def stopped(model):
        raise Interrupted

    run.step = 1
    before = [p.detach().clone() for p in run.model.parameters()]
    Evaluation(stopped, "bleu", 1, lambda: None).after_step(run, REPORT)
    assert run.stop == "interrupted" and run.best is None and run.evaluated == 0
    for old, new in zip(before, run.model.parameters(), strict=True):
        assert torch.equal(old, new)


def test_averaged_weights_are_evaluated_and_training_continues_with_the_trained_ones():
    run = fresh()
    advance(run, 5)
    trained = run.model[0].weight.detach().clone()
    evaluated = []

    def look(model):
        evaluated.append(model[0].weight.detach().clone())
        return Scores((Metric("bleu", 1.0),))

    Evaluation(look, "bleu", 1, lambda: None).evaluate(run)
    assert torch.equal(evaluated[0], run.average.weights["0.weight"])
    assert torch.equal(run.model[0].weight, trained) and not torch.equal(evaluated[0], trained)
