"""mBART, mBART-50, M2M100 and NLLB: the languages are chosen as in transformers."""

import json
from dataclasses import replace

import pytest
import torch

import headway
from headway.base.errors import DataError, UsageError
from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.inspection.alignment import align, links
from headway.interop.translator_languages import M2M100_CODES
from headway.tasks.translation.options import TranslateInput
from headway.text import TokenizerPair
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.multilingual import LANGUAGES, language_id, multilingual

transformers = pytest.importorskip("transformers")
SENTENCES = ["the fox eats the lemon", "two dogs", "der bäcker malt </s> den baum", "ab 日本 zwei"]
OTHERS = {"mbart": "fr_XX", "mbart50": "sl_SI", "m2m100": "fr", "nllb": "zul_Latn"}
CLASSES = {
    "mbart": ["MBartTokenizer"],
    "mbart50": ["MBart50Tokenizer"],
    "m2m100": ["M2M100Tokenizer"],
    "nllb": ["NllbTokenizer"],
    "nllb-first": ["NllbTokenizer"],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("multilingual")
    return {family: multilingual(family, root / family) for family in LANGUAGES}


@pytest.mark.turns(3)
@pytest.mark.parametrize("family", LANGUAGES)
def test_greedy_tokens_are_those_of_transformers(folders, family):
    folder, tokenizer, theirs = folders[family]
    bundle = headway.load(folder)
    source, target = LANGUAGES[family]
    other = OTHERS[family.removesuffix("-first")]
    for from_language, to in ((source, target), (source, other), (other, source)):
        chosen = bundle.into(to, from_language)
        tokenizer.src_lang = from_language
        number = language_id(tokenizer, to)
        starts = family == "mbart"
        for text in SENTENCES:
            ids = tokenizer(text, split_special_tokens=True).input_ids
            side = chosen.tokenizer.source
            assert [*side.encode(text), side.eos] == ids, text
            output = theirs.generate(
                input_ids=torch.tensor([ids]),
                num_beams=1,
                do_sample=False,
                decoder_start_token_id=number if starts else 2,
                forced_bos_token_id=None if starts else number,
                forced_eos_token_id=None,
                bad_words_ids=[[1], *([[number]] if starts else [])],
                max_new_tokens=2 * (len(ids) - 1) + 10,
            )
            expected = output[0, 1:].tolist()
            expected = expected[: expected.index(2)] if 2 in expected else expected
            ((best,),) = chosen.search([text], beam=1)
            assert list(best.tokens) == expected
            start = chosen.reading(text, list(best.tokens)).ids["read"]
            assert start == [number if starts else 2, *expected]


@pytest.mark.turns(3)
@pytest.mark.parametrize("family", LANGUAGES)
def test_languages_are_those_of_the_files_and_kept_by_a_saved_model(folders, family, tmp_path):
    folder, tokenizer, _ = folders[family]
    bundle = headway.load(folder)
    assert (bundle.tokenizer.source.language, bundle.tokenizer.target.language) == LANGUAGES[family]
    known = bundle.tokenizer.languages.ids
    assert len(known) == {"mbart": 25, "mbart50": 52, "m2m100": 100}.get(family, 202)
    assert all(language_id(tokenizer, code) == number for code, number in known.items())
    chosen = bundle.into(OTHERS[family.removesuffix("-first")])
    chosen.save(tmp_path / "saved")
    again = headway.load(tmp_path / "saved")
    assert again.tokenizer.fingerprint == chosen.tokenizer.fingerprint
    assert again.tokenizer.fingerprint != bundle.tokenizer.fingerprint
    assert again.tokenizer.languages.ids == known
    assert again.search(SENTENCES[:1], beam=2) == chosen.search(SENTENCES[:1], beam=2)
    back = again.into(LANGUAGES[family][1])
    assert back.tokenizer.fingerprint == bundle.tokenizer.fingerprint


@pytest.mark.turns(3)
@pytest.mark.parametrize("family", LANGUAGES)
def test_an_exported_folder_has_the_chosen_languages(folders, family, tmp_path):
    folder, _, _ = folders[family]
    source, other = LANGUAGES[family][0], OTHERS[family.removesuffix("-first")]
    chosen = headway.load(folder).into(source, other)
    exported = export(chosen, tmp_path / "out", HUGGING_FACE)
    again = headway.load(exported.folder)
    assert again.tokenizer.source.language == other and again.tokenizer.target.language == source
    assert again.search(SENTENCES, beam=2) == chosen.search(SENTENCES, beam=2)
    theirs = getattr(transformers, exported.architecture).from_pretrained(exported.folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported.folder)
    assert type(tokenizer).__name__.removesuffix("Fast") in CLASSES[family]
    for text in SENTENCES[:2]:
        ids = tokenizer(text).input_ids
        output = theirs.generate(
            input_ids=torch.tensor([ids]),
            num_beams=1,
            forced_eos_token_id=None,
            max_new_tokens=2 * (len(ids) - 1) + 10,
        )
        expected = output[0, 1:].tolist()
        expected = expected[: expected.index(2)] if 2 in expected else expected
        ((best,),) = chosen.search([text], beam=1)
        assert list(best.tokens) == expected
    with pytest.raises(UsageError, match="tokens of the source and the target language"):
        export(chosen, tmp_path / "ct2", CTRANSLATE2)


def test_the_languages_of_m2m100_are_those_of_its_tokenizer():
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

    assert M2M100_CODES.split() == FAIRSEQ_LANGUAGE_CODES["m2m100"]


def test_an_unknown_language_names_the_nearest_ones(folders):
    bundle = headway.load(folders["nllb"][0])
    with pytest.raises(UsageError, match="into 'fra'; the nearest of its 202 languages are fra_L"):
        bundle.into("fra")
    with pytest.raises(UsageError, match=r"from 'deu_latn'.* are deu_Latn") as refused:
        bundle.into(None, "deu_latn")
    assert refused.value.hint == "--from-language deu_Latn"


def test_a_model_without_a_chosen_language_asks_for_it(tmp_path):
    folder, _, _ = multilingual("m2m100", tmp_path / "m2m")
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "src_lang": None, "tgt_lang": None}))
    bundle = headway.load(folder)
    with pytest.raises(UsageError, match="from 100 languages, and none is chosen: af, am"):
        bundle.translate(["two dogs"])
    with pytest.raises(UsageError, match="into 100 languages, and none is chosen") as refused:
        bundle.into(None, "de").probe("two dogs")
    assert refused.value.hint == "--to af"
    assert bundle.into("fr", "de").translate(["two dogs"])
    path.write_text(json.dumps({**settings, "language_codes": "wmt21"}))
    with pytest.raises(DataError, match="no file names the languages"):
        headway.load(folder)


