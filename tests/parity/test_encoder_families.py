"""Every encoder family beside transformers: a tiny random model, read, run, trained, written."""

import json
from importlib import import_module

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy, pad
from torch.testing import assert_close

from headway.attention import record_attention
from headway.base.errors import DataError
from headway.interop import build, read, write
from headway.interop.encoders import FAMILIES as KNOWN
from headway.models import Bert, BertClassifier, BertQuestionAnswering, BertTagger
from headway.transforms import fast
from headway.transforms.quantize import numbers_of, quantize
from tests.fixtures.encoder_families import ABSOLUTE, CASES, FAMILIES, VOCABULARY, WINDOW, theirs
from tests.fixtures.random_weights import with_noise

PAD, LENGTHS = 1, (4 * WINDOW, WINDOW, WINDOW - 1)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a function from family and class to a model of transformers and its folder."""
    made = {}

    def of(name, end="ForMaskedLM"):
        if (name, end) not in made:
            torch.manual_seed(len(name))
            folder = tmp_path_factory.mktemp("encoder")
            model = with_noise(theirs(name, end))
            model.save_pretrained(folder)
            made[name, end] = model, folder
        return made[name, end]

    return of


def texts():
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, VOCABULARY, (length,), generator=generator) for length in LENGTHS]


def padded(side):
    """Return the texts as one batch, padded at a side, and which tokens are real."""
    rows, longest = texts(), max(LENGTHS)
    keys = torch.arange(longest) < torch.tensor(LENGTHS)[:, None]
    if side == "left":
        tokens = [pad(row, (longest - len(row), 0), value=PAD) for row in rows]
        return torch.stack(tokens), keys.flip(1)
    return torch.stack([pad(row, (0, longest - len(row)), value=PAD) for row in rows]), keys


def agree(a, b):
    assert_close(a, b, rtol=1e-5, atol=1e-5)


def outputs(model, output):
    """Return the output of a model of transformers that corresponds to `logits_of`."""
    if isinstance(model, BertQuestionAnswering):
        return torch.stack([output.start_logits, output.end_logits], -1)
    return output.logits if "logits" in output else output.last_hidden_state


def logits_of(model, tokens, keys):
    """Return the output of a class of ours."""
    if not isinstance(model, Bert):
        return model(tokens, keys)
    hidden = model.encode(tokens, keys)
    if model.masked_lm_head is not None:
        return model.words(hidden)
    return hidden if model.replaced_token_head is None else model.replaced(hidden)


@pytest.mark.turns(6)
@pytest.mark.parametrize(("name", "end"), CASES)
@torch.no_grad()
def test_outputs_are_those_of_transformers_with_padding_at_either_side(name, end, models):
    reference, folder = models(name, end)
    model = build(*read(folder))
    right, real = padded("right")
    computed = logits_of(model, right, real)
    for side in ("right", "left"):
        tokens, keys = padded(side)
        expected = outputs(model, reference(input_ids=tokens, attention_mask=keys.long()))
        if isinstance(model, BertClassifier):
            if side == "right" or model.config.pooling == "mean":
                agree(computed, expected)
        elif side == "left" and name in ABSOLUTE:
            agree(logits_of(model, tokens, keys)[keys], expected[keys])
        else:
            agree(computed[real], expected[keys])
    agree(logits_of(fast(build(*read(folder))), right, real)[:, 0], computed[:, 0])


@pytest.mark.turns(6)
@pytest.mark.parametrize(("name", "end"), CASES)
def test_what_is_written_is_their_file_again_and_read_by_both(name, end, models, tmp_path):
    reference, folder = models(name, end)
    model = build(*read(folder))
    written = write(model, tmp_path, FAMILIES[name][0])
    assert written == type(reference).__name__
    first, second = (load_file(p / "model.safetensors") for p in (folder, tmp_path))
    assert set(first) == set(second)
    assert all(torch.equal(second[key], tensor) for key, tensor in first.items())
    again, report = type(reference).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    tokens, keys = padded("right")
    with torch.no_grad():
        output = again.eval()(input_ids=tokens, attention_mask=keys.long())
        expected, computed = outputs(model, output), logits_of(model, tokens, keys)
    real = slice(None) if isinstance(model, BertClassifier) else keys
    agree(computed[real], expected[real])
    assert read(tmp_path)[0] == model.config


MASKED = [name for name, end in CASES if end == "ForMaskedLM"]


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("is_fast", [False, True])
def test_a_step_of_training_has_the_loss_and_gradients_of_transformers(name, is_fast, models):
    reference, folder = models(name)
    model = build(*read(folder))
    model = fast(model) if is_fast else model
    tokens, keys = padded("right")
    labels = tokens.masked_fill(~keys, -100)
    loss = cross_entropy(model(tokens, keys)[keys], tokens[keys])
    loss.backward()
    reference.zero_grad()
    expected = reference(input_ids=tokens, attention_mask=keys.long(), labels=labels).loss
    expected.backward()
    agree(loss.detach(), expected.detach())
    words = reference.get_input_embeddings().weight.grad
    computed = model.tokens.weight.grad
    rows = torch.arange(VOCABULARY) != PAD  # transformers has no gradient of padding
    assert_close(computed[rows], words[rows], rtol=1e-4, atol=1e-5)
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), key


@pytest.mark.parametrize("name", MASKED)
@torch.no_grad()
def test_a_model_in_int8_is_near_the_model_that_it_was(name, models, monkeypatch):
    monkeypatch.setattr(import_module("headway.transforms.quantize"), "SMALLEST", 1)
    folder = models(name)[1]
    tokens, keys = padded("right")
    exact = build(*read(folder))(tokens, keys)[keys].log_softmax(-1)
    model = fast(quantize(build(*read(folder)), "int8"))
    assert numbers_of(model) == "int8"
    rounded = model(tokens, keys)[keys].log_softmax(-1)
    assert 0 < (exact.exp() * (exact - rounded)).sum(-1).mean() < 0.02


@pytest.mark.parametrize("name", MASKED)
@torch.no_grad()
def test_recorded_attention_is_that_of_transformers_at_the_edges_of_windows(name, models):
    folder = models(name)[1]
    reference = transformers.AutoModelForMaskedLM.from_pretrained(
        folder, attn_implementation="eager"
    ).eval()
    text = texts()[0][None]
    with record_attention(model := build(*read(folder))) as maps:
        model(text)
    expected = reference(input_ids=text, output_attentions=True).attentions
    assert len(maps) == len(expected) == 4
    for (weights,), other in zip(maps.values(), expected, strict=True):
        agree(weights, other)
    has_window = name == "modernbert"
    layer = next(iter(list(maps.values())[1]))[0, 0]
    assert bool((layer[0, WINDOW:] == 0).all()) == has_window
    assert layer[0, WINDOW - 1] > 0


@pytest.mark.parametrize("task", [BertTagger, BertQuestionAnswering, BertClassifier])
def test_new_heads_of_a_modern_encoder_begin_with_its_layer_before_the_logits(task, models):
    model = build(*read(models("modernbert")[1]))
    transform, norm = model.masked_lm_head.transform, model.masked_lm_head.norm
    tuned = task(model) if task is BertQuestionAnswering else task(model, 5)
    assert tuned.bert.pooler.project is transform and tuned.bert.pooler.norm is norm
    other = build(*read(models("nomic-bert")[1]))
    tuned = task(other) if task is BertQuestionAnswering else task(other, 5)
    assert (tuned.bert.pooler is None) == (task is not BertClassifier)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("deberta-v3", {"conv_kernel_size": 3}, "conv_kernel_size"),
        ("deberta-v3", {"share_att_key": False}, "share_att_key"),
        ("deberta-v3", {"norm_rel_ebd": "none"}, "norm_rel_ebd"),
        ("deberta-v3", {"pos_att_type": "c2p"}, "pos_att_type"),
        ("deberta-v3", {"relative_attention": None}, "relative_attention is missing"),
        ("deberta-v3", {"type_vocab_size": 2}, "type_vocab_size"),
        ("modernbert", {"norm_bias": True}, "norm_bias"),
        ("modernbert", {"hidden_activation": "relu"}, "hidden_activation"),
        ("modernbert", {"layer_types": ["full_attention"]}, "layer_types"),
        ("nomic-bert", {"head_dim": 7}, "head_dim"),
        ("electra", {"hidden_act": "relu"}, "hidden_act"),
    ],
)
def test_what_a_family_cannot_say_is_refused_with_the_key(name, changes, message, models, tmp_path):
    folder = models(name)[1]
    config = json.loads((folder / "config.json").read_text()) | changes
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    with pytest.raises(DataError, match=message):
        read(tmp_path)


def test_every_family_has_a_line():
    tested = {model_type for model_type, *_ in FAMILIES.values()}
    by_class = {"bert", "roberta", "xlm-roberta", "camembert", "distilbert", "albert"}
    assert {family.model_type for family in KNOWN} - tested == by_class
