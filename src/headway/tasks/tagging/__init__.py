"""Tagging of words: named entities, slots, parts of speech. Devlin et al. 2019, section 5.3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headway.base.devices import Machine
from headway.evaluation.scores import Scores
from headway.tasks.job import Emit, Job
from headway.tasks.tagging.aggregation import Entity, TextEntities
from headway.tasks.tagging.bundle import (
    PredictedSpan,
    PredictedWord,
    TaggedText,
    TaggerBundle,
    TagOptions,
)
from headway.tasks.tagging.config import TagDataConfig, TagRunConfig, tag
from headway.tasks.tagging.data import check_tags, tagged_sentences
from headway.tasks.tagging.evaluation import evaluate
from headway.tasks.tagging.foreign import from_hugging_face, to_hugging_face
from headway.tasks.tagging.job import prepare
from headway.tasks.tagging.show import entities_line, prediction_line, score_lines
from headway.tasks.tagging.tag_files import TaggedSentence, read_tagged
from headway.tasks.tagging.teaching import STUDENTS
from headway.tasks.task import NO_OPTIONS, BundleSpec, NoOptions, Styled, TaskDefaults, TextInput


class Tagging(TaskDefaults):
    """The `Task` of tagging."""

    name = "tagging"
    config: type[Any] = TagRunConfig
    recipes: Mapping[str, Callable[[], Any]] = {"tag": tag}
    bundles: Mapping[str, BundleSpec] = {
        "bert-tagger": BundleSpec(
            bundle=TaggerBundle,
            foreign=from_hugging_face,
            export=to_hugging_face,
        )
    }
    option_names: Mapping[str, str] = {}
    lists_one = False
    input: type[Any] = TextInput
    options: type[Any] = TagOptions
    students = STUDENTS
    next_commands: Sequence[str] = ('tag {run} "..."', "eval {run}")

    def check(self, config: TagRunConfig) -> None:
        check_tags(config)

    def prepare(self, config: TagRunConfig, folder: Path, machine: Machine, emit: Emit) -> Job:
        return prepare(config, folder, machine, emit)

    def read(
        self, bundle: TaggerBundle, paths: Sequence[Path], config: Any | None, options: NoOptions
    ) -> list[TaggedSentence]:
        data = config.data if isinstance(config, TagRunConfig) else TagDataConfig()
        return list(read_tagged(list(paths), data.column))

    def held_out(
        self, bundle: TaggerBundle, run: Path, config: Any, options: NoOptions
    ) -> list[TaggedSentence]:
        return tagged_sentences(config.data)[1]

    def evaluate(
        self,
        bundle: TaggerBundle,
        examples: Sequence[TaggedSentence],
        options: NoOptions = NO_OPTIONS,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Scores:
        return evaluate(bundle, examples, progress)

    def pipeline_form(
        self, bundle: TaggerBundle, prediction: TaggedText | TextEntities, options: TagOptions
    ) -> list[dict[str, Any]]:
        if isinstance(prediction, TextEntities):
            return [_entity_form(entity) for entity in prediction.entities]

        def form(label: str, item: PredictedSpan | PredictedWord) -> dict[str, Any]:
            place = {"word": item.text, "start": item.start, "end": item.end}
            return {"entity_group": label, "score": item.probability, **place}

        if prediction.spans:
            return [form(span.label, span) for span in prediction.spans]
        return [form(word.tag, word) for word in prediction.words if word.tag != "O"]

    def show_prediction(
        self, bundle: TaggerBundle, prediction: TaggedText | TextEntities, options: TagOptions
    ) -> list[Styled]:
        if isinstance(prediction, TextEntities):
            return [entities_line(prediction)]
        return [prediction_line(bundle.tags, prediction)]

    def show_scores(self, scores: Scores) -> list[str]:
        return score_lines(scores)


def _entity_form(entity: Entity) -> dict[str, Any]:
    """Return an entity as the pipeline of transformers does: a group, or a single token."""
    place = {"word": entity.word, "start": entity.start, "end": entity.end}
    if entity.index is None:
        return {"entity_group": entity.label, "score": entity.probability, **place}
    return {"entity": entity.label, "score": entity.probability, "index": entity.index, **place}


TASK = Tagging()
