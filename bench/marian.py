"""A Headway `Translator` as transformers' `MarianMTModel`, with the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F

from headway.interop import write
from headway.interop.hf_export_translator import with_halves
from headway.models import Translator
from headway.tasks.translation.batches import TranslationBatch

SMOOTHING = 0.1  # of the labels, as in the recipes of translation


@dataclass(frozen=True)
class Specials:
    """Ids of padding, beginning (the decoder's first input) and end."""

    pad: int
    bos: int
    eos: int


def to_marian(model: Translator, specials: Specials) -> Any:
    """Return a `MarianMTModel` that computes the same as `model`, in eval mode.

    Raises UsageError for a configuration that Marian does not have.
    """
    from transformers import MarianMTModel

    ids = {
        "pad_token_id": specials.pad,
        "bos_token_id": specials.bos,
        "eos_token_id": specials.eos,
        "decoder_start_token_id": specials.bos,
        "forced_eos_token_id": specials.eos,
    }
    with TemporaryDirectory() as folder:
        write(with_halves(model), folder, "marian", ids)
        return MarianMTModel.from_pretrained(folder).eval()


def marian_loss(model: Any, batch: TranslationBatch, pad: int) -> torch.Tensor:
    """Label-smoothed cross-entropy a target, padding left out."""
    logits = model(
        input_ids=batch.source,
        attention_mask=batch.source_keys,
        decoder_input_ids=batch.target_in,
        use_cache=False,
    ).logits
    return F.cross_entropy(
        logits.flatten(0, 1),
        batch.target_out.flatten(),
        ignore_index=pad,
        label_smoothing=SMOOTHING,
    )


def cut(rows: list[list[int]], eos: int) -> list[list[int]]:
    """Return tokens of `generate` without the first <s>, and without everything from </s> on."""
    return [row[1 : row.index(eos, 1) if eos in row[1:] else None] for row in rows]
