"""A planted bug fails the check of each property."""

import pytest
import torch

from headway.attention import (
    Documents,
    KernelInputs,
    KeyValueCache,
    KeyValues,
    Mask,
    MultiHeadAttention,
    Rotary,
    SoftmaxKernel,
    linear,
    record,
)
from headway.blocks import Embeddings, LearnedGrid, Memory, image_embedding, patches, recurrent
from headway.models import GPT
from headway.transforms.fast import cache, dot, masks
from headway.transforms.fast.cache import FastCache
from tests.fixtures.zoo import MODELS, VITS, with_kernel
from tests.properties import checks

FAMILY = MODELS["translator"]


def fails(check, family=FAMILY) -> None:
    with pytest.raises(AssertionError):
        check(family, family.build())


def test_a_mask_that_lets_one_future_token_through_fails_causality(monkeypatch):
    dense = Mask.dense

    def leaky(self, num_queries, num_keys, device=None):
        allowed = dense(self, num_queries, num_keys, device)
        return allowed | allowed.roll(1, -1) if self.causal else allowed

    monkeypatch.setattr(Mask, "dense", leaky)
    fails(checks.causality_with_dropout)
    # torch's kernel, which some machines read by, hides later tokens itself if only they are hidden
    monkeypatch.setattr(dot, "is_plain_causal", lambda *_: False)
    fails(checks.causality)


def test_a_mask_that_ignores_padding_fails_padding(monkeypatch):
    monkeypatch.setattr(masks, "hides_nothing", lambda mask, num_queries: not mask.causal)
    fails(checks.padding)
    fails(checks.batch_invariance)


def test_a_causal_mask_counted_from_the_first_key_fails_with_a_cache(monkeypatch):
    dense = Mask.dense

    def top_left(self, num_queries, num_keys, device=None):
        if not self.causal or self.past is not None:
            return dense(self, num_queries, num_keys, device)
        return torch.ones(1, 1, num_queries, num_keys, dtype=torch.bool).tril()

    monkeypatch.setattr(Mask, "dense", top_left)
    fails(checks.cache_equals_no_cache)


def test_positions_off_by_one_in_decoding_fail_with_a_cache(monkeypatch):
    forward = Embeddings.forward

    def shifted(self, tokens, past=(0,), documents=None):
        return forward(self, tokens, [n + (n > 0) for n in past])

    monkeypatch.setattr(Embeddings, "forward", shifted)
    fails(checks.cache_equals_no_cache)


def test_documents_that_attend_to_each_other_fail_packing(monkeypatch):
    apart = Documents.apart.func

    def whole_rows(documents):
        rows, length = documents.numbers.shape
        return apart(Documents([[length]] * rows))

    monkeypatch.setattr(Documents, "apart", property(whole_rows))
    fails(lambda family, model: checks.packing(model), MODELS["gpt modern"])


def test_positions_that_run_on_through_packed_documents_fail_packing(monkeypatch):
    forward = Embeddings.forward
    monkeypatch.setattr(
        Embeddings, "forward", lambda self, tokens, past=(0,), documents=None: forward(self, tokens)
    )
    fails(lambda family, model: checks.packing(model), MODELS["gpt"])


def test_a_cache_that_does_not_follow_its_beam_fails(monkeypatch):
    def stays(store, index, used, into):
        return store[torch.arange(len(index)) % len(store)]

    def forgets(self):
        self._order = None
        return self._layers, None

    monkeypatch.setattr(cache, "_select", stays)
    monkeypatch.setattr(FastCache, "in_place", forgets)
    fails(checks.states_reorder_and_join)
    fails(checks.batch_invariance)


def test_a_memory_that_does_not_follow_its_sentence_fails(monkeypatch):
    def forgetful(self, rows):
        self.layers = [KeyValues(k[: len(rows)], v[: len(rows)]) for k, v in self.layers]
        self.keys = None if self.keys is None else self.keys[: len(rows)]
        self.rows = list(range(len(rows)))

    monkeypatch.setattr(Memory, "arrange", forgetful)
    fails(checks.states_reorder_and_join)


def test_a_rewind_without_effect_fails(monkeypatch):
    monkeypatch.setattr(KeyValueCache, "rewind", lambda self, lengths: None)
    fails(checks.cache_equals_no_cache)


def test_swapped_heads_and_positions_fail(monkeypatch):
    def swapped(self, queries):
        return queries.view(queries.shape[0], self.num_heads, queries.shape[1], -1)

    monkeypatch.setattr(MultiHeadAttention, "split_queries", swapped)
    fails(checks.causality)


def test_reading_backwards_from_the_padding_fails_padding(monkeypatch):
    def flipped(x, keys):
        return torch.arange(x.shape[1] - 1, -1, -1)[None]

    monkeypatch.setattr(recurrent, "_reversal", flipped)
    fails(checks.padding, MODELS["rnn"])
    fails(checks.batch_invariance, MODELS["rnn"])


def test_a_context_taken_from_the_padding_fails_padding(monkeypatch):
    monkeypatch.setattr(recurrent.LastState, "forward", lambda self, memory, keys: memory[:, -1])
    fails(checks.padding, MODELS["rnn without attention"])


