"""`headway data check`: sizes and faults of sentence pairs, labelled texts, tagged sentences,
questions, conversations, similar texts, running text and images.

The suffix and the columns of a file decide which it is.
"""

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, HeadwayError, UsageError
from headway.base.settings import setting
from headway.cli.flags import as_flags
from headway.data.bad_rows import BadRows
from headway.data.dialogues import (
    IMAGE,
    LAYOUTS,
    PAIRS,
    PROMPTS,
    Dialogue,
    Turn,
    read_dialogues,
    read_preferences,
    read_problems,
)
from headway.data.formats.lines import ending, read_lines
from headway.data.formats.records import begun
from headway.data.formats.split_files import TRAIN, split_files
from headway.data.image_sources import READERS, read_images
from headway.data.images import is_image
from headway.data.rows import ENDINGS, TABLES, TEXT, read_rows
from headway.tasks.classification.label_files import Columns, read_labelled
from headway.tasks.question_answering.question_files import read_questions
from headway.tasks.sentence_embedding.similar_files import read_similar
from headway.tasks.tagging.tag_files import COLUMNS as TAGGED
from headway.tasks.tagging.tag_files import read_tagged
from headway.tasks.translation.corpora.corpus_check import CheckReport, pair_hash
from headway.tasks.translation.corpora.corpus_check import check as check_pairs
from headway.tasks.translation.pairs.splits import locate
from headway.terminal.console import result

SHOWN = 5
Example = tuple[str, Sequence[str]]
"""The content of an example, which equal examples share, and its labels."""


@dataclass(frozen=True)
class Kind:
    """A kind of data.

    name: of its examples, in the plural. recipe: what trains on them. read: yields the examples of
    a file. columns: those that a file of this kind has. unchecked: what is not checked.
    """

    name: str
    recipe: str
    read: Callable[[Path, BadRows], Iterator[Example]]
    columns: tuple[frozenset[str], ...] = ()
    unchecked: str = ""


def _labelled(columns: Columns, path: Path, bad_rows: BadRows) -> Iterator[Example]:
    texts = read_labelled([path], columns, bad_rows)
    return ((text.text, (text.label,)) for text in texts)


def _labelled_pairs(path: Path, bad_rows: BadRows) -> Iterator[Example]:
    pairs = read_labelled([path], Columns("sentence1", "label", "sentence2"), bad_rows)
    return ((f"{pair.text}\n{pair.second}", (pair.label,)) for pair in pairs)


def _tagged(path: Path, bad_rows: BadRows) -> Iterator[Example]:
    return ((" ".join(s.words), s.tags) for s in read_tagged([path], None, bad_rows))


def _questions(path: Path, bad_rows: BadRows) -> Iterator[Example]:
    for question in read_questions([path], bad_rows):
        label = "with an answer" if question.answers else "without an answer"
        yield f"{question.question}\n{question.context}", (label,)


def _dialogues(path: Path, bad_rows: BadRows) -> Iterator[Example]:
    for dialogue in read_dialogues([path], bad_rows):
        is_learned = any(turn.is_learned for turn in dialogue.turns)
        said = [f"{turn.role}: {turn.content}" for turn in dialogue.turns]
        content = "\n".join([*said, *map(str, dialogue.images)])
        yield content, ("with an answer" if is_learned else "without an answer",)


def _preferences(path: Path, bad_rows: BadRows) -> Iterator[Example]:
    for pair in read_preferences([path], bad_rows):
        turns = (*pair.prompt, pair.chosen, pair.rejected)
        yield "\n".join(f"{turn.role}: {turn.content}" for turn in turns), ()


def _problems(path: Path, bad_rows: BadRows) -> Iterator[Example]:
    return ((problem.question, ()) for problem in read_problems([path], bad_rows))


def _similar(path: Path, bad_rows: BadRows) -> Iterator[Example]:
    pairs = read_similar([path], bad_rows=bad_rows)
    return ((f"{pair.first}\n{pair.second}", ()) for pair in pairs)


