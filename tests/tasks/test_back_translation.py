"""Tagged back-translation: which sources begin with <BT>, and which pairs are held out."""

from random import Random

import pytest
import torch

from headway import load
from headway.base.errors import UsageError
from headway.base.settings import override
from headway.runs import recipe, saved, train
from headway.tasks.translation.config import TranslationDataConfig
from headway.tasks.translation.data import held_out_pairs
from headway.tasks.translation.directions import corpora_of
from headway.tasks.translation.noise import SourceNoise
from headway.tasks.translation.pairs.reading import read_pairs
from headway.tasks.translation.parallel_corpus import Corpus
from headway.text import Tokenizer
from headway.text.bpe_dropout import BPEDropout
from tests.fixtures.directions import TINY, write_corpora


def configured(folder, **changes):
    data = {"data.train": write_corpora(folder), "data.back_translated": (3,)}
    augmented = {"data.bpe_dropout": 0.1, "data.noise_drop": 0.1, "data.noise_shuffle": 2}
    return recipe("translate", ("test", {**TINY, **data, **augmented, **changes}))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("back")
    train(configured(folder), folder / "run")
    return folder / "run"


def test_tags_are_tokens_in_their_order_and_nowhere_else(tmp_path):
    Tokenizer.train(["a cat", "ein Hund"], 280, ["<2de>", "<BT>"]).save(tmp_path / "t.json")
    tokenizer = Tokenizer.load(tmp_path / "t.json")
    plain = tokenizer.encode("a cat")
    assert tokenizer.language_tags == {"de": 3} and tokenizer.special_ids["<BT>"] == 4
    assert tokenizer.encode("<2de> <BT> a cat") == [3, 4, *plain]
    assert tokenizer.encode_batch(["<BT> a cat", "a cat"]) == [[4, *plain], plain]
    assert tokenizer.decode([3, 4, *plain]) == "a cat"
    for text in ("a <BT> cat", "<BT > a", "<bt> a"):
        assert 4 not in tokenizer.encode(text) and tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode("<BT> <2de> a")[0] == 4 and 3 not in tokenizer.encode("<BT> <2de> a")
    without = Tokenizer.train(["a cat"], 280)
    assert without.decode(without.encode("<BT> a")) == "<BT> a"


def test_both_tags_stay_in_front_of_other_splits_and_noise():
    tokenizer = Tokenizer.train(["the cat sleeps"], 300, ["<2de>", "<BT>"])
    ids = tokenizer.encode("<2de> <BT> the cat sleeps")
    split = BPEDropout(tokenizer, 1.0).again(ids, Random(1))
    assert split[:2] == ids[:2] and tokenizer.decode(split) == "the cat sleeps"
    kept = frozenset(tokenizer.special_ids.values())
    noise = SourceNoise(drop=0.9, mask=0.0, shuffle=5, blank=1, seed=1, kept=kept)
    assert all(noise.source(ids, epoch, 0)[:2] == ids[:2] for epoch in range(20))


def test_only_the_sources_of_the_corpora_that_are_named_begin_with_the_tag(run):
    bundle, config = load(run), saved(run)
    tag = bundle.tokenizer.source.special_ids["<BT>"]
    language = bundle.tokenizer.source.language_tags["en"]
    for number in (1, 2, 3):
        corpus = Corpus.open(run / "data" / f"train-{number}", bundle.tokenizer)
        sources = [corpus.source[i].tolist() for i in range(len(corpus))]
        assert all((tag in source) == (number == 3) for source in sources)
        assert number != 3 or all(source[:2] == [language, tag] for source in sources)
    assert tag not in bundle.tokenizer.target.encode("zitrone")
    held_out = list(held_out_pairs(config.data))
    assert {pair.direction for pair in held_out} == {"en-de", "en-xx"}  # none of the third corpus
    assert not any("<BT>" in pair.source for pair in held_out)


def test_no_held_out_sentence_is_in_the_back_translated_corpus(run):
    config, bundle = saved(run), load(run)
    held_out = {pair.source.split(" ", 1)[1] for pair in held_out_pairs(config.data)}
    corpus = Corpus.open(run / "data" / "train-3", bundle.tokenizer)
    targets = {
        bundle.tokenizer.target.decode(corpus.target[i].tolist()) for i in range(len(corpus))
    }
    files = corpora_of(config.data)[2].files.train
    assert held_out & {pair.target for pair in read_pairs(files)}
    assert not held_out & targets


def test_validation_pairs_of_a_back_translated_corpus_in_a_file_have_no_tag(tmp_path):
    for name in ("real", "synthetic"):
        (tmp_path / name).mkdir()
        for split in ("train", "valid"):
            rows = "".join(f"{name} {split} {i}\tx {i}\n" for i in range(9))
            (tmp_path / name / f"{split}.tsv").write_text("en\tde\n" + rows)
    train = (str(tmp_path / "real"), str(tmp_path / "synthetic"))
    data = TranslationDataConfig(train=train, source="en", target="de", back_translated=(2,))
    held_out = [pair.source for pair in held_out_pairs(data)]
    assert len(held_out) == 18 and not any("<BT>" in source for source in held_out)


def test_a_resumed_run_is_the_same_to_the_last_bit(run, tmp_path):
    config = configured(tmp_path, **{"training.steps": 3})
    train(config, tmp_path / "run")
    train(override(config, {"training.steps": 6}, "test"), tmp_path / "run")
    first, second = load(run).model.state_dict(), load(tmp_path / "run").model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_tag_at_the_start_of_a_text_is_used_in_translation(run):
    bundle = load(run)
    probe = bundle.probe("<2de> <BT> the old fox")
    assert probe.reading.tokens["source"][:2] == ["<2de>", "<BT>"]
    assert len(bundle.into("de").translate(["<BT> the old fox", "the old fox"], beam=1)) == 2


@pytest.mark.parametrize(
    ("numbers", "message"),
    [((4,), "there are 3 corpora"), ((0,), "counted from 1"), ((1, 2, 3), "names all corpora")],
)
def test_numbers_that_cannot_work_are_refused(tmp_path, numbers, message):
    data = TranslationDataConfig(train=tuple(write_corpora(tmp_path)), back_translated=numbers)
    with pytest.raises(UsageError, match=message):
        corpora_of(data)
