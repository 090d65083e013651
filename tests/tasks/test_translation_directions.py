"""One model for several directions: tags, mixing, exact resume, translation and evaluation."""

import json

import pytest
import torch

from headway import load
from headway.base.errors import DataError, UsageError
from headway.base.settings import override
from headway.cli.main import main
from headway.evaluation import score_translations
from headway.runs import recipe, saved, train
from headway.tasks import registry
from headway.tasks.translation.config import TranslationDataConfig, TranslationScoring
from headway.tasks.translation.data import held_out_pairs
from headway.tasks.translation.directions import Direction, corpora_of, languages_of
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.tasks.translation.parallel_corpus import Corpus
from headway.text import Tokenizer, TokenizerPair
from tests.fixtures.command_line import sentences
from tests.fixtures.directions import TINY, write_corpora
from tests.fixtures.translators import make

TASK = registry.task("translation")


def configured(folder, **changes):
    data = {"data.train": write_corpora(folder), "data.weights": (2, 1, 1), "data.bpe_dropout": 0.1}
    config = recipe("translate", ("test", {**TINY, **data}))
    noise = {"data.noise_drop": 0.1, "data.noise_mask": 0.1, "data.noise_shuffle": 2}
    further = {"data.temperature": 2, "training.r_drop": 5.0, **noise, **changes}
    return override(config, further, "test")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("directions")
    train(configured(folder), folder / "run")
    return folder / "run"


def test_a_tag_is_one_token_that_survives_a_file_and_no_other_text_becomes_one(tmp_path):
    tokenizer = Tokenizer.train(["a cat", "ein Hund"], 280, ["<2de>", "<2pt-BR>"])
    tokenizer.save(tmp_path / "t.json")
    for loaded in (tokenizer, Tokenizer.load(tmp_path / "t.json")):
        assert loaded.language_tags == {"de": 3, "pt-BR": 4}
        assert loaded.encode("<2de> a cat") == [3, *loaded.encode("a cat")]
        assert loaded.encode_batch(["<2pt-BR> a", "a"]) == [
            [4, *loaded.encode("a")],
            loaded.encode("a"),
        ]
        assert loaded.decode(loaded.encode("<2de> a cat")) == "a cat"
        assert loaded.token_strings([3]) == ["<2de>"]
        for text in ("a <2de> cat", "<2fr> a", "<s> a", " <2de> a", "<2de"):
            assert not {3, 4} & set(loaded.encode(text))
            assert loaded.decode(loaded.encode(text)).strip() == text.strip()
    plain = Tokenizer.train(["a cat"], 280)
    assert not plain.language_tags and plain.decode(plain.encode("<2de> a")) == "<2de> a"


def test_a_tokenizer_file_with_another_added_token_is_refused(tmp_path):
    tokenizer = Tokenizer.train(["a cat"], 280, ["<2de>"])
    tokenizer.save(tmp_path / "t.json")
    text = (tmp_path / "t.json").read_text(encoding="utf-8")
    (tmp_path / "t.json").write_text(text.replace("<2de>", "<3de>"), encoding="utf-8")
    with pytest.raises(DataError, match="<3de>"):
        Tokenizer.load(tmp_path / "t.json")


@pytest.mark.parametrize("name", ["en-de", "en:pt-BR", "sr@latin-en"])
def test_the_name_of_a_direction_is_read_again(name):
    assert Direction.parse(name).name == name


@pytest.mark.parametrize("text", ["en", "en-de-fr", "en-en", "en-", "e n-de", "en:<de>"])
def test_other_directions_are_refused(text):
    with pytest.raises(UsageError, match="a direction is two different languages"):
        Direction.parse(text)


