"""The names of models in requests are those that the user typed."""

import pytest

from headway.base.errors import UsageError
from headway.tasks.model_names import model_names


def test_a_link_has_its_own_name_and_not_that_of_its_target(tmp_path, monkeypatch):
    (tmp_path / "runs" / "step-812").mkdir(parents=True)
    (tmp_path / "translator").symlink_to(tmp_path / "runs" / "step-812")
    monkeypatch.chdir(tmp_path)
    for typed in ("translator", "translator/", "./translator", tmp_path / "translator"):
        assert model_names([typed]) == ["translator"]


def test_dots_stand_for_the_folder_that_they_mean(tmp_path, monkeypatch):
    (tmp_path / "gpt" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "gpt")
    assert model_names([".", "model", "model/../../x"]) == ["gpt", "model", "x"]
    monkeypatch.chdir(tmp_path / "gpt" / "model")
    assert model_names([".."]) == ["gpt"]


@pytest.mark.parametrize(
    ("runs", "names", "problem"),
    [
        (["a/model", "b/model"], None, "two models have the name model"),
        (["a"], ["x", "y"], "--name names 2 models, and there are 1"),
        (["a"], ["x\ny"], "line breaks or control characters"),
        (["a\x1b"], None, "line breaks or control characters"),
    ],
)
def test_names_that_no_request_could_use_are_refused(runs, names, problem):
    with pytest.raises(UsageError, match=problem):
        model_names(runs, names)
