"""Encoder-decoders of BART's kind: read, translated with, written, loaded by transformers."""

import json
import shutil
import warnings

import pytest
import torch

import headway
from headway.errors import DataError, UsageError
from headway.interop import build, export_translator_to_hf, read, write
from headway.interop.hf_export_translator import with_halves
from headway.tensors import read_tensors
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.command_line import write_corpus
from tests.fixtures.sentencepiece import TEXTS, write_marian_tokenizer
from tests.fixtures.translators import SENTENCES as TAUGHT
from tests.fixtures.translators import make

transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 97,
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 60,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": 2,
}
FAMILIES = {
    "Marian": {"activation_function": "swish", "scale_embedding": True},
    "Pegasus": {"activation_function": "relu", "scale_embedding": True},
    "Bart": {},
    "MBart": {"scale_embedding": True},
    "M2M100": {},
}


def theirs_of(name, **changes):
    """A random model of transformers whose parameters all differ from their initial values."""
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(**{**SHAPE, **FAMILIES[name], **changes})
    ending = "MTModel" if name == "Marian" else "ForConditionalGeneration"
    model = getattr(transformers, f"{name}{ending}")(config).eval()
    computed = name in ("Marian", "Pegasus")
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if not (computed and "embed_positions" in key):
                parameter.add_(torch.randn_like(parameter) * 0.12)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.add_(torch.randn_like(model.final_logits_bias))
    return model


