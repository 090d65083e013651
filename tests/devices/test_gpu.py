"""On a CUDA device (`make gpu`): the numbers of the CPU, and one synchronisation a step."""

import contextlib
import warnings
from copy import deepcopy

import pytest
import torch
from torch.testing import assert_close

from headway.base.errors import HeadwayWarning
from headway.transforms.recorder import CudaRecorder
from tests.fixtures.graph_pairs import awaiting
from tests.fixtures.recorded_trainings import CASES as RECORDED
from tests.fixtures.recorded_trainings import trained as trained_model
from tests.fixtures.searches import searches_of
from tests.fixtures.zoo import MODELS, VITS, VOCABULARY, some_rows

pytestmark = pytest.mark.gpu
CASES = ("translate", "translate-multi30k", "translate-rnn", "gpt", "gpt-tiny", "bert-tiny", "tag")
CASES = (*CASES, "classify", "answer", "embed", "distil-tag", "vision", "dino", "caption", "words")


def twins(build):
    """The same model on the CPU and on the device."""
    models = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        models.append(build().to(device))
    return models


@pytest.mark.parametrize("name", MODELS)
def test_searches_find_what_they_find_on_a_cpu(name):
    rows = some_rows(4, seed=5)
    plain, moved = twins(MODELS[name].build)
    for search, run in searches_of(name, rows).items():
        assert run(moved) == run(plain), search


GRAPHED = [
    *(name for name in MODELS if name.startswith("gpt")),
    *("translator", "translator rotary", "translator of the BART family", "captioner"),
]


@pytest.mark.parametrize("name", GRAPHED)
@pytest.mark.parametrize("kind", ["fast", "plain"])
def test_searches_by_cuda_graphs_find_what_they_find_without(name, kind):
    from headway.transforms import replay_steps

    family = MODELS[name]
    torch.manual_seed(0)
    ordinary = (family.build() if kind == "fast" else family.plain()).cuda()
    model = replay_steps(deepcopy(ordinary), smallest=16)
    for search, run in searches_of(name, some_rows(4, seed=5)).items():
        with torch.inference_mode():
            assert run(model) == run(ordinary), search
    assert model.step.graphs


