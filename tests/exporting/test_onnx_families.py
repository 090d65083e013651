"""Further settings as ONNX, beside the families of `test_matrix`: a number or a reason."""

from contextlib import closing
from dataclasses import replace

import numpy
import pytest
import torch

from headway.base.errors import HeadwayError, UsageError
from headway.exporting.families import FAMILIES
from headway.exporting.onnx.export import ONNX, open_export
from headway.exporting.onnx.writing import SUFFIXES, _with_constant_matrices
from headway.exporting.pt2 import PT2
from headway.exporting.target import export
from headway.exporting.verified import compare_models
from headway.models import BertClassifier
from headway.models.registry import MODELS
from headway.tasks.classification.model import ClassifierBundle
from headway.tasks.classification.reader import Numbers
from tests.fixtures.bundles import BUNDLES, MODERN, gpt, image_encoder, translator

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
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
    assert small.size < plain.size and small.rounding > 1e-5
    print(f"\nMATRIX {name} {dtype}: {plain.size} -> {small.size}, {small.rounding:.2g}")
    for path in sorted((plain.folder / "onnx").glob("*.onnx")):
        if dtype != "float16":
            rounded = path.with_name(f"{path.stem}{SUFFIXES[dtype]}.onnx")
            rounded = small.folder / "onnx" / rounded.name
            of_numbers, unrounded = outputs_of(with_rounded(path, rounded)), outputs_of(path)
            for ours, theirs, exact in zip(outputs_of(rounded), of_numbers, unrounded, strict=True):
                assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-4)
                assert abs(ours - exact).max() > 1e-5 or ours.size == 0


def outputs_of(graph):
    """Return what onnxruntime computes for random inputs. graph: a file, or its contents."""
    session = onnxruntime.InferenceSession(graph)
    sizes = {"batch_size": 2, "past_sequence_length": 2, "sequence_length": 3}
    random = numpy.random.default_rng(3)
    inputs = {}
    for one in session.get_inputs():
        shape = [sizes.get(axis, 5) if isinstance(axis, str) else axis for axis in one.shape]
        numbers = random.normal(size=shape).astype("float32")
        inputs[one.name] = numbers if "float" in one.type else numpy.ones(shape, "int64")
    return session.run(None, inputs)


def with_rounded(path, rounded):
    """Return the float32 graph with the numbers that the codes of another graph mean."""
    graph = onnx.load(path)
    exported = _with_constant_matrices(onnx, graph).graph.initializer
    small = onnx.load(rounded).graph
    codes = {one.name: onnx.numpy_helper.to_array(one) for one in small.initializer}
    means = {}
    for node in small.node:
        if node.op_type == "MatMulNBits":
            of = {one.name: one.i for one in node.attribute}
            packed, scales, *zeros = (codes[name] for name in node.input[1:4] if name)
            numbers = unpacked(packed.reshape(of["N"], -1), of["bits"])
            scales = scales.reshape(of["N"], -1)
            zero = unpacked(zeros[0].reshape(of["N"], -1), of["bits"]) if zeros else None
            middle = 2 ** (of["bits"] - 1) if zero is None else zero[:, : scales.shape[1], None]
            blocks = numbers.reshape(of["N"], -1, of["block_size"]) - middle
            whole = (blocks * scales[..., None]).reshape(of["N"], -1)[:, : of["K"]].T
            means[node.input[1].rsplit("_Q", 1)[0]] = whole.astype("float32")
    assert means
    for one in exported:
        if one.name in means:
            one.CopyFrom(onnx.numpy_helper.from_array(means.pop(one.name).copy(), one.name))
    assert not means
    return graph.SerializeToString()


def unpacked(codes, bits):
    """Return whole numbers; of two in one byte the first is in the lower four bits."""
    whole = codes if bits == 8 else numpy.stack((codes & 15, codes >> 4), -1)
    return whole.reshape(len(codes), -1).astype("float32")


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
