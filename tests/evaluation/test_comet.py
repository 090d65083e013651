"""COMET, with a module of the same interface in place of the package."""

import sys
from types import SimpleNamespace

import pytest

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.evaluation.paired import paired_bootstrap
from headway.tasks import registry
from headway.tasks.translation.comet import Comet
from headway.tasks.translation.config import TranslationScoring
from tests.fixtures.translators import SENTENCES, make

TASK = registry.task("translation")


class Model:
    """Scores a translation by the share of its reference's length, and remembers its calls."""

    def __init__(self, wrong=None):
        self.calls, self.wrong = [], wrong

    def predict(self, samples, batch_size=16, gpus=1, progress_bar=True):
        self.calls.append((samples, gpus, progress_bar))
        scores = [min(1.0, len(row["mt"]) / len(row["ref"])) for row in samples]
        return SimpleNamespace(scores=self.wrong or scores, system_score=0.0)


@pytest.fixture
def package(monkeypatch):
    """The package; `.loaded` has what was loaded."""
    package = SimpleNamespace(loaded=[], model=Model())

    def load_from_checkpoint(
        checkpoint_path, reload_hparams=False, strict=False, local_files_only=False
    ):
        assert local_files_only, "nothing may be downloaded"
        package.loaded.append(checkpoint_path)
        return package.model

    package.load_from_checkpoint = load_from_checkpoint
    monkeypatch.setitem(sys.modules, "comet", package)
    return package


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small/checkpoints").mkdir(parents=True)
    (tmp_path / "small/hparams.yaml").write_text("class_identifier: regression_metric\n")
    (tmp_path / "small/checkpoints/model.ckpt").write_bytes(b"")
    return tmp_path / "small"


def examples(tmp_path, bundle, options, tag=""):
    rows = "".join(f"{tag}{source}\t{target}\n" for source, target in SENTENCES[:6])
    (tmp_path / "pairs.tsv").write_text(f"en\tde\n{rows}")
    return TASK.read(bundle, [tmp_path / "pairs.tsv"], None, options)


def test_an_evaluation_has_the_score_and_its_model(package, folder, tmp_path):
    bundle, options = make(), TranslationScoring(beam=1, comet=folder)
    read = examples(tmp_path, bundle, options)
    scores = TASK.evaluate(bundle, read, options)
    ((samples, gpus, shown),) = package.model.calls
    assert (gpus, shown) == (0, False) and package.loaded == [f"{folder}/checkpoints/model.ckpt"]
    assert [row["src"] for row in samples] == [source for source, _ in SENTENCES[:6]]
    assert [row["ref"] for row in samples] == [target for _, target in SENTENCES[:6]]
    outputs = bundle.translate([source for source, _ in SENTENCES[:6]], beam=1)
    assert [row["mt"] for row in samples] == outputs
    expected = [min(1.0, len(row["mt"]) / len(row["ref"])) for row in samples]
    assert scores["comet"] == pytest.approx(sum(expected) / len(expected))
    assert scores.details["comet_signature"].startswith("model:small|version:")
    assert any(line.startswith("COMET ") for line in TASK.show_scores(scores))
    plain = TASK.evaluate(bundle, read, TranslationScoring(beam=1))
    assert "comet" not in plain.numbers() and "comet_signature" not in plain.details
    assert plain.numbers() == {k: v for k, v in scores.numbers().items() if k != "comet"}
    difference = paired_bootstrap(scores.sums["comet"], scores.sums["comet"])
    assert difference.first == difference.second == pytest.approx(scores["comet"])


@pytest.mark.parametrize("file", ["hparams.yaml", "checkpoints/model.ckpt"])
def test_a_folder_without_a_file_is_refused_before_anything_is_translated(
    package, folder, tmp_path, file
):
    (folder / file).unlink()
    bundle, options = make(), TranslationScoring(beam=1, comet=folder)
    read = examples(tmp_path, bundle, options)
    bundle.search = None
    with pytest.raises(DataError, match=f"there is no {file}") as refused:
        TASK.evaluate(bundle, read, options)
    assert refused.value.where == str(folder) and not package.loaded


def test_a_checkpoint_that_cannot_be_loaded_is_refused(package, folder):
    def load_from_checkpoint(path, local_files_only=False):
        raise Exception("no encoder")

    package.load_from_checkpoint = load_from_checkpoint
    with pytest.raises(DataError, match="cannot load the checkpoint: no encoder") as refused:
        Comet.open(folder)
    assert "nothing is downloaded" in refused.value.hint


def test_an_old_package_that_may_download_is_refused(package, folder):
    package.load_from_checkpoint = lambda checkpoint_path: package.model
    with pytest.raises(UsageError, match="cannot be kept from downloading"):
        Comet.open(folder)


def test_a_missing_package_is_named(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "comet", None)
    with pytest.raises(UsageError, match="needs the package unbabel-comet") as refused:
        Comet.open(folder)
    assert "pip install unbabel-comet" in refused.value.hint
    monkeypatch.setitem(sys.modules, "comet", SimpleNamespace())  # another package of this name
    with pytest.raises(UsageError, match="needs the package unbabel-comet"):
        Comet.open(folder)


@pytest.mark.parametrize("wrong", [[0.5], [0.5, float("nan")], [[0.5, 0.5]]])
def test_results_that_are_no_scores_are_refused(package, folder, wrong):
    package.model = Model(wrong)
    with pytest.raises(HeadwayError, match="for 2 sentences"):
        Comet.open(folder).score(["a", "b"], ["c", "d"], ["e", "f"], 0)
