"""design.md, "Numbers that must hold everywhere", over every model x kernel.

`make test` tries every model as it is built, and a selection in which any two of model, kernel and
property meet (`tests/properties/pairwise.py`); `make test-all` tries all combinations.
"""

import pytest
import torch

from tests.fixtures.zoo import KERNELS, MODELS, VITS, with_kernel
from tests.properties import checks
from tests.properties.checks import ALL, IMAGE_CHECKS, IMAGE_KERNELS
from tests.properties.pairwise import combinations


@pytest.mark.parametrize(
    ("name", "kernel", "check"), combinations(list(MODELS), list(KERNELS), ALL)
)
def test_holds(name, kernel, check):
    family = MODELS[name]
    check(family, with_kernel(family.build(), kernel))


GPTS = [name for name in MODELS if name.startswith("gpt")]


@pytest.mark.parametrize(
    ("name", "kernel"),
    [  # every second pair: each model with half of the kernels, each kernel with half of the models
        pytest.param(name, kernel, marks=[] if (i + j) % 2 == 0 else pytest.mark.slow)
        for i, name in enumerate(GPTS)
        for j, kernel in enumerate(KERNELS)
    ],
)
def test_packed_documents_equal_separate_ones(name, kernel):
    checks.packing(with_kernel(MODELS[name].build(), kernel))


@pytest.mark.parametrize("kernel", sorted(KERNELS.keys() - {"window"}))
def test_an_encoder_without_positions_is_permutation_equivariant(kernel):
    model = with_kernel(MODELS["translator without positions"].build(), kernel)
    ids, order = torch.randint(3, 11, (2, 6)), torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        plain, permuted = model.encode(ids), model.encode(ids[:, order])
    torch.testing.assert_close(plain[:, order], permuted, rtol=0, atol=2e-6)


def test_positions_break_permutation_equivariance():
    model = MODELS["translator"].build()
    ids, order = torch.randint(3, 11, (2, 6)), torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        difference = model.encode(ids)[:, order] - model.encode(ids[:, order])
    assert difference.abs().max() > 1e-2


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_overfit_one_batch(name):
    family = MODELS[name]
    model = family.build().train()
    rows = [[4, 5, 2], [6, 7, 8, 2]]
    read = torch.tensor([[1, 3, 4, 5, 6], [1, 7, 8, 9, 10]])
    targets = torch.tensor([[3, 4, 5, 6, 2], [7, 8, 9, 10, 2]])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(160):
        logits = family.full(model, rows, read)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        if loss < 0.05:  # it has overfitted the batch
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    predictions = family.full(model, rows, read).argmax(-1)
    assert torch.equal(predictions, targets)


@pytest.mark.parametrize(
    ("name", "kernel", "check"), combinations(list(VITS), IMAGE_KERNELS, IMAGE_CHECKS)
)
def test_holds_for_images(name, kernel, check):
    check(with_kernel(VITS[name](), kernel))
