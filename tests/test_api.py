"""The Python API, as in the README."""

import json

import pytest
import torch

import headway
from headway.base.errors import UsageError
from headway.evaluation.scores import Scores
from tests.fixtures.command_line import headway as command
from tests.fixtures.tiny_encoder import save_encoder, sentences, write_conll

SMALL = {
    "training.batch_size": 7,
    "evaluation.every": 20,
    "optimizer.lr": 1e-2,
    "schedule.warmup": 2,
    "machine.threads": 1,
}

STUDENT = {"training.batch_size": 7, "model.num_layers": 1, "machine.threads": 1}


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    torch.manual_seed(0)
    save_encoder(folder / "start")
    write_conll(folder / "names.conll", sentences())
    return folder


@pytest.fixture(scope="module")
def run(working_folder):
    events = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(working_folder)
        run = headway.train(
            "tagging",
            data="names.conll",
            start="start",
            steps=40,
            settings=SMALL,
            listeners=[events.append],
            quiet=True,
        )
        assert {event["kind"] for event in events} >= {"plan", "valid", "finished"}
        yield run


def test_a_run_has_its_bundle_its_scores_and_its_log(run):
    assert (run.folder.as_posix(), run.stop) == ("runs/tag", "done")
    assert run.config.training.steps == 40 and run.config.optimizer.lr == 1e-2
    (tagged,) = run.bundle.tag(["Émile Roux waits"])
    assert [word.text for word in tagged.words] == ["Émile", "Roux", "waits"]
    best = max(run.history(), key=lambda row: row["f1"])
    assert isinstance(run.scores, Scores) and run.scores["f1"] == best["f1"]
    assert len(run.history("train")) > 0


def test_evaluate_takes_a_run_a_folder_or_a_bundle_with_data(run, working_folder):
    assert headway.evaluate(run) == headway.evaluate(run.folder) == run.scores
    whole = headway.evaluate(run.bundle, "names.conll")
    assert whole.counts["sentences"] == len(sentences()) > run.scores.counts["sentences"]
    printed = command("eval", "runs/tag", "names.conll", "--json", cwd=working_folder).stdout
    assert json.loads(printed) == whole.as_dict()


def test_a_bundle_alone_has_no_held_out_examples(run):
    with pytest.raises(UsageError, match=r"has no run\.yaml, which names the held-out data"):
        headway.evaluate(run.bundle)
    with pytest.raises(UsageError, match="no option of the evaluation"):
        headway.evaluate(run, beam=4)
    with pytest.raises(UsageError, match="no such file"):
        headway.evaluate(run, "nowhere.conll")


def test_the_same_call_resumes_and_another_is_refused(run):
    resumed = headway.train(
        "tagging", data="names.conll", start="start", steps=40, settings=SMALL, quiet=True
    )
    assert resumed.folder == run.folder and resumed.stop == "done"
    with pytest.raises(UsageError, match="other settings"):
        headway.train("tagging", data="names.conll", start="start", steps=41, quiet=True)


def test_a_student_is_trained_from_its_teacher(run):
    student = headway.train(
        "distil", data="names.conll", teacher=run.folder, steps=4, settings=STUDENT, quiet=True
    )
    assert student.bundle.kind == run.bundle.kind and "f1" in student.scores
    assert student.bundle.config.bert.num_layers == 1


def test_invalid_training_calls_are_refused(run):
    with pytest.raises(UsageError, match="unknown recipe"):
        headway.train("tagings")
    with pytest.raises(UsageError, match="no training sentences are named"):
        headway.train("tagging", start="start", run="empty", quiet=True)
    with pytest.raises(UsageError, match="not a path"):
        headway.train("tagging", data="names.conll", start="start", run="../x", quiet=True)


def test_the_tasks_are_listed_with_their_recipes():
    """This also holds after an import of the package `headway.tasks`, which binds the name."""
    import headway.tasks.registry

    assert headway.tasks()["tagging"] == ["tag"] == headway.api.tasks()["tagging"]
    assert all(getattr(headway, name) is not None for name in headway.__all__)
