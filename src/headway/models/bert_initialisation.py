"""Initialising an encoder: E[new word] = mean of E[t] over the old tokens t of the word.

Continued pre-training starts from the parameters of another encoder. If the vocabulary was extended
with words of a domain, the embedding of a new word is the mean of those of the tokens that it was
split into before.

>>> import torch
>>> from headway.models import Bert, BertConfig, start_from
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1}
>>> old, model = Bert(BertConfig(**size, vocabulary=10)), Bert(BertConfig(**size, vocabulary=11))
>>> start_from(model, old, new=[[5, 6, 7]], first=10)  # word 10 was the three tokens 5, 6, 7
>>> torch.equal(model.tokens.weight[10], old.tokens.weight[[5, 6, 7]].mean(0))
True
>>> torch.equal(model.tokens.weight[:10], old.tokens.weight)
True
"""

from collections.abc import Sequence

import torch

from headway.models.bert import Bert


@torch.no_grad()
def start_from(model: Bert, start: Bert, new: Sequence[Sequence[int]], first: int) -> None:
    """Initialise `model` with the parameters of `start`, in place.

    Parameters that only `model` has, such as a head, keep their values. new: for each new word the
    ids of the tokens it was split into; the ids of new words start at `first`. The embedding of a
    new word, and its bias in the head of masked language modelling, is the mean of those of its
    tokens. Raises ValueError if `model` lacks a parameter of `start` or has it in another shape.
    """
    parameters = model.state_dict()
    for name, value in start.state_dict().items():
        if name not in parameters:
            raise ValueError(
                f"the model has no parameter {name}, which the pre-trained model has: "
                "use the same architecture"
            )
        parameter = parameters[name]
        is_table = value.shape[:1] == (start.config.vocabulary,)
        rows = len(value) if is_table else parameter.shape[0]
        if parameter[:rows].shape != value.shape:
            raise ValueError(
                f"{name} of the pre-trained model has shape {tuple(value.shape)}, but that of the "
                f"model has {tuple(parameter.shape)}: use the same architecture"
            )
        parameter[:rows].copy_(value)
    tables = [model.tokens.weight]
    if model.masked_lm_head is not None and start.masked_lm_head is not None:
        tables.append(model.masked_lm_head.output.bias)
    for number, tokens in enumerate(new):
        for table in tables:
            table[first + number] = table[list(tokens)].mean(0)
