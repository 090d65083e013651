"""The tasks: their names, verbs and help texts, available without importing torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from headway.base.errors import HeadwayWarning, UsageError
from headway.base.extensions import Extended

if TYPE_CHECKING:
    from headway.tasks.task import AnyTask


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The description of a task that is not yet imported.

    path: "module:name" of its `Task`. recipes: the names of its recipes; if empty, the module is
    imported to find out. kind: the kind of its bundles; "" if its models are bundles of other
    tasks. pretrained_kind: the kind of bundles that it uses and evaluates, but does not train; ""
    if there is none. families: the families of the models that it loads, as in `family` of their
    config.json. verb: the command that predicts, built from the task's `input` and `options`; None
    if the models are used by another command. unit: the word for one input. help: the help text of
    the verb; `headway --help` shows its first line.
    """

    path: str
    kind: str
    pretrained_kind: str = ""
    recipes: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    verb: str | None = None
    unit: str = "text"
    help: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its bundles."""
        return (self.kind, self.pretrained_kind) if self.pretrained_kind else (self.kind,)


OWN: dict[str, Entry] = {
    "translation": Entry(
        path="headway.tasks.translation.task:TRANSLATION",
        recipes=(
            "translate",
            "translate-multi30k",
            "emoji-names",
            "text-to-text",
            "span-corruption",
        ),
        kind="translator",
        families=("translator",),
        verb="translate",
        unit="sentence",
        help="""Translate sentences.

    Reads the arguments, or one sentence per line from standard input. Prints one line per sentence;
    with --nbest, one line per translation.
    """,
    ),
    "tagging": Entry(
        path="headway.tasks.tagging.task:TAGGING",
        recipes=("tag",),
        kind="tagger",
        families=("bert-tagger",),
        verb="tag",
        help="""Tag the words of texts: named entities, slots or parts of speech.

    Reads the arguments, or one text per line from standard input. Prints one line per text:
    [person Ada] met [person Charles]. If the tags have no spans, it prints every word with its tag:
    rain/NOUN falls/VERB.
    """,
    ),
    "language_modeling": Entry(
        path="headway.tasks.language_modeling.task:LANGUAGE_MODELING",
        recipes=("gpt", "gpt-tiny", "gpt-shakespeare"),
        kind="language model",
        families=("gpt",),
    ),
    "reward": Entry(  # before chat, which also reads files of messages
        path="headway.tasks.reward.task:REWARD",
        recipes=("reward",),
        kind="language model",
    ),
    "chat": Entry(
        path="headway.tasks.chat.task:CHAT",
        recipes=("chat",),
        kind="language model",
    ),
    "preference": Entry(
        path="headway.tasks.preference.task:PREFERENCE",
        recipes=("prefer",),
        kind="language model",
    ),
    "seeing": Entry(
        path="headway.tasks.seeing.task:SEEING",
        recipes=("see",),
        kind="multimodal language model",
        families=("multimodal-gpt",),
    ),
    "word_vectors": Entry(
        path="headway.tasks.word_vectors.task:WORD_VECTORS",
        recipes=("words",),
        kind="word model",
        families=("words",),
    ),
    "classification": Entry(
        path="headway.tasks.classification.task:CLASSIFICATION",
        recipes=("classify", "pairs", "regress"),
        kind="classifier",
        families=("gpt-classifier", "bert-classifier"),
        verb="classify",
        help="""Classify texts, pairs of texts, images or sounds.

    Prints one line per input: label and probability, as many as --top requests, separated by tabs.
    A regression model prints a number instead. A model of text pairs reads two texts separated by a
    tab from a line of standard input, and --second is the second text of every argument.
    """,
    ),
    "question_answering": Entry(
        path="headway.tasks.question_answering.task:QUESTION_ANSWERING",
        recipes=("answer",),
        kind="question-answering model",
        families=("bert-answerer",),
        verb="answer",
        unit="question",
        help="""Answer questions from a context: extractive question answering.

    Reads the arguments, or one question per line from standard input. Prints one line per question:
    answer and probability, as many as --top requests, separated by tabs.
    """,
    ),
    "masked_language_modeling": Entry(
        path="headway.tasks.masked_language_modeling.task:MASKED_LANGUAGE_MODELING",
        recipes=("bert", "bert-tiny", "bert-domain", "roberta"),
        kind="text encoder",
        families=("bert",),
        verb="fill",
        help="""Predict masked words: headway fill RUN "Paris is the [MASK] of France."

    Reads the arguments, or one text per line from standard input. A text may have several [MASK]
    tokens, which are predicted independently. A prediction that starts with ## continues the word
    before it.
    """,
    ),
    "sentence_embedding": Entry(
        path="headway.tasks.sentence_embedding.task:SENTENCE_EMBEDDING",
        recipes=("embed",),
        kind="text encoder",
        pretrained_kind="text embedder",
        families=("gpt-embedder",),
    ),
    "distillation": Entry(
        path="headway.tasks.distillation.task:DISTILLATION", recipes=("distil",), kind=""
    ),
    "image_classification": Entry(
        path="headway.tasks.image_classification.task:IMAGE_CLASSIFICATION",
        recipes=("vision", "vision-digits", "sound"),
        kind="image classifier",
        pretrained_kind="image-text model",
        families=("vit-classifier", "image-text"),
        verb="classify",
        unit="image",
        help="""For images, a line starts with the name of the file. A model of images and texts
    (CLIP, SigLIP) classifies images by any labels, without training: headway classify FOLDER
    photo.jpg --labels "a cat,a dog"
    """,
    ),
    "self_distillation": Entry(
        path="headway.tasks.self_distillation.task:SELF_DISTILLATION",
        recipes=("dino",),
        kind="image encoder",
        families=("vit",),
    ),
    "captioning": Entry(
        path="headway.tasks.captioning.task:CAPTIONING",
        recipes=("caption", "caption-emoji", "transcribe"),
        kind="captioner",
        families=("captioner",),
        verb="caption",
        unit="image",
        help="""Write captions of images.

    Prints one line per image: the name of the file, a tab and the caption. Example: headway caption
    RUN a.png folder/ --language fr
    """,
    ),
    "transcription": Entry(
        path="headway.tasks.transcription.task:TRANSCRIPTION",
        recipes=("speech",),
        kind="transcriber",
        families=("transcriber",),
        verb="transcribe",
        unit="recording",
        help="""Transcribe recordings of speech (WAV files) by a Whisper model, or translate them.

    Prints one line per recording: file, language with its probability, and text, separated by tabs.
    --timestamps adds times, --format srt or vtt prints subtitles. Example: headway transcribe
    whisper-tiny talk.wav --language fr --translate
    """,
    ),
}

TASKS: Extended[Entry] = Extended(OWN, "headway.tasks", Entry)
"""Name -> task: Headway's tasks, and those of installed packages."""


