"""Decoding: greedy search, beam search, sampling and speculative decoding.

Every search uses only the Stepper contract of a model (`start`, `step`).
"""

from headway.decoding.beam import Candidate, Observer, beam_search
from headway.decoding.generation import (
    Continuation,
    generate,
    log_probabilities,
    stream,
)
from headway.decoding.generation_config import GenerationConfig
from headway.decoding.greedy import greedy_search
from headway.decoding.rule import Rule, Writing, apply_rules
from headway.decoding.rules import (
    Bias,
    Forbidden,
    FrequencyPenalty,
    Likeliest,
    MinLength,
    MinP,
    NoRepeat,
    Prefix,
    PresencePenalty,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    Typical,
    Within,
)
from headway.decoding.sampling import Reason, Row, Sampling, open_rows, sample, sample_steps
from headway.decoding.search import Hypothesis, Limits, check_search, length_penalty
from headway.decoding.speculative import Draft, ModelDraft, PromptLookup, speculative_steps
from headway.decoding.writing import Writer

__all__ = [
    "Bias",
    "Candidate",
    "Continuation",
    "Draft",
    "Forbidden",
    "FrequencyPenalty",
    "GenerationConfig",
    "Hypothesis",
    "Likeliest",
    "Limits",
    "MinLength",
    "MinP",
    "ModelDraft",
    "NoRepeat",
    "Observer",
    "Prefix",
    "PresencePenalty",
    "PromptLookup",
    "Reason",
    "RepetitionPenalty",
    "Row",
    "Rule",
    "Sampling",
    "Temperature",
    "TopK",
    "TopP",
    "Typical",
    "Within",
    "Writer",
    "Writing",
    "apply_rules",
    "beam_search",
    "check_search",
    "generate",
    "greedy_search",
    "length_penalty",
    "log_probabilities",
    "open_rows",
    "sample",
    "sample_steps",
    "speculative_steps",
    "stream",
]
