"""Mixtures of experts: which expert reads which token, what each reads most in held-out text, and
the predictions without each.

>>> import torch
>>> from headway.inspection.experts import most_read
>>> read = torch.tensor([[8, 0, 2], [2, 10, 2]])  # E V: how often each expert read each token
>>> [[(token, times) for token, times, _ in expert] for expert in most_read(read, 2)]
[[(0, 8), (2, 2)], [(1, 10)]]
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import nn

from headway.base.shapes import Float, Int, Tensor
from headway.blocks import MixtureOfExperts, record_routing
from headway.bundle import Bundle, Probe
from headway.inspection.document import AblationEffect, Frame, HeldOutReads, Mixture
from headway.inspection.head_effects import WholeModel
from headway.inspection.work import Work

MOST = 10  # tokens that an expert reads most


def mixtures_of(model: nn.Module) -> dict[str, MixtureOfExperts]:
    """Return the mixtures of experts of a model by name, in order."""
    named = model.named_modules()
    return {name: module for name, module in named if isinstance(module, MixtureOfExperts)}


@contextmanager
def without_expert(mixture: MixtureOfExperts, expert: int) -> Iterator[None]:
    """Set the output of one expert to 0 inside the `with` block.

    Its tokens keep the outputs of the other experts that read them, with the same weights.
    """
    removed = mixture.experts[expert].register_forward_hook(
        lambda module, inputs, output: torch.zeros_like(output)
    )
    try:
        yield
    finally:
        removed.remove()


def mixtures_in(probe: Probe, routing: Mapping[str, Float[Tensor, "N E"]]) -> list[Mixture]:
    """Return which expert reads which token of an input. routing: the probabilities of the experts
    of each layer, recorded in the forward pass (`record_routing`)."""
    mixtures = mixtures_of(probe.reading.model)
    return [
        _mixture(probe, name, mixtures[name], probabilities)
        for name, probabilities in routing.items()
    ]


def _mixture(
    probe: Probe, name: str, mixture: MixtureOfExperts, probabilities: Float[Tensor, "N E"]
) -> Mixture:
    chosen, weights = mixture.router.choice(probabilities)
    return Mixture(
        name=name,
        layer=1 + next(int(part) for part in name.split(".") if part.isdigit()),
        side=_side_of(probe, name),
        total=len(mixture.experts),
        chosen=chosen.tolist(),
        weights=weights.tolist(),
    )


def _side_of(probe: Probe, name: str) -> str:
    """Return the side whose tokens a layer reads."""
    part = "decoder" if "decoder" in name.split(".") else "encoder"
    return probe.reading.axes[part][0]


@torch.no_grad()
def with_effects(
    mixtures: Sequence[Mixture], probe: Probe, whole: WholeModel, work: Work
) -> list[Mixture]:
    """Add the predictions without each expert, compared with those of the whole model."""
    modules = mixtures_of(probe.reading.model)
    return [_with_effects(one, modules[one.name], probe, whole, work) for one in mixtures]


def _with_effects(
    mixture: Mixture, module: MixtureOfExperts, probe: Probe, whole: WholeModel, work: Work
) -> Mixture:
    falls: list[float] = []
    effects: list[AblationEffect] = []
    for expert in range(mixture.total):
        with without_expert(module, expert):
            fall, effect = whole.without(probe.reading.run())
        falls.append(fall)
        effects.append(effect)
        work.done()
    return replace(mixture, falls=falls, effects=() if whole.is_number else effects)


@torch.inference_mode()
def held_out_reads(bundle: Bundle, texts: Sequence[str]) -> dict[str, list[HeldOutReads]]:
    """Return for each mixture of experts, by name, what each expert reads in held-out texts.

    It is empty for a model without mixtures, and without texts.
    """
    mixtures = mixtures_of(bundle.model)
    numbers: dict[str, int] = {}  # token -> its column in the counts
    counted: dict[str, list[Tensor]] = {name: [] for name in mixtures if texts}
    tokens: list[int] = []
    for text in texts if mixtures else ():
        probe = bundle.probe(text, written=0)
        with record_routing(bundle.model) as routing:
            probe.reading.run()
        for name, probabilities in routing.items():
            counted[name].append(mixtures[name].router.choice(probabilities)[0])
        words = probe.reading.tokens[_side_of(probe, next(iter(mixtures)))]
        tokens += [numbers.setdefault(word, len(numbers)) for word in words]
    names = list(numbers)
    return {
        name: _reads(torch.cat(chosen), torch.tensor(tokens), len(mixtures[name].experts), names)
        for name, chosen in counted.items()
    }


def _reads(
    chosen: Int[Tensor, "N k"], tokens: Int[Tensor, " N"], total: int, names: Sequence[str]
) -> list[HeldOutReads]:
    read = torch.zeros(total, len(names), dtype=torch.long)
    for rank in chosen.cpu().unbind(1):
        read.index_put_((rank, tokens), torch.tensor(1), accumulate=True)
    loads = read.sum(1) / read.sum()
    return [
        HeldOutReads(
            load=float(load),
            tokens=[(names[token], times, fraction) for token, times, fraction in most],
        )
        for load, most in zip(loads, most_read(read, chosen.shape[1]), strict=True)
    ]


def most_read(read: Int[Tensor, "E V"], chosen: int) -> list[list[tuple[int, int, float]]]:
    """Return the tokens that each expert reads most beyond its load: token, number of times,
    fraction of the occurrences of the token that the expert reads.

    read[e, v]: how often expert e read token v. chosen: number of experts that read a token. An
    expert with the load l reads a token of n reads l n times if it has no preference; the tokens
    are sorted by how many more times it does.
    """
    of_token = read.sum(0)
    excess = read - read.sum(1, keepdim=True) * of_token / read.sum()
    occurrences = of_token / chosen
    return [
        [
            (int(token), int(times[token]), float(times[token] / occurrences[token]))
            for token in more.argsort(descending=True, stable=True)[:MOST]
            if more[token] > 0
        ]
        for times, more in zip(read, excess, strict=True)
    ]


def with_held_out(frame: Frame, reads: Mapping[str, Sequence[HeldOutReads]]) -> Frame:
    """Add what the experts read in held-out text to the mixtures of a frame."""
    mixtures = [replace(one, held_out=reads.get(one.name, ())) for one in frame.mixtures]
    return replace(frame, mixtures=mixtures)