def _texts(column: str, path: Path, bad_rows: BadRows) -> Iterator[Example]:
    if ending(path) not in ENDINGS:
        return ((line, ()) for line in read_lines(path) if line.strip())
    rows = read_rows(path, {column: "--text"}, bad_rows)
    return bad_rows.parsed(rows, lambda row: (row.text(column), ()))


def _images(path: Path, bad_rows: BadRows) -> Iterator[Example]:
    return ((image.where, (image.label,)) for image in read_images([str(path)]).every)


def _having(*columns: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(names.split()) for names in columns)


QUESTIONS = Kind("questions", "answer", _questions, _having("question context", "paragraphs"))
SENTENCES = Kind("tagged sentences", "tag", _tagged, _having("words tags", "tokens"))
IMAGES = Kind(
    "labelled images",
    "vision",
    _images,
    _having("image label", "img label"),
    "whether the images can be decoded",
)
TEXTS = Kind("texts", "gpt", partial(_texts, TEXT), _having(TEXT), "what the texts say")
LABELLED = Kind("labelled texts", "classify", partial(_labelled, Columns()), _having("text label"))
CONVERSATIONS = Kind("conversations", "chat", _dialogues, tuple(LAYOUTS))
WITH_IMAGES = Kind("conversations with images", "see", _dialogues)
KINDS = (
    Kind("pairs of answers", "prefer", _preferences, (PAIRS,)),
    Kind("prompts with answers", "reward", _problems, _having(*(f"{n} answer" for n in PROMPTS))),
    CONVERSATIONS,
    QUESTIONS,
    SENTENCES,
    Kind("labelled text pairs", "pairs", _labelled_pairs, _having("sentence1 sentence2 label")),
    Kind("pairs of similar texts", "embed", _similar, _having("first second")),
    IMAGES,
    LABELLED,
    TEXTS,
)
"""The first kind whose columns a file has counts."""


def kind_of(path: Path) -> Kind | None:
    """Return the kind of a file or folder; None if it may hold sentence pairs.

    Raises what reading the first row raises.
    """
    if path.is_dir():
        splits = split_files(path, ENDINGS)
        if splits:
            return kind_of(next(iter(splits.values()))[0])
        return IMAGES if any(is_image(inner.name) for inner in path.rglob("*")) else None
    suffix = ending(path) if path.is_file() else ""
    if suffix in TAGGED and suffix not in (*TABLES, ".txt"):
        return SENTENCES
    if suffix in ENDINGS:
        first = next(read_rows(path, {}), None)
        columns = set() if first is None else first.values.keys()
        kind = next((kind for kind in KINDS if any(c <= columns for c in kind.columns)), None)
        dialogues = read_dialogues([path], BadRows(sys.maxsize)) if kind is CONVERSATIONS else ()
        return WITH_IMAGES if any(one.images for one in islice(dialogues, 1)) else kind
    if suffix in READERS:
        return IMAGES
    if suffix in (".txt", ".md") and "\t" not in begun(read_lines(path))[0]:
        return TEXTS
    return None


def kind_with(text: str | None, label: str | None) -> Kind | None:
    """Return the kind of a table whose columns of a text and its label are named, or None."""
    if label is not None:
        columns = Columns(text or TEXT, label)
        recipe = (
            f"{LABELLED.recipe} --text {shlex.quote(columns.text)} --label {shlex.quote(label)}"
        )
        return replace(LABELLED, recipe=recipe, read=partial(_labelled, columns))
    if text is not None:
        recipe = f"{TEXTS.recipe} --text {shlex.quote(text)}"
        return replace(TEXTS, recipe=recipe, read=partial(_texts, text))
    return None


@dataclass
class SplitReport:
    """Counts of one split.

    labels: the number of each, the most frequent first. repeated: the number of examples that
    occurred before. leaked: that of those which are in the training split, too.
    """

    files: list[str]
    examples: int = 0
    labels: dict[str, int] = field(default_factory=dict)
    repeated: int = 0
    leaked: int = 0


