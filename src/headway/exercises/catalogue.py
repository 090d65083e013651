"""The list of exercises, in the order of a course.

`headway exercise list` reads only this table, so it does not wait for torch.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """An exercise in the list.

    module: the module with its `EXERCISE`. section: page and heading of the tour, below docs/tour.
    trains: whether a solution becomes a part of the tiny translator.
    """

    module: str
    title: str
    section: str
    trains: bool = True

    @property
    def tour(self) -> str:
        """The page and the heading of the tour that explain the exercise."""
        return f"docs/tour/{self.section}"


CATALOGUE = {
    "softmax-and-masks": Entry(
        "softmax_and_masks", "Softmax and masks", "attention.md#masks-no-looking-ahead"
    ),
    "scaled-dot-product": Entry(
        "scaled_dot_product", "Scaled dot-product attention", "attention.md#the-attention-layer"
    ),
    "multi-head": Entry("multi_head", "Multi-head attention", "attention.md#several-heads"),
    "additive-score": Entry("additive_score", "The additive score", "attention.md#other-scores"),
    "kv-cache": Entry("kv_cache", "The key/value cache", "attention.md#masks-no-looking-ahead"),
    "layer-norm": Entry("layer_norm", "Layer norm", "blocks.md#layer-norm"),
    "sinusoidal-positions": Entry(
        "sinusoidal_positions", "Sinusoidal positions", "blocks.md#positions"
    ),
    "rotary-positions": Entry("rotary_positions", "Rotary positions", "blocks.md#positions"),
    "transformer-block": Entry(
        "transformer_block", "The Transformer block", "blocks.md#encoder-and-decoder"
    ),
    "byte-pair-encoding": Entry(
        "byte_pair_encoding",
        "Byte pair encoding",
        "blocks.md#embeddings-of-words-and-of-anything",
        trains=False,
    ),
    "patch-embedding": Entry(
        "patch_embedding",
        "Patch embedding",
        "blocks.md#embeddings-of-words-and-of-anything",
        trains=False,
    ),
    "label-smoothing": Entry("label_smoothing", "Label smoothing", "blocks.md#output"),
    "teacher-forcing": Entry(
        "teacher_forcing", "Teacher forcing", "systems.md#transformer-encoder-decoder"
    ),
    "greedy-search": Entry(
        "greedy_search", "Greedy search", "systems.md#transformer-encoder-decoder"
    ),
    "beam-search": Entry("beam_search", "Beam search", "systems.md#transformer-encoder-decoder"),
    "bleu": Entry("bleu", "Corpus BLEU", "systems.md#transformer-encoder-decoder", trains=False),
    "masked-tokens": Entry(
        "masked_tokens", "Masked-token corruption", "systems.md#bert-and-its-family", trains=False
    ),
    "lora": Entry("low_rank_adaptation", "LoRA", "systems.md#bert-and-its-family"),
    "dino-centring": Entry(
        "dino_centring", "DINO's centring", "systems.md#vision-transformer-and-dino", trains=False
    ),
    "attention-rollout": Entry(
        "attention_rollout", "Attention rollout", "seeing.md#from-weights-to-causes"
    ),
    "target-mask": Entry("target_mask", "Target mask", "chat.md#instructions", trains=False),
    "dpo-loss": Entry("dpo_loss", "DPO loss", "chat.md#preferences", trains=False),
    "policy-gradient": Entry("policy_gradient", "Policy gradient", "chat.md#rewards", trains=False),
    "image-tokens": Entry(
        "image_tokens", "Image tokens", "systems.md#multimodal-gpt", trains=False
    ),
}
"""Name -> entry, in the order of a course."""