def saved(model, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    return folder


def inputs():
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(3, 97, (3, 11), generator=generator)
    read_ids = torch.randint(3, 97, (3, 7), generator=generator)
    keys = torch.arange(11) < torch.tensor([[11], [6], [1]])
    return source.masked_fill(~keys, 1), read_ids, keys


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_transformers(tmp_path, name):
    theirs = theirs_of(name)
    ours = build(*read(saved(theirs, tmp_path)))
    source, read_ids, keys = inputs()
    with torch.no_grad():
        expected = theirs(
            input_ids=source, attention_mask=keys.long(), decoder_input_ids=read_ids
        ).logits
        torch.testing.assert_close(ours(source, read_ids, keys), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_is_written_with_the_same_bytes_and_loaded_by_transformers(tmp_path, name):
    original = saved(theirs_of(name), tmp_path / "theirs")
    ours = build(*read(original))
    family = json.loads((original / "config.json").read_text())["model_type"]
    architecture = write(ours, tmp_path / "ours", family, {"pad_token_id": 1, "eos_token_id": 2})
    before = read_tensors(original / "model.safetensors")
    after = read_tensors(tmp_path / "ours" / "model.safetensors")
    for key in before.keys() | after.keys():
        if "embed_positions" in key and name in ("Marian", "Pegasus", "M2M100"):
            continue
        assert torch.equal(before[key], after[key]), key
    loaded, report = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    source, read_ids, keys = inputs()
    with torch.no_grad():
        logits = loaded(
            input_ids=source, attention_mask=keys.long(), decoder_input_ids=read_ids
        ).logits
        torch.testing.assert_close(ours(source, read_ids, keys), logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder_ffn_dim": 41}, "decoder_ffn_dim=41: must be 40"),
        ({"decoder_attention_heads": 2}, "decoder_attention_heads=2: must be 3"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ({"activation_function": "tanh"}, "activation_function=tanh"),
        ({"d_model": "24"}, "d_model=24: must be a whole number"),
        ({"encoder_layers": 3}, "encoder.layers.2"),
        ({"d_model": 30}, "shape"),
    ],
)
def test_a_config_that_is_not_supported_is_refused_by_its_key(tmp_path, change, message):
    folder = saved(theirs_of("Marian"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(DataError, match=message):
        read(folder)


def marian(folder, codes=()):
    """A folder of a random MarianMT with its tokenizer, as the opus-mt models have it."""
    folder.mkdir(exist_ok=True)
    size = write_marian_tokenizer(folder, codes)
    roles = {"pad_token_id": size - 1, "eos_token_id": 0, "decoder_start_token_id": size - 1}
    roles |= {"forced_eos_token_id": 0, "bos_token_id": 0}
    model = theirs_of("Marian", vocab_size=size, max_position_embeddings=300, **roles)
    saved(model, folder)
    names = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return model, folder


SENTENCES = [*TEXTS[:4], "  the fox   eats", "日本 the dog", "two dogs"]


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


def test_a_bart_writes_the_forced_first_token_and_is_taught_with_it(tmp_path):
    theirs = theirs_of("Bart", forced_bos_token_id=0, vocab_size=300)
    folder = saved(theirs, tmp_path / "bart")
    bpe = make().tokenizer.source
    engine = json.loads(bpe._json())
    engine["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": ["</s>", bpe.eos],
        "cls": ["<s>", bpe.bos],
        "trim_offsets": True,
        "add_prefix_space": True,
    }
    roles = {"pad_token_id": bpe.pad, "eos_token_id": bpe.eos, "decoder_start_token_id": bpe.eos}
    for file in ("config.json", "generation_config.json"):
        content = json.loads((folder / file).read_text())
        content |= {**roles, "bos_token_id": bpe.bos, "forced_bos_token_id": bpe.bos}
        (folder / file).write_text(json.dumps(content))
    (folder / "tokenizer.json").write_text(json.dumps(engine))
    bundle = headway.load(folder)
    assert bundle.tokenizer.source.prefix == bundle.tokenizer.target.prefix == (bpe.bos,)
    text = "the fox eats the lemon"
    ids = bundle.tokenizer.source.encode(text)
    assert ids[0] == bpe.bos and ids[1:] == bpe.encode(text)
    output = theirs.generate(
        input_ids=torch.tensor([[*ids, bpe.eos]]),
        num_beams=1,
        do_sample=False,
        forced_bos_token_id=bpe.bos,
        decoder_start_token_id=bpe.eos,
        eos_token_id=bpe.eos,
        bad_words_ids=[[bpe.pad]],
        max_new_tokens=2 * len(ids) + 11,
    )
    expected = output[0, 1:].tolist()
    expected = expected[: expected.index(bpe.eos)] if bpe.eos in expected else expected
    ((best,),) = bundle.search([text], beam=1)
    assert list(best.tokens) == expected and best.tokens[0] == bpe.bos
    assert bundle.reading(text, "two dogs").ids["read"][:2] == [bpe.eos, bpe.bos]
    (contained,) = bundle.search([text], beam=4, contain=[["red"]])
    assert "red" in contained[0].text


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
    run_headway("quantize", "m", "--to", "int8", "--out", "small", cwd=tmp_path)
    run_headway("translate", "small", "two dogs play", cwd=tmp_path)
    run_headway("export", "small", "--to", "hf", "--out", "again", cwd=tmp_path)
    for name in ("source.spm", "target.spm"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    ids = [json.loads((tmp_path / name / "vocab.json").read_text()) for name in ("m", "again")]
    assert ids[0] == ids[1]


def test_a_marian_is_fine_tuned_with_its_own_tokens(tmp_path):
    marian(tmp_path / "m")
    write_corpus(tmp_path / "corpus")
    words = ("--source", "en", "--target", "de", "--from", "m", "--steps", "3", "--threads", "1")
    run_headway("train", "translate", "corpus", *words, "--run", "tuned", cwd=tmp_path)
    before, tuned = (headway.load(tmp_path / name) for name in ("m", "runs/tuned"))
    assert tuned.tokenizer.fingerprint == before.tokenizer.fingerprint
    bias, bias_before = tuned.model.output.bias, before.model.output.bias
    assert tuned.config.sinusoids == "halves" and not torch.equal(bias, bias_before)
    run_headway("export", "runs/tuned", "--to", "hf", "--out", "again", cwd=tmp_path)
    source = (tmp_path / "again" / "source.spm").read_bytes()
    assert source == (tmp_path / "m" / "source.spm").read_bytes()
    refused = run_headway(
        *("train", "translate", "corpus", *words, "--data.bpe-dropout", "0.1", "--run", "other"),
        cwd=tmp_path,
        check=None,
    )
    assert refused.returncode == 2 and "BPE-dropout needs" in refused.stderr


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
        (lambda folder: (folder / "vocab.json").write_text('{"a": 1}'), "each once"),
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


def test_a_model_of_several_targets_needs_one(tmp_path):
    folder = saved(theirs_of("M2M100"), tmp_path / "m2m")
    make().tokenizer.source.save(folder / "tokenizer.json")
    with pytest.raises(DataError, match="no file names the one to translate into"):
        headway.load(folder)


@pytest.mark.parametrize(
    ("changes", "architecture"),
    [
        ({"norm": "post"}, "MarianMTModel"),
        ({"norm": "post", "activation": "gelu", "encoder_layers": 2}, "MarianMTModel"),
        ({"norm": "pre"}, "PegasusForConditionalGeneration"),
    ],
)
def test_our_translator_translates_alike_in_transformers(tmp_path, changes, architecture):
    bundle = learned(make(**changes))
    exported = export_translator_to_hf(bundle.model, bundle.tokenizer, tmp_path / "out")
    assert exported.architecture == architecture and exported.difference <= 1e-4
    kind = getattr(transformers, architecture)
    theirs, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ("the fox eats the lemon", "naïve bread </s>", "two dogs"):
        end = bundle.tokenizer.source.eos
        assert tokenizer(text).input_ids == [*bundle.tokenizer.source.encode(text), end]
    for text, _ in TAUGHT:
        ids = tokenizer(text).input_ids
        for beam in (1, 3):
            output = theirs.generate(
                input_ids=torch.tensor([ids]),
                num_beams=beam,
                max_length=2 * len(ids) + 10,
                **({"length_penalty": 1.0, "early_stopping": "never"} if beam > 1 else {}),
            )
            ((best,),) = bundle.search([text], beam=beam, normalisation="average")
            assert best.finished
            assert output[0, 1:].tolist() == [*best.tokens, end]


def learned(bundle):
    """The translator after a few steps on its sentences, so that its outputs end."""
    source, target = bundle.tokenizer.source, bundle.tokenizer.target
    optimizer = torch.optim.Adam(bundle.model.parameters(), lr=3e-3)
    for step in range(150):
        text, translation = TAUGHT[step % len(TAUGHT)]
        read_ids = [target.bos, *target.encode(translation), target.eos]
        ids = torch.tensor([read_ids])
        logits = bundle.model(torch.tensor([[*source.encode(text), source.eos]]), ids[:, :-1])
        torch.nn.functional.cross_entropy(logits[0], ids[0, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return bundle


def test_reordered_features_change_nothing():
    bundle = make(norm="post")
    twin = with_halves(bundle.model)
    source, read_ids, keys = inputs()
    torch.testing.assert_close(
        twin(source, read_ids, keys), bundle.model(source, read_ids, keys), rtol=0, atol=1e-5
    )
    assert twin.config.sinusoids == "halves" and twin.config.output_bias


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention": "additive"}, "attention=additive"),
        ({"positions": "rotary"}, "positions=rotary"),
        ({"joint": False}, "share_embeddings=False"),
        ({"encoder": "rnn"}, "encoder=rnn"),
    ],
)
def test_a_translator_that_cannot_be_represented_is_refused(tmp_path, changes, message):
    bundle = make(**changes)
    with pytest.raises(UsageError, match=message):
        export_translator_to_hf(bundle.model, bundle.tokenizer, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_folder_without_the_target_model_is_left_alone(tmp_path):
    _, folder = marian(tmp_path / "m")
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"no model\.safetensors"):
        headway.load(tmp_path / "copy")
