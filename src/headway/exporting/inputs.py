"""Inputs by which an exported model is compared with the original, of every class of models."""

from dataclasses import dataclass
from typing import Any

import torch

from headway.base.shapes import Float, Int, Tensor
from headway.models import GPT, Captioner, TextEmbedder, Transcriber, Translator

LONGEST = 200
"""The greatest length of the sequences, if the model can read it."""

Inputs = tuple[Tensor | None, ...]


@dataclass(frozen=True, kw_only=True)
class RealTexts:
    """The tokens of texts, for a runtime to which special tokens in a text mean something else.

    sources, targets: tokens that are not special; an encoder has no targets. source_end: ends a
    source. target_start: begins a target. never: tokens that the runtime never predicts; their
    logits are not compared.
    """

    sources: Int[Tensor, " _"]
    targets: Int[Tensor, " _"]
    source_end: int
    target_start: int
    never: Int[Tensor, " _"]

    def texts(self, tokens: Tensor, *rest: Tensor | None) -> Inputs:
        """Return the inputs of an encoder without special tokens."""
        return self.sources[tokens % len(self.sources)], *rest

    def pairs(self, source: Tensor, target: Tensor, keys: Tensor) -> Inputs:
        """Return random sequences as texts have them, of at least one token and the end."""
        keys = keys.clone()
        keys[:, :2] = True
        source = self.sources[source % len(self.sources)]
        source[torch.arange(len(source)), keys.sum(1) - 1] = self.source_end
        return source, self.targets_of(target), keys

    def targets_of(self, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
        """Return random sequences as targets: the start token comes first."""
        tokens = self.targets[tokens % len(self.targets)]
        tokens[:, 0] = self.target_start
        return tokens

    def predicted(self, logits: Float[Tensor, "*B V"]) -> Float[Tensor, "*B V"]:
        """Return the logits without those of tokens that are never predicted."""
        return logits.index_fill(-1, self.never, 0.0)


def room(model: Any) -> int:
    """Return the greatest length of a sequence, of a model of texts."""
    if isinstance(model, Translator):
        limits = [limit for limit in (model.max_source, model.max_target) if limit]
        return min([LONGEST, *limits])
    return getattr(model, "max_length", None) or _limit(model.config) or LONGEST


def _limit(config: Any) -> int | None:
    """Return the limit that a configuration or that of its encoder names."""
    limit: int | None = getattr(getattr(config, "bert", config), "max_length", None)
    return limit


def _ids(below: int, rows: int, length: int, generator: torch.Generator) -> Tensor:
    return torch.randint(below, (rows, length), generator=generator)


def _padded(rows: int, length: int) -> Tensor:
    """Return masks (B T) of sequences of different lengths, with padding at the right."""
    lengths = [max(1, length - 4 * n) for n in range(rows)]
    return torch.arange(length) < torch.tensor(lengths)[:, None]


def text_inputs(model: Any, rows: int, length: int, generator: torch.Generator) -> Inputs:
    """Return tokens, mask and segments; the second half of a sequence is a second text."""
    config = model.config
    config = getattr(config, "bert", getattr(config, "gpt", config))
    length = min(length, room(model))
    tokens = _ids(config.vocabulary, rows, length, generator)
    types = (torch.arange(length) >= length // 2).long().expand(rows, -1)
    has_types = getattr(config, "token_types", 0) > 1
    return tokens, _padded(rows, length), types.contiguous() if has_types else None


def language_inputs(
    model: GPT | TextEmbedder, rows: int, length: int, generator: torch.Generator
) -> Inputs:
    """Return tokens."""
    return (_ids(model.config.vocabulary, rows, min(length, room(model)), generator),)


def pair_inputs(model: Translator, rows: int, length: int, generator: torch.Generator) -> Inputs:
    """Return source, target without its last token, and the mask of the source."""
    length = min(length, room(model))
    source = _ids(model.config.source_vocabulary, rows, length, generator)
    target = _ids(model.config.target_vocabulary, rows, max(1, length - 2), generator)
    return source, target, _padded(rows, length)


def image_inputs(model: Any, rows: int, length: int, generator: torch.Generator) -> Inputs:
    """Return pixels of the size of the model."""
    vit = getattr(model.config, "vit", model.config)
    return (torch.randn(rows, vit.channels, *vit.image, generator=generator),)


def caption_inputs(model: Captioner, rows: int, length: int, generator: torch.Generator) -> Inputs:
    """Return pixels, and the tokens of captions."""
    length, gpt = min(length, room(model)), model.config.gpt
    images = image_inputs(model, rows, length, generator)
    return (*images, _ids(gpt.vocabulary, rows, length, generator))


def prompts(model: GPT, generator: torch.Generator) -> tuple[Inputs, Tensor]:
    """Return prompts of different lengths with their mask, and the next token of each."""
    rows, length = 3, min(9, room(model) - 2)
    return (_ids(model.config.vocabulary, rows, length, generator), _padded(rows, length)), _ids(
        model.config.vocabulary, rows, 1, generator
    )


def sources_of_texts(model: Translator, generator: torch.Generator) -> tuple[Inputs, Tensor]:
    """Return sources with their mask, and the first token of each target."""
    source, _, keys = pair_inputs(model, 3, 9, generator)
    return (source, keys), _ids(model.config.target_vocabulary, 3, 1, generator)


def images_and_tokens(model: Captioner, generator: torch.Generator) -> tuple[Inputs, Tensor]:
    """Return pixels, and the first token of each caption."""
    return image_inputs(model, 2, 1, generator), _ids(model.config.gpt.vocabulary, 2, 1, generator)


def speech_inputs(model: Transcriber, rows: int, length: int, generator: torch.Generator) -> Inputs:
    """Return spectrograms of whole windows, and tokens."""
    config = model.config
    frames = torch.randn(rows, config.mels, 2 * config.source_positions, generator=generator)
    return frames, _ids(config.vocabulary, rows, min(length, room(model)), generator)


def sounds_and_tokens(model: Transcriber, generator: torch.Generator) -> tuple[Inputs, Tensor]:
    """Return spectrograms, and the first token of each transcript."""
    frames, first = speech_inputs(model, 2, 1, generator)
    assert first is not None
    return (frames,), first
