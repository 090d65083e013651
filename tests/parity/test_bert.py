"""Encoders of BERT's family compared with transformers': read from its folders, and written."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from headway.interop import build, read, read_labels, write
from headway.models import (
    Bert,
    BertClassifier,
    BertConfig,
    BertQuestionAnswering,
    BertTagger,
    parameter_count,
)
from tests.fixtures.random_weights import with_noise

B, T, V, PAD = 3, 9, 37, 1
SHAPE = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 26,
    "pad_token_id": PAD,
}
DISTILLED = {
    "vocab_size": V,
    "dim": 24,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 40,
    "max_position_embeddings": 26,
    "pad_token_id": PAD,
}
FAMILIES = {
    "bert": (transformers.BertConfig, SHAPE),
    "bert relu": (transformers.BertConfig, {**SHAPE, "hidden_act": "relu", "layer_norm_eps": 0.1}),
    "bert three kinds": (transformers.BertConfig, {**SHAPE, "type_vocab_size": 3}),
    "roberta": (transformers.RobertaConfig, {**SHAPE, "type_vocab_size": 1}),
    "roberta two kinds": (transformers.RobertaConfig, {**SHAPE, "layer_norm_eps": 1e-5}),
    "roberta far": (transformers.RobertaConfig, {**SHAPE, "pad_token_id": 4}),
    "distilbert": (transformers.DistilBertConfig, DISTILLED),
    "distilbert sinusoids": (
        transformers.DistilBertConfig,
        {**DISTILLED, "sinusoidal_pos_embds": True, "activation": "relu"},
    ),
    "albert": (transformers.AlbertConfig, {**SHAPE, "embedding_size": 10}),
    "albert gelu": (
        transformers.AlbertConfig,
        {**SHAPE, "embedding_size": 10, "hidden_act": "gelu"},
    ),
}
STEMS = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert", "albert": "Albert"}
HEADS = ["Model", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction"]
TASKS = ["ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
EVERY = [
    (name, end)
    for name in FAMILIES
    for end in [*HEADS, *TASKS]
    if hasattr(transformers, STEMS[name.split()[0]] + end)
]


def theirs(name, end, **settings):
    kind, shape = FAMILIES[name]
    labels = {"id2label": {i: f"kind {i}" for i in range(5)}} if end in TASKS[:2] else {}
    config = kind(**{**shape, **labels, **settings})
    return with_noise(getattr(transformers, STEMS[name.split()[0]] + end)(config))


def batch(pad, kinds):
    """Return sequences of different lengths, padded at the right, of two texts each."""
    tokens = torch.randint(5, V, (B, T))
    keys = torch.arange(T) < torch.tensor([[T], [4], [7]])
    types = ((torch.arange(T) > 4) & keys).long() if kinds > 1 else None
    return tokens.masked_fill(~keys, pad), keys, types


def same(ours, reference, keys=None):
    if keys is not None:
        ours, reference = ours[keys], reference[keys]
    assert_close(ours, reference, rtol=0, atol=1e-5)


@torch.no_grad()
def agree(ours, reference):
    """Assert that both models have the same outputs, with padding and token types."""
    kinds = getattr(reference.config, "type_vocab_size", 0)
    tokens, keys, types = batch(reference.config.pad_token_id or 0, kinds)
    type_ids = {} if types is None else {"token_type_ids": types}
    expected_output = reference(input_ids=tokens, attention_mask=keys.long(), **type_ids)
    if isinstance(ours, BertClassifier | BertTagger):
        task_logits = ours(tokens, keys, types)
        assert task_logits.shape[-1] == 5
        same(task_logits, expected_output.logits, keys if task_logits.dim() == 3 else None)
        return
    if isinstance(ours, BertQuestionAnswering):
        same(
            ours(tokens, keys, types),
            torch.stack([expected_output.start_logits, expected_output.end_logits], -1),
            keys,
        )
        return
    base = getattr(reference, reference.base_model_prefix, reference)
    whole = base(input_ids=tokens, attention_mask=keys.long(), **type_ids)
    hidden = ours.encode(tokens, keys, types)
    same(hidden, whole.last_hidden_state, keys)
    if ours.pooler is not None and "pooler_output" in whole:
        same(ours.pool(hidden), whole.pooler_output)
    if ours.masked_lm_head is not None:
        logits = (
            expected_output.prediction_logits
            if "prediction_logits" in expected_output
            else expected_output.logits
        )
        same(ours.words(hidden), logits, keys)
    if ours.next_sentence is not None:
        names = ("seq_relationship_logits", "sop_logits", "logits")
        same(
            ours.follows(hidden),
            next(expected_output[name] for name in names if name in expected_output),
        )


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "end"), EVERY)
def test_a_model_saved_by_transformers_has_the_same_outputs(name, end, tmp_path):
    model = theirs(name, end)
    model.save_pretrained(tmp_path)
    ours = build(*read(tmp_path))
    heads = {"ForMaskedLM": (True, False), "ForPreTraining": (True, True), "Model": (False, False)}
    if end in heads:
        assert (ours.config.masked_lm_head, ours.config.next_sentence) == heads[end]
    agree(ours, model)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "end"), EVERY)
def test_a_round_trip_changes_no_bit_of_their_file(name, end, tmp_path):
    theirs(name, end).save_pretrained(tmp_path / "theirs")
    written = write(build(*read(tmp_path / "theirs")), tmp_path / "ours", name.split()[0])
    assert written == STEMS[name.split()[0]] + end
    first, second = (load_file(tmp_path / p / "model.safetensors") for p in ("theirs", "ours"))
    assert set(first) == set(second)
    for key, tensor in first.items():
        assert torch.equal(second[key], tensor), key


TINY = BertConfig(
    model_dim=24, num_heads=4, ffn_dim=40, num_layers=3, max_length=24, vocabulary=V, dropout=0.1
)
ROBERTA = replace(TINY, first_position=2, pooler="none", next_sentence=False, token_types=1)
DISTIL = replace(TINY, token_types=0, pooler="none", classifier_pooler="relu", next_sentence=False)
ALBERT = replace(TINY, embedding_dim=10, shared_layers=True, activation="gelu-tanh")


def bare(config, **changes):
    return replace(config, masked_lm_head=False, next_sentence=False, **changes)


def ours(config, task=None):
    by_task = {
        None: lambda: Bert(config),
        "ForSequenceClassification": lambda: BertClassifier(Bert(config), 5, "first", 0.3),
        "ForTokenClassification": lambda: BertTagger(Bert(config), 5, 0.1),
        "ForQuestionAnswering": lambda: BertQuestionAnswering(Bert(config)),
    }
    return with_noise(by_task[task]())


WRITTEN = {
    "BertForPreTraining": (TINY, None),
    "BertForMaskedLM": (replace(TINY, next_sentence=False, pooler="none"), None),
    "BertForNextSentencePrediction": (replace(TINY, masked_lm_head=False), None),
    "BertModel": (bare(TINY, activation="silu"), None),
    "RobertaForMaskedLM": (ROBERTA, None),
    "RobertaModel": (bare(ROBERTA, pooler="tanh", first_position=5), None),
    "DistilBertForMaskedLM": (DISTIL, None),
    "DistilBertModel": (bare(DISTIL), None),
    "AlbertForPreTraining": (ALBERT, None),
    "AlbertForMaskedLM": (replace(ALBERT, next_sentence=False, pooler="none"), None),
    "AlbertModel": (bare(ALBERT), None),
    **{f"Bert{task}": (TINY, task) for task in TASKS},
    **{f"Roberta{task}": (ROBERTA, task) for task in TASKS},
    **{f"DistilBert{task}": (replace(DISTIL, pooler="relu"), task) for task in TASKS},
    **{f"Albert{task}": (ALBERT, task) for task in TASKS},
}


@pytest.mark.parametrize("architecture", WRITTEN)
def test_a_model_written_by_us_has_the_same_outputs_in_transformers(architecture, tmp_path):
    model = ours(*WRITTEN[architecture])
    first = getattr(model.config, "bert", model.config).first_position
    assert write(model, tmp_path, specials={"pad_token_id": max(1, first - 1)}) == architecture
    reference, report = getattr(transformers, architecture).from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(report.values()), report
    agree(model, reference.eval())


@pytest.mark.parametrize("architecture", WRITTEN)
def test_a_model_written_by_us_is_read_unchanged(architecture, tmp_path):
    model = ours(*WRITTEN[architecture])
    write(model, tmp_path)
    config, tensors = read(tmp_path)
    loaded = build(config, tensors)
    assert config == model.config
    assert set(tensors) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter), name
    assert parameter_count(loaded) == parameter_count(model)


def test_a_pooler_is_saved_with_a_masked_lm_head_as_in_the_released_bert(tmp_path):
    model = ours(replace(TINY, next_sentence=False))
    assert write(model, tmp_path) == "BertForMaskedLM"
    assert read(tmp_path)[0].pooler == "tanh"
    reference, report = transformers.BertModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    tokens, keys, types = batch(0, 2)
    with torch.no_grad():
        expected_output = reference.eval()(tokens, attention_mask=keys.long(), token_type_ids=types)
        same(model.encode(tokens, keys, types), expected_output.last_hidden_state, keys)
        same(model.pool(model.encode(tokens, keys, types)), expected_output.pooler_output)
    masked_lm, report = transformers.BertForMaskedLM.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert set(report["unexpected_keys"]) == {f"bert.pooler.dense.{n}" for n in ("weight", "bias")}
    with torch.no_grad():
        expected_output = masked_lm.eval()(tokens, attention_mask=keys.long(), token_type_ids=types)
        same(model(tokens, keys, types), expected_output.logits, keys)


def test_heads_that_the_architecture_does_not_name_are_read(tmp_path):
    """bert-base-uncased names BertForMaskedLM, and has a pooler and the other head too."""
    model = theirs("bert", "ForPreTraining")
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    for name_in_config in ("BertForMaskedLM", "BertModel", None):
        config = json.loads(path.read_text())
        path.write_text(
            json.dumps({**config, "architectures": name_in_config and [name_in_config]})
        )
        agree(build(*read(tmp_path)), model)


@pytest.mark.parametrize(("name", "end"), [("bert", "Model"), ("bert", TASKS[1])])
def test_keys_of_old_files_are_read(name, end, tmp_path):
    """With and without the prefix, gamma and beta, buffers, a pooler that is not used."""
    theirs(name, end).save_pretrained(tmp_path)
    expected = read(tmp_path)[1]
    path = tmp_path / "model.safetensors"
    old = {}
    for key, tensor in load_file(path).items():
        key = key if end in TASKS or key.startswith("bert.") else f"bert.{key}"
        key = key.replace("LayerNorm.weight", "LayerNorm.gamma")
        old[key.replace("LayerNorm.bias", "LayerNorm.beta")] = tensor
    old["bert.embeddings.position_ids"] = torch.arange(26)[None]
    if end in TASKS:
        old["bert.pooler.dense.weight"] = torch.ones(24, 24)
        old["bert.pooler.dense.bias"] = torch.ones(24)
    assert any(key.endswith("gamma") for key in old)
    save_file(old, path)
    tensors = read(tmp_path)[1]
    assert set(tensors) == set(expected)
    for key, tensor in expected.items():
        assert torch.equal(tensors[key], tensor)


@pytest.mark.parametrize(
    ("name", "copies"),
    [
        ("bert", {"cls.predictions.decoder.bias": "cls.predictions.bias"}),
        ("roberta", {"lm_head.decoder.bias": "lm_head.bias"}),
        ("albert", {"predictions.decoder.bias": "predictions.bias"}),
        ("distilbert", {}),
    ],
)
def test_copies_of_tied_tensors_may_be_stored_too_or_instead(name, copies, tmp_path):
    model = theirs(name, "ForMaskedLM")
    model.save_pretrained(tmp_path)
    expected = read(tmp_path)[1]
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    decoder = "vocab_projector" if name == "distilbert" else f"{next(iter(copies))[:-5]}"
    copies = copies | {f"{decoder}.weight": f"{name}.embeddings.word_embeddings.weight"}
    with_copies = tensors | {copy: tensors[original].clone() for copy, original in copies.items()}
    only_copies = {key: tensor for key, tensor in with_copies.items() if key not in copies.values()}
    for stored in (with_copies, only_copies):
        save_file(stored, path)
        actual = read(tmp_path)[1]
        assert set(actual) == set(expected)
        assert all(torch.equal(actual[key], tensor) for key, tensor in expected.items())


def test_names_of_classes_are_read_and_written(tmp_path):
    theirs("bert", TASKS[0]).save_pretrained(tmp_path / "theirs")
    assert read_labels(tmp_path / "theirs") == tuple(f"kind {i}" for i in range(5))
    names = ("anger", "joy", "Freude über 日本", "fear", "none")
    for task in TASKS[:2]:
        write(ours(TINY, task), tmp_path / task, labels=names)
        assert read_labels(tmp_path / task) == names
        config = transformers.AutoConfig.from_pretrained(tmp_path / task)
        assert list(config.id2label.values()) == list(names) and config.num_labels == 5
        assert config.label2id["joy"] == 1
    write(ours(TINY, TASKS[2]), tmp_path / "answers")
    assert read_labels(tmp_path / "answers") == ()


def test_two_unnamed_classes_and_a_regression_head_are_read(tmp_path):
    for count in (1, 2):
        model = theirs("bert", TASKS[0], id2label=None, num_labels=count)
        model.save_pretrained(tmp_path / str(count))
        loaded = build(*read(tmp_path / str(count)))
        assert loaded.config.num_classes == count
        assert len(read_labels(tmp_path / str(count))) == count
        write(loaded, tmp_path / f"again{count}")
        config = transformers.AutoConfig.from_pretrained(tmp_path / f"again{count}")
        assert config.num_labels == count
        assert config.problem_type == ("regression", "single_label_classification")[count - 1]


def test_a_model_with_one_token_type_ignores_token_types():
    model = with_noise(Bert(ROBERTA))
    tokens, keys, _ = batch(1, 1)
    with torch.no_grad():
        same(model.encode(tokens, keys, keys.long()), model.encode(tokens, keys))


@pytest.mark.parametrize(
    ("size", "theirs_shape", "expected"),
    [
        ("base", transformers.BertConfig(), 109_482_240),
        (
            "large",
            transformers.BertConfig(
                hidden_size=1024,
                num_hidden_layers=24,
                num_attention_heads=16,
                intermediate_size=4096,
            ),
            335_141_888,
        ),
        ("multilingual", transformers.BertConfig(vocab_size=119_547), 177_853_440),
        (
            "roberta-base",
            transformers.RobertaConfig(
                max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5
            ),
            124_645_632,
        ),
        ("distilbert", transformers.DistilBertConfig(), 66_362_880),
        (
            "albert-base",
            transformers.AlbertConfig(
                hidden_size=768, num_attention_heads=12, intermediate_size=3072
            ),
            11_683_584,
        ),
        (
            "minilm",
            transformers.BertConfig(
                hidden_size=384,
                num_hidden_layers=6,
                num_attention_heads=12,
                intermediate_size=1536,
            ),
            22_713_216,
        ),
        (
            "tinybert-4",
            transformers.BertConfig(hidden_size=312, num_hidden_layers=4, intermediate_size=1200),
            14_350_248,
        ),
    ],
)
def test_the_named_sizes_have_the_released_parameters(size, theirs_shape, expected):
    config = replace(BertConfig(), **BertConfig.sizes[size])
    pooler = "none" if size == "distilbert" else "tanh"
    with torch.device("meta"):
        model = Bert(bare(config, pooler=pooler))
        reference = transformers.AutoModel.from_config(theirs_shape)
    assert parameter_count(model) == reference.num_parameters() == expected
