"""Optimizers: which one updates which parameter, how, and that resuming is exact."""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from headway.base.errors import DataError, UsageError
from headway.models import GPT, Bert, BertClassifier, BertConfig, ViT, ViTConfig
from headway.training import (
    Loss,
    NonFinite,
    OptimizerConfig,
    StopRequest,
    TrainingState,
    cross_entropy_sum,
    fit,
    load_state,
    optimizer,
    save_state,
)
from headway.training.muon import NEWTON_SCHULZ, Muon, orthogonal
from headway.transforms.freeze import depths, freeze
from tests.fixtures import zoo

MUON = OptimizerConfig(kind="muon", lr=0.01, weight_decay=0.1)


def test_adamw_equals_torchs_and_decays_matrices_only():
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    updates_of_ours = optimizer(ours, OptimizerConfig(lr=0.01, weight_decay=0.1))
    plain = torch.optim.AdamW(
        [
            {"params": [theirs.weight], "weight_decay": 0.1},
            {"params": [theirs.bias], "weight_decay": 0.0},
        ],
        lr=0.01,
        betas=(0.9, 0.98),
        eps=1e-9,
        fused=False,
        foreach=False,
    )
    x = torch.randn(5, 3)
    for _ in range(7):
        for model, updates in ((ours, updates_of_ours), (theirs, plain)):
            updates.zero_grad()
            model(x).square().sum().backward()
            updates.step()
    assert_close(ours.weight, theirs.weight, rtol=0, atol=1e-6)
    assert_close(ours.bias, theirs.bias, rtol=0, atol=1e-6)


@dataclass(frozen=True)
class Text:
    tokens: Tensor
    indices: tuple[int, ...] = ()


def next_token(model: GPT, batch: Text) -> Loss:
    hidden = model.hidden(batch.tokens[:, :-1]).flatten(0, 1)
    targets = batch.tokens[:, 1:].flatten()
    return Loss(*cross_entropy_sum(hidden, model.output.weight, targets), len(targets))


def fresh(config: OptimizerConfig, name: str = "gpt") -> TrainingState:
    torch.manual_seed(3)
    model = zoo.MODELS[name].build()
    return TrainingState(model, optimizer(model, config))


def advance(run: TrainingState, steps: int, rate: float = 0.01) -> None:
    """Run steps, each on its own random text; dropout uses torch's generator."""

    def stream():
        while True:
            generator = torch.Generator().manual_seed(run.step)
            yield 0, 0, Text(torch.randint(0, zoo.VOCABULARY, (3, 7), generator=generator))

    fit(
        run,
        stream(),
        next_token,
        [],
        steps=run.step + steps,
        learning_rate=lambda step: rate / step,
        precision=nullcontext,
        request=StopRequest(),
    )
    run.stop = None


@pytest.mark.parametrize("name", ["gpt", "gpt modern", "translator", "translator relative"])
def test_muon_gets_the_matrices_inside_blocks_and_adamw_all_the_rest(name):
    model = zoo.MODELS[name].build()
    names = {id(p): n for n, p in model.named_parameters()}
    groups = [[names[id(p)] for p in g["params"]] for g in optimizer(model, MUON).param_groups]
    assert sorted(chain(*groups)) == sorted(names.values())
    layers = ("query", "key", "value", "output", "expand", "gate", "contract")
    expected = [
        n
        for n in names.values()
        if ".blocks." in n and n.removesuffix(".weight").endswith(layers) and "norm" not in n
    ]
    assert groups[0] == [n for n in expected if n.endswith(".weight")]
    assert any("embedding" in n for n in groups[1])


