"""The table of fast twins: each computes the same as its plain class; models run on both."""

from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from headway.attention import (
    Additive,
    Bilinear,
    CappedDot,
    Documents,
    Dot,
    GroupedQueryAttention,
    Mask,
    MultiHeadAttention,
    Rotary,
    ScaledDot,
    SlidingWindow,
    Step,
)
from headway.blocks import (
    GRU,
    LSTM,
    Decoder,
    DecoderBlock,
    DecoderOnly,
    DecoderOnlyBlock,
    Dropout,
    Encoder,
    EncoderBlock,
    FeedForward,
    GatedFeedForward,
    LayerNorm,
    PreNorm,
    RecurrentDecoder,
    RMSNorm,
)
from headway.inspection import walk
from headway.training import cross_entropy_sum
from headway.training.objectives.cross_entropy import cross_entropy_of
from headway.transforms import LoRALinear, fast, is_fast
from headway.transforms.fast.cross_entropy import chunked_cross_entropy
from headway.transforms.fast.table import FAST
from headway.transforms.lora import ADAPTED
from headway.transforms.quantize.layers import BFloat16Linear, Int4Linear, Int8Linear
from headway.transforms.twins import plain_class
from tests.fixtures import bundles, zoo

B, T, S, H, G, K, D, E = 2, 5, 7, 6, 2, 4, 24, 10
EXACT = {"rtol": 0, "atol": 1e-10}
KEYS = torch.arange(S) < torch.tensor([[S], [4]])


