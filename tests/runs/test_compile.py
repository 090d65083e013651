"""torch.compile and torch.export: which code they trace, and that the numbers are the same."""

import json
import os
import shutil
import subprocess
import sys
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from headway.attention import Additive, Mask, ScaledDot
from headway.base.devices import MachineConfig, prepare
from headway.base.errors import UsageError
from headway.blocks.dropout import Dropout
from headway.transforms import compile
from headway.transforms.fast import dot as fused
from headway.transforms.fast import linear as products
from headway.transforms.fast.dot import FusedDot
from headway.transforms.fast.linear import linear
from headway.transforms.fast.table import fast
from headway.transforms.tracing import tracing
from tests.fixtures import traced
from tests.fixtures.command_line import ROOT, write_corpus

TINY = {
    "training.steps": 4,
    "training.seed": 5,
    "evaluation.every": 4,
    "schedule.warmup": 2,
    "machine.threads": 1,
    "machine.device": "cpu",
    "model.dropout": 0.0,  # compiled, torch's own is used, which samples otherwise
}
LANGUAGE = {
    "model.model_dim": 96,
    "model.num_heads": 2,
    "model.num_layers": 1,
    "model.ffn_dim": 200,
    "data.vocabulary": 290,
    "training.batch_size": 8,
    "training.length": 40,
    "evaluation.sample": 0,
}
TRANSLATION = {
    "model.model_dim": 24,
    "model.num_heads": 3,
    "model.ffn_dim": 40,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.attention": "additive",
    "data.source": "en",
    "data.target": "de",
    "data.vocabulary": 300,
    "training.tokens": 220,
    "evaluation.sentences": 1,
    "evaluation.metric": "nats",
}


@pytest.fixture
def compiling(monkeypatch):
    """As if torch.compile were tracing."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


def test_products_are_torchs_own_while_compiling(compiling, monkeypatch):
    monkeypatch.setattr(products, "by_onednn", None)  # would fail if it were called
    x = torch.randn(6, 40, 96, requires_grad=True)
    weight = torch.randn(80, 96, requires_grad=True)
    assert linear(x, weight).grad_fn.name() != "_LinearBackward"
    assert_close(linear(x, weight), F.linear(x, weight))


def test_attention_has_no_backward_of_ours_while_compiling(compiling, monkeypatch):
    monkeypatch.setattr(fused, "block_attention", None)
    q, k, v = (torch.randn(2, 3, n, 16) for n in (5, 7, 7))
    for mask in (Mask(), Mask(causal=True)):
        assert_close(FusedDot()(q, k, v, mask), ScaledDot()(q, k, v, mask))


def test_additive_scores_are_the_equation_while_compiling(monkeypatch):
    kernel = fast(Additive(3, 16, 16, 5))
    q, k = torch.randn(2, 3, 5, 16), torch.randn(2, 3, 7, 16)
    expected = kernel.scores(q, k)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    scores = kernel.scores(q, k)
    assert_close(scores, expected, rtol=1e-5, atol=1e-5)
    assert "_ChunkedScores" not in scores.grad_fn.name()


def test_dropout_is_torchs_own_while_compiling(compiling):
    x = torch.ones(50, 7)
    layer = fast(Dropout(0.3))
    torch.manual_seed(1)
    dropped = layer(x)
    torch.manual_seed(1)
    assert torch.equal(dropped, F.dropout(x, 0.3))


def test_a_machine_without_a_compiler_is_refused_before_training():
    from torch._inductor import config  # not in every test of this file: it takes a second

    # monkeypatch would delete the value at its end, and no later test could compile
    without_compiler = config.patch({"cpp.cxx": (None, "no-such-compiler")})
    with (
        without_compiler,
        pytest.raises(UsageError, match=r"needs a C\+\+ compiler") as caught,
    ):
        prepare(MachineConfig(device="cpu", compile=True, threads=1))
    assert "without --compile" in caught.value.hint
    prepare(MachineConfig(device="cpu", threads=1))


STEPS = """
from copy import deepcopy
import torch
from torch.testing import assert_close
from headway.transforms import compile
from tests.fixtures.traced import case

backend, *names = words
if backend:
    own, torch.compile = torch.compile, lambda f, **options: own(f, backend=backend, **options)
