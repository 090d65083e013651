"""The example package that adds an attention score: a translator with it is trained and loaded."""

import json
import sys

import pytest
import torch

from headway import load
from headway.attention import Mask
from headway.base.errors import DataError, UsageError
from headway.base.settings import COMMAND_LINE, explain, override
from headway.models import GPTConfig, TranslatorConfig
from headway.models.kernels_and_positions import KERNELS, SCORES
from headway.tasks.translation.bundle import TranslatorBundle
from tests.fixtures.command_line import headway, train_words, write_corpus
from tests.fixtures.packages import installed, uninstalled


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    with installed("cosine_kernel", tmp_path_factory.mktemp("packages")):
        yield


@pytest.fixture(scope="module")
def run(package, tmp_path_factory):
    """The folder of a translator with that score, trained by the command line."""
    folder = tmp_path_factory.mktemp("cosine")
    words = train_words(write_corpus(folder / "corpus"), "small", "--steps", "4")
    headway(*words, "--model.attention", "cosine", "--quiet", cwd=folder)
    return folder / "runs" / "small"


def test_every_model_can_use_the_score(package):
    assert (
        "cosine" in KERNELS and "cosine" in SCORES and KERNELS.package("cosine") == "cosine-kernel"
    )
    assert KERNELS.package("dot") is None
    assert "cosine" in explain(TranslatorConfig(), "attention")
    assert override(GPTConfig(), {"attention": "cosine"}, COMMAND_LINE).attention == "cosine"


def test_the_weights_are_the_softmax_of_scaled_cosines(package):
    kernel = KERNELS["cosine"](2, 4)
    with torch.no_grad():
        kernel.scale.copy_(torch.tensor([3.0, 5.0]))
    q, k, v = (torch.randn(1, 2, length, 4) for length in (3, 5, 5))
    expected = torch.empty(1, 2, 3, 4)
    for head, scale in enumerate((3.0, 5.0)):
        for t in range(3):
            cosines = torch.cosine_similarity(q[0, head, t][None], k[0, head])
            expected[0, head, t] = (scale * cosines).softmax(0) @ v[0, head]
    torch.testing.assert_close(kernel(q, k, v, Mask()), expected)
    rescaled = kernel(7.0 * q, 0.1 * k, v, Mask())
    torch.testing.assert_close(rescaled, expected)  # the lengths of q and k do not matter


def test_a_translator_with_the_score_is_trained_saved_and_loaded(run):
    bundle = load(run)
    assert isinstance(bundle, TranslatorBundle) and bundle.config.attention == "cosine"
    scales = [p for name, p in bundle.model.named_parameters() if name.endswith("kernel.scale")]
    assert len(scales) == 5 and any((scale != 10.0).any() for scale in scales)
    assert len(bundle.translate(["the old fox sees the tree"])) == 1
    description = json.loads((run / "model" / "config.json").read_text())
    assert (
        description["packages"] == ["cosine-kernel"]
        and description["model"]["attention"] == "cosine"
    )


def test_the_error_without_the_package_names_it(run):
    with uninstalled("cosine_kernel"):
        with pytest.raises(DataError, match="attention=cosine") as error:
            load(run)
        assert "install" in str(error.value) and "cosine-kernel" in str(error.value)
        with pytest.raises(UsageError, match="one of scaled-dot"):
            override(TranslatorConfig(), {"attention": "cosine"}, COMMAND_LINE)
    assert "cosine" in KERNELS


def test_a_package_that_cannot_be_imported_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, "cosine_kernel", None)
    with pytest.raises(UsageError, match="cannot be imported") as error:
        KERNELS["cosine"]
    assert "cosine-kernel" in str(error.value)
