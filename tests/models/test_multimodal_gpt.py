"""The multimodal GPT: patches of images as words of the prompt."""

import pytest
import torch

from headway.attention import Documents
from headway.models import GPT, MultimodalGPT, MultimodalGPTConfig, ViTConfig, WithImages
from headway.models.gpt_config import GPTConfig
from headway.transforms import fast
from tests.fixtures.bundles import sharpened

IMAGE, PATCHES, VOCABULARY = 12, 6, 13
SHAPE = {"model_dim": 16, "num_heads": 2, "ffn_dim": 20, "num_layers": 2, "vocabulary": VOCABULARY}
KINDS = {
    "learned positions": {"positions": "learned", "max_length": 40},
    "rotary positions": GPTConfig.sizes["modern-tiny"] | SHAPE | {"num_kv_heads": 1},
}


def made(kind="rotary positions"):
    torch.manual_seed(5)
    vit = ViTConfig(
        image_size=4, image_width=6, patch_size=2, channels=1, model_dim=12, num_heads=3,
        ffn_dim=14, num_layers=1, registers=1,
    )  # fmt: skip
    config = MultimodalGPTConfig(**{**SHAPE, **KINDS[kind]}, vit=vit, image_token=IMAGE)
    return sharpened(MultimodalGPT(config)).double().eval()


def images(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 1, 4, 6, generator=generator, dtype=torch.double)


SHOWN = [IMAGE] * PATCHES
ROWS = [[3, *SHOWN, 4, 5, 6], [*SHOWN, 7, *SHOWN, 8, 9], [1, 2, 10]]
"""Prompts of different lengths, with one image, two images and none."""


def padded(rows):
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])


@pytest.mark.parametrize("kind", KINDS)
def test_without_images_it_is_the_gpt_to_the_last_bit(kind):
    model = made(kind)
    gpt = GPT(GPTConfig(**{**SHAPE, **KINDS[kind]})).double().eval()
    missing = gpt.load_state_dict(model.state_dict(), strict=False)
    assert not missing.missing_keys
    assert all(name.startswith(("vit.", "project.")) for name in missing.unexpected_keys)
    tokens = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert torch.equal(model(tokens), gpt(tokens))
    assert torch.equal(
        model.step(tokens[:, -1:], model.start(tokens[:, :-1]))[0],
        gpt.step(tokens[:, -1:], gpt.start(tokens[:, :-1]))[0],
    )


def test_patches_are_the_projected_vectors_of_the_image_encoder_in_their_places():
    model, shown = made(), images(2)
    tokens = torch.tensor([ROWS[1]])
    embedded = model.embedded(tokens, shown)
    expected = model.embedding.tokens(tokens)
    patches = model.project(model.vit.patch_vectors(model.vit.encode(shown)))
    expected[0, :PATCHES], expected[0, PATCHES + 1 : -2] = patches[0], patches[1]
    assert torch.equal(embedded, expected)  # rotary positions add nothing here


def test_the_order_of_patches_and_of_images_matters():
    model, shown = made(), images(2)
    tokens = torch.tensor([ROWS[1]])
    logits = model(tokens, images=shown)[0, -1]
    assert not torch.allclose(logits, model(tokens, images=shown.flip(0))[0, -1])
    halves = shown.clone()
    halves[..., :2], halves[..., 2:4] = shown[..., 2:4], shown[..., :2]  # two columns of patches
    assert not torch.allclose(logits, model(tokens, images=halves)[0, -1])


def test_words_before_an_image_do_not_see_it_and_words_after_it_do():
    model, tokens = made(), torch.tensor([ROWS[0]])
    one, other = (model(tokens, images=images(1, seed)) for seed in (1, 2))
    differs = (one != other).any(-1)[0]
    assert not differs[0] and differs[1:].all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_different_lengths_and_numbers_of_images_equals_each_prompt_alone(kind):
    model, shown = made(kind), images(3)
    logits = model(padded(ROWS), images=shown)
    for row, own, where in zip(ROWS, (shown[:1], shown[1:], None), range(3), strict=True):
        alone = model(torch.tensor([row]), images=own)
        torch.testing.assert_close(logits[where, : len(row)], alone[0], rtol=0, atol=1e-12)


def test_packed_conversations_do_not_see_the_images_of_others():
    model, shown = made(), images(3)
    lengths = tuple(map(len, ROWS))
    packed = torch.tensor([[token for row in ROWS for token in row]])
    logits = model(packed, Documents((lengths,), packed.device), shown)[0]
    for row, own, end in zip(ROWS, (shown[:1], shown[1:], None), (10, 25, 28), strict=True):
        alone = model(torch.tensor([row]), images=own)[0]
        torch.testing.assert_close(logits[end - len(row) : end], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_gives_the_logits_of_the_whole_sequence(kind):
    model, shown = made(kind), images(3)
    expected = model(padded(ROWS), images=shown)
    prompts = [row[:-2] for row in ROWS]
    keys = torch.tensor([[i < len(row) for i in range(13)] for row in prompts])
    state = model.start(padded(prompts), keys, shown)
    for behind in (2, 1):
        tokens = torch.tensor([[row[-behind]] for row in ROWS])
        logits, state = model.step(tokens, state)
        for number, row in enumerate(ROWS):
            whole = expected[number, len(row) - behind]
            torch.testing.assert_close(logits[number, 0], whole, rtol=0, atol=1e-12)


def test_fast_twins_compute_the_same():
    model, shown = made(), images(3)
    expected = model(padded(ROWS), images=shown)
    torch.testing.assert_close(
        fast(model)(padded(ROWS), images=shown), expected, rtol=0, atol=1e-10
    )


def test_it_computes_in_bfloat16_beside_float32_images():
    model = made().float()
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(padded(ROWS), images=images(3).float())
    exact = model(padded(ROWS), images=images(3).float())
    assert (rounded.float() - exact).abs().max() < 0.05 * exact.abs().max()


def test_a_model_with_images_shares_its_parameters_and_adds_the_images():
    model, shown = made(), images(3)
    seeing = WithImages(model, shown).eval()
    assert [*map(id, seeing.parameters())] == [*map(id, model.parameters())]
    assert torch.equal(seeing(padded(ROWS)), model(padded(ROWS), images=shown))
    assert not hasattr(model, "images")


def test_a_wrong_number_of_images_is_refused():
    model = made()
    with pytest.raises(ValueError, match="6 positions of patches, but 2 images of 6 patches each"):
        model.start(torch.tensor([ROWS[0]]), images=images(2))


def test_the_image_encoder_learns_from_the_loss_of_the_words():
    model = made()
    model(torch.tensor([ROWS[0]]), images=images(1))[0, -1, 3].backward()
    assert all(
        parameter.grad is not None and parameter.grad.abs().sum() > 0
        for parameter in (model.project.weight, model.vit.embedding.patches.project.weight)
    )
