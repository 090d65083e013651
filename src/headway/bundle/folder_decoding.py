"""Decoding of encoder-decoders as the generation_config.json of a pretrained folder says."""

from collections.abc import Sequence
from dataclasses import replace

from headway.decoding import (
    BeamSettings,
    Forbidden,
    ForbiddenFirst,
    ForcedEnd,
    MinLength,
    NoRepeat,
    Prefix,
    RepetitionPenalty,
    Rule,
)
from headway.interop import GenerationDefaults


def folder_max_tokens(generation: GenerationDefaults) -> int | None:
    """Return the maximum number of tokens of an output, </s> included; None for no limit.

    `max_length` counts the token that the decoder reads first.
    """
    if generation.max_new_tokens is not None or generation.max_length is None:
        return generation.max_new_tokens
    return max(1, generation.max_length - 1)


def with_normalisation(
    settings: BeamSettings, generation: GenerationDefaults | None
) -> BeamSettings:
    """Return the settings with a normalisation: if it is unset, that of transformers for the model
    of a pretrained folder, whose defaults `generation` has."""
    if settings.normalisation is not None:
        return settings
    return replace(settings, normalisation="gnmt" if generation is None else "transformers")


def folder_rules(
    generation: GenerationDefaults,
    ends: Sequence[int],
    lengths: Sequence[int],
    *,
    prefix: Sequence[int] = (),
    cut: bool = False,
) -> list[Rule]:
    """Return the rules of an encoder-decoder's outputs, in the order of transformers.

    ends: the tokens that end an output. lengths, cut: see `Limits`. prefix: the tokens with which
    every output begins; if empty, the forced first token of the folder.
    """
    first = tuple(prefix)
    if not first and generation.forced_first is not None:
        first = (generation.forced_first,)
    rules: list[Rule] = []
    if generation.repetition_penalty != 1:
        rules.append(RepetitionPenalty(generation.repetition_penalty))
    if generation.no_repeat:
        rules.append(NoRepeat(generation.no_repeat))
    if generation.forbidden:
        rules.append(Forbidden(generation.forbidden))
    # the token that the decoder reads first counts for min_length
    if least := max(generation.min_new_tokens, generation.min_length - 1):
        rules.append(MinLength(least, ends))
    if generation.forbidden_first:
        rules.append(ForbiddenFirst(generation.forbidden_first, prefix=len(first)))
    if first:
        rules.append(Prefix([first] * len(lengths)))
    if cut and generation.forced_end:
        rules.append(ForcedEnd([length - 1 for length in lengths], generation.forced_end))
    return rules
