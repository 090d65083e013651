"""Every decoder family beside transformers: a tiny random model, read, run, trained, written."""

import warnings
from importlib import import_module

import pytest
import torch
import transformers
from torch.testing import assert_close

from headway.base.errors import HeadwayWarning
from headway.decoding import Limits
from headway.interop import build, read, write
from headway.interop.decoders import FAMILIES as KNOWN
from headway.training.objectives.cross_entropy import next_token_sum
from headway.transforms import fast
from headway.transforms.quantize import numbers_of, quantize
from tests.fixtures.decoder_families import FAMILIES, VOCABULARY, WINDOW, configuration
from tests.fixtures.random_weights import with_noise
from tests.fixtures.searches import greedy_search

PAD, LENGTHS = 2, (4 * WINDOW, WINDOW, WINDOW - 2)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a function from the name of a family to its model in transformers and its folder."""
    made = {}

    def of(name):
        if name not in made:
            torch.manual_seed(len(name))
            model = transformers.AutoModelForCausalLM.from_config(configuration(name))
            folder = tmp_path_factory.mktemp("family")
            with_noise(model).save_pretrained(folder)
            made[name] = model, folder
        return made[name]

    return of


def ours(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeadwayWarning)  # longrope: of texts that are too long
        return build(*read(folder))


def prompts():
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, VOCABULARY, (length,), generator=generator) for length in LENGTHS]


def agree(a, b):
    assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_logits_are_those_of_transformers_with_padding_at_either_side(name, models):
    theirs, folder = models(name)
    model, texts = ours(folder), prompts()
    longest = max(map(len, texts))
    left = torch.stack(
        [torch.nn.functional.pad(x, (longest - len(x), 0), value=PAD) for x in texts]
    )
    right = torch.stack(
        [torch.nn.functional.pad(x, (0, longest - len(x)), value=PAD) for x in texts]
    )
    mask = torch.arange(longest) >= longest - torch.tensor([len(x) for x in texts])[:, None]
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    takes_positions = "position_ids" in theirs.forward.__code__.co_varnames
    extra = {"position_ids": positions} if takes_positions else {}
    padded = theirs(input_ids=left, attention_mask=mask.long(), **extra).logits
    for n, text in enumerate(texts):
        agree(model(right)[n, : len(text)], padded[n, longest - len(text) :])
        agree(model(text[None])[0], theirs(input_ids=text[None]).logits[0])


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_cache_and_the_fast_twins_change_nothing_and_greedy_tokens_are_equal(name, models):
    theirs, folder = models(name)
    model, quick, texts = ours(folder), fast(ours(folder)), prompts()
    text = texts[0][None]
    whole = model(text)
    agree(quick(text), whole)
    for runner in (model, quick):
        state = runner.start(text[:, :3])
        for t in range(3, text.shape[1]):
            logits, state = runner.step(text[:, t : t + 1], state)
            agree(logits[:, 0], whole[:, t])
    for prompt in texts:
        generated = theirs.generate(
            input_ids=prompt[None],
            attention_mask=torch.ones_like(prompt)[None],
            max_new_tokens=WINDOW + 2,
            do_sample=False,
            pad_token_id=PAD,
        )[0, len(prompt) :].tolist()
        limits = Limits(int(prompt[-1]), 1, [WINDOW + 2])
        best = greedy_search(quick, (prompt[None, :-1],), limits)[0]
        ended = generated[: generated.index(1)] if 1 in generated else generated
        assert list(best.tokens) == ended


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_written_is_read_back_by_transformers_and_by_us(name, models, tmp_path):
    _, folder = models(name)
    model = ours(folder)
    family = configuration(name).model_type
    written = write(model, tmp_path, family=family)
    reference, report = getattr(transformers, written).from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(report.values()), report
    text = prompts()[0][None]
    with torch.no_grad():
        agree(model(text), reference.eval()(input_ids=text).logits)
    again = ours(tmp_path)
    assert again.config == model.config
    for key, parameter in model.named_parameters():
        assert torch.equal(again.get_parameter(key), parameter), key


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("is_fast", [False, True])
def test_a_step_of_fine_tuning_has_the_loss_and_gradients_of_transformers(name, is_fast, models):
    theirs, folder = models(name)
    model, text = ours(folder), prompts()[0][None]
    model = fast(model) if is_fast else model
    total, _ = next_token_sum(model, model.hidden(text)[:, :-1].flatten(0, 1), text[0, 1:])
    mean = total / (text.shape[1] - 1)
    mean.backward()
    theirs.zero_grad()
    expected = theirs(input_ids=text, labels=text).loss
    expected.backward()
    agree(mean.detach(), expected.detach())
    words = theirs.get_input_embeddings().weight.grad
    assert_close(model.embedding.tokens.weight.grad, words, rtol=1e-4, atol=1e-5)
    for key, parameter in model.named_parameters():
        is_idle = parameter.grad is None and ".experts." in key  # an expert without tokens
        assert is_idle or parameter.grad.isfinite().all(), key


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_model_in_int8_is_near_the_model_that_it_was(name, models, monkeypatch):
    monkeypatch.setattr(import_module("headway.transforms.quantize"), "SMALLEST", 1)
    _, folder = models(name)
    text = prompts()[0][None]
    exact = ours(folder)(text).log_softmax(-1)
    model = fast(quantize(ours(folder), "int8"))
    assert numbers_of(model) == "int8"
    divergence = (exact.exp() * (exact - model(text).log_softmax(-1))).sum(-1).mean()
    assert 0 < divergence < 0.02


def test_every_family_has_a_line():
    tested = {configuration(name).model_type for name in FAMILIES}
    assert {family.model_type for family in KNOWN} - tested == {"gpt2", "openai-gpt"}
