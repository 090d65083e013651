"""How a row of a published benchmark becomes a question.

The prompts, choices and texts are those of the task configurations of the Language Model Evaluation
Harness (Gao et al. 2024), so that scores can be compared with published ones.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.data.rows import Row
from headway.suites.questions import Answering, Choice, LastWord, Passage, Rated, Translating

SOURCE, TARGET = "source", "target"
"""Keys of a row of two parallel files. Their languages are in `LANGUAGES`."""
LANGUAGES = "languages"


def text_of(row: Row, *columns: str) -> str:
    """Return the text of the first of these columns that the row has, unchanged.

    Raises DataError if it is missing or not a text.
    """
    column = next((name for name in columns if name in row.values), columns[0])
    value = row.values.get(column)
    if not isinstance(value, str):
        raise row.fault(column, "a text")
    return value


def texts_of(row: Row, value: object, column: str) -> tuple[str, ...]:
    """Return a list of texts. Raises DataError for another value."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise row.fault(column, "a list of texts")
    if not all(isinstance(text, str) for text in value):
        raise row.fault(column, "a list of texts")
    return tuple(value)


def class_of(row: Row, names: Sequence[str], *columns: str, first: int = 0) -> int | None:
    """Return the class of the first of these columns that the row has; None if it has no label.

    A class is its name or a number from `first` on; -1 and an empty text are no label. Raises
    DataError for another value.
    """
    column = next((name for name in columns if name in row.values), columns[0])
    value = row.values.get(column)
    text = "" if value is None else str(value).strip()
    if text in ("", "-1"):
        return None
    if text in names:
        return list(names).index(text)
    if text.isdecimal() and 0 <= int(text) - first < len(names):
        return int(text) - first
    known = ", ".join(names)
    raise row.fault(column, f"one of {known}, or a number from {first} on")


def minimal_pair(row: Row) -> Choice:
    """BLiMP: which sentence is more probable? Warstadt et al. 2020."""
    pair = (text_of(row, "sentence_good"), text_of(row, "sentence_bad"))
    return Choice(choices=pair, gold=0)


def last_word(row: Row) -> LastWord:
    """LAMBADA: the last word of a passage. Paperno et al. 2016."""
    *before, word = text_of(row, "text").split(" ")
    return LastWord(prompt=" ".join(before), target=f" {word}")


def hellaswag(row: Row) -> Choice:
    """HellaSwag: the ending of a scene. Zellers et al. 2019."""
    scene = f"{text_of(row, 'ctx_a')} {text_of(row, 'ctx_b').capitalize()}"
    endings = texts_of(row, row.values.get("endings"), "endings")
    return Choice(
        prompt=_plain_scene(f"{text_of(row, 'activity_label')}: {scene}"),
        choices=tuple(map(_plain_scene, endings)),
        gold=class_of(row, [str(i) for i in range(len(endings))], "label"),
    )


def _plain_scene(text: str) -> str:
    """Remove the markup of the instructions in HellaSwag."""
    text = text.strip().replace(" [title]", ". ")
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")


def arc(row: Row) -> Choice:
    """ARC: questions of school exams, with 3 to 5 answers. Clark et al. 2018."""
    question: Any = row.values.get("question")
    options: Any = row.values.get("choices")
    if isinstance(question, Mapping):  # the files of the authors
        question, options = question.get("stem"), question.get("choices")
    if not isinstance(question, str):
        raise row.fault("question", "a text, or an object with stem and choices")
    if isinstance(options, list) and all(isinstance(option, Mapping) for option in options):
        options = {key: [option.get(key) for option in options] for key in ("label", "text")}
    if not isinstance(options, Mapping):
        raise row.fault("choices", "texts with labels")
    labels = texts_of(row, options.get("label"), "choices")
    choices = texts_of(row, options.get("text"), "choices")
    key = row.values.get("answerKey")
    if key in (None, ""):
        gold = None
    elif key in labels:
        gold = labels.index(str(key))
    else:
        raise row.fault("answerKey", f"one of {', '.join(labels)}")
    return Choice(prompt=f"Question: {question}\nAnswer:", choices=choices, gold=gold)


def piqa(row: Row) -> Choice:
    """PIQA: which of two solutions reaches a goal? Bisk et al. 2020."""
    return Choice(
        prompt=f"Question: {text_of(row, 'goal')}\nAnswer:",
        choices=(text_of(row, "sol1"), text_of(row, "sol2")),
        gold=class_of(row, "01", "label"),
    )


def mmlu(row: Row) -> Choice:
    """MMLU: exam questions of 57 subjects with four answers. Hendrycks et al. 2021."""
    if "choices" in row.values:
        choices = texts_of(row, row.values["choices"], "choices")
    else:
        choices = tuple(text_of(row, letter) for letter in "ABCD")
    lines = "".join(f"\n{letter}. {text}" for letter, text in zip("ABCD", choices, strict=False))
    subject = text_of(row, "subject").replace("_", " ")
    return Choice(
        description=f"The following are multiple choice questions (with answers) about {subject}."
        "\n\n",
        prompt=f"{text_of(row, 'question').strip()}{lines}\nAnswer:",
        choices=tuple("ABCD"),
        gold=class_of(row, "ABCD", "answer"),
    )