@pytest.mark.parametrize("layer_decay", [1.0, 0.7])
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_three_steps_and_three_after_a_resume_equal_six(kind, layer_decay, tmp_path):
    config = OptimizerConfig(
        kind=kind, lr=0.01, weight_decay=0.1, muon_lr=0.03, layer_decay=layer_decay
    )
    whole, first = fresh(config), fresh(config)
    torch.manual_seed(4)
    advance(whole, 6)
    torch.manual_seed(4)
    advance(first, 3)
    save_state(first, tmp_path / "step-3")
    second = fresh(config)
    with torch.no_grad():
        for parameter in second.model.parameters():
            parameter.zero_()
    torch.manual_seed(9)
    load_state(second, tmp_path / "step-3")
    advance(second, 3)
    assert second.step == 6
    for resumed, expected in zip(second.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(resumed, expected)
    for parameter, moments in whole.optimizer.state.items():
        assert moments, parameter.shape


def test_each_parameter_group_follows_the_schedule_with_its_scale():
    run = fresh(OptimizerConfig(kind="muon", lr=0.01, muon_lr=0.05))
    advance(run, 2, rate=0.01)
    assert [g["lr"] for g in run.optimizer.param_groups] == pytest.approx([0.025, 0.005, 0.005])


def test_muon_updates_every_direction_by_about_the_same_amount():
    """The change of a matrix has singular values near 0.2 sqrt(max(A, B)) lr, all of them."""
    run = fresh(OptimizerConfig(kind="muon", lr=0.01))
    layer = run.model.decoder.blocks[0].feedforward.expand  # 40 24
    before = layer.weight.detach().clone()
    advance(run, 1)
    moved = torch.linalg.svdvals(before - layer.weight.detach()) / (0.01 * 0.2 * 40**0.5)
    assert moved.median() == pytest.approx(1, abs=0.3) and moved.max() < 1.4
    gradient = torch.linalg.svdvals(layer.weight.grad)
    assert gradient[len(gradient) // 2] / gradient[0] < 0.3 < (moved > 0.6).float().mean()


@pytest.mark.parametrize("shape", [(5, 9), (12, 4), (7, 7)])
def test_muon_in_float32_updates_as_torchs_muon_in_bfloat16(shape):
    matrices = [nn.Parameter(torch.randn(shape, generator=torch.Generator().manual_seed(3)))]
    matrices.append(nn.Parameter(matrices[0].detach().clone()))
    unused = nn.Parameter(torch.ones(shape))
    settings = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
    updates = [
        kind([matrix, unused], **settings)
        for kind, matrix in zip((torch.optim.Muon, Muon), matrices, strict=True)
    ]
    updates[1].in_bfloat16 = False
    for step in range(4):
        before = matrices[0].detach().clone()
        for update, matrix in zip(updates, matrices, strict=True):
            matrix.data.copy_(before)
            matrix.grad = torch.randn(shape, generator=torch.Generator().manual_seed(step))
            update.step()
        moved, expected = (matrix.detach() - before for matrix in reversed(matrices))
        assert float((moved - expected).norm() / expected.norm()) < 0.03
    assert torch.equal(unused, torch.ones(shape))
    assert [list(update.state[m]) for update, m in zip(updates, matrices, strict=True)] == [
        ["momentum_buffer"]
    ] * 2


@pytest.mark.parametrize("shape", [(5, 9), (12, 4)])
def test_muon_has_the_bits_of_torchs_muon(shape):
    start = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    settings = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1, "adjust_lr_fn": "match_rms_adamw"}
    results = []
    for kind in (torch.optim.Muon, Muon):
        matrix = nn.Parameter(start.clone())
        update = kind([matrix], **settings)
        for step in range(4):
            matrix.grad = torch.randn(shape, generator=torch.Generator().manual_seed(step))
            update.step()
        results.append(matrix.detach())
    assert torch.equal(results[0], results[1])


@pytest.mark.parametrize("shape", [(5, 9), (12, 4)])
def test_an_orthogonal_matrix_keeps_directions_and_evens_out_their_sizes(shape):
    matrix = torch.randn(shape, dtype=torch.float64)
    u, sizes, v = torch.linalg.svd(matrix, full_matrices=False)
    a, b, c = NEWTON_SCHULZ
    sizes = sizes / sizes.norm()
    for _ in range(5):
        sizes = a * sizes + b * sizes**3 + c * sizes**5
    assert_close(orthogonal(matrix), u @ sizes.diag() @ v, rtol=0, atol=1e-9)


def test_muon_learns():
    run = fresh(OptimizerConfig(kind="muon", lr=0.01))
    same = Text(torch.randint(0, zoo.VOCABULARY, (3, 7)))
    before = float(next_token(run.model.eval(), same).nats)
    fit(
        run,
        iter(lambda: (0, 0, same), None),
        next_token,
        [],
        steps=40,
        learning_rate=lambda step: 0.01,
        precision=nullcontext,
        request=StopRequest(),
    )
    assert float(next_token(run.model.eval(), same).nats) < before / 3


def test_combined_optimizers_save_and_load_as_torchs_do():
    whole, restored = fresh(MUON), fresh(MUON)
    advance(whole, 2)
    restored.model.load_state_dict(whole.model.state_dict())
    restored.optimizer.load_state_dict(deepcopy(whole.optimizer.state_dict()))
    restored.step = whole.step
    for run in (whole, restored):
        torch.manual_seed(1)
        advance(run, 2)
    for value, expected in zip(restored.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(value, expected)


def test_muon_for_a_model_without_blocks_is_refused():
    for model in (nn.Linear(3, 2), zoo.MODELS["rnn"].build()):
        with pytest.raises(UsageError, match="no matrices inside blocks"):
            optimizer(model, MUON)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_the_vector_of_a_patch_changes_as_that_of_a_word(kind):
    torch.manual_seed(0)
    shape = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1}
    model = ViT(ViTConfig(image_size=8, patch_size=4, channels=3, **shape))
    images = torch.ones(2, 3, 8, 8)  # all pixels of a patch are alike
    before = model.embedding.patches(images)
    updates = optimizer(model, OptimizerConfig(kind=kind, lr=0.01, weight_decay=0.0))
    for group in updates.param_groups:
        group["lr"] = 0.01 * group["scale"]  # as the loop sets it
    (before - 3 * torch.randn(before.shape[-1])).square().sum().backward()
    updates.step()
    change = model.embedding.patches(images) - before
    assert_close(change.abs(), torch.full_like(change, 2 * 0.01), rtol=1e-3, atol=0)  # and the bias


def test_a_checkpoint_of_another_optimizer_is_refused(tmp_path):
    run = fresh(MUON)
    advance(run, 1)
    save_state(run, tmp_path / "step-1")
    with pytest.raises(DataError, match="another optimizer"):
        load_state(fresh(OptimizerConfig()), tmp_path / "step-1")


# --- the depth of a parameter ------------------------------------------------------------------

READER = BertConfig(
    model_dim=12, num_heads=3, ffn_dim=20, num_layers=3, max_length=9, vocabulary=zoo.VOCABULARY
)


def test_depth_counts_blocks_and_layers_below_and_above_them():
    depth_of, blocks = depths(BertClassifier(Bert(READER), 2))
    assert blocks == 3 and set(depth_of.values()) == {0, 1, 2, 3, 4}
    for name, depth in depth_of.items():
        if name.startswith("bert.embedding"):
            assert depth == 0, name
        elif ".blocks." in name:
            assert depth == 1 + int(name.split(".blocks.")[1].split(".")[0]), name
        else:
            assert depth == 4 and name.startswith(("bert.pooler", "head")), name
    gpt, blocks = depths(zoo.MODELS["gpt"].build())
    assert gpt["embedding.tokens.weight"] == 0 and max(gpt.values()) >= blocks == 2
    assert depths(zoo.MODELS["translator"].build())[1] == 0 == depths(nn.Linear(3, 2))[1]


def test_blocks_that_share_their_weights_count_as_one():
    depth_of, blocks = depths(Bert(replace(READER, shared_layers=True)))
    assert blocks == 1 and {depth_of[n] for n in depth_of if ".blocks." in n} == {1}


def classified(model: BertClassifier, seed: int) -> Tensor:
    tokens = torch.randint(0, zoo.VOCABULARY, (5, 7), generator=torch.Generator().manual_seed(seed))
    keys = torch.ones_like(tokens, dtype=torch.bool)
    return nn.functional.cross_entropy(model(tokens, keys), tokens[:, 0] % 2)


def test_layer_decay_is_adamw_with_a_rate_for_each_block():
    ours = BertClassifier(Bert(READER), 2).eval()
    theirs = deepcopy(ours)
    # a key's bias changes no softmax: its gradient is rounding, which a large eps keeps small
    updates_of_ours = optimizer(
        ours, OptimizerConfig(lr=0.01, eps=1e-4, weight_decay=0.1, layer_decay=0.5)
    )
    for group in updates_of_ours.param_groups:
        group["lr"] = 0.01 * group["scale"]  # as the loop sets it
    rates = {0: 0.00125, 1: 0.0025, 2: 0.005, 3: 0.01, 4: 0.01}
    depth, _ = depths(theirs)
    groups = [
        {"params": [p], "lr": rates[depth[n]], "weight_decay": 0.1 if p.ndim > 1 else 0.0}
        for n, p in theirs.named_parameters()
    ]
    plain = torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-4, foreach=False)
    for seed in range(4):
        for model, updates in ((ours, updates_of_ours), (theirs, plain)):
            updates.zero_grad()
            classified(model, seed).backward()
            updates.step()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert_close(a, b, rtol=0, atol=1e-6, msg=name)


