"""A whole encoder-decoder compared with torch.nn.Transformer, with the same weights."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headway.models import Translator, TranslatorConfig

D, H, F, V, PAD = 24, 3, 40, 17, 0
B, S, T = 3, 7, 5


def copy(ours, theirs) -> None:
    """Copy our attention's weights into torch's."""
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_norm(ours, theirs) -> None:
    theirs.weight.copy_(ours.gain)
    theirs.bias.copy_(ours.shift)


@torch.no_grad()
def twin(model: Translator) -> nn.Transformer:
    config = model.config
    pre = config.norm == "pre"
    theirs = nn.Transformer(
        D,
        H,
        config.encoder_layers,
        config.decoder_layers,
        F,
        dropout=0.0,
        activation=config.activation,
        batch_first=True,
        norm_first=pre,
        dtype=torch.float64,
    )
    for ours, layer in zip(model.encoder.blocks, theirs.encoder.layers, strict=True):
        copy(ours.attention, layer.self_attn)
        copy_norm(ours.around_attention.norm, layer.norm1)
        copy_norm(ours.around_feedforward.norm, layer.norm2)
        layer.linear1.load_state_dict(ours.feedforward.expand.state_dict())
        layer.linear2.load_state_dict(ours.feedforward.contract.state_dict())
    for ours, layer in zip(model.decoder.blocks, theirs.decoder.layers, strict=True):
        copy(ours.attention, layer.self_attn)
        copy(ours.cross, layer.multihead_attn)
        copy_norm(ours.around_attention.norm, layer.norm1)
        copy_norm(ours.around_cross.norm, layer.norm2)
        copy_norm(ours.around_feedforward.norm, layer.norm3)
        layer.linear1.load_state_dict(ours.feedforward.expand.state_dict())
        layer.linear2.load_state_dict(ours.feedforward.contract.state_dict())
    if pre:
        copy_norm(model.encoder.norm, theirs.encoder.norm)
        copy_norm(model.decoder.norm, theirs.decoder.norm)
    else:
        theirs.encoder.norm = theirs.decoder.norm = None
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_torchs_transformer_with_copied_weights(norm, activation):
    config = TranslatorConfig(
        model_dim=D,
        num_heads=H,
        ffn_dim=F,
        encoder_layers=2,
        decoder_layers=3,
        norm=norm,
        activation=activation,
        dropout=0.0,
        source_vocabulary=V,
        target_vocabulary=V,
    )
    model = Translator(config).double().train()
    with torch.no_grad():  # zero biases would hide a forgotten one
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    theirs = twin(model).train()
    source, read = torch.randint(1, V, (B, S)), torch.randint(1, V, (B, T))
    keys = torch.arange(S) < torch.tensor([[S], [4], [6]])
    hidden = theirs(
        model.source_embedding(source),
        model.target_embedding(read),
        tgt_mask=~torch.ones(T, T, dtype=torch.bool).tril(),
        src_key_padding_mask=~keys,
        memory_key_padding_mask=~keys,
    )
    expected = hidden @ model.output.weight.T
    output = model(source, read, keys)
    assert_close(output, expected, rtol=0, atol=1e-10)
    ours_grads = torch.autograd.grad(output.square().sum(), model.output.weight, retain_graph=True)
    their_grads = torch.autograd.grad(expected.square().sum(), model.output.weight)
    assert_close(ours_grads[0], their_grads[0], rtol=1e-8, atol=1e-8)
