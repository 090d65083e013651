"""The number of CPU threads: the user's, a run's, or the fastest one, set in one place."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from tests.fixtures.bundles import gpt
from tests.fixtures.command_line import headway

import headway as library
from headway.base import devices, threads
from headway.base.devices import MachineConfig, prepare
from headway.base.threads import settle_threads, settle_threads_once, threads_of_run
from headway.exercises import child


@pytest.fixture(autouse=True)
def process(monkeypatch):
    """A process with 3 threads of torch's own, in which Headway has set no number; one is fastest.

    measured: the numbers that torch had when the fastest number was measured.
    """
    state = SimpleNamespace(number=3, measured=[], fastest=1)

    def measure(**_):
        state.measured.append(state.number)
        return state.fastest

    monkeypatch.setattr(torch, "get_num_threads", lambda: state.number)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: setattr(state, "number", number))
    monkeypatch.setattr(threads, "_settled", threads._Settled())
    monkeypatch.setattr(threads, "_cpus", lambda: {0, 1, 2})
    monkeypatch.setattr(threads, "_own_numbers", lambda: {3})
    monkeypatch.setattr(threads, "fastest_threads", measure)
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return state


@pytest.fixture
def model(tmp_path):
    gpt().save(tmp_path / "gpt")
    return tmp_path / "gpt"


def test_the_fastest_number_is_set_where_the_user_has_set_none(process):
    assert settle_threads() == process.number == 1
    assert process.measured == [3]


def test_it_is_measured_again_among_all_numbers(process):
    settle_threads()
    process.fastest = 3
    assert settle_threads() == process.number == 3
    assert process.measured == [3, 3]


@pytest.mark.parametrize("name", threads.VARIABLES)
def test_a_number_in_the_environment_stays(process, monkeypatch, name):
    monkeypatch.setenv(name, "3")
    assert settle_threads() == process.number == 3 and not process.measured


def test_a_number_that_the_user_set_in_torch_stays(process):
    process.number = 2
    assert settle_threads() == process.number == 2
    process.number = 3  # torch's own, but set by the user later
    assert settle_threads() == process.number == 3 and not process.measured


def test_a_number_that_is_named_is_set(process):
    assert settle_threads(2) == process.number == 2 and not process.measured


def test_without_a_list_of_cores_any_number_up_to_that_of_cpus_may_be_torchs(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(threads, "_cpus", lambda: {10**6, 10**6 + 1, 10**6 + 2})
    assert threads._own_numbers() == {1, 2, 3}


def test_torchs_number_in_a_new_process_is_its_own(monkeypatch):
    monkeypatch.undo()
    assert all(1 <= number <= len(threads._cpus()) for number in threads._own_numbers())


def test_a_machine_is_prepared_with_it(process):
    assert prepare(MachineConfig(device="cpu")).threads == 1
    assert prepare(MachineConfig(device="cpu", threads=2)).threads == 2
    process.number, process.measured[:] = 3, []
    monkey = MachineConfig(device="cuda")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "select_device", lambda name: "cuda")
        assert prepare(monkey).threads == 3 and not process.measured


def test_loading_sets_it_once(process, model):
    library.load(model, "cpu")
    assert process.number == 1 and process.measured == [3]
    process.number = 2  # by the user, afterwards
    library.load(model, "cpu")
    settle_threads_once()
    assert process.number == 2 and process.measured == [3]


VERBS = {
    "generate": ("the fox", "--max-tokens", "2"),
    "inspect": ("the fox",),
    "embed": ("the fox",),
    "eval": ("text.txt",),
}


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_compute_with_it(process, model, verb, monkeypatch):
    (model.parent / "text.txt").write_text("the fox runs\n")
    monkeypatch.setattr(threads, "_is_of_user", lambda number: False)  # `headway` sets 1
    process.fastest = 2
    headway(verb, str(model), *VERBS[verb], cwd=model.parent, check=None)
    assert process.number == 2 and len(process.measured) == 1
    headway(verb, str(model), *VERBS[verb], "--threads", "3", cwd=model.parent, check=None)
    assert process.number == 3 and len(process.measured) == 1


def test_a_learners_code_runs_with_it(process, tmp_path):
    (tmp_path / "softmax-and-masks.py").write_text("")
    events = tmp_path / "events.jsonl"
    child.main("check", "softmax-and-masks", str(tmp_path / "softmax-and-masks.py"), str(events))
    kinds = [json.loads(line)["kind"] for line in events.read_text().splitlines()]
    assert kinds == ["ready", "broken"]
    assert process.number == 1 and process.measured == [3]


def test_the_number_of_a_run_holds_in_a_block(process):
    with threads_of_run(2):
        assert process.number == 2
    assert process.number == 3


@pytest.mark.parametrize("number", [None, 64])
def test_a_run_without_a_number_or_with_more_than_cpus_changes_nothing(process, number):
    with threads_of_run(number):
        assert process.number == 3


def test_a_number_in_the_environment_is_kept_for_a_run(process, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with threads_of_run(2):
        assert process.number == 3
