"""An encoder that begins where another one ended, with more words if there are more."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from headway.models.bert import Bert


@torch.no_grad()
def start_from(model: Bert, start: Bert, new: Sequence[Sequence[int]], first: int) -> None:
    """Give `model` the values of `start`; what only `model` has (a head) keeps its own.

    new: of each new word, its old pieces; the ids of new words begin at `first`. A new word's
    embedding, and its bias where words are guessed, is the mean of its pieces'. ValueError where
    the two do not fit.
    """
    own = model.state_dict()
    for name, value in start.state_dict().items():
        if name not in own:
            raise ValueError(f"the model has no {name}, which is to be taken over")
        grows = value.shape[:1] == (start.config.vocabulary,)
        rows = len(value) if grows else own[name].shape[0]
        if own[name][:rows].shape != value.shape:
            raise ValueError(f"{name}: {tuple(value.shape)} into {tuple(own[name].shape)}")
        own[name][:rows].copy_(value)
    tables = [model.tokens.weight]
    if model.masked_words is not None and start.masked_words is not None:
        tables.append(model.masked_words.output.bias)
    for number, pieces in enumerate(new):
        for table in tables:
            table[first + number] = table[list(pieces)].mean(0)
