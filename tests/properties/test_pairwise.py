"""The combinations that `make test` runs have every pair, and each pair has an effect."""

from itertools import combinations, product

import pytest

from headway.attention import MultiHeadAttention
from tests.fixtures.zoo import BUILT_WITH, KERNELS, MODELS, VITS, with_kernel
from tests.properties.checks import ALL, IMAGE_CHECKS, IMAGE_KERNELS
from tests.properties.pairwise import pairwise

AXES = {
    "models": (list(MODELS), list(KERNELS), ALL),
    "encoders of images": (list(VITS), IMAGE_KERNELS, IMAGE_CHECKS),
    "the shortest first": ("ab", "cdef", "ghi"),
    "the shortest in the middle": ("abcde", "fg", "hij"),
    "equal lengths": ("abc", "def", "ghi"),
    "a single value": ("a", "bcd", "ef"),
}


@pytest.mark.parametrize("lists", AXES.values(), ids=AXES)
def test_any_two_values_occur_together_in_the_smallest_selection(lists):
    chosen = pairwise(*lists)
    assert chosen <= set(product(*lists))
    for first, second in combinations(range(3), 2):
        meetings = {(triple[first], triple[second]) for triple in chosen}
        assert meetings == set(product(lists[first], lists[second]))
    _, middle, longest = sorted(map(len, lists))
    assert len(chosen) == middle * longest


def attends_to_itself_with(name: str, kernel: str) -> bool:
    """Return whether the decoder has self-attention with this kernel."""
    model = with_kernel(MODELS[name].build(), kernel)
    return any(
        path.startswith("decoder") and not path.endswith("cross")
        for path, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    )


def test_every_kernel_is_checked_for_every_property_in_a_decoder_with_self_attention():
    """A model without attention would pass whatever the kernel does."""
    selection = pairwise(list(MODELS), list(KERNELS), ALL)
    has_effect = {pair: attends_to_itself_with(*pair) for pair in product(MODELS, KERNELS)}
    tested = {(kernel, check) for name, kernel, check in selection if has_effect[name, kernel]}
    assert tested == set(product(KERNELS, ALL))


def test_models_are_built_with_the_kernel_that_is_checked_for_every_property():
    for build in (*(family.build for family in MODELS.values()), *VITS.values()):
        layers = [part for part in build().modules() if isinstance(part, MultiHeadAttention)]
        checked = {type(KERNELS[name](1, 1, 1)) for name in (BUILT_WITH, "capped dot", "sinks")}
        assert {type(layer.kernel) for layer in layers} <= checked