@cache
def _entries() -> dict[str, Entry]:
    """Return all tasks. Warns of a task whose package cannot be imported, and leaves it out."""
    entries = {}
    for name in TASKS:
        try:
            entries[name] = TASKS[name]
        except UsageError as error:
            warnings.warn(str(error), HeadwayWarning, stacklevel=2)
    return entries


def forget() -> None:
    """Clear the list of tasks, for a process that installs a package while it runs."""
    TASKS.forget()
    _entries.cache_clear()
    _importable.cache_clear()
    task.cache_clear()


@cache
def task(name: str) -> AnyTask:
    """Import the task of that name.

    Raises UsageError if its package cannot be imported, or if it does not agree with its entry.
    """
    from headway.tasks.task import Task

    module, _, attribute = TASKS[name].path.partition(":")
    try:
        loaded = getattr(import_module(module), attribute)
    except Exception as error:  # the code of another package may raise anything
        if TASKS.package(name) is None:
            raise
        reason = f"{type(error).__name__}: {error}"
        raise TASKS.fault(name, f"names {module}, which cannot be imported: {reason}") from error
    if not isinstance(loaded, Task):
        raise TASKS.fault(name, f"must name a Task, found an object of {type(loaded).__name__}")
    if (loaded.predicts is None) != (TASKS[name].verb is None):
        raise TASKS.fault(name, "must have both a verb and the part predicts of Task, or neither")
    if TASKS[name].recipes not in ((), tuple(loaded.recipes)):
        raise TASKS.fault(name, f"must have the recipes {', '.join(loaded.recipes)}")
    return loaded


def owner_of_recipe(recipe: str) -> str | None:
    """Return the name of the task with a recipe; None if the entries do not tell which it is."""
    entries = _entries()
    owners = [name for name, entry in entries.items() if recipe in entry.recipes]
    is_clear = len(owners) == 1 and all(entry.recipes for entry in entries.values())
    return owners[0] if is_clear else None


@cache
def _importable() -> dict[str, AnyTask]:
    """Import all tasks. Warns of a task that cannot be imported, and leaves it out."""
    loaded = {}
    for name in _entries():
        try:
            loaded[name] = task(name)
        except UsageError as error:
            warnings.warn(str(error), HeadwayWarning, stacklevel=2)
    return loaded


def tasks_of_kind(kind: str) -> list[AnyTask]:
    """Return the tasks that evaluate bundles of that kind."""
    return [task(name) for name, entry in _entries().items() if kind in entry.kinds]


def evaluating_task(kind: str, path: Path | None, config: object) -> AnyTask | None:
    """Return the task that evaluates a bundle of that kind, or None if there is no such task.

    path: the file of the examples; None: the held-out examples of the bundle's run. config: the
    configuration of the run; None for a model without a run.
    """
    # the task that reads all other files is the last one
    for task in sorted(tasks_of_kind(kind), key=lambda task: task.reads is None):
        if task.reads is None:
            return task
        if type(config) is task.config if path is None else task.reads(path):
            return task
    return None


def task_of_config(config: object) -> AnyTask:
    """Return the task of a run's configuration. Raises UsageError if there is none."""
    owner = owner_of_recipe(getattr(config, "recipe", ""))
    if owner is not None and type(config) is task(owner).config:
        return task(owner)
    for loaded in _importable().values():
        if type(config) is loaded.config:
            return loaded
    raise UsageError(f"no installed task has runs with a {type(config).__name__}")


def task_of_family(family: object) -> AnyTask | None:
    """Return the task that loads models of that family, as config.json names it, or None."""
    names = [name for name, entry in _entries().items() if family in entry.families]
    return task(names[0]) if names else None


def verbs() -> dict[str, list[str]]:
    """Return verb -> the names of the tasks whose bundles predict by that verb."""
    names: dict[str, list[str]] = {}
    for name, entry in _entries().items():
        if entry.verb is not None:
            names.setdefault(entry.verb, []).append(name)
    return names


def tasks() -> dict[str, Sequence[str]]:
    """Return name of a task -> the names of the recipes that train its models."""
    return {name: list(task.recipes) for name, task in _importable().items()}
