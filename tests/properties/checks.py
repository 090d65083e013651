"""The properties that hold for every model and kernel, as checks that raise AssertionError."""

from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

from headway.attention import Documents, Kernel, KernelInputs, record_attention, record_inputs
from tests.fixtures.searches import beam_search, greedy_search
from tests.fixtures.zoo import BOS, KERNELS, PAD, VOCABULARY, Family, limits, some_rows
from tests.properties.reference import reference_model


def some_targets(rows: int, length: int) -> Tensor:
    body = torch.randint(3, VOCABULARY, (rows, length - 1))
    return torch.cat((torch.full((rows, 1), BOS), body), dim=1)


@torch.no_grad()
def causality(family: Family, model: Any) -> None:
    """Changing target token j leaves every output before j bit-identical, and changes j's."""
    rows, read = some_rows(3), some_targets(3, 7)
    before = family.full(model, rows, read)
    for j in range(1, 7):
        changed = read.clone()
        changed[:, j] = (read[:, j] - 3 + 1) % (VOCABULARY - 3) + 3
        after = family.full(model, rows, changed)
        assert torch.equal(before[:, :j], after[:, :j]), f"output before {j} changed"
        assert not torch.equal(before[:, j], after[:, j]), f"output {j} did not change"


def causality_with_dropout(family: Family, model: Any) -> None:
    """As `causality`, while training: the same units are dropped, whatever the later tokens."""
    model.train()
    rows, read = [[4, 5, 2], [6, 7, 8, 2]], some_targets(2, 6)
    changed = read.clone()
    changed[:, 4] = 3 + (read[:, 4] - 2) % 8
    outputs = []
    for targets in (read, changed):
        torch.manual_seed(7)
        outputs.append(family.full(model, rows, targets))
    assert torch.equal(outputs[0][:, :4], outputs[1][:, :4])
    assert not torch.equal(outputs[0][:, 4:], outputs[1][:, 4:])


