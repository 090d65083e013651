"""Further settings as ONNX, beside the families of `test_matrix`: a number or a reason."""

from contextlib import closing
from dataclasses import replace

import pytest
import torch

from headway.base.errors import HeadwayError, UsageError
from headway.exporting.families import FAMILIES
from headway.exporting.onnx.export import ONNX, open_export
from headway.exporting.pt2 import PT2
from headway.exporting.target import export
from headway.exporting.verified import compare_models
from headway.models import BertClassifier
from headway.models.registry import MODELS
from headway.tasks.classification.model import ClassifierBundle
from headway.tasks.classification.reader import Numbers
from tests.fixtures.bundles import BUNDLES, MODERN, gpt, image_encoder, translator

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

FURTHER = {
    "gpt sinusoidal": lambda: gpt(positions="sinusoidal"),
    "gpt sandwich": lambda: gpt(
        **MODERN, norm="sandwich", score_cap=20.0, logit_cap=15.0, embedding_scale=4.0
    ),
    "gpt parallel": lambda: gpt(norm="parallel", positions="rotary"),
    "gpt additive": lambda: gpt(attention="additive"),
    "translator learned pre-norm": lambda: translator(positions="learned", norm="pre"),
    "translator relative": lambda: translator(positions="relative"),
    "image encoder sinusoidal": lambda: image_encoder(positions="sinusoidal"),
}
EVERY = {name: make for name, (make, _) in BUNDLES.items()} | FURTHER
REFUSED = {"rnn": "rnn", "rnn feeding": "rnn"}
POSSIBLE = [*FURTHER, "gpt alibi post-norm", "encoder shared", "encoder without a head"]


@pytest.mark.slow
@pytest.mark.parametrize("name", POSSIBLE)
def test_further_settings_are_the_same_in_every_runtime(tmp_path, name, record_property):
    torch.manual_seed(0)
    exported = export(EVERY[name](), tmp_path / "out", ONNX)
    record_property("difference", str(exported.difference))
    print(
        f"\nMATRIX {name}: {exported.architecture} {exported.difference} {exported.tokens} tokens"
    )
    assert len(exported.difference) >= 1


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_graph_is_refused_with_the_reason(tmp_path, name):
    with pytest.raises(UsageError, match=REFUSED[name]):
        export(EVERY[name](), tmp_path / "out", ONNX)
    assert not list(tmp_path.iterdir())


def test_linear_attention_is_refused_with_the_reason(tmp_path):
    with pytest.raises(UsageError, match="attention=linear"):
        export(gpt(attention="linear"), tmp_path / "out", ONNX)


def test_every_registered_family_has_a_graph_or_is_refused():
    """A new family is a line of FAMILIES, or of this list."""
    without = {"words", "image-text", "multimodal-gpt"}
    assert len(MODELS) == len(FAMILIES) + len(without)


@pytest.mark.slow
@pytest.mark.parametrize("target", [ONNX, PT2], ids=["onnx", "pt2"])
def test_a_regression_predicts_on_the_scale_of_its_labels(tmp_path, target):
    classes = EVERY["classifier"]()
    model = BertClassifier(classes.model.bert, 1, "first").eval()
    numbers = Numbers(mean=50.0, deviation=20.0, lowest=0.0, highest=100.0)
    reader = replace(classes.reader, labels=(), numbers=numbers)
    bundle = ClassifierBundle(model, reader)
    folder = export(bundle, tmp_path / "out", target).folder
    with closing(target.run(bundle, folder)) as runtimes:
        for one in runtimes:
            texts = ["The old baker waves.", "a"]
            outputs = one.bundle.logits(texts)[:, 0]
            assert outputs.tolist() == pytest.approx(bundle.score(texts), abs=1e-3)
            assert one.bundle.score(texts) == outputs.tolist() and float(outputs.min()) > 10


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "int8", "int4"])
@pytest.mark.parametrize("name", ["gpt", "classifier", "translator", "image classifier"])
def test_fewer_bits_take_less_room_and_are_measured(tmp_path, name, dtype):
    bundle = EVERY[name]()
    plain = export(bundle, tmp_path / "plain", ONNX)
    small = export(bundle, tmp_path / "small", ONNX, dtype)
    assert small.size < plain.size and 1e-5 < small.rounding < 1
    print(f"\nMATRIX {name} {dtype}: {plain.size} -> {small.size}, {small.rounding:.2g}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kept", "changed"),
    [
        (
            {"attention": "window", "window": 5, "positions": "rotary"},
            {"attention": "window", "window": 6, "positions": "rotary"},
        ),
        ({"positions": "rotary"}, {"positions": "rotary", "rotary_base": 9_000.0}),
        ({"positions": "alibi"}, {"positions": "none"}),
        ({"norm": "pre"}, {"norm": "parallel"}),
    ],
)
def test_a_graph_of_other_settings_is_found(tmp_path, kept, changed):
    bundle, other = gpt(**kept), gpt(**changed)
    other.model.load_state_dict(bundle.model.state_dict(), strict=False)
    exported = export(other, tmp_path / "out", ONNX)
    with pytest.raises(HeadwayError, match="the folder was removed"):
        compare_models(bundle.model, open_export(exported.folder).model, "here")