@dataclass(frozen=True)
class KindReport:
    """What a file or folder holds, and what is wrong with it; faults and warnings as sentences."""

    kind: str
    recipe: str
    unchecked: str
    splits: dict[str, SplitReport] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def table(self) -> str:
        """Return the report as text for the terminal."""
        lines = [f"these are {self.kind}, not sentence pairs: headway train {self.recipe}"]
        for name, split in self.splits.items():
            files = " + ".join(split.files)
            lines.append(f"{name:<6} {split.examples:>9,} {self.kind}   {files}")
            if split.labels:
                frequent = islice(split.labels.items(), SHOWN)
                shown = ", ".join(f"{label} {count:,}" for label, count in frequent)
                lines.append(f"       {len(split.labels):,} labels; most frequent: {shown}")
        if self.unchecked:
            lines.append(f"not checked: {self.unchecked}")
        return "\n".join([*lines, *_conclusion(self.faults, self.warnings)])


def check_kind(path: Path, kind: Kind) -> KindReport:
    """Read all files of a kind once, and report what is in them and what is wrong.

    Errors of reading become faults; nothing is raised for bad data.
    """
    paths_by_split = {TRAIN: [path]}
    if path.is_dir() and kind is not IMAGES:
        paths_by_split = split_files(path, ENDINGS)
    report = KindReport(kind.name, kind.recipe, kind.unchecked)
    trained: set[int] = set()
    for name, paths in sorted(paths_by_split.items(), key=lambda item: item[0] != TRAIN):
        split = report.splits[name] = SplitReport([str(path) for path in paths])
        seen: set[int] = set()
        labels: Counter[str] = Counter()
        bad_rows, errors = BadRows(sys.maxsize), []
        try:
            examples = chain.from_iterable(kind.read(file, bad_rows) for file in paths)
            for content, labels_of_example in examples:
                digest = pair_hash(content)
                split.examples += 1
                labels.update(labels_of_example)
                split.repeated += digest in seen
                split.leaked += digest in trained
                seen.add(digest)
        except HeadwayError as error:
            errors.append(error.on_one_line)
        split.labels = dict(labels.most_common())
        trained = seen if name == TRAIN else trained
        errors = [*bad_rows.lines(), *errors] or ["no examples"] * (not split.examples)
        report.faults.extend(f"{name}: {error}" for error in errors[:SHOWN])
        if len(errors) > SHOWN:
            report.faults.append(f"{name}: further faults: {len(errors) - SHOWN:,}")
        if split.leaked:
            report.faults.append(f"{name}: {kind.name} that are in train, too: {split.leaked:,}")
        if split.repeated:
            report.warnings.append(f"{name}: {kind.name} that occur before: {split.repeated:,}")
    return report


def _conclusion(faults: Sequence[str], warnings: Sequence[str]) -> list[str]:
    """Return the last lines of a report."""
    lines = [f"fault    {fault}" for fault in faults]
    lines += [f"warning  {warning}" for warning in warnings]
    return lines if faults else [*lines, "no faults"]


@as_flags
class CheckFlags:
    source: str | None = setting(None, "Column, key, language or file suffix of the source.")
    target: str | None = setting(None, "Column, key, language or file suffix of the target.")
    text: str | None = setting(None, "Column or key of the text, if the data are texts.")
    label: str | None = setting(None, "Column or key of the label, if the data are labelled texts.")
    model: Path | None = setting(
        None,
        "Model whose tokens and chat template show which tokens of a conversation are learned.",
    )
    json: bool = setting(False, "Print one JSON object instead of text.")


