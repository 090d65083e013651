"""The data in a run folder are those of the settings in its run.yaml."""

import os
from pathlib import Path

import pytest

from headway.base.config_files import read_yaml
from headway.base.errors import UsageError
from headway.cli.main import main
from headway.runs import Outcome, check_same, train
from headway.runs.data_files import changed_files, data_files, remember_files
from headway.text import load_tokenizer
from tests.fixtures.language_model_runs import STORY, configured


class Stopped(Exception):
    """The process ended here."""


@pytest.fixture
def story(tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    return str(path)


def prepare_only(config, folder):
    """Train until the data are prepared, as if the process were killed then."""

    def end(event):
        if event["kind"] == "plan":
            raise Stopped

    with pytest.raises(Stopped):
        train(config, folder, listeners=[end])
    assert (folder / "data" / "train").exists() and (folder / "run.yaml").exists()


def test_data_of_an_unfinished_run_are_reused_only_with_its_settings(story, tmp_path):
    folder, events = tmp_path / "run", []
    prepare_only(configured(story), folder)
    train(configured(story), folder, listeners=[events.append])
    assert [e["reused"] for e in events if e["kind"] == "prepared"] == [True, True]
    assert not [e for e in events if e["kind"] == "note"]


@pytest.mark.parametrize("edit", ["touched", "changed"])
def test_data_of_an_unfinished_run_are_made_again_if_their_file_changed(edit, story, tmp_path):
    folder, events = tmp_path / "run", []
    prepare_only(configured(story), folder)
    if edit == "touched":
        os.utime(story, (1, 1))  # a copy, with the same content
    else:
        Path(story).write_text(STORY.replace("a", "e"))
    train(configured(story), folder, listeners=[events.append])
    notes = [e["text"] for e in events if e["kind"] == "note"]
    removed = "removed the data that an unfinished run had prepared"
    assert notes == ([removed] if edit == "changed" else [])
    is_reused = edit == "touched"
    assert [e["reused"] for e in events if e["kind"] == "prepared"] == [is_reused] * 2


@pytest.mark.parametrize("edit", ["same", "touched", "changed", "longer"])
def test_a_resumed_run_says_if_a_file_of_its_data_has_changed(edit, story, tmp_path):
    folder, events = tmp_path / "run", []
    train(configured(story), folder)
    path = Path(story)
    if edit == "touched":
        os.utime(path, (1, 1))
    elif edit == "changed":
        path.write_text(STORY.replace("a", "e"))
    elif edit == "longer":
        path.write_text(STORY + "The end.")
    train(configured(story), folder, listeners=[events.append])
    notes = [e["text"] for e in events if e["kind"] == "note"]
    assert bool(notes) == (edit in ("changed", "longer"))
    assert all(note.startswith(f"{story}: changed since this run began") for note in notes)


def test_the_files_of_a_folder_are_compared_by_name_and_size(tmp_path):
    folder, run = tmp_path / "images", tmp_path / "run"
    (folder / "cats").mkdir(parents=True)
    run.mkdir()
    (folder / "cats" / "1.png").write_bytes(b"123")
    files = data_files(configured(str(folder)))
    assert changed_files(run, files) == []
    remember_files(run, files)
    assert changed_files(run, files) == []
    (folder / "cats" / "2.png").write_bytes(b"4")
    assert changed_files(run, files) == [str(folder)]


@pytest.mark.parametrize("change", ["vocabulary", "text", "recipe", "no run.yaml"])
def test_data_of_an_unfinished_run_with_other_settings_are_made_again(story, tmp_path, change):
    """Else the model would be trained on data that its run.yaml does not name."""
    folder, events = tmp_path / "run", []
    prepare_only(configured(story), folder)
    (tmp_path / "other.txt").write_text(STORY[:700])
    settings = {
        "vocabulary": configured(story, data__vocabulary=280),
        "text": configured(str(tmp_path / "other.txt")),
        "recipe": configured(story, name="gpt"),
        "no run.yaml": configured(story),
    }[change]
    if change == "no run.yaml":
        (folder / "run.yaml").unlink()
    check_same(folder, settings)  # as the command line does
    train(settings, folder, listeners=[events.append])
    assert [e["reused"] for e in events if e["kind"] == "prepared"] == [False, False]
    assert any("unfinished run" in e.get("text", "") for e in events if e["kind"] == "note")
    if change == "vocabulary":
        assert load_tokenizer(folder).size == 280


def test_the_data_of_a_trained_run_cannot_be_changed(story, tmp_path):
    folder = tmp_path / "run"
    train(configured(story), folder)
    before = (folder / "run.yaml").read_text()
    for change in ({"data__vocabulary": 280}, {"data__held_out": 0.2}):
        with pytest.raises(UsageError, match="the data of a trained run cannot be changed: data"):
            train(configured(story, training__steps=9, **change), folder)
    assert (folder / "run.yaml").read_text() == before
    outcome = train(configured(story, training__steps=9, data__weights=(2.0,)), folder)
    assert isinstance(outcome, Outcome) and outcome.step == 9


def test_a_run_cannot_end_before_the_steps_it_has_done(story, tmp_path):
    train(configured(story), tmp_path / "run")
    with pytest.raises(UsageError, match="has done 6 steps already"):
        train(configured(story, training__steps=5), tmp_path / "run")
    assert read_yaml(tmp_path / "run" / "run.yaml")["training.steps"] == 6


def test_the_same_command_resumes_a_run_that_is_longer_than_its_model(story, tmp_path):
    """The maximum length of the model is then that of the sequences."""
    config = configured(story, training__length=30, model__max_length=20)
    train(config, tmp_path / "run")
    assert read_yaml(tmp_path / "run" / "run.yaml")["model.max_length"] == 30
    check_same(tmp_path / "run", config)
    with pytest.raises(UsageError, match=r"model\.max_length: 30 in the run, 40 now"):
        check_same(tmp_path / "run", configured(story, training__length=30, model__max_length=40))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume", "runs/a", "--run", "b"], "a run is resumed in its own folder"),
        (["gpt-tiny", "a.txt", "--data", "b.txt"], "training data are named twice"),
        (["gpt-tiny", "a.txt", "--data.train", "b.txt"], "training data are named twice"),
    ],
)
def test_options_that_contradict_each_other_are_refused(words, message, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(["train", *words])
    assert leaving.value.code == 2 and message in capsys.readouterr().err
