"""The base class of bundles whose outputs are found by a search: translators and captioners."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from headway.bundle.arguments import changed
from headway.bundle.with_reader import StoredBundle
from headway.decoding import BeamSettings, Search, run
from headway.models import Captioner, Translator

Input = TypeVar("Input")
Options = TypeVar("Options", bound=BeamSettings)
Prediction = TypeVar("Prediction")


class SearchingBundle(StoredBundle, Generic[Input, Options, Prediction]):
    """A bundle of an encoder-decoder, whose predictions are outputs of a search.

    usual: the options where a user sets none, of a model that is from no pretrained folder.
    """

    model: Translator | Captioner
    usual: Options

    @property
    def default_options(self) -> Options:
        """The options where a user sets none: those of the pretrained folder, if there is one."""
        generation = self.settings.generation
        if generation is None:
            return self.usual
        chosen = generation.search if generation.is_chosen else {}
        return replace(self.usual, normalisation="transformers", **chosen)

    def predict(
        self, inputs: Sequence[Input], options: Options | None = None, *, first: int = 1
    ) -> list[Prediction]:
        """Return the predictions for the inputs, in order, as `predicting` finds them."""
        return run(self.model, self.predicting(inputs, options, first=first))

    @abstractmethod
    def predicting(
        self, inputs: Sequence[Input], options: Options | None = None, *, first: int = 1
    ) -> Search[list[Prediction]]:
        """Find the predictions for the inputs, in order, driven by the caller.

        options: if unset, `default_options`. first: the number of the first input, in errors.
        """

    def _settings(
        self, settings: BeamSettings | None, changes: Mapping[str, object]
    ) -> BeamSettings:
        """Return the settings, if unset `default_options`, with changes by name."""
        usual = BeamSettings(**(settings or self.default_options).of_search)
        return changed(usual, changes, "the settings of the search")