def real(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def kernel_inputs():
    return real(B, H, T, K), real(B, G, S, K), real(B, G, S, 3), real(1, H, T, S)


def kernel(layer, inputs):
    return layer(*inputs[:3], Mask(keys=KEYS), inputs[3])


def attention(layer, inputs):
    x, source = inputs
    documents = Documents([[2, 3], [1, 4]])
    keys = KEYS[:, :T] if layer.positions else KEYS  # positions are those of self-attention
    return torch.cat(
        (
            layer(x, x, Mask(causal=True)),
            layer(x, source[:, :T] if layer.positions else source, Mask(keys=keys)),
            layer(x, x, Mask(causal=True, documents=documents)),
        ),
        dim=1,
    )


def recurrent(layer, inputs):
    x, h, c = inputs
    return layer(x, (h, c) if isinstance(layer, nn.LSTM) else h)[0]


def small_linear(layer):
    linear = nn.Linear(80, 36)
    return layer.of(linear, layer.numbers.encode(linear.weight.detach()))


def block(kind):
    return kind(MultiHeadAttention(D, H), FeedForward(D, E), lambda: PreNorm(LayerNorm(D)))


def decoder_block():
    attentions = [MultiHeadAttention(D, H) for _ in range(2)]
    return DecoderBlock(*attentions, FeedForward(D, E), lambda: PreNorm(LayerNorm(D)))


CASES = {
    nn.Linear: (lambda: nn.Linear(640, 480), lambda: (real(4, 3, 640),), lambda m, i: m(*i)),
    LoRALinear: (
        lambda: LoRALinear(nn.Linear(640, 480), rank=2),
        lambda: (real(4, 3, 640),),
        lambda m, i: m(*i),
    ),
    **{
        layer: (
            lambda layer=layer: small_linear(layer),
            lambda: (real(4, 3, 80),),
            lambda m, i: m(*i),
        )
        for layer in (Int8Linear, Int4Linear, BFloat16Linear)
    },
    **{
        adapted: (
            lambda layer=layer: ADAPTED[layer](small_linear(layer), rank=2),
            lambda: (real(4, 3, 80),),
            lambda m, i: m(*i),
        )
        for layer, adapted in ADAPTED.items()
        if layer is not nn.Linear
    },
    FeedForward: (
        lambda: FeedForward(D, E),
        lambda: (real(B, T, D),),
        lambda m, i: m(*i),
    ),
    GatedFeedForward: (
        lambda: GatedFeedForward(D, E),
        lambda: (real(B, T, D),),
        lambda m, i: m(*i),
    ),
    MultiHeadAttention: (
        lambda: MultiHeadAttention(D, H, positions=Rotary(K)),
        lambda: (real(B, T, D), real(B, S, D)),
        attention,
    ),
    GroupedQueryAttention: (
        lambda: GroupedQueryAttention(D, H, G, head_norm=RMSNorm),
        lambda: (real(B, T, D), real(B, S, D)),
        attention,
    ),
    DecoderOnlyBlock: (
        lambda: block(DecoderOnlyBlock),
        lambda: (real(B, T, D),),
        lambda m, i: m(*i, Step.whole(T, Mask(causal=True), torch.device("cpu"))),
    ),
    Decoder: (
        lambda: Decoder([decoder_block()], LayerNorm(D)),
        lambda: (real(B, T, D), real(B, S, D)),
        lambda m, i: m(*i, Mask(keys=KEYS)),
    ),
    DecoderOnly: (
        lambda: DecoderOnly([block(DecoderOnlyBlock) for _ in range(2)], LayerNorm(D)),
        lambda: (real(B, T, D),),
        lambda m, i: m(*i),
    ),
    Encoder: (
        lambda: Encoder([block(EncoderBlock) for _ in range(2)], LayerNorm(D)),
        lambda: (real(B, T, D),),
        lambda m, i: m(*i, Mask()),
    ),
    PreNorm: (
        lambda: PreNorm(LayerNorm(D)),
        lambda: (real(B, T, D),),
        lambda m, i: m(*i, torch.sin),
    ),
    ScaledDot: (ScaledDot, kernel_inputs, kernel),
    Dot: (Dot, kernel_inputs, kernel),
    Bilinear: (lambda: Bilinear(H, K, K), kernel_inputs, kernel),
    Additive: (lambda: Additive(H, K, K, 5), kernel_inputs, kernel),
    SlidingWindow: (lambda: SlidingWindow(3), kernel_inputs, kernel),
    CappedDot: (lambda: CappedDot(scale=0.4, window=3), kernel_inputs, kernel),
    GRU: (
        lambda: GRU(E, D, batch_first=True),
        lambda: (real(B, T, E), real(1, B, D), real(1, B, D)),
        recurrent,
    ),
    LSTM: (
        lambda: LSTM(E, D, batch_first=True),
        lambda: (real(B, T, E), real(1, B, D), real(1, B, D)),
        recurrent,
    ),
}
"""Plain class -> how one is made, inputs in float64, and how it is called."""

RANDOM_OR_STATE = {Dropout, RecurrentDecoder}
"""Twins with their own tests below: their outputs are random, or their caches differ."""


def test_every_row_of_the_table_is_tested():
    assert CASES.keys() | RANDOM_OR_STATE == FAST.keys()


@pytest.mark.parametrize("plain", CASES, ids=lambda plain: plain.__name__)
def test_a_twin_has_the_outputs_and_gradients_of_its_plain_class(plain):
    make, inputs, call = CASES[plain]
    torch.manual_seed(1)
    layer = make().double()
    twin = fast(deepcopy(layer))
    assert type(layer) is plain and type(twin) is FAST[plain] and plain_class(twin) is plain
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in layer.named_parameters()]
    leaves = inputs()
    results = []
    for module in (layer, twin, twin):
        torch.manual_seed(2)
        output = call(module, leaves)
        parameters = [p for p in module.parameters() if p.requires_grad]
        direction = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
        gradients = torch.autograd.grad(
            output, [*leaves, *parameters], direction, allow_unused=True
        )
        results.append([output, *gradients])
    for expected, actual, repeated in zip(*results, strict=True):
        assert (expected is None) == (actual is None)
        if expected is not None:
            assert_close(actual, expected, **EXACT)
            assert torch.equal(actual, repeated)  # the same numbers at every call


