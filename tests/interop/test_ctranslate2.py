"""Translators and language models, exported to CTranslate2 and loaded by it."""

import json

import pytest
import tokenizers
import torch

import headway
from headway.base.errors import HeadwayError, UsageError
from headway.bundle import TextBundle
from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.target import export
from headway.interop import ctranslate2 as conversion
from headway.interop import ctranslate2_spec as specification
from headway.models import GPTConfig, TranslatorConfig
from headway.transforms.quantize import quantize
from tests.fixtures.bundles import gpt, tagger
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.translators import make

ctranslate2 = pytest.importorskip("ctranslate2")

TRANSLATORS = [
    {"norm": "pre"},
    {"norm": "post", "joint": False, "activation": "gelu"},
    {"positions": "learned", "max_length": 150},
    {"positions": "rotary", "joint": False},
    {"positions": "relative", "norm": "post"},
    {
        "norm": "post",
        "positions": "learned",
        "max_length": 150,
        "first_position": 2,
        "embedding_norm": True,
        "output_bias": True,
        "scale_embeddings": False,
    },
    {
        "positions": "relative",
        "attention": "dot",
        "norm_kind": "rms",
        "norm_eps": 1e-3,
        "bias": False,
        "activation": "geglu",
        "head_dim": 6,
        "scale_embeddings": False,
        "scale_output": True,
        "tie_output": False,
    },
]
MODERN = {
    "norm_kind": "rms",
    "norm_eps": 1e-3,
    "activation": "swiglu",
    "bias": False,
    "positions": "rotary",
    "rotary_base": 500.0,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 6,
    "qk_norm": True,
    "tie_output": False,
}
LANGUAGE_MODELS = [
    {},
    {"norm": "post", "activation": "gelu"},
    {"positions": "sinusoidal", "activation": "silu"},
    {"positions": "alibi", "norm_kind": "rms"},
    MODERN,
]
TEXTS = ["the fox eats the lemon", "bread", "a red garden, the two dogs", "naïve 日本 🙂"]


def tokens_of(folder, name, text):
    engine = tokenizers.Tokenizer.from_file(str(folder / name))
    return engine.encode(text, add_special_tokens=False).tokens


def ids_of(folder, name, tokens):
    engine = tokenizers.Tokenizer.from_file(str(folder / name))
    return tuple(engine.token_to_id(token) for token in tokens)


def translator(**changes):
    """A translator with noise in all weights, whose log-probabilities are those of real models."""
    bundle = make(**changes)
    with torch.no_grad():
        for parameter in bundle.model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.07)
    return bundle


@pytest.mark.turns(3)
@pytest.mark.parametrize("changes", TRANSLATORS, ids=str)
def test_a_translator_translates_alike_there(tmp_path, changes):
    bundle = translator(**changes)
    exported = export(bundle, tmp_path / "out", CTRANSLATE2)
    (difference,) = exported.difference.values()
    assert difference <= 1e-4 and exported.rounding == difference
    joint = bundle.tokenizer.joint
    names = ("tokenizer.json",) * 2 if joint else ("tokenizer.source.json", "tokenizer.target.json")
    loaded = ctranslate2.Translator(str(exported.folder), intra_threads=1)
    for text in TEXTS:
        tokens = tokens_of(exported.folder, names[0], text)
        longest = 2 * len(tokens) + 10
        for beam in (1, 3):
            (answer,) = loaded.translate_batch(
                [tokens], beam_size=beam, length_penalty=1, max_decoding_length=longest
            )
            (best,) = bundle.search([text], beam=beam, normalisation="average")
            theirs = answer.hypotheses[0]
            if beam == 1:
                assert ids_of(exported.folder, names[1], theirs) == best[0].tokens
            assert theirs and not {"<pad>", "<s>", "</s>"} & set(theirs)


@pytest.mark.parametrize("changes", LANGUAGE_MODELS, ids=str)
def test_a_language_model_continues_a_text_alike_there(tmp_path, changes):
    bundle = gpt(**changes)
    exported = export(bundle, tmp_path / "out", CTRANSLATE2)
    assert max(exported.difference.values()) <= 1e-4 and exported.texts >= 5
    loaded = ctranslate2.Generator(str(exported.folder), intra_threads=1)
    for text in TEXTS[:2]:
        prompt = bundle.tokenizer.begin(text)
        names = json.loads((exported.folder / "vocabulary.json").read_text())
        (answer,) = loaded.generate_batch(
            [[names[i] for i in prompt]], max_length=8, include_prompt_in_result=False
        )
        ((ours,),) = bundle.generate([text], max_tokens=8, temperature=0)
        assert bundle.tokenizer.decode(answer.sequences_ids[0]) == ours.text


def test_a_vocabulary_larger_than_the_tokenizer_is_filled_up(tmp_path):
    bundle = gpt()
    large = gpt(vocabulary=bundle.tokenizer.size + 7)
    exported = export(TextBundle(large.model, bundle.tokenizer), tmp_path / "out", CTRANSLATE2)
    names = json.loads((exported.folder / "vocabulary.json").read_text())
    assert len(set(names)) == bundle.tokenizer.size + 7


