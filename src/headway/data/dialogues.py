"""Conversations and pairs of answers as records, read from the common layouts of rows.

messages                     [{"role": "user", "content": "Hello"}, ...]
conversations                [{"from": "human", "value": "Hello"}, ...]        (ShareGPT)
instruction, input, output   texts; the input may be missing or empty         (Alpaca)
prompt, completion           texts, or lists of messages
prompt, answer               a text or a list of messages, and the right answer
prompt, chosen, rejected     the same, with a better and a worse answer
chosen, rejected             lists of messages that begin with the same prompt

The content of a message is a text, or a list of texts and images:
[{"type": "image", "path": "x.png"}, {"type": "text", "text": "What is this?"}].
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from headway.base.errors import DataError
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.formats.lines import ending
from headway.data.formats.records import ENDINGS as ENDINGS
from headway.data.images import image_file
from headway.data.rows import Row, read_rows

SYSTEM, USER, ASSISTANT = ROLES = ("system", "user", "assistant")
NAMES = {"human": USER, "gpt": ASSISTANT, "model": ASSISTANT, "bot": ASSISTANT}
"""Other names of roles -> their names here. Roles such as tool keep theirs."""
IMAGE = "\N{OBJECT REPLACEMENT CHARACTER}"
"""The character at which an image stands in the content of a turn that has images."""
DIALOGUES, PREFERENCES, PROBLEMS = "conversations", "pairs of answers", "prompts with answers"
"""What a file contains, for errors."""

Example = TypeVar("Example")


@dataclass(frozen=True)
class Turn:
    """A message of a conversation.

    weight: 1 if an answer of the assistant is learned, 0 if it is only read. images: the images
    that stand in the content, at the characters `IMAGE`: paths, or what `to_pixels` takes.
    """

    role: str
    content: str
    weight: int = 1
    images: tuple[object, ...] = ()

    @property
    def is_learned(self) -> bool:
        """Whether the tokens of the turn are targets."""
        return self.role == ASSISTANT and self.weight > 0


@dataclass(frozen=True)
class Dialogue:
    """A conversation; `where` is its file and line, `kind` what its last question asks for."""

    turns: tuple[Turn, ...]
    where: str = ""
    kind: str = ""

    @property
    def images(self) -> tuple[object, ...]:
        """The images of all turns, in order."""
        return tuple(image for turn in self.turns for image in turn.images)

    @property
    def question(self) -> str:
        """What precedes the first answer, by which equal questions are found."""
        before: list[str] = []
        for turn in self.turns:
            if turn.role == ASSISTANT:
                break
            before += [turn.content, *map(str, turn.images)]
        return "\n".join(before)


@dataclass(frozen=True)
class Problem:
    """A prompt whose answers can be verified.

    answer: the right one. kind: names a group of problems. values: all values of the row, for
    functions that verify answers by more than `answer`. where: file and line.
    """

    prompt: tuple[Turn, ...]
    answer: str
    kind: str = ""
    values: Mapping[str, object] = field(default_factory=dict)
    where: str = ""

    @property
    def question(self) -> str:
        """The prompt as a text, by which equal prompts are found."""
        return "\n".join(turn.content for turn in self.prompt)


@dataclass(frozen=True)
class Preference:
    """A prompt with a better and a worse answer; `where` is their file and line."""

    prompt: tuple[Turn, ...]
    chosen: Turn
    rejected: Turn
    where: str = ""

    @property
    def dialogues(self) -> tuple[Dialogue, Dialogue]:
        """The conversations with the better and the worse answer, in which only it is learned."""
        read = tuple(replace(turn, weight=0) for turn in self.prompt)
        chosen, rejected = (
            Dialogue((*read, answer), self.where) for answer in (self.chosen, self.rejected)
        )
        return chosen, rejected


def _messages(row: Row, column: str) -> tuple[Turn, ...]:
    """Return the turns in a list of messages."""
    value = row.values.get(column)
    if not isinstance(value, list) or not value:
        raise row.fault(column, "a list of messages, each with role and content")
    return tuple(_turn(item, f"{column}[{n}]", row) for n, item in enumerate(value))


def _turn(item: object, name: str, row: Row) -> Turn:
    where = row.where
    if not isinstance(item, Mapping):
        raise DataError(f"{name} must be an object with role and content", where)
    role = item.get("role", item.get("from"))
    content = item.get("content", item.get("value"))
    if not isinstance(role, str) or not role:
        raise DataError(f"{name} has no role", where, 'write {"role": "user", "content": "..."}')
    images: tuple[object, ...] = ()
    if isinstance(content, list):
        content, images = _joined(content, name, row)
    if not isinstance(content, str) or (images and NAMES.get(role, role) == ASSISTANT):
        hint = "only texts are learned: delete the row, or leave it out with --data.bad-rows skip:N"
        raise DataError(f"{name} of the role {role!r} has no text as its content", where, hint)
    weight = item.get("weight", 1)
    if weight is None:
        weight = 1
    if weight not in (0, 1):
        raise DataError(
            f"{name}: weight={str(weight)[:40]} must be 0 (only read) or 1 (learned)", where
        )
    return Turn(NAMES.get(role, role), content, int(weight), images)


def _joined(parts: list[object], name: str, row: Row) -> tuple[str | None, tuple[Path, ...]]:
    """Return the parts of a message as one text with `IMAGE` for each image, and the files of the
    images; None if a part is neither."""
    texts: list[str] = []
    images: list[Path] = []
    for number, part in enumerate(parts):
        text = part.get("text") if isinstance(part, Mapping) else None
        if isinstance(part, Mapping) and part.get("type") == "image":
            text = IMAGE
            images.append(
                image_file(
                    row.path.parent, part.get("path"), f"{name}.content[{number}].path", row.where
                )
            )
        elif isinstance(text, str):
            text = text.replace(IMAGE, " ")
        if not isinstance(text, str):
            return None, ()
        texts.append(text)
    return "".join(texts), tuple(images)


def _instruction(row: Row) -> tuple[Turn, ...]:
    """Return the turns of an instruction with its input and output."""
    more = row.values.get("input")
    parts = [row.text("instruction"), *([row.text("input")] if more else [])]
    before = row.values.get("system")
    system = [Turn(SYSTEM, row.text("system"))] if before else []
    return (*system, Turn(USER, "\n\n".join(parts)), Turn(ASSISTANT, row.text("output")))


def _side(row: Row, column: str, role: str) -> tuple[Turn, ...]:
    """Return the turns of a column with one text, the content of a role, or a list of messages."""
    if isinstance(row.values.get(column), list):
        return _messages(row, column)
    return (Turn(role, row.text(column)),)


def _completion(row: Row) -> tuple[Turn, ...]:
    """Return the turns of a prompt, whose answers are only read, and its completion."""
    before = (replace(turn, weight=0) for turn in _side(row, "prompt", USER))
    return (*before, *_side(row, "completion", ASSISTANT))


LAYOUTS: Mapping[frozenset[str], Callable[[Row], tuple[Turn, ...]]] = {
    frozenset({"messages"}): lambda row: _messages(row, "messages"),
    frozenset({"conversations"}): lambda row: _messages(row, "conversations"),
    frozenset({"instruction", "output"}): _instruction,
    frozenset({"prompt", "completion"}): _completion,
}
"""The columns of a layout of conversations -> reads its turns."""
PROMPTS = ("prompt", "messages")
"""The columns of the prompt of a problem."""
PAIRS = frozenset({"chosen", "rejected"})
"""The columns of a layout of pairs of answers."""


def has_dialogues(path: Path) -> bool:
    """Return whether the first row of a file is a conversation."""
    return any(columns <= _columns(path) for columns in LAYOUTS)


def has_preferences(path: Path) -> bool:
    """Return whether the first row of a file is a pair of answers."""
    return _columns(path) >= PAIRS


def has_problems(path: Path) -> bool:
    """Return whether the first row of a file is a prompt with an answer."""
    columns = _columns(path)
    return "answer" in columns and not columns.isdisjoint(PROMPTS)


def _columns(path: Path) -> set[str]:
    if not path.is_file() or ending(path) not in ENDINGS:
        return set()
    first = next(read_rows(path, {}), None)
    return set() if first is None else set(first.values)


def read_dialogues(paths: Sequence[Path], bad_rows: BadRows = NONE_LEFT_OUT) -> Iterator[Dialogue]:
    """Yield the conversations of files in order, in any of the `LAYOUTS`.

    bad_rows: the policy for rows that are invalid. Raises what `read_rows` raises, and DataError
    with file and line for a row that is no conversation.
    """
    return _read(paths, _dialogue, bad_rows)


def read_preferences(
    paths: Sequence[Path], bad_rows: BadRows = NONE_LEFT_OUT
) -> Iterator[Preference]:
    """Yield the pairs of answers of files in order. As `read_dialogues`."""
    return _read(paths, _preference, bad_rows)


def read_problems(paths: Sequence[Path], bad_rows: BadRows = NONE_LEFT_OUT) -> Iterator[Problem]:
    """Yield the prompts with answers of files in order. As `read_dialogues`.

    A conversation is one, too: its last turn is the answer.
    """
    return _read(paths, _problem, bad_rows)


def _read(
    paths: Sequence[Path], parse: Callable[[Row], Example], bad_rows: BadRows
) -> Iterator[Example]:
    for path in paths:
        yield from bad_rows.parsed(read_rows(path, {}, bad_rows), parse)


def _dialogue(row: Row) -> Dialogue:
    for columns, turns in LAYOUTS.items():
        if columns <= row.values.keys():
            return Dialogue(turns(row), row.where, _kind(row))
    layouts = "; ".join(" and ".join(sorted(columns)) for columns in LAYOUTS)
    keys = ", ".join(repr(key)[:30] for key in list(row.values)[:12])
    raise DataError(f"expected a conversation, with the keys {layouts}; found {keys}", row.where)


def _kind(row: Row) -> str:
    kind = row.values.get("kind")
    return kind if isinstance(kind, str) else ""


def _problem(row: Row) -> Problem:
    if "answer" in row.values:
        column = next((name for name in PROMPTS if name in row.values), PROMPTS[0])
        prompt, answer = _side(row, column, USER), row.label("answer")
    else:
        *before, last = _dialogue(row).turns
        if last.role != ASSISTANT or not before:
            raise DataError(
                "expected a prompt with its answer",
                row.where,
                "write the keys prompt and answer, or a conversation that ends with the answer of "
                "the assistant",
            )
        prompt, answer = tuple(before), last.content
    return Problem(prompt, answer, _kind(row), row.values, row.where)


def _preference(row: Row) -> Preference:
    sides = [_side(row, column, ASSISTANT) for column in ("chosen", "rejected")]
    prompt: tuple[Turn, ...] = ()
    if row.values.get("prompt"):
        prompt = _side(row, "prompt", USER)
        # some data sets repeat the prompt in both conversations
        sides = [s[len(prompt) :] if s[: len(prompt)] == prompt else s for s in sides]
    elif all(len(side) > 1 for side in sides) and sides[0][:-1] == sides[1][:-1]:
        prompt = sides[0][:-1]
        sides = [side[-1:] for side in sides]
    if not prompt or any(len(side) != 1 or side[0].role != ASSISTANT for side in sides):
        raise DataError(
            "expected one prompt with two answers of the assistant",
            row.where,
            "write the keys prompt, chosen and rejected; or chosen and rejected, two lists of "
            "messages that differ in the last one only",
        )
    if sides[0][0].content == sides[1][0].content:
        raise DataError("the better and the worse answer are equal", row.where, "delete the row")
    return Preference(prompt, sides[0][0], sides[1][0], row.where)