@torch.no_grad()
def padding(family: Family, model: Any) -> None:
    """The ids in the padding, and its length, change no output."""
    rows, read = [[4, 5, 2], [6, 7, 8, 9, 4, 2]], some_targets(2, 5)
    expected = family.full(model, rows, read)
    assert torch.equal(expected, family.full(model, rows, read, pad=7))
    more = family.full(model, rows, read, extra=5)
    assert_close(expected, more, rtol=0, atol=1e-5)
    alone = [family.full(model, [row], read[i : i + 1]) for i, row in enumerate(rows)]
    assert_close(expected, torch.cat(alone), rtol=0, atol=1e-5)
    for pad, extra in ((7, 0), (PAD, 5)):
        decoded, _ = model.step(read, model.start(*family.inputs(rows, pad=pad, extra=extra)))
        assert_close(decoded, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def cache_equals_no_cache(family: Family, model: Any) -> None:
    """Single steps, several tokens per step, and steps after a rewind give the same logits."""
    rows, read = some_rows(4), some_targets(4, 8)
    whole = family.full(model, rows, read)
    state = model.start(*family.inputs(rows))
    first = list(state.lengths)
    chunks = []
    for begin, end in ((0, 1), (1, 2), (2, 5), (5, 8)):
        logits, state = model.step(read[:, begin:end], state)
        chunks.append(logits)
    assert_close(torch.cat(chunks, 1), whole, rtol=0, atol=1e-5)
    lengths = [3, 5, 1, 8]
    state = state.rewind(_sums(first, lengths))
    following = torch.stack(
        [read[i, n : n + 2] if n <= 6 else read[i, :2] for i, n in enumerate(lengths)]
    )
    logits, state = model.step(following, state)
    assert state.lengths == _sums(first, [n + 2 for n in lengths])
    for i, n in enumerate(lengths):
        if n <= 6:
            assert_close(logits[i], whole[i, n : n + 2], rtol=0, atol=1e-5)


@torch.no_grad()
def states_reorder_and_join(family: Family, model: Any) -> None:
    """Rows may repeat, be dropped, change their order, and join another state's rows."""
    rows, read = some_rows(5), some_targets(5, 6)
    whole = family.full(model, rows, read)
    order = [3, 3, 0, 4]
    _, state = model.step(read[:, :2], model.start(*family.inputs(rows)))
    first = [length - 2 for length in state.lengths]
    state = state.reorder(order)
    logits, state = model.step(read[order, 2:4], state)
    assert_close(logits, whole[order, 2:4], rtol=0, atol=1e-5)
    state = state.reorder([0, 1, 3])  # two rows of one sentence, one of another
    _, second_state = model.step(read[1:3, :3], model.start(*family.inputs(rows[1:3])))
    joined = state.join(second_state)
    order_after_join, lengths = [3, 3, 4, 1, 2], [4, 4, 4, 3, 3]
    joined = joined.reorder([0, 4, 2, 3])  # the last row takes the place of another
    order_after_join, lengths = [3, 2, 4, 1], [4, 3, 4, 3]
    assert joined.lengths == _sums([first[r] for r in order_after_join], lengths)
    following = torch.stack(
        [read[r, n : n + 1] for r, n in zip(order_after_join, lengths, strict=True)]
    )
    logits, _ = model.step(following, joined)
    expected = torch.stack(
        [whole[r, n : n + 1] for r, n in zip(order_after_join, lengths, strict=True)]
    )
    assert_close(logits, expected, rtol=0, atol=1e-5)


def _sums(first: list[int], lengths: list[int]) -> list[int]:
    """A prompt counts in the lengths of a state, a source does not."""
    return [a + b for a, b in zip(first, lengths, strict=True)]


def batch_invariance(family: Family, model: Any) -> None:
    """Every search returns the same for an item in a batch and for the item alone."""
    rows = some_rows(4, seed=5)
    alone_greedy = [greedy_search(model, family.inputs([r]), limits([r]))[0] for r in rows]
    batched = greedy_search(model, family.inputs(rows), limits(rows))
    assert [h.tokens for h in batched] == [h.tokens for h in alone_greedy]
    kinds = {"beam": 3, "length_penalty": 0.6, "num_best": 2}
    alone = [beam_search(model, family.inputs([r]), limits([r]), **kinds)[0] for r in rows]
    mixed = beam_search(model, family.inputs(rows), limits(rows), **kinds)
    assert [[h.tokens for h in best] for best in mixed] == [[h.tokens for h in b] for b in alone]
    for single, in_batch in zip(alone, mixed, strict=True):
        for a, b in zip(single, in_batch, strict=True):
            assert abs(a.log_probability - b.log_probability) < 1e-4


@torch.no_grad()
def recording(family: Family, model: Any) -> None:
    """Recording changes no bit; every layer is recorded; rows sum to 1; padding has weight 0."""
    rows, read = some_rows(3), some_targets(3, 6)
    plain = family.full(model, rows, read)
    with record_attention(model) as maps:
        recorded = family.full(model, rows, read)
    assert torch.equal(plain, recorded)
    kernels = {n: m for n, m in model.named_modules() if isinstance(m, Kernel)}
    assert {f"{name}.kernel" for name in maps} == set(kernels)
    keys = family.keys(rows)
    assert keys is not None
    for name, calls in maps.items():
        weights = torch.cat(calls, dim=2)  # an RNN that feeds its input attends once a word
        assert weights.dtype == torch.float32
        across = name.endswith("cross")
        own_target = name.startswith("decoder") and not across
        width = family.width(rows, 6)
        queries = width if name.startswith("decoder") else keys.shape[1]
        assert weights.shape[2:] == (queries, width if own_target else keys.shape[1])
        if kernels[f"{name}.kernel"].normalised:
            # a query that is padding itself may have nothing but padding in its window
            real = torch.ones_like(weights[:, :, :, 0]).bool()
            real = real if name.startswith("decoder") else real & keys[:, None]
            sums = weights.sum(-1)[real]
            assert bool((weights >= 0).all())
            assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-5)
        if own_target:
            assert torch.equal(weights, weights.tril())
        else:
            hidden = weights.masked_select(~keys[:, None, None, :])
            assert bool((hidden == 0).all())
    with record_attention(model) as empty:
        pass
    assert all(not calls for calls in empty.values())


