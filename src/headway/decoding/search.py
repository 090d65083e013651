"""What every search is: a generator of steps, with its settings, limits and outputs.

A search knows the model only by what it yields and is sent, so that it does not matter whose steps
are computed together with its own: `run` drives one search, the engine of a server many.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import torch

from headway.base.errors import UsageError
from headway.base.settings import BEAMS, PENALTY, count, setting
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.decoding.rule import PartialOutput, Rule, as_ends, ruled_logits
from headway.models.contracts import Sequences, Stepper

Output = TypeVar("Output")

Search = Generator[
    tuple[Int[Tensor, "N T"], Sequences], tuple[Float[Tensor, "N T V"], Sequences], Output
]
"""A search yields (tokens, state), the arguments of the next step of the model; it is sent (logits,
state), the result of that step; it returns its output."""

Inputs = tuple[Tensor | None, ...]
"""What `start` of a model takes: tokens and where they are real, or images."""

Normalisation = Literal["gnmt", "average", "transformers"]
"""Forms of `length_penalty`. transformers: average, in a beam search that chooses the outputs of
`generate` of transformers (`BeamSettings.as_transformers`)."""


@dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """Settings of beam search, from the flags of every verb that has one to the search itself.

    What depends on the inputs and their tokenizer (lengths, rules, phrases) is in `Limits`.
    """

    beam: int = count(4, "Beam width; 1 is greedy.", BEAMS)
    length_penalty: float = setting(
        1.0,
        "Exponent of the length penalty; 0 ranks by probability alone, higher values favour longer "
        "outputs.",
        ge=0,
        le=PENALTY,
    )
    normalisation: Normalisation | None = setting(
        None,
        "Length penalty: gnmt is ((5 + length) / 6) ** length_penalty, average is "
        "length ** length_penalty, transformers is average in a search that chooses the outputs of "
        "generate() of transformers. If unset, gnmt, and transformers for a Hugging Face folder.",
    )
    early_stopping: bool = setting(
        False,
        "End a search when as many outputs as beams are finished, and no unfinished one has a "
        "better score at its present length: fewer steps, and rarely another output. If unset, it "
        "ends when none can have a better score at any length.",
    )
    coverage: float = setting(
        0.0,
        "Coverage penalty of a model with cross-attention: weight of the sum of "
        "log(min(attention, 1)) over the source tokens, which is added to the score; it lowers "
        "outputs that leave something out. Values of 0.1 to 0.5 are usual.",
        ge=0,
        le=PENALTY,
    )
    beam_groups: int = count(
        1, "Number of groups of diverse beam search; must divide the beam width.", BEAMS
    )
    diversity: float = setting(
        0.5,
        "Diversity strength of diverse beam search: subtracted from a token's log-probability "
        "for each time that an earlier group chose it at this position.",
        ge=0,
    )

    def check(self, num_best: int = 1) -> None:
        """Raise UsageError for settings that exclude each other or allow less than `num_best`."""
        if not 1 <= num_best <= self.beam:
            raise UsageError(f"{num_best=} must be between 1 and beam={self.beam}")
        if self.beam % self.beam_groups:
            raise UsageError(
                f"beam={self.beam} must be a multiple of beam_groups={self.beam_groups}"
            )
        if self.coverage and self.beam == 1:
            raise UsageError(
                "the coverage penalty chooses among the outputs of a beam, and the beam width is 1",
                hint="set a beam width of at least 2, or no coverage penalty",
            )

    @property
    def of_search(self) -> dict[str, Any]:
        """These settings by name, without those that a subclass adds."""
        return {field.name: getattr(self, field.name) for field in fields(BeamSettings)}

    @property
    def as_details(self) -> dict[str, object]:
        """The settings as details of an evaluation: beam, length penalty, and what is unusual."""
        usual, shown = BeamSettings(), ("beam", "length_penalty")
        return {
            name: value
            for name, value in self.of_search.items()
            if name in shown or value != getattr(usual, name)
        }

    @property
    def as_transformers(self) -> bool:
        """Whether a beam search follows `generate` of transformers (`_beam_search`, 5.24).

        It differs from ours in four points. Rules change the log-probabilities, not the logits, so
        that those of the other tokens stay as they are. An output is finished only if it is one of
        the W best continuations, not of all 2 W. One of maximum length is cut. The search ends
        early (`InputSearch.ends_as_transformers`).
        """
        return self.normalisation == "transformers"

    def penalty(self, num_tokens: int) -> float:
        """Return the length penalty of an output of n tokens, </s> included."""
        return length_penalty(num_tokens, self.length_penalty, self.normalisation or "gnmt")


@dataclass(frozen=True)
class Hypothesis:
    """One output: its tokens without <s> and </s>, its probability, and its text.

    log_probability: natural log of P(tokens and </s> | input).
    score: log_probability / length_penalty, by which beam search ranks, or another number by which
    outputs are ranked. finished: False if the output was cut at its maximum length, before </s>.
    text: empty until the tokens are decoded.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool = True
    text: str = ""