def test_a_model_without_such_tokens_refuses_them(tmp_path):
    from tests.fixtures.translators import make

    with pytest.raises(UsageError, match="no tokens for source languages"):
        make().into(None, "de")


@pytest.mark.parametrize("family", ["mbart", "nllb"])
def test_alignments_have_no_words_for_languages(folders, family):
    bundle = headway.load(folders[family][0])
    aligned = align(bundle, "the fox eats", "two dogs play")
    assert aligned.source == ["the", "fox", "eats", "</s>"]
    assert aligned.target == ["two", "dogs", "play"] and aligned.weights.shape == (3, 4)
    torch.testing.assert_close(aligned.weights.sum(1), torch.ones(3))
    assert all(s < 3 and t < 3 for s, t in links(aligned))


def test_options_choose_the_languages_and_ensembles_share_them(folders):
    folder = folders["nllb"][0]
    bundle = headway.load(folder)
    options = replace(
        bundle.default_options,
        beam=2,
        to="zul_Latn",
        from_language="eng_Latn",
        ensemble=(folder,),
    )
    (translated,) = bundle.predict([TranslateInput(text="two dogs")], options)
    chosen = bundle.into("zul_Latn", "eng_Latn")
    assert translated.translations[0].text == chosen.translate(["two dogs"], beam=2)[0]


def test_the_commands_have_the_flags(folders, tmp_path):
    folder = str(folders["nllb"][0])
    flags = ("--to", "zul_Latn", "--from-language", "eng_Latn")
    bundle = headway.load(folder).into("zul_Latn", "eng_Latn")
    said = run_headway("translate", folder, "two dogs", *flags, cwd=tmp_path).stdout.strip("\n")
    assert said == bundle.translate(["two dogs"])[0]
    (tmp_path / "pairs.tsv").write_text("en\tzu\nthe fox eats\ttwo dogs play\n")
    aligned = run_headway("align", folder, "pairs.tsv", "--json", *flags, cwd=tmp_path).stdout
    assert json.loads(aligned)["source"] == ["the", "fox", "eats", "</s>"]
    scored = run_headway("eval", folder, "pairs.tsv", "--json", *flags, cwd=tmp_path).stdout
    other = run_headway("eval", folder, "pairs.tsv", "--json", *flags[:1], "fra_Latn", cwd=tmp_path)
    assert json.loads(scored)["nats"] != json.loads(other.stdout)["nats"]
    shown = run_headway("inspect", folder, "two dogs", "--json", *flags, cwd=tmp_path).stdout
    assert "eng_Latn" in shown and "zul_Latn" in shown
    refused = run_headway("align", folder, "pairs.tsv", "--to", "fra", cwd=tmp_path, check=None)
    assert refused.returncode == 2 and "fra_Latn" in refused.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"ids": {"de": 10**6}},
        {"ids": {}},
        {"ids": {"de": True}},
        {"ids": []},
        {"end": -1},
        {"after_source": 1},
        {"more": 1},
    ],
)
def test_a_hostile_table_is_refused(folders, tmp_path, change):
    headway.load(folders["m2m100"][0]).tokenizer.save(tmp_path)
    path = tmp_path / "tokenizer.source.json"
    content = json.loads(path.read_text())
    content["languages"] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="not a tokenizer of format"):
        TokenizerPair.load(tmp_path)
