"""From a model that scores next tokens to whole outputs. Knows of a model only its stepper."""

from headway.decoding.beam import beam_search
from headway.decoding.greedy import greedy_search
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
    Rule,
    Temperature,
    TopK,
    TopP,
    Typical,
    Writing,
    apply_rules,
)
from headway.decoding.sampling import Reason, Row, Sampling, open_rows, sample, sample_steps
from headway.decoding.search import Hypothesis, Limits, length_penalty

__all__ = [
    "Bias",
    "Forbidden",
    "FrequencyPenalty",
    "Hypothesis",
    "Likeliest",
    "Limits",
    "MinLength",
    "MinP",
    "NoRepeat",
    "Prefix",
    "PresencePenalty",
    "Reason",
    "RepetitionPenalty",
    "Row",
    "Rule",
    "Sampling",
    "Temperature",
    "TopK",
    "TopP",
    "Typical",
    "Writing",
    "apply_rules",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "open_rows",
    "sample",
    "sample_steps",
]
