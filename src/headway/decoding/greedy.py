"""Greedy search, as in the lecture: the most probable token at every step."""

import torch

from headway.decoding.rule import PartialOutput, ruled_logits
from headway.decoding.search import Inputs, Limits, Search
from headway.models.contracts import Stepper


@torch.inference_mode()
def greedy_search(model: Stepper, inputs: Inputs, limits: Limits) -> Search[list[int]]:
    """Return the output of one input, a token y_t after the other, up to </s>.

        y_t = argmax over y of P(y | y_1 ... y_t-1, x)

    `fast_greedy_search` does this for many inputs at once.
    """
    output: list[int] = []
    token, state = limits.first_tokens[0], model.start(*inputs)
    while len(output) < limits.max_lengths[0]:
        logits, state = yield torch.tensor([[token]]), state
        written = PartialOutput(output, limits.prompt(0))
        token = int(ruled_logits(limits.rules, logits[:, -1], [written]).argmax())
        if token in limits.ends:
            break
        output.append(token)
    return output