def test_directions_come_from_settings_names_or_headers(tmp_path):
    write_corpora(tmp_path)
    (tmp_path / "d.tsv").write_text("fr\ten\nchat\tcat\n")
    paths = (str(tmp_path / "a.en-de.tsv"), str(tmp_path / "d.tsv"))
    corpora = corpora_of(TranslationDataConfig(train=paths))
    assert [c.direction.name for c in corpora] == ["en-de", "fr-en"]
    assert languages_of(corpora) == ("de", "en")
    both = TranslationDataConfig(train=(paths[1], paths[1]), directions=("fr-en", "en-fr"))
    assert [c.files.train.columns for c in corpora_of(both)] == [(0, 1), (1, 0)]
    same = TranslationDataConfig(train=(paths[0], paths[0]), source="en", target="de")
    assert languages_of(corpora_of(same)) == ()  # one target language needs no tag


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": ("d.tsv", "e.tsv")}, "the languages of this corpus are unknown"),
        ({"directions": ("en-de",)}, "1 directions for 2 corpora"),
        ({"directions": ("en-fr", "en-it")}, "there is no column 'en'"),
        ({"valid": "v.tsv"}, "data.valid is one file, but there are several corpora"),
        ({"weights": (1.0,)}, "one weight for each of 2 corpora"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    for name in ("d.tsv", "e.tsv"):
        (tmp_path / name).write_text("one\ttwo\n")
    (tmp_path / "x.de-fr.tsv").write_text("de\tfr\neins\tun\n")
    data = {"train": ("x.de-fr.tsv", "x.de-fr.tsv"), **changes}
    with pytest.raises(UsageError, match=message):
        corpora_of(TranslationDataConfig(**data))


def test_no_held_out_sentence_is_in_training_not_even_turned_round(run):
    config = saved(run)
    held_out = list(held_out_pairs(config.data))
    assert {pair.direction for pair in held_out} == {"en-de", "en-xx", "de-en"}
    assert all(p.source.startswith(f"<2{p.direction[3:]}> ") for p in held_out)
    bundle = load(run)
    encoded = {tuple(bundle.tokenizer.source.encode(pair.source[6:])) for pair in held_out}
    for number in (1, 2, 3):
        corpus = Corpus.open(run / "data" / f"train-{number}", bundle.tokenizer)
        for i in range(len(corpus)):
            source, target = corpus.source[i].tolist(), corpus.target[i].tolist()
            assert source[0] in bundle.tokenizer.source.language_tags.values()
            assert tuple(source[1:]) not in encoded and tuple(target) not in encoded


def test_a_resumed_run_is_the_same_to_the_last_bit(run, tmp_path):
    config = configured(tmp_path, **{"training.steps": 3})
    train(config, tmp_path / "run")
    train(override(config, {"training.steps": 6}, "test"), tmp_path / "run")
    first, second = load(run).model.state_dict(), load(tmp_path / "run").model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_language_is_chosen_by_option_or_by_tag(run, capsys):
    bundle, text = load(run), "the old fox sees the tree"
    assert bundle.languages == ("de", "en", "xx")
    by_tag = bundle.translate([f"<2{language}> {text}" for language in bundle.languages])
    by_option = [bundle.into(language).translate([text])[0] for language in bundle.languages]
    assert by_tag == by_option
    inputs = [TranslateInput(text=text), TranslateInput(text=f"<2xx> {text}")]
    predictions = bundle.predict(inputs, TranslateOptions(to="de", align=True))
    assert [p.translations[0].text for p in predictions] == [by_tag[0], by_tag[2]]
    with pytest.raises(SystemExit) as leaving:
        main(["translate", str(run), "--to", "xx", text])
    assert not leaving.value.code and capsys.readouterr().out.strip() == by_tag[2].strip()


def test_the_sentences_of_a_long_text_have_the_tag_of_the_text(run, monkeypatch):
    bundle, options = load(run), TranslateOptions(beam=1)
    sentences = ["The old fox sees the tree.", "The dog likes the lemon."]
    longest = max(map(len, bundle.tokenizer.source.encode_batch(sentences)))
    monkeypatch.setattr("headway.tasks.translation.batches.TOKENS", longest + 1)  # and the tag
    (long,) = bundle.predict([TranslateInput(text=f"<2xx> {' '.join(sentences)}")], options)
    assert long.translations[0].text == " ".join(bundle.into("xx").translate(sentences, beam=1))


def test_inspection_has_the_tag_among_the_source_tokens(run):
    bundle = load(run)
    by_language = bundle.probe("the old fox", language="xx")
    by_tag = bundle.probe("<2xx> the old fox")
    assert by_language.reading.tokens["source"][0] == by_tag.reading.tokens["source"][0] == "<2xx>"
    assert by_language.reading.ids == by_tag.reading.ids


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda bundle: bundle.translate(["fox"]), "none is chosen: de, en, xx"),
        (lambda bundle: bundle.into("fr"), "does not translate into 'fr'; .* are de, en, xx"),
        (lambda bundle: bundle.translate(["<2fr> fox"]), "does not translate into 'fr'"),
        (lambda bundle: bundle.probe("fox"), "none is chosen"),
        (lambda _: make().into("de"), "the model has one direction"),
    ],
)
def test_a_language_that_is_missing_or_unknown_is_an_error_that_names_the_known_ones(
    run, use, message
):
    with pytest.raises(UsageError, match=message):
        use(load(run))


