"""MarianMT folders: their tokens, translations, training and export are those of transformers."""

import json
import shutil

import pytest
import torch

import headway
from headway.base.errors import DataError, UsageError
from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.target import export
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.command_line import write_corpus
from tests.fixtures.encoder_decoders import SENTENCES, marian
from tests.fixtures.sentencepiece import TEXTS

transformers = pytest.importorskip("transformers")


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_the_tokens_of_a_marian_are_those_of_transformers(tmp_path):
    pytest.importorskip("sentencepiece")
    _, folder = marian(tmp_path / "m")
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    ours = headway.load(folder).tokenizer
    for text in SENTENCES:
        assert [*ours.source.encode(text), 0] == theirs(text).input_ids
        assert [*ours.target.encode(text), 0] == theirs(text_target=text).input_ids
        ids = ours.target.encode(TEXTS[3])
        assert ours.target.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert ours.source.encode("</s> <pad>")[-1] != ours.source.pad  # text, not a special token


def test_a_marian_translates_as_in_transformers(tmp_path):
    theirs, folder = marian(tmp_path / "m")
    bundle = headway.load(folder)
    pad = bundle.tokenizer.target.pad
    for text in SENTENCES:
        ids = bundle.tokenizer.source.encode(text)
        output = theirs.generate(
            input_ids=torch.tensor([[*ids, 0]]),
            attention_mask=torch.ones(1, len(ids) + 1, dtype=torch.long),
            num_beams=1,
            do_sample=False,
            bad_words_ids=[[pad]],
            max_new_tokens=2 * len(ids) + 11,
        )
        expected = output[0, 1:].tolist()
        expected = expected[: expected.index(0)] if 0 in expected else expected
        ((best,),) = bundle.search([text], beam=1)
        assert list(best.tokens) == expected


def test_every_verb_takes_a_marian(tmp_path):
    marian(tmp_path / "m")
    (tmp_path / "test.tsv").write_text(
        "en\tde\nthe fox eats the lemon\tder fuchs isst\ntwo dogs play\tzwei hunde spielen\n"
    )
    words = ("--source", "en", "--target", "de")
    translation = run_headway("translate", "m", "two dogs play", cwd=tmp_path).stdout
    assert translation.count("\n") == 1
    assert "BLEU" in run_headway("eval", "m", "test.tsv", *words, cwd=tmp_path).stdout
    aligned = run_headway("align", "m", "test.tsv", *words, cwd=tmp_path, check=None)
    assert aligned.returncode == 0, aligned.stderr
    run_headway("inspect", "m", "two dogs play", "--html", "page.html", cwd=tmp_path)
    run_headway("quantize", "m", "--to", "int8", "--output", "small", cwd=tmp_path)
    run_headway("translate", "small", "two dogs play", cwd=tmp_path)
    run_headway("export", "small", "--to", "hf", "--output", "again", cwd=tmp_path)
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    ids = [json.loads((tmp_path / name / "vocab.json").read_text()) for name in ("m", "again")]
    assert ids[0] == ids[1]


def test_a_marian_is_fine_tuned_with_its_own_tokens(tmp_path):
    marian(tmp_path / "m")
    write_corpus(tmp_path / "corpus")
    words = ("--source", "en", "--target", "de", "--from", "m", "--steps", "3", "--threads", "1")
    words += ("--evaluation.sentences", "4", "--evaluation.beam", "1", "--training.tokens", "300")
    run_headway("train", "translate", "corpus", *words, "--run", "tuned", cwd=tmp_path)
    before, tuned = (headway.load(tmp_path / name) for name in ("m", "runs/tuned"))
    assert tuned.tokenizer.fingerprint == before.tokenizer.fingerprint
    bias, bias_before = tuned.model.output.bias, before.model.output.bias
    assert tuned.config.sinusoids == "halves" and not torch.equal(bias, bias_before)
    run_headway("export", "runs/tuned", "--to", "hf", "--output", "again", cwd=tmp_path)
    source = (tmp_path / "again" / "source.spm").read_bytes()
    assert source == (tmp_path / "m" / "source.spm").read_bytes()
    refused = run_headway(
        "train",
        "translate",
        "corpus",
        *words,
        "--data.bpe-dropout",
        "0.1",
        "--run",
        "other",
        cwd=tmp_path,
        check=None,
    )
    assert refused.returncode == 2 and "data.bpe_dropout needs" in refused.stderr


def test_a_marian_is_exported_to_ctranslate2_with_its_sentencepiece_models(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    bundle = headway.load(marian(tmp_path / "m")[1])
    exported = export(bundle, tmp_path / "ct2", CTRANSLATE2)
    assert max(exported.difference.values()) <= 1e-4
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "ct2" / name).read_bytes() == (tmp_path / "m" / name).read_bytes()
    source, target = bundle.tokenizer.source, bundle.tokenizer.target
    loaded = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    for text in SENTENCES:
        ids = source.encode(text)
        tokens = [source.tokens[i] for i in ids]
        (answer,) = loaded.translate_batch(
            [tokens], beam_size=1, max_decoding_length=2 * len(ids) + 10, min_decoding_length=0
        )
        ((best,),) = bundle.search([text], beam=1)
        assert answer.hypotheses[0] == [target.tokens[i] for i in best.tokens]


def test_a_saved_marian_is_loaded_again(tmp_path):
    bundle = headway.load(marian(tmp_path / "m")[1])
    bundle.save(tmp_path / "saved")
    loaded = headway.load(tmp_path / "saved")
    assert loaded.tokenizer.fingerprint == bundle.tokenizer.fingerprint
    assert loaded.translate(SENTENCES) == bundle.translate(SENTENCES)


def test_codes_of_target_languages_are_tags(tmp_path):
    bundle = headway.load(marian(tmp_path / "m", [">>fra<<", ">>deu<<"])[1])
    assert bundle.languages == ("deu", "fra")
    source = bundle.tokenizer.source
    code = source.language_tags["fra"]
    assert source.encode(">>fra<< two dogs") == source.encode("<2fra> two dogs")
    assert source.encode(">>fra<< two dogs") == [code, *source.encode("two dogs")]
    assert bundle.into("fra").translate(["two dogs"]) == bundle.translate(["<2fra> two dogs"])
    with pytest.raises(UsageError, match="several languages"):
        bundle.translate(["two dogs"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "vocab.json").unlink(), "there is no tokenizer"),
        (lambda folder: (folder / "target.spm").unlink(), "target.spm"),
        (lambda folder: (folder / "source.spm").write_bytes(b"\xff" * 30), "SentencePiece"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": 1}'), "there is no token <unk>"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": 1, "b": 1}'), "each once"),
        (lambda folder: (folder / "vocab.json").write_text("[]"), "each once"),
    ],
)
def test_a_damaged_tokenizer_is_refused_by_its_file(tmp_path, change, message):
    _, folder = marian(tmp_path / "m")
    change(folder)
    with pytest.raises(DataError, match=message):
        headway.load(folder)


def test_a_missing_role_is_named(tmp_path):
    _, folder = marian(tmp_path / "m")
    for file in ("config.json", "generation_config.json"):
        content = json.loads((folder / file).read_text())
        content.pop("decoder_start_token_id", None)
        (folder / file).write_text(json.dumps(content))
    with pytest.raises(DataError, match="no file has decoder_start_token_id"):
        headway.load(folder)


def test_a_folder_without_the_target_model_is_left_alone(tmp_path):
    _, folder = marian(tmp_path / "m")
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"no model\.safetensors"):
        headway.load(tmp_path / "copy")
