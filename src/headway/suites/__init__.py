"""Benchmark suites: language models are measured on files in a local folder, without a network."""

from headway.suites.answering import answerer_of as answerer_of
from headway.suites.generated import GENERATED as GENERATED
from headway.suites.generated import generated as generated
from headway.suites.layouts import LAYOUTS as LAYOUTS
from headway.suites.measuring import SEED as SEED
from headway.suites.measuring import Plan as Plan
from headway.suites.measuring import Result as Result
from headway.suites.measuring import measure as measure
from headway.suites.reading import Suite as Suite
from headway.suites.reading import read_suite as read_suite