def test_a_step_that_awaits_the_gpu_is_taken_without_graphs_on_the_same_stream():
    from headway.transforms import replay_steps

    ordinary = MODELS["gpt modern"].build().cuda()
    model = awaiting(replay_steps(deepcopy(ordinary), smallest=16))
    awaiting(ordinary)
    tokens, stream = torch.randint(VOCABULARY, (3, 12), device="cuda"), torch.cuda.current_stream()
    with torch.inference_mode():
        states = [each.start(tokens[:, :5]) for each in (ordinary, model)]
        with pytest.warns(HeadwayWarning, match="cannot be recorded as a CUDA graph"):
            for at in range(5, 12):
                expected, _ = ordinary.step(tokens[:, at : at + 1], states[0])
                logits, _ = model.step(tokens[:, at : at + 1], states[1])
                assert_close(logits, expected, rtol=0, atol=1e-4)
    assert torch.cuda.current_stream() == stream and not model.step.graphs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_by_cuda_graphs_are_those_of_ordinary_steps(dtype):
    from headway.transforms import replay_steps

    ordinary = MODELS["gpt modern"].build().to("cuda", dtype)
    models = (ordinary, replay_steps(deepcopy(ordinary), smallest=64))
    tokens = torch.randint(VOCABULARY, (4, 150), device="cuda")
    with torch.inference_mode():
        states = [model.start(tokens[:3, :5]) for model in models]
        for at in range(5, 150):  # past the capacity of the first two graphs
            steps = [
                model.step(tokens[: len(state.lengths), at : at + 1], state)[0]
                for model, state in zip(models, states, strict=True)
            ]
            assert_close(steps[1], steps[0], rtol=0, atol=1e-4 if dtype == torch.float32 else 0.05)
            if at % 20 == 0:
                states = [state.reorder([2, 0, 1, 1][: 3 + at // 40]) for state in states]
    assert [graph.shape.capacity for graph in models[1].step.graphs][-1] == 256


@pytest.mark.parametrize("name", VITS)
def test_images_are_encoded_as_on_a_cpu(name):
    plain, moved = twins(VITS[name])
    images = torch.randn(3, 3, 8, 12)
    assert_close(moved(images.cuda()).cpu(), plain(images), rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_training_step_gives_the_gradient_of_a_cpu_and_awaits_the_device_once(dtype):
    from headway.base.devices import Machine
    from headway.tasks.language_modeling.packing import TextBatch
    from headway.training import OptimizerConfig, TextObjective, TrainingState, fit, optimizer

    plain, moved = twins(MODELS["gpt modern"].build)
    tokens = torch.randint(3, VOCABULARY, (4, 13))
    targets = tokens[:, 1:].clone()
    targets[0, 5:] = -1
    batch = TextBatch(tokens[:, :-1].contiguous(), targets, ((5, 7),) * 4, (), 4 * 12 - 7)
    for model, device in ((plain, "cpu"), (moved, "cuda")):
        for module in model.modules():
            if hasattr(module, "p"):
                module.p = 0.0  # dropout has other random numbers there
        run = TrainingState(model, optimizer(model, OptimizerConfig(lr=0.01)))
        on_device = batch.to(device)
        machine = Machine(device, dtype, 1)
        stream = ((0, 0, on_device) for _ in range(100))
        fit(run, stream, TextObjective(), steps=1, precision=machine.precision)
        if device == "cuda":
            run.stop = None
            with warnings.catch_warnings(record=True) as caught, _synchronisations_warn():
                warnings.simplefilter("always")
                fit(run, stream, TextObjective(), steps=2, precision=machine.precision)
            found = [str(warning.message) for warning in caught]
            assert sum("synchroniz" in message for message in found) <= 1, found
        else:
            run.stop = None
            fit(run, stream, TextObjective(), steps=2, precision=machine.precision)
    atol = 1e-4 if dtype == "float32" else 0.05
    for (name, a), b in zip(plain.named_parameters(), moved.parameters(), strict=True):
        assert_close(b.cpu(), a, rtol=0, atol=atol, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["gpt", "gpt modern", "translator"])
def test_kernels_for_large_batches_give_the_gradients_without(name, dtype, monkeypatch):
    from headway.transforms.fast import linear, residual

    family, rows = MODELS[name], some_rows(4, seed=5)
    read = torch.randint(3, VOCABULARY, (4, 6), device="cuda")
    found = []
    for model in (family.plain(), family.build(), family.build()):
        if len(found) == 2:
            for module in (linear, residual):
                monkeypatch.setattr(module, "LARGE", 0)
        if found:
            model.load_state_dict(found[0][0])
        state = {name: value.clone() for name, value in model.state_dict().items()}
        with torch.device("cuda"), torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            family.full(model.cuda(), rows, read).float().square().sum().backward()
        found.append((state, {name: p.grad for name, p in model.named_parameters()}))
    atol, rtol = (1e-3, 1e-3) if dtype == torch.float32 else (0.0, 0.2)
    for name, expected in found[0][1].items():
        for _, gradients in found[1:]:
            difference = (gradients[name] - expected).norm()
            assert difference <= atol + rtol * max(expected.norm(), 1.0), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", RECORDED)
def test_training_by_cuda_graphs_is_training_without(name, dtype):
    build, objective, make, options = RECORDED[name]
    torch.manual_seed(1)
    batches = [batch.to("cuda") for batch in make()]

    def precision():
        return torch.autocast("cuda", dtype, enabled=dtype != torch.float32)

    found = []
    for recorder in (CudaRecorder, None):
        results = trained_model(
            lambda: build().cuda(), objective, batches, options, recorder, precision
        )
        found.append((*results[:2], torch.rand(3, device="cuda")))
    assert torch.equal(found[0][2], found[1][2])
    # sums of several threads have another order each time
    assert_close(torch.tensor(found[0][0]), torch.tensor(found[1][0]), rtol=1e-2, atol=1e-3)
    for one, other in zip(found[0][1].values(), found[1][1].values(), strict=True):
        assert (one - other).norm() <= 0.02 * other.norm() + 0.01


def test_a_run_by_cuda_graphs_is_resumed(trained):
    from safetensors.torch import load_file

    headway = trained("gpt-tiny", "whole", 6, "cuda", "--graphs")
    trained("gpt-tiny", "paused", 3, "cuda", "--graphs")
    headway("train", "--resume", "runs/paused", "--steps", "6", "--quiet")
    folders = ("runs/whole/model", "runs/paused/model")
    whole, paused = (load_file(f"{folder}/model.safetensors") for folder in folders)
    assert_close(paused, whole, rtol=0, atol=1e-4)


def test_a_training_in_float8_has_the_losses_of_a_cpu_and_of_bfloat16():
    """Rows that are no multiple of 16. A CPU computes float8 products, too, with other sums."""
    from headway.base.devices import Machine, float8_obstacle
    from headway.models import GPT, GPTConfig
    from headway.tasks.language_modeling.packing import TextBatch
    from headway.training import OptimizerConfig, TextObjective, TrainingState, fit, optimizer
    from headway.transforms import fast, float8

    if obstacle := float8_obstacle("cuda"):
        pytest.skip(f"no float8: {obstacle}")
    sizes = {"model_dim": 64, "num_heads": 2, "ffn_dim": 176, "num_layers": 2, "dropout": 0.0}
    tokens = (torch.randint(23, (5, 1)) + 3 * torch.arange(12)) % 23
    targets = tokens[:, 1:].contiguous()
    batch = TextBatch(tokens[:, :-1].contiguous(), targets, None, (), targets.numel())

    def losses(device, dtype):
        torch.manual_seed(0)
        model = fast(GPT(GPTConfig(**sizes, vocabulary=23, max_length=12)).to(device))
        if dtype == "float8":
            float8(model)
        values = []

        class Log:
            def after_step(self, run, report):
                values.append(report.loss)

        run = TrainingState(model, optimizer(model, OptimizerConfig(lr=0.003)))
        stream = ((0, 0, batch.to(device)) for _ in range(100))
        precision = Machine(device, dtype, 1).precision
        fit(run, stream, TextObjective(), [Log()], steps=20, precision=precision)
        return torch.tensor(values)

    expected = losses("cuda", "bfloat16")
    assert expected[-1] < expected[0] / 2
    for device in ("cpu", "cuda"):
        assert_close(losses(device, "float8"), expected, rtol=0.1, atol=0.02)


def test_products_in_float8_equal_the_equations():
    from headway.base.devices import float8_obstacle
    from headway.transforms.float8 import Float8Linear, plain_products

    if obstacle := float8_obstacle("cuda"):
        pytest.skip(f"no float8: {obstacle}")
    layer = torch.nn.Linear(48, 80, bias=False).cuda()
    layer.__class__ = Float8Linear
    for rows in (1, 5, 16, 37, 1000):
        x = torch.randn(rows, 48, device="cuda", requires_grad=True)
        dy = torch.randn(rows, 80, device="cuda").bfloat16().float()
        layer.zero_grad()
        y = layer(x)
        y.backward(dy)
        expected = plain_products(x.detach(), layer.weight.detach(), dy.bfloat16())
        for result, value in zip((y.detach(), x.grad, layer.weight.grad), expected, strict=True):
            assert (result - value).norm() < 0.01 * value.norm(), rows
    x.data[3, 5] = torch.inf
    layer(x).sum().backward()
    assert not layer(x).isfinite().all() and not layer.weight.grad.isfinite().all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("rows", "vocabulary"), [(7, 23), (600, 5_003), (3_000, 100_003)])
def test_the_loss_and_its_gradients_are_those_of_the_equation(
    rows, vocabulary, is_weighted, smoothing
):
    from headway.training import cross_entropy_sum
    from headway.transforms.fast.cross_entropy import chunked_cross_entropy

    hidden = torch.randn(rows, 16, device="cuda")
    weight = torch.randn(vocabulary, 16, device="cuda")
    targets = torch.randint(vocabulary, (rows,), device="cuda")
    weights = torch.rand(rows, device="cuda") if is_weighted else None
    found = {}
    for name, loss in (("plain", cross_entropy_sum), ("fast", chunked_cross_entropy)):
        inputs = [x.clone().requires_grad_() for x in (hidden, weight)]
        total, nats = loss(*inputs, targets, smoothing, weights)
        total.backward()
        found[name] = (total.detach(), nats.detach(), *(x.grad for x in inputs))
    for of_fast, of_plain in zip(found["fast"], found["plain"], strict=True):
        assert (of_fast - of_plain).norm() <= 1e-4 * of_plain.norm()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        total, _ = chunked_cross_entropy(*inputs, targets, smoothing, weights)
        gradients = torch.autograd.grad(total, inputs)
    of_plain = [found["plain"][0], *found["plain"][2:]]
    for of_fast, expected in zip((total, *gradients), of_plain, strict=True):
        assert (of_fast - expected).norm() <= 0.02 * expected.norm()


def test_an_update_that_is_not_finite_is_left_out_by_the_device():
    from headway.training import NonFinite, OptimizerConfig, TrainingState, fit, optimizer
    from headway.training.objectives.contract import Loss

    model = torch.nn.Linear(3, 2).cuda()

    def objective(model, factor):
        total = (model.weight.sum() - 1) * factor
        return Loss(total, total.detach(), 1)

    def train(factors):
        run = TrainingState(model, optimizer(model, OptimizerConfig(lr=0.1)))
        fit(run, ((0, 0, x) for x in factors), objective, steps=len(factors))

    train([1.0, 2.0])
    before = deepcopy(model.state_dict())
    with pytest.raises(NonFinite):
        train([float("inf")])
    assert_close(model.state_dict(), before, rtol=0, atol=0)
    train([1.0])
    assert not torch.equal(model.weight, before["weight"])


@contextlib.contextmanager
def _synchronisations_warn():
    torch.cuda.set_sync_debug_mode("warn")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


SHORT = (
    *("--evaluation.every", "2", "--checkpoint.every", "2", "--quiet"),
    *("--schedule.kind", "constant", "--schedule.warmup", "1"),  # for any number of steps the same
)


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """trained(case, run, steps, device): train a case of the safety net; return `headway`."""
    pytest.importorskip("cyclopts")
    from tests.safety_net.cases import CASES as RUNS
    from tests.safety_net.running import headway
    from tests.safety_net.tiny_data import write_all

    write_all(tmp_path)
    monkeypatch.chdir(tmp_path)

    def train(name, run, steps, device="cuda", *more):
        case = RUNS[name]
        for command in case.before:
            headway(*command)
        words = ("--steps", str(steps), *SHORT, "--device", device, "--run", run, *more)
        headway("train", case.recipe, *case.train, *words)
        return headway

    return train


@pytest.mark.filterwarnings("error:RNN module weights")
@pytest.mark.parametrize("name", CASES)
def test_every_task_trains_saves_and_predicts(name, trained):
    from tests.safety_net.cases import CASES as RUNS
    from tests.safety_net.cases import with_prerequisites

    for one in with_prerequisites([name]):
        headway = trained(one, one, steps=2)
        words = (word.replace("{run}", f"runs/{one}") for word in RUNS[one].prediction)
        headway(*words, "--device", "cuda")


@pytest.mark.parametrize("first", ["cuda", "cpu"])
@pytest.mark.parametrize("name", ["translate", "translate-rnn", "gpt-tiny"])
def test_a_resumed_run_ends_like_one_without_a_pause(name, first, trained):
    from safetensors.torch import load_file

    headway = trained(name, "whole", steps=4)
    trained(name, "paused", 2, first)
    headway("train", "--resume", "runs/paused", "--steps", "4", "--device", "cuda", "--quiet")
    folders = ("runs/whole/model", "runs/paused/model")
    whole, paused = (load_file(f"{folder}/model.safetensors") for folder in folders)
    assert all(x.isfinite().all() for x in paused.values())
    if first == "cuda":  # dropout has other random numbers on a CPU
        assert_close(paused, whole, rtol=0, atol=1e-4)


@pytest.mark.parametrize("numbers", ["int8", "int4", "bfloat16"])
def test_quantised_models_generate(numbers, trained):
    headway = trained("gpt-tiny", "gpt", steps=2)
    headway("quantize", "runs/gpt", "--to", numbers)
    words = ("--max-tokens", "4", "--temperature", "0", "--device", "cuda")
    headway("generate", f"runs/gpt/{numbers}", "the", *words)


def test_kernels_run_here_and_where_they_cannot_torch_computes(monkeypatch):
    from headway.transforms import kernels
    from headway.transforms.kernels import norms

    x = torch.ones(3, device="cuda")
    pytest.importorskip("triton")
    assert kernels.obstacle(x.device) is None and kernels.computes(x)
    kernels.obstacle.cache_clear()

    def without_compiler(*_):
        raise RuntimeError("Failed to find C compiler.\nSet CC")

    monkeypatch.setattr(norms, "added", without_compiler)
    assert kernels.obstacle(x.device).endswith("RuntimeError: Failed to find C compiler.")
    assert not kernels.computes(x)
    kernels.obstacle.cache_clear()
