"""Training goes on while a thread writes a checkpoint, and no error of that thread is lost."""

import threading

import pytest
import torch
from torch import nn

from headway.base.errors import HeadwayError
from headway.training import (
    Checkpointing,
    StepReport,
    TrainingState,
    WeightAverage,
    checkpoints,
    load_state,
    save_state,
    state_files,
)

REPORT = StepReport(1.0, 1.0, 4, 0.5, 0.1, 0.01)


@pytest.fixture
def run():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    run = TrainingState(model, torch.optim.AdamW(model.parameters()), WeightAverage(model, 0.9))
    advance(run)
    return run


@pytest.fixture
def events(run):
    events = []
    run.listeners = [events.append]
    return events


def advance(run):
    """Do a step that changes every tensor of the state in place."""
    run.optimizer.zero_grad()
    run.model(torch.randn(6, 3)).square().mean().backward()
    run.optimizer.step()
    run.step += 1
    run.average.update(run.model, run.step)


def saving(folder, **settings):
    return Checkpointing(folder / "checkpoints", every=2, in_background=True, **settings)


class Gate:
    """Holds the thread that writes tensors until it is opened; then the write may fail."""

    def __init__(self, monkeypatch):
        self.opened, self.error = threading.Event(), None
        write = state_files.write_tensors

        def waiting(path, tensors):
            assert self.opened.wait(60)
            if self.error is not None:
                raise self.error
            write(path, tensors)

        monkeypatch.setattr(state_files, "write_tensors", waiting)


@pytest.fixture
def gate(monkeypatch):
    return Gate(monkeypatch)


def written(save):
    """Wait until the thread has ended, as the time of some steps does."""
    save._unfinished[1].exception(60)


def test_a_checkpoint_has_the_state_of_its_step_though_training_went_on(tmp_path, run, gate):
    gate.opened.set()
    save_state(run, tmp_path / "now")
    gate.opened.clear()
    save = saving(tmp_path)
    with save.completed(run):
        save.save(run)
        for _ in range(3):
            advance(run)
            run.epoch += 1
        assert not (tmp_path / "checkpoints" / "step-1").exists()
        gate.opened.set()
    for path in (tmp_path / "now").iterdir():
        assert (tmp_path / "checkpoints" / "step-1" / path.name).read_bytes() == path.read_bytes()


def test_a_checkpoint_is_announced_when_it_is_complete(tmp_path, run, events, gate):
    save = saving(tmp_path)
    with save.completed(run):
        run.step = 2
        save.after_step(run, REPORT)
        run.step = 3
        save.after_step(run, REPORT)
        assert [event["kind"] for event in events] == ["saving"]
        gate.opened.set()
        written(save)
        save.after_step(run, REPORT)
        step = str(tmp_path / "checkpoints" / "step-2")
        assert events[1:] == [{"kind": "saved", "step": 2, "path": step}]


def test_the_next_checkpoint_waits_for_the_one_before(tmp_path, run, events, gate):
    save = saving(tmp_path, keep=2)
    gate.opened.set()
    with save.completed(run):
        for run.step in (2, 4, 6):
            save.after_step(run, REPORT)
    done = [(event["kind"], event["step"]) for event in events]
    assert done == [(kind, step) for step in (2, 4, 6) for kind in ("saving", "saved")]
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step-4", "step-6"]


def fail_after_step(save, run):
    written(save)
    run.step = 3
    save.after_step(run, REPORT)


def fail_at_the_next_save(save, run):
    run.step = 4
    save.save(run)


def fail_at_the_end(save, run):
    """Nothing but the end of the block follows."""


@pytest.mark.parametrize("moment", [fail_after_step, fail_at_the_next_save, fail_at_the_end])
@pytest.mark.parametrize("error", [HeadwayError("disk full"), MemoryError("none"), OSError(28, "")])
def test_an_error_of_the_thread_ends_the_run(tmp_path, run, gate, moment, error):
    gate.error, save, ended = error, saving(tmp_path), []
    gate.opened.set()
    with pytest.raises((HeadwayError, MemoryError)) as raised, save.completed(run):
        save.save(run)
        try:
            moment(save, run)
        finally:
            ended.append(save._unfinished is None)
    assert ended == [moment is not fail_at_the_end]
    assert raised.value is error or raised.value.__cause__ is error
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_the_checkpoint_is_completed_before_an_error_of_the_training_leaves(tmp_path, run, gate):
    save = saving(tmp_path)
    with pytest.raises(ZeroDivisionError), save.completed(run):
        save.save(run)
        threading.Timer(0.05, gate.opened.set).start()
        raise ZeroDivisionError
    load_state(run, tmp_path / "checkpoints" / "step-1")


def test_an_error_of_the_training_is_raised_before_one_of_the_thread(tmp_path, run, events, gate):
    gate.error, save = HeadwayError("disk full"), saving(tmp_path)
    gate.opened.set()
    with pytest.raises(ZeroDivisionError), save.completed(run):
        save.save(run)
        raise ZeroDivisionError
    assert events[-1]["text"] == "the last checkpoint is not complete: disk full"


def test_without_memory_for_a_copy_training_waits_and_the_run_says_so_once(
    tmp_path, run, events, monkeypatch
):
    state = sum(t.numel() * t.element_size() for t in state_files._tensors(run).values())
    room = int((1 + state_files.WRITING) * state / state_files.USED)
    monkeypatch.setattr(state_files, "free_memory", lambda device: room + 2)
    assert checkpoints.copy_fits(run)
    monkeypatch.setattr(state_files, "free_memory", lambda device: room - 2)
    save = saving(tmp_path)
    for run.step in (1, 2):
        save.save(run)
        assert save._unfinished is None
        load_state(run, tmp_path / "checkpoints" / f"step-{run.step}")
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert len(notes) == 1 and "no memory is free for a copy" in notes[0]
