"""Benchmark suites: language models are measured on files in a local folder, without a network."""

from headway.suites.answering import answerer_of
from headway.suites.generated import GENERATED, generated
from headway.suites.layouts import LAYOUTS
from headway.suites.measuring import SEED, Plan, Result, measure
from headway.suites.reading import Suite, read_suite

__all__ = [
    "GENERATED",
    "LAYOUTS",
    "SEED",
    "Plan",
    "Result",
    "Suite",
    "answerer_of",
    "generated",
    "measure",
    "read_suite",
]