def test_a_recurrent_state_that_is_not_rewound_fails_with_a_cache(monkeypatch):
    monkeypatch.setattr(KeyValueCache, "rewind", lambda self, lengths: None)
    fails(checks.cache_equals_no_cache, MODELS["rnn"])


def test_a_rotation_that_starts_over_at_every_step_fails_with_a_cache(monkeypatch):
    cos_sin = Rotary.cos_sin

    def forgetful(self, positions, dtype):
        return cos_sin(self, positions - positions[:, :1], dtype)

    monkeypatch.setattr(Rotary, "cos_sin", forgetful)
    fails(checks.cache_equals_no_cache, MODELS["translator rotary"])


def test_a_running_sum_that_includes_the_next_chunk_fails_causality(monkeypatch):
    monkeypatch.setattr(linear, "CHUNK", 2)

    def greedy(q, k, v, *, causal):
        return q @ (k.transpose(-1, -2) @ v)

    monkeypatch.setattr(linear, "running_sum", greedy)
    family = MODELS["translator"]
    with pytest.raises(AssertionError):
        checks.causality(family, with_kernel(family.build(), "linear"))


def test_a_prompts_padding_that_stays_in_the_cache_fails_padding(monkeypatch):
    start = GPT.start
    monkeypatch.setattr(GPT, "start", lambda self, tokens, keys=None: start(self, tokens))
    fails(checks.padding, MODELS["gpt"])
    fails(checks.cache_equals_no_cache, MODELS["gpt"])
    fails(checks.batch_invariance, MODELS["gpt modern"])


def test_captured_weights_that_ignore_a_rule_differ_from_the_reference(monkeypatch):
    weights = SoftmaxKernel.weights

    def without_bias(self, q, k, mask, bias=None):
        return weights(self, q, k, mask)

    monkeypatch.setattr(SoftmaxKernel, "weights", without_bias)
    fails(checks.captured_weights_equal_the_reference, MODELS["gpt alibi, one key head"])
    monkeypatch.setattr(
        SoftmaxKernel, "weights", lambda self, q, k, mask, bias=None: weights(self, q, k, Mask())
    )
    fails(checks.captured_weights_equal_the_reference)
    monkeypatch.setattr(
        SoftmaxKernel,
        "weights",
        lambda self, q, k, mask, bias=None: weights(self, q / 1.01, k, mask, bias),
    )
    fails(checks.captured_weights_equal_the_reference)


def test_key_heads_with_the_wrong_query_heads_differ_from_the_reference(monkeypatch):
    def interleaved(x, num_heads):
        return x.repeat(1, num_heads // x.shape[1], 1, 1)

    monkeypatch.setattr(record, "spread", interleaved)
    fails(checks.captured_weights_equal_the_reference, MODELS["gpt modern"])


def test_an_output_matrix_split_across_its_heads_differs_from_the_reference(monkeypatch):
    class Turned(KernelInputs):
        def __init__(self, output, **inputs):
            super().__init__(output=output.transpose(0, 1).reshape(output.shape), **inputs)

    monkeypatch.setattr(record, "KernelInputs", Turned)
    fails(checks.captured_weights_equal_the_reference)


def fails_on_images(check, name="vit") -> None:
    with pytest.raises(AssertionError):
        check(VITS[name]())


def test_patches_read_by_columns_fail_every_patch_is_attended_to(monkeypatch):
    cut = patches.patchify

    def turned(images, height, width):
        rows, columns = images.shape[2] // height, images.shape[3] // width
        by_rows = cut(images, height, width).unflatten(1, (rows, columns))
        return by_rows.transpose(1, 2).flatten(1, 2)

    monkeypatch.setattr(patches, "patchify", turned)
    fails_on_images(checks.every_patch_is_attended_to)


def test_the_class_token_after_the_patches_fails_every_patch_is_attended_to(monkeypatch):
    forward = image_embedding.ImageEmbedding.forward
    monkeypatch.setattr(
        image_embedding.ImageEmbedding,
        "forward",
        lambda self, images, hidden=None: forward(self, images, hidden).roll(-1, 1),
    )
    fails_on_images(checks.every_patch_is_attended_to)


def test_equal_positions_of_all_patches_fail_patch_order(monkeypatch):
    monkeypatch.setattr(LearnedGrid, "forward", lambda self, x, rows, columns: x + self.vectors[0])
    fails_on_images(checks.patch_order)


def test_a_norm_over_the_batch_fails_image_batch_invariance(monkeypatch):
    monkeypatch.setattr(
        image_embedding.ImageEmbedding,
        "forward",
        lambda self, images, hidden=None: self.patches(images - images.mean(0)),
    )
    fails_on_images(checks.image_batch_invariance, "vit without a class token")


def test_a_causal_mask_fails_on_images(monkeypatch):
    monkeypatch.setattr("headway.models.vit.Mask", lambda: Mask(causal=True))
    fails_on_images(checks.every_patch_is_attended_to)
    fails_on_images(checks.image_recording)
