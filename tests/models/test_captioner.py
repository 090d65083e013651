"""The captioner; properties of all models are in tests/properties."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from headway.decoding import Limits
from headway.models import (
    GPT,
    Captioner,
    CaptionerConfig,
    GPTConfig,
    ViT,
    ViTConfig,
    initialise_decoder,
    parameter_count,
)
from tests.fixtures.searches import beam_search

VIT = ViTConfig(
    model_dim=12, num_heads=3, ffn_dim=20, num_layers=2, image_size=8, image_width=12, channels=1
)
LANGUAGE_MODEL = GPTConfig(
    model_dim=24, num_heads=6, ffn_dim=40, num_layers=3, vocabulary=11, max_length=9
)
CONFIG = CaptionerConfig(vit=VIT, gpt=LANGUAGE_MODEL)


def images_of(count=2):
    return torch.randn(count, 1, 8, 12)


def test_images_may_be_any_grid_and_captions_depend_on_all_of_it():
    model, read = Captioner(CONFIG).eval(), torch.tensor([[1, 4, 5]])
    images = images_of(1)
    before = model(images, read)
    for row, column in ((0, 0), (3, 11), (7, 6)):
        changed = images.clone()
        changed[0, 0, row, column] += 1
        assert (model(changed, read) - before).abs().amax(-1).min() > 1e-6


def test_the_encoder_is_a_vit_and_without_it_and_cross_attention_the_decoder_is_a_gpt():
    model = Captioner(CONFIG)
    crosses = [
        p for n, p in model.decoder.named_parameters() if ".cross." in n or ".around_cross." in n
    ]
    rest = parameter_count(model) - sum(p.numel() for p in crosses)
    assert rest == parameter_count(ViT(VIT)) + parameter_count(GPT(LANGUAGE_MODEL))
    assert len(crosses) == 3 * 10


def test_the_image_is_encoded_once_and_beams_share_its_keys_and_values():
    model, looked = Captioner(CONFIG).eval(), []
    handle = model.vit.register_forward_hook(lambda *_: looked.append(1))
    model.vit.encode, encode = (lambda x: (looked.append(1), encode(x))[1]), model.vit.encode
    state = model.start(images_of(2))
    state = state.reorder([0, 0, 0, 1, 1, 1])
    assert [k.shape[0] for k, _ in state.memory.layers] == [2, 2, 2]
    limits = Limits(1, 2, [4, 4])
    beam_search(model, (images_of(2),), limits, beam=3, num_best=2)
    handle.remove()
    assert len(looked) == 2


def test_the_decoder_is_initialised_with_all_parameters_of_a_language_model():
    start = GPT(replace(LANGUAGE_MODEL, vocabulary=9)).eval()
    model = Captioner(CONFIG).eval()
    crosses = {n: p.clone() for n, p in model.named_parameters() if "cross" in n}
    initialise_decoder(model, start, 9, first=7)
    assert_close(model.embedding.tokens.weight[:9], start.embedding.tokens.weight)
    assert_close(model.embedding.tokens.weight[9:], start.embedding.tokens.weight[[7, 7]])
    assert all(torch.equal(dict(model.named_parameters())[n], p) for n, p in crosses.items())
    # without cross-attention its logits are those of the language model
    for block in model.decoder.blocks:
        torch.nn.init.zeros_(block.cross.output.weight)
        torch.nn.init.zeros_(block.cross.output.bias)
    read = torch.randint(0, 9, (2, 5))
    assert_close(model(images_of(2), read)[..., :9], start(read), rtol=0, atol=1e-5)


def test_a_language_model_of_another_shape_is_refused():
    for changes in ({"model_dim": 12}, {"num_layers": 4}, {"max_length": 10}):
        with pytest.raises(ValueError):
            initialise_decoder(
                Captioner(CONFIG), GPT(replace(LANGUAGE_MODEL, **changes)), 11, first=1
            )


def test_a_pooler_without_a_use_is_refused():
    with pytest.raises(ValueError, match="pooler"):
        CaptionerConfig(vit=replace(VIT, pooler="tanh"))


def test_sizes_are_configurations_and_large_ones_need_no_memory():
    from headway.base.settings import override

    for name, changes in CaptionerConfig.sizes.items():
        config = override(CaptionerConfig(), changes, name)
        with torch.device("meta"):
            model = Captioner(config)
        if name == "base":  # 86 M of ViT-B; 124 M of GPT-2, with a vocabulary of 8,000; 28 M new
            assert 190e6 < parameter_count(model) < 210e6