@torch.no_grad()
def captured_weights_equal_the_reference(family: Family, model: Any) -> None:
    """Captured weights equal those of the float64 reference to 1e-5; the recorded inputs of the
    kernels explain them, and recording changed no bit."""
    rows, read = [[4, 5, 2], [6, 7, 8, 9, 4, 2]], some_targets(2, 4)
    plain = family.full(model, rows, read)
    with record_attention(model) as maps, record_inputs(model) as inputs:
        assert torch.equal(family.full(model, rows, read), plain)
    exact, kernels = reference_model(model)
    family.full(exact, rows, read)
    assert set(kernels) == set(maps) == set(inputs)
    for name, kernel in kernels.items():
        expected, captured = torch.cat(kernel.computed, dim=2), torch.cat(maps[name], dim=2)
        assert_close(captured.double(), expected, rtol=0, atol=1e-5)
        layer = model.get_submodule(name)
        for recorded, weights in zip(inputs[name], maps[name], strict=True):
            _assert_explained(recorded, weights, layer)


def _assert_explained(recorded: KernelInputs, weights: Tensor, layer: Any) -> None:
    """Assert that q k scale + bias is the score, and that the heads' outputs sum to the layer's."""
    if recorded.scale is not None and layer.kernel.normalised:
        scores = recorded.q @ recorded.k.mT * recorded.scale
        scores = scores if recorded.bias is None else scores + recorded.bias
        expected = scores.masked_fill(weights == 0, -torch.inf).softmax(-1)
        assert_close(expected.nan_to_num(), weights)  # all keys of a query may be masked
    parts = (weights @ recorded.v) @ recorded.output  # B H T Kv, H Kv D -> B H T D
    context = (weights @ recorded.v).transpose(1, 2).flatten(2)
    plain = context @ layer.output.weight.T
    assert_close(parts.sum(1), plain, rtol=1e-4, atol=1e-5)
    assert_close(
        recorded.norms, torch.stack([(v @ recorded.output).norm(dim=-1) for v in recorded.v])
    )


def searches_never_emit_special_tokens(family: Family, model: Any) -> None:
    rows = some_rows(6, seed=2)
    hypotheses = beam_search(model, family.inputs(rows), limits(rows), beam=4, num_best=4)
    for best in hypotheses:
        assert best, "a sentence without a hypothesis"
        assert all(PAD not in h.tokens and BOS not in h.tokens for h in best)
        assert [h.score for h in best] == sorted((h.score for h in best), reverse=True)
        assert len({h.tokens for h in best}) == len(best)


def packing(model: Any) -> None:
    """Documents packed into one sequence have the outputs and gradients of each alone."""
    lengths = ((5, 1, 6), (9, 3), (12,), (2, 2, 2, 2, 2, 2))
    tokens = torch.randint(3, VOCABULARY, (4, 12))
    packed = model(tokens, Documents(lengths))
    weights = torch.randn_like(packed)
    gradients = torch.autograd.grad((packed * weights).sum(), list(model.parameters()))
    alone = []
    for row, parts in zip(tokens, lengths, strict=True):
        alone.append(torch.cat([model(part[None]) for part in row.split(parts)], dim=1))
    separate = torch.cat(alone)
    assert_close(packed, separate, rtol=0, atol=1e-5)
    expected = torch.autograd.grad((separate * weights).sum(), list(model.parameters()))
    assert_close(gradients, expected, rtol=1e-4, atol=1e-4)


# checks of image encoders


