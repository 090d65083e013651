"""The forward pass of a translator over a sentence and a translation."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headway.bundle import ForwardPass
from headway.models import Translator
from headway.tasks.translation.batches import collate_sources
from headway.text import TokenizerPair, positions_of_words


def forward_pass(
    model: Translator,
    tokenizer: TokenizerPair,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
) -> ForwardPass:
    """Prepare the forward pass. The ids are those of the texts, without special tokens."""
    device = next(model.parameters()).device
    first, second = tokenizer.source, tokenizer.target
    tokens, keys = collate_sources([[*source_ids]], first)
    tokens, keys = tokens.to(device), None if keys is None else keys.to(device)
    ids = {
        "source": [*source_ids, first.eos],
        "read": [second.bos, *target_ids],
        "target": [*target_ids, second.eos],
    }
    read = torch.tensor([ids["read"]], device=device)
    sides = {"source": first, "read": second, "target": second}
    return ForwardPass(
        model=model,
        run=lambda: model(tokens, read, keys),
        tokens={name: side.token_strings(ids[name]) for name, side in sides.items()},
        axes={
            "encoder": ("source", "source"),
            "decoder": ("read", "read"),
            "cross": ("target", "source"),
        },
        embeddings={"source": "source_embedding", "read": "target_embedding"},
        ids=ids,
        words={name: positions_of_words(side, ids[name]) for name, side in sides.items()},
    )
