"""Real corpora, where HEADWAY_DATA points to them."""

import pytest

from headway.base.errors import UsageError
from headway.tasks.translation.corpora.corpus_check import check
from headway.tasks.translation.pairs.reading import read_pairs
from headway.tasks.translation.pairs.splits import locate


def test_multi30k_is_located_by_the_prefix_of_its_files(real_data):
    folder = real_data("mt/multi30k.train.en-de-fr.tsv.gz").parent
    splits = locate(folder / "multi30k", "en", "fr")
    counts = {name: sum(1 for _ in read_pairs(files)) for name, files in splits.items()}
    assert counts == {"train": 29_000, "valid": 1_014, "test": 1_000}
    report = check(splits)
    assert report.splits["train"].readable and report.splits["train"].empty.count == 0


def test_a_folder_of_many_corpora_is_refused(real_data):
    folder = real_data("mt/multi30k.train.en-de-fr.tsv.gz").parent
    with pytest.raises(UsageError, match="has several"):
        locate(folder, "en", "de")