@torch.no_grad()
def image_batch_invariance(vit: Any) -> None:
    """The output of an image does not depend on the batch."""
    images = torch.randn(5, 3, 8, 12)
    batched = vit(images)
    for i, image in enumerate(images):
        assert_close(vit(image[None])[0], batched[i], rtol=0, atol=1e-5)


@torch.no_grad()
def image_recording(vit: Any) -> None:
    """Recording changes no bit; every layer is recorded; every token attends to every token."""
    images = torch.randn(2, 3, 8, 12)
    plain = vit(images)
    with record_attention(vit) as maps:
        assert torch.equal(plain, vit(images))
    kernels = {n: m for n, m in vit.named_modules() if isinstance(m, Kernel)}
    assert {f"{name}.kernel" for name in maps} == set(kernels) and len(maps) == 2
    for name, (weights,) in maps.items():
        tokens = plain.shape[1]
        assert weights.shape == (2, 3, tokens, tokens)
        if kernels[f"{name}.kernel"].normalised:
            assert_close(weights.sum(-1), torch.ones(2, 3, tokens), rtol=0, atol=1e-5)
            assert bool((weights > 0).all())


@torch.no_grad()
def every_patch_is_attended_to(vit: Any) -> None:
    """A changed pixel changes only the embedding of its patch, and the output of every patch."""
    images = torch.randn(1, 3, 8, 12)
    before, tokens = vit.patch_vectors(vit(images)), vit.patch_vectors(vit.embedding(images))
    for row, column in ((0, 0), (3, 11), (7, 5)):
        changed = images.clone()
        changed[0, 1, row, column] += 0.1
        patch = row // 4 * 6 + column // 2
        change = (vit.patch_vectors(vit.embedding(changed)) - tokens).abs().amax(-1)[0]
        assert change.nonzero().flatten().tolist() == [patch]
        difference = (vit.patch_vectors(vit(changed)) - before).abs().amax(-1)[0]
        assert bool((difference > 0).all())


@torch.no_grad()
def patch_order(vit: Any) -> None:
    """A permutation of the patches changes their vectors only if the model has positions."""
    images = torch.randn(2, 3, 8, 12)
    order = torch.tensor([7, 2, 11, 0, 5, 9, 1, 10, 3, 8, 6, 4])
    # B C (r 4) (c 2) -> patches as images, in another order, and back
    patches = images.view(2, 3, 2, 4, 6, 2).permute(2, 4, 0, 1, 3, 5).flatten(0, 1)[order]
    mixed = patches.unflatten(0, (2, 6)).permute(2, 3, 0, 4, 1, 5).reshape(2, 3, 8, 12)
    plain, permuted = vit.patch_vectors(vit(images)), vit.patch_vectors(vit(mixed))
    difference = (plain[:, order] - permuted).abs().max()
    if vit.config.positions == "none":
        assert difference < 1e-5
    else:
        assert difference > 1e-2


@torch.no_grad()
def captured_image_weights_equal_the_reference(vit: Any) -> None:
    """As `captured_weights_equal_the_reference`, for images."""
    images = torch.randn(2, 3, 8, 12)
    plain = vit(images)
    with record_attention(vit) as maps, record_inputs(vit) as inputs:
        assert torch.equal(vit(images), plain)
    exact, kernels = reference_model(vit)
    exact(images.double())
    for name, kernel in kernels.items():
        assert_close(maps[name][0].double(), kernel.computed[0], rtol=0, atol=1e-5)
        _assert_explained(inputs[name][0], maps[name][0], vit.get_submodule(name))


ALL = [
    causality,
    causality_with_dropout,
    padding,
    cache_equals_no_cache,
    states_reorder_and_join,
    batch_invariance,
    recording,
    captured_weights_equal_the_reference,
    searches_never_emit_special_tokens,
]
IMAGE_CHECKS = [
    image_batch_invariance,
    image_recording,
    captured_image_weights_equal_the_reference,
    every_patch_is_attended_to,
    patch_order,
]
IMAGE_KERNELS = sorted(KERNELS.keys() - {"window"})