def saved_bytes(module, call, inputs) -> int:
    """Return the bytes stored for the backward pass, without parameters and inputs."""
    excluded = {x.untyped_storage().data_ptr() for x in (*inputs, *module.parameters())}
    stored = {}

    def store(tensor):
        stored[tensor.untyped_storage().data_ptr()] = (
            tensor  # the reference prevents that an address is reused
        )
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(store, lambda tensor: tensor):
        output = call(module, inputs)
    assert output.requires_grad
    sizes = {pointer: x.untyped_storage().nbytes() for pointer, x in stored.items()}
    return sum(size for pointer, size in sizes.items() if pointer not in excluded)


@pytest.mark.parametrize("plain", CASES, ids=lambda plain: plain.__name__)
def test_a_twin_stores_no_more_for_its_gradient_than_its_plain_class(plain):
    make, inputs, call = CASES[plain]
    layer, leaves = make().double(), inputs()
    twin = fast(deepcopy(layer))
    assert saved_bytes(twin, call, leaves) <= 1.1 * saved_bytes(layer, call, leaves)


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", zoo.MODELS)
def test_every_model_computes_the_same_plain_and_fast(name, float64):
    family = zoo.MODELS[name]
    torch.manual_seed(1)
    plain = family.plain()
    twin = fast(deepcopy(plain))
    assert is_fast(twin) and not is_fast(plain)
    rows, read = zoo.some_rows(3), torch.randint(3, zoo.VOCABULARY, (3, 4))
    outputs = []
    for model in (plain, twin):
        full = family.full(model, rows, read)
        gradients = torch.autograd.grad(full.square().sum(), list(model.parameters()))
        state = model.start(*family.inputs(rows))
        first, state = model.step(read[:, :2], state)
        state = state.reorder([2, 0, 0]).rewind([n - 1 for n in state.reorder([0, 1, 2]).lengths])
        second, _ = model.step(read[:, 1:3], state)
        outputs.append([full, *gradients, first, second])
    for expected, actual in zip(*outputs, strict=True):
        assert_close(actual, expected, rtol=0, atol=1e-9)


def test_dropout_has_the_expected_value_and_the_expected_fraction_of_zeros():
    x = torch.ones(400, 500)
    for layer in (Dropout(0.3), fast(Dropout(0.3))):
        y = layer(x)
        assert abs(float((y == 0).float().mean()) - 0.3) < 0.01
        assert abs(float(y.mean()) - 1) < 0.01
        torch.manual_seed(7)
        first = layer(x)
        torch.manual_seed(7)
        assert torch.equal(layer(x), first)
        assert torch.equal(layer.eval()(x), x)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_chunked_cross_entropy_equals_the_plain_one(smoothing, weighted):
    hidden, weight = real(700, 9), real(13, 9)  # more than one chunk of positions
    targets = torch.randint(13, (700,))
    weights = torch.rand(700, dtype=torch.float64) if weighted else None
    results = []
    for function in (cross_entropy_sum, chunked_cross_entropy):
        loss, nats = function(hidden, weight, targets, smoothing, weights)
        results.append([loss, nats, *torch.autograd.grad(loss, (hidden, weight))])
    for expected, actual in zip(*results, strict=True):
        assert_close(actual, expected, rtol=1e-12, atol=1e-10)


def test_objectives_use_the_twin_of_the_cross_entropy_for_a_fast_model():
    model = zoo.MODELS["gpt"].plain()
    assert cross_entropy_of(model) is cross_entropy_sum
    assert cross_entropy_of(fast(model)) is chunked_cross_entropy


def test_a_walk_through_a_fast_model_refers_to_the_plain_equations():
    bundle = bundles.translator()
    fast(bundle.model)
    sources = [step.source for step in walk(bundle.probe("the fox", written=0))]
    assert sources and not [source for source in sources if "transforms/" in source]


def test_a_subclass_defined_by_a_user_keeps_its_code():
    class UserKernel(Dot):
        def scores(self, q, k):
            return 2 * super().scores(q, k)

    model = fast(nn.ModuleList([UserKernel(), Dot()]))
    assert type(model[0]) is UserKernel and type(model[1]) is FAST[Dot]
