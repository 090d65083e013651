"""T5, T5 v1.1 and mT5: read, run, written, loaded by transformers."""

import json
import warnings

import pytest
import torch

import headway
from headway.base.errors import DataError
from headway.base.tensors import read_tensors, write_tensors
from headway.interop import build, read, write
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.sentencepiece import model as spm
from tests.fixtures.sentencepiece import unigram_pieces
from tests.fixtures.translators import make

transformers = pytest.importorskip("transformers")

SHAPE = {
    "vocab_size": 97,
    "d_model": 24,
    "d_kv": 10,  # 3 x 10 is not 24
    "d_ff": 40,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 3,
    "decoder_start_token_id": 0,
}
KINDS = {
    "v1.0": ("T5", {}),
    "v1.1": ("T5", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "gated-silu": ("T5", {"feed_forward_proj": "gated-silu", "layer_norm_epsilon": 1e-3}),
    "mt5": ("MT5", {"feed_forward_proj": "gated-gelu"}),
}


def theirs_of(name, **changes):
    torch.manual_seed(5)
    kind, more = KINDS[name]
    config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **more, **changes})
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def saved(model, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    return folder


def inputs(pad=0):
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(3, 97, (3, 40), generator=generator)
    read_ids = torch.randint(3, 97, (3, 37), generator=generator)
    keys = torch.arange(40) < torch.tensor([[40], [6], [1]])
    return source.masked_fill(~keys, pad), read_ids, keys


def logits_of(theirs, source, read_ids, keys):
    with torch.no_grad():
        return theirs(
            input_ids=source, attention_mask=keys.long(), decoder_input_ids=read_ids
        ).logits


@pytest.mark.parametrize("name", KINDS)
def test_logits_are_those_of_transformers(tmp_path, name):
    theirs = theirs_of(name)
    ours = build(*read(saved(theirs, tmp_path)))
    expected = logits_of(theirs, *inputs())
    torch.testing.assert_close(ours(*inputs()), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_written_with_the_same_bytes_and_loaded_by_transformers(tmp_path, name):
    original = saved(theirs_of(name), tmp_path / "theirs")
    ours = build(*read(original))
    family = json.loads((original / "config.json").read_text())["model_type"]
    architecture = write(ours, tmp_path / "ours", family, {"pad_token_id": 0, "eos_token_id": 1})
    before = read_tensors(original / "model.safetensors")
    after = read_tensors(tmp_path / "ours" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    loaded, report = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    expected = logits_of(loaded, *inputs())
    torch.testing.assert_close(ours(*inputs()), expected, rtol=1e-5, atol=1e-5)


def test_files_of_transformers_4_say_by_the_tie_whether_outputs_are_scaled(tmp_path):
    """Such a config.json has no scale_decoder_outputs, and v1.1 is untied."""
    for name, scaled in (("v1.0", True), ("v1.1", False)):
        folder = saved(theirs_of(name), tmp_path / name)
        config = json.loads((folder / "config.json").read_text())
        del config["scale_decoder_outputs"]
        tensors = read_tensors(folder / "model.safetensors")
        if name == "v1.1":
            config["tie_word_embeddings"] = False
            tensors["lm_head.weight"] = torch.randn(97, 24)
        tensors["encoder.embed_tokens.weight"] = tensors["shared.weight"].clone()
        (folder / "model.safetensors").unlink()
        write_tensors(folder / "model.safetensors", tensors)
        (folder / "config.json").write_text(json.dumps(config))
        read_config = read(folder)[0]
        assert read_config.scale_output == scaled
        assert read_config.tie_output == scaled


def t5_folder(folder):
    """A folder with a tokenizer.json that adds </s>, as T5's does."""
    bpe = make().tokenizer.source
    roles = {
        "vocab_size": bpe.size + 7,  # T5's models have more rows than their tokenizers tokens
        "pad_token_id": bpe.pad,
        "eos_token_id": bpe.eos,
        "decoder_start_token_id": bpe.pad,
    }
    theirs = theirs_of("v1.1", **roles)
    saved(theirs, folder)
    engine = json.loads(bpe._json())
    engine["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "</s>", "type_id": 0}},
        ],
        "pair": [
            {"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 0}},
        ],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [bpe.eos], "tokens": ["</s>"]}},
    }
    (folder / "tokenizer.json").write_text(json.dumps(engine))
    return theirs, bpe


def test_outputs_are_those_of_transformers(tmp_path):
    theirs, bpe = t5_folder(tmp_path)
    bundle = headway.load(tmp_path)
    for text in ("the fox eats the lemon", "two dogs", "</s> bread"):
        ids = bundle.tokenizer.source.encode(text)
        assert ids == bpe.encode(text)
        output = theirs.generate(
            input_ids=torch.tensor([[*ids, bpe.eos]]),
            num_beams=1,
            do_sample=False,
            bad_words_ids=[[bpe.pad]],
            max_new_tokens=2 * len(ids) + 11,
            use_cache=False,  # its cache has as many layers as the encoder
        )
        expected = output[0, 1:].tolist()
        expected = expected[: expected.index(bpe.eos)] if bpe.eos in expected else expected
        ((best,),) = bundle.search([text], beam=1)
        assert list(best.tokens) == expected[: 2 * len(ids) + 10]


def test_every_verb_takes_a_t5(tmp_path):
    t5_folder(tmp_path / "t5")
    (tmp_path / "test.tsv").write_text("en\tde\nthe fox eats\tder fuchs isst\nbread\tbrot\n")
    run_headway("translate", "t5", "two dogs play", cwd=tmp_path)
    words = ("--source", "en", "--target", "de", "--text-metrics")
    assert "exact" in run_headway("eval", "t5", "test.tsv", *words, cwd=tmp_path).stdout
    run_headway("inspect", "t5", "two dogs play", "--html", "page.html", cwd=tmp_path)
    run_headway("quantize", "t5", "--to", "int8", "--output", "small", cwd=tmp_path)
    run_headway("export", "small", "--to", "hf", "--output", "again", cwd=tmp_path)
    again = json.loads((tmp_path / "again" / "config.json").read_text())
    assert again["model_type"] == "t5" and again["vocab_size"] == make().tokenizer.source.size + 7
    assert headway.load(tmp_path / "again").tokenizer.source.eos == make().tokenizer.source.eos


def test_a_sentencepiece_model_has_its_own_ids_and_the_sentinels_after_them(tmp_path):
    pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), *unigram_pieces()[:1], *unigram_pieces()[3:]]
    roles = {"pad_token_id": 0, "eos_token_id": 1, "vocab_size": len(pieces) + 128}
    saved(theirs_of("v1.0", **roles), tmp_path / "t5")
    (tmp_path / "t5" / "spiece.model").write_bytes(spm(pieces))
    tokenizer = headway.load(tmp_path / "t5").tokenizer.source
    ids = tokenizer.encode("the fox eats the lemon")
    assert "".join(pieces[i][0] for i in ids).replace("\u2581", " ") == " the fox eats the lemon"
    assert tokenizer.decode(ids) == "the fox eats the lemon"
    names = tokenizer.token_strings([len(pieces), len(pieces) + 99, len(pieces) + 100])
    assert names == ["<extra_id_99>", "<extra_id_0>", f"<unused {len(pieces) + 100}>"]
    run_headway("export", "t5", "--to", "hf", "--output", "again", cwd=tmp_path)
    files = [tmp_path / name / "spiece.model" for name in ("t5", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relative_attention_num_buckets": 16}, "relative_attention_num_buckets=16"),
        ({"feed_forward_proj": "tanh"}, "feed_forward_proj='tanh'"),
        ({"d_kv": 11}, "shape"),
        ({"num_layers": 3}, "encoder.block.2"),
    ],
)
def test_a_config_that_is_not_supported_is_refused_by_its_key(tmp_path, change, message):
    folder = saved(theirs_of("v1.0"), tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(DataError, match=message):
        read(folder)
