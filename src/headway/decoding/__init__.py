"""From a model that scores next tokens to whole outputs. Knows of a model only its stepper."""

from headway.decoding.beam import beam_search
from headway.decoding.greedy import greedy_search
from headway.decoding.search import Hypothesis, Limits, length_penalty

__all__ = ["Hypothesis", "Limits", "beam_search", "greedy_search", "length_penalty"]
