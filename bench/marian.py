"""A Headway `Translator` as transformers' `MarianMTModel`, with the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

from headway.interop import write
from headway.interop.hf_export_translator import with_halves
from headway.models import Translator


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