def test_layer_decay_applies_to_muon_too():
    model = zoo.MODELS["gpt"].build()
    config = OptimizerConfig(kind="muon", lr=0.01, muon_lr=0.05, layer_decay=0.5)
    scales = [group["scale"] for group in optimizer(model, config).param_groups]
    assert scales[:2] == [2.5, 5.0] and {0.25, 0.5, 1.0} == set(scales[2:])


def test_frozen_blocks_do_not_change_and_the_rest_is_trained():
    model = BertClassifier(Bert(READER), 2).eval()
    freeze(model, 2)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    updates = optimizer(model, OptimizerConfig(lr=0.01, layer_decay=0.9))
    for seed in range(2):
        classified(model, seed).backward()
        updates.step()
    depth, _ = depths(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == (depth[name] <= 2), name


def test_a_model_without_a_stack_of_blocks_is_refused_for_layer_decay_and_freezing():
    with pytest.raises(UsageError, match="no stack of blocks"):
        optimizer(zoo.MODELS["translator"].build(), OptimizerConfig(layer_decay=0.9))
    with pytest.raises(UsageError, match="4 blocks cannot be frozen: the model has 3"):
        freeze(BertClassifier(Bert(READER), 2), 4)


@pytest.mark.parametrize("clip", [0.1, 100.0])
def test_an_update_that_divides_and_checks_by_itself_is_the_ordinary_one(clip, monkeypatch):
    """As a CUDA device does it; torch's fused AdamW does on a CPU, too."""
    from headway.training import loop

    def losses(steps, scale=1.0):
        torch.manual_seed(0)
        model = nn.Linear(5, 3)
        x, y = torch.randn(8, 5), torch.randn(8, 3)

        def objective(model, batch):
            total = ((model(x) - y) ** 2).sum() * batch
            return Loss(total, total.detach(), 24)

        found = []

        class Log:
            def after_step(self, run, report):
                found.append((report.loss, report.grad_norm))

        run = TrainingState(model, optimizer(model, OptimizerConfig(lr=0.01)))
        stream = iter([(0, 0, 1.0)] * (steps - 1) + [(0, 0, scale)])
        try:
            fit(run, stream, objective, [Log()], steps=steps, clip=clip)
        except NonFinite:
            found.append("not finite")
        return found, model.state_dict()

    expected, before = losses(5), losses(4)[1]
    monkeypatch.setattr(loop, "divides_and_checks", lambda optimizer, device: True)
    assert_close(losses(5), expected, rtol=1e-5, atol=1e-6)
    found, after = losses(5, torch.inf)
    assert found[-1] == "not finite"
    assert_close(after, before, rtol=1e-5, atol=1e-6)
