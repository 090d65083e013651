"""Placeholder accuracy of a translator: before and after the repair that files get."""

import json
from pathlib import Path

import pytest

from headway.base.metrics_file import read_metrics
from headway.evaluation import paired_bootstrap
from headway.runs import recipe, train
from headway.tasks.translation.config import TranslationScoring
from headway.tasks.translation.evaluation import placeholder_accuracy, placeholder_sums
from headway.tasks.translation.pair_files import Pair
from headway.tasks.translation.target_languages import TargetLanguages
from tests.fixtures.command_line import headway, sentences
from tests.fixtures.directions import TINY
from tests.fixtures.translators import dictionary, make

TABLE = {
    "Open %s": ["Ouvrir %s"],
    "Close %(name)s": ["Fermer %(nom)s"],
    "Save {0} now": ["Garder", "Garde {0}"],
    ("one {0}", "{0}"): ["un {0}"],
    "one {0}": ["un", "une"],
    "{0} two": ["deux", "x"],
    "two": ["{0} <b>"],
    "plain": ["{0}"],
}


def accuracies(sources: list[str], **options: object) -> dict[str, float]:
    bundle = dictionary(TABLE)
    pairs = [Pair(source, "", number) for number, source in enumerate(sources)]
    outputs = [best[0].text for best in bundle.search(sources)]
    scoring = TranslationScoring(beam=2, **options)
    sums = placeholder_sums(bundle, pairs, outputs, scoring)
    return {name: accuracy.corpus() for name, accuracy in sums.items()}


def test_only_sentences_with_placeholders_count_before_and_after_repair() -> None:
    # "Open %s" is right; a copy, another candidate and a search repair three; nothing repairs one.
    sources = [name for name in TABLE if isinstance(name, str) and name != "two"]
    assert accuracies(sources) == {"placeholders": 1 / 5, "placeholders_repaired": 4 / 5}
    assert accuracies(sources, repair=False) == {"placeholders": 1 / 5}


def test_sources_without_placeholders_have_no_accuracy() -> None:
    assert accuracies(["plain", "two"]) == {}


def test_the_accuracy_is_a_metric_of_a_paired_bootstrap() -> None:
    first = placeholder_accuracy([True, None, False, True])
    second = placeholder_accuracy([True, None, False, False])
    assert (first.corpus(), second.corpus()) == (2 / 3, 1 / 3)
    assert placeholder_accuracy([None, None]).corpus() == 1
    difference = paired_bootstrap(first, second)
    assert difference.low <= difference.difference == pytest.approx(1 / 3)


def test_texts_with_a_language_tag_are_repaired_in_their_language() -> None:
    bundle = make()
    bundle.target_languages = TargetLanguages(("de", "fr"))
    repaired_into = []
    bundle.into = lambda to, source: repaired_into.append(to) or dictionary(TABLE)
    pairs = [Pair("<2de> Close %(name)s", "", 1), Pair("<2fr> Save {0} now", "", 2)]
    sums = placeholder_sums(bundle, pairs, ["x", "y"], TranslationScoring(beam=2))
    assert [sums[name].corpus() for name in sums] == [0, 1]
    assert repaired_into == ["de", "fr"]


def write_table(path: Path, pairs: list[tuple[str, str]]) -> None:
    rows = [f"{source} %s\t{target} %s" for source, target in pairs]
    path.write_text("".join(f"{row}\n" for row in ["en\tde", *rows]))


def test_training_logs_the_accuracy_and_eval_adds_that_after_repair(tmp_path: Path) -> None:
    for split, pairs in (("train", sentences()[20:]), ("valid", sentences()[:3])):
        write_table(tmp_path / f"{split}.tsv", pairs)
    data = {"data.train": str(tmp_path), "data.source": "en", "data.target": "de"}
    train(recipe("translate", ("test", {**TINY, **data})), tmp_path / "run")
    logged = read_metrics(tmp_path / "run" / "metrics.jsonl", "valid")
    assert 0 <= logged[-1]["placeholders"] <= 1
    assert "placeholders_repaired" not in logged[-1]
    words = ["eval", "run", "--split", "valid", "--beam", "2"]
    scores = json.loads(headway(*words, "--json", cwd=tmp_path).stdout)
    assert scores["with_placeholders"] == 3
    assert 0 <= scores["placeholders"] <= scores["placeholders_repaired"] <= 1
    shown = headway(*words, cwd=tmp_path).stdout
    assert "after repair, of 3 sentences with placeholders" in shown
    words.append("--no-repair")
    assert "placeholders_repaired" not in json.loads(headway(*words, "--json", cwd=tmp_path).stdout)