def test_small_numbers_make_a_small_file_and_their_rounding_is_reported(tmp_path):
    bundle = translator(model_dim=48)
    before = [parameter.clone() for parameter in bundle.model.parameters()]
    sizes = {}
    for dtype in conversion.DTYPES:
        exported = export(bundle, tmp_path / dtype, CTRANSLATE2, dtype)
        sizes[dtype] = (exported.folder / "model.bin").stat().st_size
        (difference,) = exported.difference.values()
        assert difference <= 1e-4 and (exported.rounding > difference) == (dtype != "float32")
        # without AVX-512, CTranslate2 rounds more, and computes int16 as int8
        assert exported.rounding < (3 if dtype.startswith("int") else 1)
    table = 2 * specification.SINUSOIDS * 48 * 4  # the positions of both sides stay float32
    assert (sizes["int8"] - table) < 0.4 * (sizes["float32"] - table)
    assert (sizes["int16"] - table) < 0.6 * (sizes["float32"] - table)
    assert all(map(torch.equal, before, bundle.model.parameters())), "the export changed the model"


def test_a_quantised_model_is_exported_with_the_values_of_its_numbers(tmp_path):
    bundle = translator()
    quantize(bundle.model, "int8")
    exported = export(bundle, tmp_path / "out", CTRANSLATE2)
    assert max(exported.difference.values()) <= 1e-4


def test_all_settings_that_cannot_be_represented_are_named_at_once():
    config = TranslatorConfig(attention="additive", activation="relu", encoder="rnn")
    assert [reason.split("=")[0] for reason in conversion.translator_lacks(config)] == [
        "encoder",
        "attention",
    ]
    modern = GPTConfig(attention="window", positions="relative")
    assert len(conversion.language_model_lacks(modern)) == 2


def test_a_model_that_cannot_be_represented_leaves_no_folder(tmp_path):
    bundle = translator(attention="additive")
    with pytest.raises(UsageError, match="attention=additive"):
        export(bundle, tmp_path / "out", CTRANSLATE2)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_left_alone(tmp_path):
    bundle = translator()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        export(bundle, tmp_path / "out", CTRANSLATE2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "mistake",
    [
        ("_fill_norm", lambda spec, norm: fill_norm_by(spec, norm, 1.01)),
        ("_rotary", lambda positions, head_dim, base: {}),
        ("_activation", lambda specs, name: specs.common_spec.Activation.SWISH),
    ],
    ids=["a norm", "no rotation", "an activation"],
)
def test_an_export_that_computes_something_else_is_refused(tmp_path, monkeypatch, mistake):
    bundle = translator(positions="rotary")
    monkeypatch.setattr(specification, *mistake)
    with pytest.raises(HeadwayError, match=r"differ by .*was removed"):
        export(bundle, tmp_path / "out", CTRANSLATE2)
    assert not list(tmp_path.iterdir())


def fill_norm_by(spec, norm, factor):
    spec.gamma = norm.gain.detach().numpy() * factor
    spec.beta = norm.shift.detach().numpy()


def test_without_the_package_the_error_names_what_to_install(tmp_path, monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(conversion, "import_module", missing)
    bundle = translator()
    with pytest.raises(UsageError) as raised:
        export(bundle, tmp_path / "out", CTRANSLATE2)
    assert raised.value.hint == "pip install 'headway[ctranslate2]'"


def test_the_command_reports_both_differences(tmp_path):
    translator().save(tmp_path / "model")
    words = ("export", "model", "--to", "ctranslate2", "--dtype", "int8")
    done = run_headway(*words, "--json", cwd=tmp_path)
    answer = json.loads(done.stdout)
    assert answer["folder"] == "model/ctranslate2" and answer["dtype"] == "int8"
    assert max(answer["difference"].values()) < 1e-4 < answer["rounding"]
    assert "in int8 by" in done.stderr
    again = run_headway(*words, cwd=tmp_path, check=2)
    assert "exists" in again.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--to", "hf", "--dtype", "int8"),
            "--dtype int8 is for --to ctranslate2, gguf, onnx and web",
        ),
        (("--to", "ctranslate2", "--family", "gpt2"), "--family gpt2 is for --to hf"),
    ],
)
def test_flags_of_the_other_format_are_refused(tmp_path, words, message):
    translator().save(tmp_path / "model")
    done = run_headway("export", "model", *words, cwd=tmp_path, check=2)
    assert message in done.stderr
    assert headway.load(tmp_path / "model").kind == "translator"


def test_a_model_without_such_an_architecture_is_refused(tmp_path):
    tagger().save(tmp_path / "model")
    done = run_headway("export", "model", "--to", "ctranslate2", cwd=tmp_path, check=2)
    assert "only translators and language models" in done.stderr
