"""The base class of bundles whose outputs are found by a search: translators and captioners."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from headway.bundle.arguments import changed
from headway.bundle.forward_pass import Attending
from headway.bundle.probe import SearchTrace
from headway.bundle.with_reader import StoredBundle
from headway.decoding import Candidate, Observer, end_of, fast_beam_search, fast_greedy_search
from headway.decoding.search import BeamSettings, Hypothesis, Inputs, Limits, Search, run
from headway.models import Captioner, Translator
from headway.models.contracts import Stepper

Input = TypeVar("Input")
Options = TypeVar("Options", bound=BeamSettings)
Prediction = TypeVar("Prediction")


def best_outputs(
    model: Stepper,
    inputs: Inputs,
    limits: Limits,
    settings: BeamSettings,
    *,
    is_greedy: bool,
    num_best: int,
    observe: Observer | None,
) -> Search[list[list[Hypothesis]]]:
    """Find the best outputs of each input, best first, by beam search or by greedy search."""
    if is_greedy:
        greedy = yield from fast_greedy_search(model, inputs, limits, settings)
        return [[best] for best in greedy]
    search = fast_beam_search(model, inputs, limits, settings, num_best=num_best, observe=observe)
    # the attention that coverage counts is recorded by the search that computes the steps itself
    return run(model, search) if settings.coverage else (yield from search)


class SearchingBundle(StoredBundle, Attending, Generic[Input, Options, Prediction]):
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

    def _trace(
        self,
        search: Callable[[Observer], Hypothesis],
        first: int,
        names: Callable[[Sequence[int]], list[str]],
    ) -> SearchTrace:
        """Return the record of a search. search: finds the best output. first, names: as those of
        `SearchTrace`."""
        candidates: list[Candidate] = []
        best = search(candidates.append)
        end = end_of(best.tokens, candidates) if best.finished else ()
        return SearchTrace(
            candidates=candidates, first=first, best=best.tokens, end=end, names=names
        )

    def _settings(
        self, settings: BeamSettings | None, changes: Mapping[str, object]
    ) -> BeamSettings:
        """Return the settings, if unset `default_options`, with changes by name."""
        usual = BeamSettings(**(settings or self.default_options).of_search)
        return changed(usual, changes, "the settings of the search")