def test_evaluation_is_by_direction_and_equals_that_of_each_direction(run):
    bundle, options = load(run), TranslationScoring(split="valid", beam=1)
    examples = TASK.held_out(bundle, run, saved(run), options)
    scores = TASK.evaluate(bundle, examples, options)
    assert set(scores.details["by_direction"]) == {"en-de", "en-xx", "de-en"}
    for name, values in scores.details["by_direction"].items():
        pairs = [pair for pair in examples.pairs if pair.direction == name]
        expected = score_translations(
            bundle.translate([p.source for p in pairs], beam=1), [p.target for p in pairs]
        )
        assert values == {"bleu": expected.bleu, "chrf": expected.chrf, "sentences": len(pairs)}
    assert any(line.startswith("en-xx: BLEU") for line in TASK.show_scores(scores))


def test_a_direction_without_training_pairs_is_evaluated_with_a_note(run, tmp_path, capsys):
    rows = "".join(f"{target}\t{target[::-1]}\n" for _, target in sentences()[:5])
    (tmp_path / "t.de-xx.tsv").write_text(rows, encoding="utf-8")
    with pytest.raises(SystemExit) as leaving:
        main(["eval", str(run), str(tmp_path / "t.de-xx.tsv"), "--json"])
    assert not leaving.value.code
    note = json.loads(capsys.readouterr().out)["note"]
    assert note.startswith("de-xx: no training pairs of this direction (zero-shot)")
    (tmp_path / "t.en-de.tsv").write_text("a\tb\n")
    examples = TASK.read(load(run), [tmp_path / "t.en-de.tsv"], saved(run), TranslationScoring())
    assert "the first row is read as a pair" in examples.note
    assert examples.pairs[0].source == "<2de> a"
    (tmp_path / "t.en-fr.tsv").write_text("a\tb\n")
    with pytest.raises(UsageError, match="its target languages are de, en, xx"):
        TASK.read(load(run), [tmp_path / "t.en-fr.tsv"], saved(run), TranslationScoring())


def test_a_pair_of_tokenizers_has_the_tags_on_the_source_side():
    pairs = [("a cat", "ein Kater"), ("a dog", "ein Hund")]
    separate = TokenizerPair.train(lambda: iter(pairs), 280, False, ["<2de>"])
    assert separate.source.language_tags and not separate.target.language_tags


def test_a_file_is_translated_into_the_chosen_language(run, tmp_path):
    (tmp_path / "in.txt").write_text("the old fox\nthe dog likes the tree\n")
    for language in ("de", "xx"):
        output = tmp_path / f"{language}.txt"
        words = ["translate", str(run), str(tmp_path / "in.txt"), "-o", str(output)]
        with pytest.raises(SystemExit) as leaving:
            main([*words, "--to", language, "--beam", "1"])
        assert not leaving.value.code
        texts = ["the old fox", "the dog likes the tree"]
        expected = load(run).into(language).translate(texts, beam=1)
        assert output.read_text().split("\n")[:2] == [" ".join(text.split()) for text in expected]


def test_a_file_that_states_its_language_is_translated_into_it(run, tmp_path, capsys):
    def written(language, *options):
        header = f'msgid ""\nmsgstr "Language: {language}\\nContent-Type: text/plain; '
        header += 'charset=UTF-8\\n"\n\n'
        source, output = tmp_path / f"{language}.po", tmp_path / f"{language}.out.po"
        source.write_text(header + 'msgid "the old fox"\nmsgstr ""\n')
        with pytest.raises(SystemExit) as leaving:
            main(["translate", str(run), str(source), "-o", str(output), "--beam", "1", *options])
        return leaving.value.code, output

    for stated, language in [("de", "de"), ("de_AT", "de"), ("xx", "xx")]:
        code, output = written(stated)
        expected = load(run).into(language).translate(["the old fox"], beam=1)
        assert not code and f'msgstr "{expected[0]}"' in output.read_text()
    code, output = written("fr")
    assert code == 2 and not output.exists()
    assert "the languages of the model are de, en, xx" in capsys.readouterr().err
    code, output = written("pt", "--to", "de")
    assert code == 2 and "are in pt" in capsys.readouterr().err


def test_an_xliff_file_that_states_its_language_is_translated_into_it(run, tmp_path):
    source, output = tmp_path / "in.xlf", tmp_path / "out.xlf"
    source.write_text(
        '<?xml version="1.0"?><xliff version="2.0" srcLang="en" trgLang="xx-YY"><file id="f">'
        '<unit id="u"><segment><source>the old fox</source></segment></unit></file></xliff>'
    )
    with pytest.raises(SystemExit) as leaving:
        main(["translate", str(run), str(source), "-o", str(output), "--beam", "1"])
    expected = load(run).into("xx").translate(["the old fox"], beam=1)
    assert not leaving.value.code and f"<target>{expected[0]}</target>" in output.read_text()
