"""Encoder-decoders of BART's kind: read, written, loaded by transformers."""

import json

import pytest
import torch

import headway
from headway.base.errors import DataError, UsageError
from headway.base.tensors import read_tensors
from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.interop import build, read, write, write_translator
from headway.interop.hf_export_translator import with_halves
from tests.fixtures.encoder_decoders import FAMILIES, inputs, saved, theirs_of
from tests.fixtures.translators import SENTENCES as TAUGHT
from tests.fixtures.translators import make

transformers = pytest.importorskip("transformers")


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
        ({"activation_function": "tanh"}, "activation_function='tanh'"),
        ({"d_model": "24"}, "d_model='24': must be a whole number"),
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


@pytest.mark.parametrize("pad", [0, 5])
def test_positions_of_m2m100_start_after_the_id_of_its_padding(tmp_path, pad):
    theirs = theirs_of("M2M100", pad_token_id=pad, bos_token_id=4)
    ours = build(*read(saved(theirs, tmp_path / "theirs")))
    source, read_ids, keys = inputs()
    source = source.masked_fill(source == pad, 6).masked_fill(~keys, pad)
    read_ids = read_ids.masked_fill(read_ids == pad, 6)
    arguments = {"attention_mask": keys.long(), "decoder_input_ids": read_ids}
    logits = ours(source, read_ids, keys)
    with torch.no_grad():
        expected = theirs(input_ids=source, **arguments).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    with pytest.raises(UsageError, match=f"pad_token_id=1, but .* requires {pad}"):
        write(ours, tmp_path / "refused", "m2m_100", {"pad_token_id": 1})
    write(ours, tmp_path / "ours", "m2m_100")
    loaded = transformers.M2M100ForConditionalGeneration.from_pretrained(tmp_path / "ours")
    with torch.no_grad():
        written = loaded(input_ids=source, **arguments).logits
    torch.testing.assert_close(logits, written, rtol=0, atol=1e-5)


@pytest.mark.parametrize("pad", [-1, 97, "1"])
def test_the_padding_of_m2m100_is_an_id_of_the_vocabulary(tmp_path, pad):
    folder = saved(theirs_of("M2M100"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "pad_token_id": pad}))
    with pytest.raises(DataError, match=f"pad_token_id={pad!r}: must be an id below vocab_size=97"):
        read(folder)


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
    with pytest.raises(UsageError, match="a special token before every text"):
        export(bundle, tmp_path / "ct2", CTRANSLATE2)
    (contained,) = bundle.search([text], beam=4, contain=[["red"]])
    assert "red" in contained[0].text


def test_a_model_of_several_targets_needs_one(tmp_path):
    folder = saved(theirs_of("M2M100"), tmp_path / "m2m")
    make().tokenizer.source.save(folder / "tokenizer.json")
    with pytest.raises(DataError, match="no file has their tokens"):
        headway.load(folder)


@pytest.mark.turns(3)
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
    exported = export(bundle, tmp_path / "out", HUGGING_FACE)
    assert exported.architecture == architecture and len(exported.difference) == 2
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
        write_translator(bundle.model, bundle.tokenizer, tmp_path / "out")
    assert not list(tmp_path.iterdir())
