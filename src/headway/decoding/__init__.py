"""Decoding: greedy search, beam search, sampling and speculative decoding.

Every search uses only the Stepper contract of a model (`start`, `step`).
"""

from headway.decoding.beam import beam_search
from headway.decoding.ensemble import Ensemble
from headway.decoding.fast_beam import fast_beam_search, stream_beam
from headway.decoding.fast_greedy import fast_greedy_search
from headway.decoding.generation import (
    Continuation,
    TextOutput,
    generate,
    generate_from_tokens,
    log_probabilities,
    open_outputs,
    sampling_of,
    search_by_beam,
    stream,
)
from headway.decoding.generation_config import GenerationConfig
from headway.decoding.greedy import greedy_search
from headway.decoding.input_search import Candidate, Observer, end_of
from headway.decoding.length_rules import ForbiddenFirst, ForcedEnd, MinLength
from headway.decoding.minimum_bayes_risk import expected_utilities
from headway.decoding.phrases import Phrases
from headway.decoding.rule import (
    PartialOutput,
    Rule,
    apply_rules,
    depend_on_outputs,
    ruled_logits,
)
from headway.decoding.rules import (
    Bias,
    Forbidden,
    FrequencyPenalty,
    MinP,
    MostProbable,
    NoRepeat,
    Only,
    Prefix,
    PresencePenalty,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    Typical,
    WithinVocabulary,
)
from headway.decoding.sampling import (
    RUNS_AHEAD,
    Chosen,
    Reason,
    Row,
    Sampling,
    choose_later,
    open_rows,
    record,
    sample,
    sample_search,
)
from headway.decoding.search import (
    BeamSettings,
    Hypothesis,
    Limits,
    Normalisation,
    Search,
    length_penalty,
    run,
    steps,
)
from headway.decoding.speculative import Draft, ModelDraft, PromptLookup, speculative_steps
from headway.decoding.writing import TextStreamer

__all__ = [
    "RUNS_AHEAD",
    "BeamSettings",
    "Bias",
    "Candidate",
    "Chosen",
    "Continuation",
    "Draft",
    "Ensemble",
    "Forbidden",
    "ForbiddenFirst",
    "ForcedEnd",
    "FrequencyPenalty",
    "GenerationConfig",
    "Hypothesis",
    "Limits",
    "MinLength",
    "MinP",
    "ModelDraft",
    "MostProbable",
    "NoRepeat",
    "Normalisation",
    "Observer",
    "Only",
    "PartialOutput",
    "Phrases",
    "Prefix",
    "PresencePenalty",
    "PromptLookup",
    "Reason",
    "RepetitionPenalty",
    "Row",
    "Rule",
    "Sampling",
    "Search",
    "Temperature",
    "TextOutput",
    "TextStreamer",
    "TopK",
    "TopP",
    "Typical",
    "WithinVocabulary",
    "apply_rules",
    "beam_search",
    "choose_later",
    "depend_on_outputs",
    "end_of",
    "expected_utilities",
    "fast_beam_search",
    "fast_greedy_search",
    "generate",
    "generate_from_tokens",
    "greedy_search",
    "length_penalty",
    "log_probabilities",
    "open_outputs",
    "open_rows",
    "record",
    "ruled_logits",
    "run",
    "sample",
    "sample_search",
    "sampling_of",
    "search_by_beam",
    "speculative_steps",
    "steps",
    "stream",
    "stream_beam",
]