def check(path: Path, /, *, flags: CheckFlags = CheckFlags()) -> None:
    """Report sizes and faults of sentence pairs or other data; exit code 3 if there are faults.

    Labelled and tagged texts, questions, similar texts, running text and images are recognised by
    the suffix and the columns of the file. With --source and --target the data are sentence pairs,
    with --text and --label texts and their labels.

    Parameters
    ----------
    path
        A file (.tsv, .csv, .jsonl, .parquet, .po, .mo, .tmx, .xliff, .conll, .json ...), a folder
        of splits, or the common prefix of the paths of two aligned files.
    """
    kind = kind_with(flags.text, flags.label)
    is_pairs = flags.source is not None or flags.target is not None
    if kind is not None and is_pairs:
        raise UsageError(
            "--source and --target name the columns of pairs, --text and --label those of texts",
            hint="give one of the two pairs of flags",
        )
    if kind is None and not is_pairs:
        kind = kind_of(path)
    if kind is not None:
        found = check_kind(path, kind)
        values, text = asdict(found), found.table()
        if kind in (CONVERSATIONS, WITH_IMAGES) and not found.faults and path.is_file():
            example = marked_example(next(read_dialogues([path])), flags.model)
            values["example"] = [list(part) for part in example]
            shown = "".join(f"[{part}]" if is_target else part for part, is_target in example)
            text = f"{text}\n\nThe first conversation; what is in brackets is learned:\n{shown}"
        result(values, text, as_json=flags.json)
        _raise_faults(path, found.faults, "correct or delete these rows: training refuses them")
        return
    try:
        pairs = locate(path, flags.source, flags.target)
    except UsageError as error:
        if not is_pairs and path.is_file() and ending(path) in ENDINGS:
            error.hint = f"{error.hint}; or name a text, and its label, with --text and --label"
        raise
    report = check_pairs(pairs)
    result(report.as_dict(), _table_of_pairs(report), as_json=flags.json)
    is_usable = all(split.readable and split.pairs for split in report.splits.values())
    _raise_faults(
        path,
        report.faults,
        "fix them, or train anyway: empty pairs are skipped, all others are used unchanged"
        if is_usable
        else "fix them: training refuses these files",
    )


def marked_example(dialogue: Dialogue, model: Path | None) -> list[tuple[str, bool]]:
    """Return the tokens of a conversation in the chat template of the model, and whether each is
    learned; without a model, its turns.

    Raises DataError if the template makes it ambiguous which tokens are learned.
    """
    if model is None:
        turns = [(f"\n{turn.role}: ", _text(turn), turn.is_learned) for turn in dialogue.turns]
        return [part for role, text, learned in turns for part in ((role, False), (text, learned))]
    # imports torch, which checks without a model do not need
    from headway.bundle import ImageReading
    from headway.tasks.dialogue_store import load_chat_start, template_of_bundle
    from headway.tasks.opening import load
    from headway.tasks.target_mask import renderer_of

    bundle: Any = load(model, "cpu")
    reads_images = isinstance(bundle, ImageReading)
    if not reads_images:
        bundle = load_chat_start(str(model))
    patches = bundle.patches if reads_images else 0
    with renderer_of(bundle.tokenizer, template_of_bundle(bundle), patches) as renderer:
        rendered = renderer.render(dialogue)
    strings = bundle.tokenizer.token_strings(rendered.tokens)
    places = bundle.places(rendered.tokens) if reads_images else []
    for first in places[:: patches or 1]:
        strings[first] = f"<image of {patches} patches>"
    inside = {place for number, place in enumerate(places) if number % patches}
    marked = zip(strings, rendered.is_target, strict=True)
    return [part for number, part in enumerate(marked) if number not in inside]


def _text(turn: Turn) -> str:
    """Return the content of a turn, with the names of its images."""
    texts = turn.content.split(IMAGE) if turn.images else [turn.content]
    names = [f"<{Path(str(image)).name}>" for image in turn.images]
    return "".join(chain.from_iterable(zip_longest(texts, names, fillvalue="")))


def _raise_faults(path: Path, faults: Sequence[str], hint: str) -> None:
    """Raise DataError if there are faults."""
    if faults:
        count = len(faults)
        what = f"the data has {count} {'fault' if count == 1 else 'faults'}"
        raise DataError(what, str(path), hint)


def _table_of_pairs(report: CheckReport) -> str:
    lines = []
    for name, split in report.splits.items():
        lines.append(f"{name:<6} {split.pairs:>9,} pairs   {' + '.join(split.files)}")
        for measure, length in split.lengths.items():
            lines.append(
                f"       {measure:<18} mean {length.mean:6.1f}   95 % up to {length.p95:>5,}   "
                f"longest {length.max:>6,}"
            )
    return "\n".join([*lines, *_conclusion(report.faults, report.warnings)])