for name in names:
    torch.manual_seed(0)
    plain, inputs = case(name, 3, 7)
    plain.train()
    compiled = compile(deepcopy(plain), dynamic=True)
    for batch in (inputs, case(name, 2, 5)[1]):
        outputs = [model(*batch) for model in (plain, compiled)]
        direction = torch.randn_like(outputs[0])
        for model, output in zip((plain, compiled), outputs):
            model.zero_grad()
            output.backward(direction)
        assert_close(*outputs, rtol=1e-4, atol=1e-5)
        for (key, a), (_, b) in zip(plain.named_parameters(), compiled.named_parameters()):
            assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4, msg=lambda m: f"{name} {key}: {m}")
"""


FLOAT8 = """
import torch
from headway.transforms.float8 import Float8Linear

torch.manual_seed(0)
layer = torch.nn.Sequential(torch.nn.Linear(48, 80), torch.nn.GELU(), torch.nn.Linear(80, 32))
for part in (layer[0], layer[2]):
    part.__class__ = Float8Linear
shapes = []

def backend(graph, inputs):
    shapes.append([tuple(i.shape) for i in inputs if isinstance(i, torch.Tensor)])
    return graph

compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=backend)
for rows in (5, 16, 37, 48, 7):
    results = []
    for model in (layer, compiled):
        x = torch.randn(rows, 48, generator=torch.Generator().manual_seed(1), requires_grad=True)
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
        y.float().square().sum().backward()
        results.append([y, x.grad, layer[0].weight.grad, layer[2].bias.grad])
    assert all(torch.equal(a, b) for a, b in zip(*results)), rows
assert len(shapes) == 1, shapes
"""


EACH = """
import json, sys, torch, traceback

compiled, results = torch.compile, []
for program, *words in json.loads(sys.argv[1]):
    torch.compiler.reset()
    torch.compile, printed, error = compiled, [], ""
    try:
        exec(program, {"words": words, "print": lambda *parts: printed.append(parts)})
    except Exception:
        error = traceback.format_exc()
    results.append((printed, error))
print(json.dumps(results))
"""


def in_a_process_of_its_own(*programs: list[object]) -> list[list[list[object]]]:
    """Run programs, each with its `words`, without the tests' checks of shapes, which the compiler
    cannot trace. Return what each prints: a list for each call of `print`, or its error."""
    process = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps(programs)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.fixture(scope="module")
def in_one_process():
    """What the programs of the fast tests print, in one process: its start takes seconds."""
    stacks = dict.fromkeys(sorted(traced.FAMILIES.keys() - {"rnn"}), 1)
    stacks |= {"translator": 2, "captioner": 2}
    programs = [[STEPS, "eager", "gpt"], [GRAPHS, *stacks], [EXPORT, "gpt"], [FLOAT8]]
    names = ("steps", "graphs", "export", "float8")
    printed = dict(zip(names, in_a_process_of_its_own(*programs), strict=True))
    return {**printed, "stacks": [list(stack) for stack in stacks.items()]}


def test_a_step_through_the_tracer_has_the_plain_gradients(in_one_process):
    """The backend `eager` runs what was traced, and compiles nothing in C++."""
    assert in_one_process["steps"] == [[], ""]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", sorted(traced.FAMILIES.keys() - {"rnn"}))
def test_a_compiled_step_has_the_plain_gradients(name):
    assert in_a_process_of_its_own([STEPS, None, name]) == [[[], ""]]


GRAPHS = """
import torch
from headway.transforms import compile
from tests.fixtures.traced import case

own, graphs = torch.compile, []

def keep(graph, inputs):
    graphs.append(graph)
    return graph

torch.compile = lambda f, **options: own(f, backend=keep, **options)
for name in words:
    torch.compiler.reset()
    graphs.clear()
    model, inputs = case(name, 3, 7)
    compile(model.train())
    with torch.autocast("cpu", torch.bfloat16):
        model(*inputs)
    print(name, len(graphs))
