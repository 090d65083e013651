"""A language model with its tokenizer: prompts in, continuations out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import torch

from headway.base.errors import UsageError
from headway.base.settings import override
from headway.bundle.arguments import changed, checked
from headway.bundle.contract import ProbeRequest
from headway.bundle.files import check_vocabulary_size
from headway.bundle.forward_pass import Attending, ForwardPass
from headway.bundle.probe import Probe, next_token_readout
from headway.bundle.with_reader import StoredBundle
from headway.decoding import Continuation, GenerationConfig, ModelDraft, generate, stream
from headway.interop import NO_SETTINGS, FolderSettings, GenerationDefaults, Kind
from headway.models import GPT
from headway.text import TextTokenizer, load_tokenizer, positions_of_words

USUAL = GenerationConfig()
"""The settings of generation where neither a user nor a pretrained folder sets any."""

SAMPLING = frozenset(("temperature", "top_k", "top_p", "min_p", "typical", "contrastive"))
"""Settings that choose tokens one by one, without a beam."""


class GeneratingBundle(StoredBundle, Attending):
    """A bundle of a model that continues texts: a GPT, alone or with an image encoder."""

    settings_kind: ClassVar[Kind | None] = "language model"
    model: GPT
    tokenizer: TextTokenizer

    @checked
    def generate(
        self, prompts: Sequence[str], *, draft: GeneratingBundle | None = None, **settings: object
    ) -> list[list[Continuation]]:
        """Return the continuations of each prompt, in order; settings as in `GenerationConfig`.
        Those that are left out have the values of the pretrained folder, if it has any.

        The output for a prompt does not depend on the other prompts. draft: a smaller model with
        the same tokenizer for speculative decoding, which is faster and has the same distribution.
        """
        config = self._checked_settings(settings)
        proposer = self._proposer(draft, config)
        return generate(self.model, self.tokenizer, prompts, config, proposer)

    @checked
    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        draft: GeneratingBundle | None = None,
        **settings: object,
    ) -> Iterator[str]:
        """Yield the continuation of one prompt while it is generated, in whole characters.

        prompt: a text, or the tokens of one.
        """
        config = self._checked_settings(settings)
        return stream(self.model, self.tokenizer, prompt, config, self._proposer(draft, config))

    def with_defaults(
        self,
        settings: Mapping[str, object],
        where: str = "generation",
        usual: GenerationConfig = USUAL,
    ) -> GenerationConfig:
        """Return the settings of a user, completed by those of the pretrained folder and by
        `usual`.

        A user's `max_tokens` replaces the folder's `max_length`; what samples replaces its beam.
        where: the origin of the settings, in errors.
        """
        generation = self.settings.generation
        if generation is None:
            return override(usual, settings, where)
        defaults = override(usual, _settings_of(generation, usual), "generation_config.json")
        changes = dict(settings)
        if "max_tokens" in settings:
            changes.setdefault("max_length", None)
            longest = override(usual, {"max_tokens": settings["max_tokens"]}, where).max_tokens
            changes.setdefault("min_tokens", min(defaults.min_tokens, longest))
        if not SAMPLING.isdisjoint(settings):
            changes.setdefault("beam", 1)
        return override(defaults, changes, where)

    def _checked_settings(self, settings: Mapping[str, object]) -> GenerationConfig:
        """Return `with_defaults` of the settings of a caller in Python, whose types are checked."""
        changed(USUAL, settings, "generation")
        return self.with_defaults(settings)

    def _proposer(
        self, draft: GeneratingBundle | None, config: GenerationConfig
    ) -> ModelDraft | None:
        if draft is None:
            return None
        if draft.tokenizer.fingerprint != self.tokenizer.fingerprint:
            raise UsageError(
                "the draft model has another tokenizer than the model",
                hint="train the draft model with --data.tokenizer RUN, RUN being the model's run",
            )
        return ModelDraft(draft.model, config.draft_tokens)


class TextBundle(GeneratingBundle):
    """A language model (GPT) with its tokenizer."""

    kind: ClassVar[str] = "language model"

    def __init__(
        self, model: GPT, tokenizer: TextTokenizer, settings: FolderSettings = NO_SETTINGS
    ) -> None:
        check_vocabulary_size(tokenizer.size, model.config.vocabulary)
        super().__init__(model, tokenizer, settings)
        self.tokenizer = tokenizer

    @classmethod
    def load_reader(cls, model: GPT, folder: Path) -> TextTokenizer:
        return load_tokenizer(folder)

    def reading(self, text: str, written: Sequence[int] = ()) -> ForwardPass:
        """Return the forward pass for a text and the tokens generated after it.

        Raises UsageError if they are longer than the context of a model with learned positions.
        """
        ids = [*self.tokenizer.begin(text), *written]
        room = self.model.max_length
        if room is not None and len(ids) > room:
            raise UsageError(
                f"the text has {len(ids)} tokens, but the model has learned positions for at most "
                f"{room}",
                hint="shorten the text",
            )
        tokens = torch.tensor([ids], device=self.device)
        return ForwardPass(
            model=self.model,
            run=lambda: self.model(tokens),
            tokens={"text": self.tokenizer.token_strings(ids)},
            axes={"decoder": ("text", "text")},
            embeddings={"text": "embedding"},
            ids={"text": ids},
            words={"text": positions_of_words(self.tokenizer, ids)},
        )

    def _probe(self, request: ProbeRequest) -> Probe:
        tokens, answer = self._written(request.input, request.written)
        reading = self.reading(request.input, tokens)
        tokenizer, count = self.tokenizer, len(reading.ids["text"])
        # row t predicts the token at t + 1; the last row predicts the token after the text
        positions = range(1, count + 1)
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=answer,
            readout=next_token_readout(
                self.model, "text", positions, tokenizer.size, tokenizer.token_strings
            ),
            tokenizers={"text": tokenizer},
            generated={"text": count - len(tokens)} if len(tokens) else {},
        )

    def _written(self, text: str, max_tokens: int) -> tuple[Sequence[int], str]:
        """Return the tokens of the greedy continuation, cut to the context, and its text."""
        if max_tokens < 1:
            return (), ""
        ((best,),) = self.generate([text], max_tokens=max_tokens, temperature=0.0)
        room = self.model.max_length
        if room is None:
            return best.tokens, best.text
        return best.tokens[: max(0, room - len(self.tokenizer.begin(text)))], best.text


def _settings_of(generation: GenerationDefaults, usual: GenerationConfig) -> dict[str, object]:
    """Return the fields of `GenerationConfig` for the defaults of a pretrained folder.

    usual: has the maximum number of tokens if the folder has none.
    """
    always: dict[str, object] = {
        "normalisation": "transformers",
        "forbid_ids": tuple(" ".join(map(str, word)) for word in generation.forbidden),
    }
    if not generation.is_chosen:
        return always
    longest = generation.max_new_tokens or usual.max_tokens
    if generation.samples:
        sampling: dict[str, object] = {
            "temperature": generation.temperature,
            "top_k": generation.top_k or None,
            "top_p": generation.top_p,
            "min_p": generation.min_p,
            "typical": generation.typical_p,
        }
    else:
        sampling = {"temperature": 0.0}
    return {
        **always,
        **sampling,
        "max_tokens": longest,
        "max_length": None if generation.max_new_tokens else generation.max_length,
        "min_tokens": min(generation.min_new_tokens, longest),
        "min_length": generation.min_length,
        "repetition_penalty": generation.repetition_penalty,
        "no_repeat": generation.no_repeat or None,
        "forbid_first": generation.forbidden_first,
        "stop": generation.stop,
        "beam": generation.beams,
        "length_penalty": generation.length_penalty,
        "early_stopping": generation.early_stopping is True,
    }
