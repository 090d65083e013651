"""The limits of a search for captions: their lengths, and the tokens that they may have."""

from __future__ import annotations

from headway.bundle import folder_rules
from headway.decoding import Forbidden, Limits, Rule
from headway.interop import GenerationDefaults
from headway.models import Captioner
from headway.tasks.captioning.reader import CaptionReader


def longest_caption(model: Captioner, reader: CaptionReader) -> int:
    """Return the maximum number of tokens of a caption."""
    limit = model.max_length
    return reader.longest if limit is None else min(reader.longest, limit - 1)


def limits_of_search(
    model: Captioner,
    reader: CaptionReader,
    generation: GenerationDefaults | None,
    first: int,
    count: int,
) -> Limits:
    """Return the limits of a search for captions of `count` images.

    generation: the defaults of a pretrained folder; None if the model is from none. first: the
    first token of all captions.
    """
    ends = reader.tokenizer.ends
    if generation is None:
        lengths = [longest_caption(model, reader)] * count
        return Limits(first, ends, lengths, without_specials(reader))
    limit = model.max_length
    longest = reader.longest if limit is None else min(reader.longest, limit)
    lengths = [longest] * count
    return Limits(
        first,
        ends,
        lengths,
        folder_rules(generation, ends, lengths, cut=True),
        prompts=[[first]] * count,
        cut=True,
        renormalise=generation.renormalise,
        never_early=generation.early_stopping == "never",
    )


def without_specials(reader: CaptionReader) -> list[Rule]:
    """Return the rule that no caption contains a special token; nothing if there is none."""
    return [Forbidden([[token] for token in reader.specials])] if reader.specials else []