def winogrande(row: Row) -> Choice:
    """WinoGrande: which of two names does the gap mean? Sakaguchi et al. 2020."""
    sentence = text_of(row, "sentence")
    before, gap, after = sentence.partition("_")
    if not gap:
        raise row.fault("sentence", "a text with one gap, _")
    options = (text_of(row, "option1"), text_of(row, "option2"))
    return Choice(
        choices=tuple(before + option for option in options),
        ending=after.strip(),
        gold=class_of(row, "12", "answer", first=1),
    )


_DETOKENISED: tuple[tuple[str, str], ...] = (
    (r"s '", "s'"),
    (r"/' [0-9]/", "/'[0-9]/"),
    (r" @-@ ", "-"),
    (r" @,@ ", ","),
    (r" @\.@ ", "."),
    *((rf" {re.escape(mark)} ", f"{mark} ") for mark in ":;.!?,"),
    (r"\(\s*([^\)]*?)\s*\)", r"(\1)"),
    (r"\[\s*([^\]]*?)\s*\]", r"[\1]"),
    (r"{\s*([^}]*?)\s*}", r"{\1}"),
    (r"\"\s*([^\"]*?)\s*\"", r'"\1"'),
    (r"'\s*([^']*?)\s*'", r"'\1'"),
    (r"= = = =", "===="),
    (r"= = =", "==="),
    (r"= =", "=="),
    (" \u00b0 ", "\u00b0"),
    (r" \n", "\n"),
    (r"\n ", "\n"),
    (r" N ", " 1 "),
    (r" 's", "'s"),
)
"""Spaces that the tokenised texts of WikiText have and written texts have not, in this order."""


def wikitext(row: Row) -> Passage:
    """WikiText: the perplexity of whole articles by words and bytes. Merity et al. 2016.

    The text is detokenised; words and bytes are those of the original.
    """
    page = text = text_of(row, "page")
    for pattern, replacement in _DETOKENISED:
        text = re.sub(pattern, replacement, text)
    return Passage(text=text, words=len(re.split(r"\s+", page)), num_bytes=len(page.encode()))


def plain_text(row: Row) -> Passage:
    """A text as it is: perplexity by words and bytes."""
    page = text_of(row, "page")
    return Passage(text=page, words=len(page.split()), num_bytes=len(page.encode()))


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A task of GLUE. Wang et al. 2018.

    texts: the columns of the text or of both, each with its names in official files and on the hub.
    classes: the names of the classes, in the order of their numbers. prompt: has {0} and {1} for
    the texts. choices: the answers to it, by class.
    """

    texts: tuple[tuple[str, ...], ...]
    label: tuple[str, ...] = ("label",)
    classes: tuple[str, ...]
    prompt: str
    choices: tuple[str, ...]
    prepare: Callable[[str], str] = str

    def __call__(self, row: Row) -> Choice:
        texts = [text_of(row, *names) for names in self.texts]
        shown = [*texts[:-1], self.prepare(texts[-1])] if len(texts) > 1 else texts
        return Choice(
            prompt=f"{self.prompt.format(*shown)}\nAnswer:",
            choices=self.choices,
            gold=class_of(row, self.classes, *self.label),
            texts=tuple(texts),
            classes=self.classes,
        )


def as_sentence(text: str) -> str:
    """Return the text without spaces around it, with a full stop."""
    stripped = text.strip()
    return stripped if stripped.endswith(".") else f"{stripped}."


def squad(row: Row) -> Answering:
    """SQuAD 1.1 and 2.0: the answer in the words of a paragraph. Rajpurkar et al. 2016, 2018."""
    answers = texts_of(row, row.values["answers"], "answers") if row.values["answers"] else ()
    title = text_of(row, "title")
    head = f"Title: {title}\n\n" if title else ""
    return Answering(
        prompt=f"{head}Background: {text_of(row, 'context')}\n\n"
        f"Question: {text_of(row, 'question')}\n\nAnswer:",
        answers=answers,
        target=f" {answers[0] if answers else 'unanswerable'}",
        question=text_of(row, "question"),
        context=text_of(row, "context"),
    )


def similarity(row: Row) -> Rated:
    """STS: how similar are two sentences, from 0 to 5? Cer et al. 2017."""
    column = next((name for name in ("score", "label") if name in row.values), None)
    value = None if column is None else row.values[column]
    if value in (None, ""):
        gold = None
    else:
        assert column is not None
        try:
            gold = float(str(value))
        except ValueError:
            raise row.fault(column, "a number") from None
        if not math.isfinite(gold):
            raise row.fault(column, "a finite number")
    return Rated(texts=(text_of(row, "sentence1"), text_of(row, "sentence2")), gold=gold)


def translation(row: Row) -> Translating:
    """FLORES: translations of sentences of Wikimedia. NLLB Team 2022."""
    languages: Any = row.values[LANGUAGES]
    source, target = text_of(row, SOURCE), text_of(row, TARGET)
    return Translating(
        prompt=f"{languages[0]} sentence: {source}\n{languages[1]} sentence:",
        answers=(target,),
        target=target,
        source=source,
        max_tokens=256,
    )