@dataclass(frozen=True)
class Limits:
    """First and last tokens, lengths and logit rules of the outputs of a search.

    bos: the token that the decoder reads first: one for all inputs, or one for each (the last token
    of a prompt that is continued). eos: the token that ends an output, or several. max_lengths:
    maximum number of tokens for each input, without </s>. rules: change the logits before a token
    is chosen; log-probabilities are computed after them (see `BeamSettings.as_transformers`).
    prompts: all tokens before each output, for rules that depend on them; empty if there are none.
    cut: whether a search cuts an output of maximum length, instead of requiring </s>. renormalise,
    never_early: for `BeamSettings.as_transformers`, whether the rules leave a distribution whose
    probabilities add up to 1, and whether a search without early stopping ends only when no live
    prefix can have a better score at the maximum length: its early_stopping="never".
    """

    bos: int | Sequence[int]
    eos: int | Sequence[int]
    max_lengths: Sequence[int]
    rules: Sequence[Rule] = ()
    prompts: Sequence[Sequence[int]] = ()
    cut: bool = False
    renormalise: bool = False
    never_early: bool = False

    def __post_init__(self) -> None:
        count = len(self.max_lengths)
        if any(length < 0 for length in self.max_lengths):
            raise ValueError(f"{self.max_lengths=} must not be negative")
        if not isinstance(self.bos, int) and len(self.bos) != count:
            raise ValueError(f"{len(self.bos)} first tokens for {count} inputs")
        if self.prompts and len(self.prompts) != count:
            raise ValueError(f"{len(self.prompts)} prompts for {count} inputs")

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end an output."""
        return as_ends(self.eos)

    @property
    def first_tokens(self) -> list[int]:
        """The token that the decoder reads first, for each input."""
        if isinstance(self.bos, int):
            return [self.bos] * len(self.max_lengths)
        return list(self.bos)

    def prompt(self, item: int) -> Sequence[int]:
        """The tokens before the outputs of input `item`."""
        return self.prompts[item] if self.prompts else ()


@torch.inference_mode()
def run(model: Stepper, search: Search[Output]) -> Output:
    """Drive a search to its end, and return its output."""
    driven = steps(model, search)
    while True:
        try:
            next(driven)
        except StopIteration as end:
            output: Output = end.value
            return output


def steps(model: Stepper, search: Search[Output]) -> Generator[None, None, Output]:
    """Drive a search to its end, and yield after each of its steps; return its output."""
    answer: tuple[Tensor, Sequences] | None = None
    while True:
        try:
            tokens, state = next(search) if answer is None else search.send(answer)
        except StopIteration as end:
            output: Output = end.value
            return output
        del answer  # its state may have been reordered, and would be in memory twice
        with torch.inference_mode():
            answer = model.step(tokens, state)
        del state
        yield


def length_penalty(num_tokens: int, alpha: float, normalisation: Normalisation = "gnmt") -> float:
    """Return the number by which the log-probability of n tokens, </s> included, is divided.

    gnmt: ((5 + n) / 6)^alpha (Wu et al. 2016, equation 14). average, transformers: n^alpha; with
    alpha = 1 the score is the mean log-probability of a token. alpha = 0 ranks by probability
    alone, which favours short outputs.
    """
    if normalisation == "gnmt":
        return float(((5 + num_tokens) / 6) ** alpha)
    return float(max(num_tokens, 1) ** alpha)


def beam_log_probabilities(
    logits: Float[Tensor, "N T V"],
    rules: Sequence[Rule],
    written: Sequence[PartialOutput],
    *,
    as_transformers: bool,
    renormalise: bool,
) -> tuple[Float[Tensor, "N V"], Bool[Tensor, ""]]:
    """Return log P(next token) after the last of the T tokens, with the rules applied, and whether
    it is finite, as far as the rules allow.

    A row whose tokens are all forbidden is -inf everywhere: its prefix is dropped.
    """
    scores = logits[:, -1].float()
    if as_transformers:
        scores = log_p = ruled_logits(rules, scores.log_softmax(-1), written)
    else:
        scores = ruled_logits(rules, scores, written)
    if renormalise or not as_transformers:
        log_p = scores.log_softmax(-1)
    # A logit of NaN or +inf makes the whole row NaN, and so does a row of -inf alone.
    undefined = log_p[:, :1].isnan()
    if not rules or (undefined.device.type == "cpu" and not bool(undefined.any())):
        return log_p, ~undefined.any()
    dead = scores.amax(-1, keepdim=True) == -torch.inf
    return log_p.masked_fill(dead, -torch.inf), ~(undefined & ~dead).any()