"""


def test_compiled_layers_in_float8_are_one_graph_for_any_number_of_rows(in_one_process):
    assert in_one_process["float8"] == [[], ""]


def test_the_blocks_of_a_stack_are_one_graph(in_one_process):
    """Code that this torch cannot trace splits a block into many graphs without an error, and each
    costs time in every step."""
    assert in_one_process["graphs"] == [in_one_process["stacks"], ""]


def test_a_copy_of_a_compiled_block_has_its_own_weights():
    model = compile(traced.case("gpt", 2, 5)[0])
    assert compile(model).decoder.blocks[0].forward is model.decoder.blocks[0].forward
    for block in deepcopy(model).decoder.blocks:
        assert block.forward.forward.__self__ is block


def test_a_model_without_blocks_has_nothing_to_compile():
    with pytest.raises(UsageError, match="no blocks of attention"):
        compile(traced.case("rnn", 2, 5)[0])


EXPORT = """
import torch
from torch.testing import assert_close
from tests.fixtures.traced import case

for name in words:
    model, inputs = case(name, 3, 7)
    unrolled = name == "rnn"  # over time: its lengths are those of the example
    auto = torch.export.Dim.AUTO
    shapes = tuple(
        {0: auto} if unrolled or x.dim() == 4 else {0: auto, 1: auto} for x in inputs
    )
    with torch.no_grad():
        exported = torch.export.export(model, inputs, dynamic_shapes=shapes).module()
        for batch in (inputs, case(name, 130, 7 if unrolled else 31)[1]):
            assert_close(exported(*batch), model(*batch), rtol=1e-4, atol=1e-5)
"""


def test_an_exported_model_computes_the_same_for_other_sizes(in_one_process):
    assert in_one_process["export"] == [[], ""]


@pytest.mark.slow
@pytest.mark.parametrize("name", traced.FAMILIES)
def test_every_exported_model_computes_the_same_for_other_sizes(name):
    assert in_a_process_of_its_own([EXPORT, name]) == [[[], ""]]


def test_shards_are_multiplied_by_torchs_own_product(tmp_path, monkeypatch):
    """A DTensor has no memory of its own that oneDNN could read."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    monkeypatch.setattr(products, "WORK", 0)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        mesh = init_device_mesh("cpu", (1,))
        x, weight = torch.randn(6, 96), torch.randn(80, 96)
        shard = distribute_tensor(weight, mesh, [Shard(0)])
        assert tracing(x, shard) and not tracing(x, weight, None)
        rows = distribute_tensor(x, mesh, [Shard(0)])
        assert_close(linear(rows, shard).full_tensor(), F.linear(x, weight))
    finally:
        torch.distributed.destroy_process_group()


PROGRAM = """
from pathlib import Path
from headway.runs import recipe, train

class Losses(list):
    def after_step(self, run, report):
        self.append(report.loss)

name, settings, folder = words
for compiled in (False, True):
    losses = Losses()
    config = recipe(name, ("test", {**settings, "machine.compile": compiled}))
    outcome = train(config, Path(folder) / str(compiled), observers=[losses])
    print(*losses, outcome.best)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", ["gpt-tiny", "translate"])
def test_a_compiled_run_has_the_losses_of_an_uncompiled_one(tmp_path, name):
    if name == "translate":
        settings = {**TINY, **TRANSLATION, "data.train": str(write_corpus(tmp_path / "data"))}
    else:
        (tmp_path / "t.txt").write_text("".join(f"{i} and {i * i}.\n" for i in range(300)))
        settings = {**TINY, **LANGUAGE, "data.train": str(tmp_path / "t.txt")}
    ((printed, error),) = in_a_process_of_its_own([PROGRAM, name, settings, str(tmp_path)])
    assert not error
    plain, compiled = printed
    assert len(plain) == 5
    assert compiled == pytest.approx(plain, abs=2e-4)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")
def test_the_command_line_trains_a_compiled_model(tmp_path):
    (tmp_path / "t.txt").write_text("".join(f"{i} and {i * i}.\n" for i in range(300)))
    settings = {**TINY, **LANGUAGE, "data.train": "t.txt", "machine.compile": "yes"}
    flags = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    process = subprocess.run(
        [sys.executable, "-m", "headway", "train", "gpt-tiny", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert process.returncode == 0, process.stderr
    assert "done" in process.stderr
    assert "torch/_dynamo" not in process.stderr, "the compiler warns of code that it cannot trace"
