"""The combinations that `make test` tries hold every pair, and no pair in name only."""

from itertools import combinations, product

import pytest

from headway.attention import MultiHeadAttention
from tests.fixtures.zoo import BUILT_WITH, KERNELS, MODELS, VITS, with_kernel
from tests.properties.checks import ALL, IMAGE_KERNELS, OF_IMAGES
from tests.properties.pairwise import pairwise

AXES = {
    "models": (list(MODELS), list(KERNELS), ALL),
    "encoders of images": (list(VITS), IMAGE_KERNELS, OF_IMAGES),
    "the shortest first": ("ab", "cdef", "ghi"),
    "the shortest in the middle": ("abcde", "fg", "hij"),
    "of one length": ("abc", "def", "ghi"),
    "a single value": ("a", "bcd", "ef"),
}


@pytest.mark.parametrize("lists", AXES.values(), ids=AXES)
def test_any_two_values_meet_and_no_smaller_selection_would_do(lists):
    chosen = pairwise(*lists)
    assert chosen <= set(product(*lists))
    for one, other in combinations(range(3), 2):
        meetings = {(triple[one], triple[other]) for triple in chosen}
        assert meetings == set(product(lists[one], lists[other]))
    _, middle, longest = sorted(map(len, lists))
    assert len(chosen) == middle * longest


def attends_to_itself_with(name: str, kernel: str) -> bool:
    """Whether words that the model writes attend to each other by this kernel."""
    model = with_kernel(MODELS[name].build(), kernel)
    return any(
        place.startswith("decoder") and not place.endswith("cross")
        for place, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    )


def test_every_kernel_meets_every_property_where_a_decoder_attends_to_itself():
    """A model without attention would pass whatever the kernel does."""
    selection = pairwise(list(MODELS), list(KERNELS), ALL)
    real = {pair: attends_to_itself_with(*pair) for pair in product(MODELS, KERNELS)}
    met = {(kernel, check) for name, kernel, check in selection if real[name, kernel]}
    assert met == set(product(KERNELS, ALL))


def test_models_are_built_with_the_kernel_that_meets_every_property():
    for build in (*(family.build for family in MODELS.values()), *VITS.values()):
        layers = [part for part in build().modules() if isinstance(part, MultiHeadAttention)]
        assert {type(layer.kernel) for layer in layers} <= {type(KERNELS[BUILT_WITH](1, 1, 1))}
