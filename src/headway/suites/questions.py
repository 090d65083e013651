"""The questions of benchmark suites: what a model computes for a row, and how it is judged.

Each kind of question is one kind of request: the log-likelihoods of continuations (`Choice`,
`LastWord`), the log-likelihood of a whole text (`Passage`), or greedy generation (`Completion`).
Prompts, continuations and metrics are those of the Language Model Evaluation Harness (Gao et al.
2024), whose scores they reproduce.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from headway.evaluation.bleu import score_translations
from headway.evaluation.squad import plain_words, word_f1

BETWEEN = "\n\n"
"""What separates the solved examples of a prompt."""

Terms = dict[str, tuple[float, ...]]
"""Name of a metric -> what a row adds to its sums (`headway.suites.metrics`)."""


class Likelihood(NamedTuple):
    """log P(continuation | context) in nats, and whether greedy decoding writes it."""

    nats: float
    is_greedy: bool


@dataclass(frozen=True)
class Judged:
    """A row that was judged. prediction: what the model chose or wrote, for the file of rows."""

    prediction: object
    terms: Terms


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """A row of a suite as a question to a language model.

    description: a text before the solved examples. label: the class by which examples are balanced.
    """

    description: str = ""

    @property
    def has_answer(self) -> bool:
        """Whether the right answer is known."""
        return True

    @property
    @abstractmethod
    def solved(self) -> str:
        """The question with its answer, which must be known: an example of a prompt."""

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    def content(self) -> str:
        """The text that a training text should not contain: the question with its answer."""
        return self.solved


@dataclass(frozen=True, kw_only=True)
class Scored(Question):
    """A question that is answered by the log-likelihoods of continuations."""

    @abstractmethod
    def requests(self, examples: str) -> list[tuple[str, str]]:
        """Return pairs (context, continuation). examples: the text before the question."""

    @abstractmethod
    def judge(self, likelihoods: Sequence[Likelihood]) -> Judged:
        """Judge the answer by the likelihood of each request."""


@dataclass(frozen=True, kw_only=True)
class Choice(Scored):
    """The most probable choice answers: argmax_i log P(choice_i | prompt).

    acc_norm divides by the number of characters of a choice, acc_bytes by its bytes in UTF-8.
    gold: the index of the right choice; None if the row has no label. ending: if set, the choices
    are prompts, and P(ending | choice_i) is compared (WinoGrande). texts: what a classifier reads.
    classes: the names of its classes, in the order of the choices.
    """

    prompt: str = ""
    choices: tuple[str, ...]
    gold: int | None
    ending: str | None = None
    texts: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def has_answer(self) -> bool:
        return self.gold is not None

    @property
    def solved(self) -> str:
        assert self.gold is not None
        choice = self.choices[self.gold]
        start, answer = (self.prompt, choice) if self.ending is None else (choice, self.ending)
        return f"{start} {answer}{BETWEEN}"

    @property
    def label(self) -> str:
        return str(self.gold)

    @property
    def content(self) -> str:
        return self.solved if self.has_answer else self.prompt or self.choices[0]

    def requests(self, examples: str) -> list[tuple[str, str]]:
        if self.ending is not None:
            return [(examples + choice, f" {self.ending}") for choice in self.choices]
        return [(examples + self.prompt, f" {choice}") for choice in self.choices]

    def judge(self, likelihoods: Sequence[Likelihood]) -> Judged:
        nats = np.array([likelihood.nats for likelihood in likelihoods])
        characters = np.array([float(len(choice)) for choice in self.choices])
        num_bytes = np.array([float(len(choice.encode())) for choice in self.choices])
        best = int(nats.argmax())
        if self.gold is None:
            return Judged(best, {})

        def hit(values: object) -> tuple[float, float]:
            return float(np.argmax(values) == self.gold), 1.0  # type: ignore[call-overload]

        terms: Terms = {
            "acc": hit(nats),
            "acc_norm": hit(nats / characters),
            "acc_bytes": hit(nats / num_bytes),
            "chance": (1 / len(self.choices), 1.0),
        }
        if len(self.choices) == 2:
            cell = 2 * self.gold + best  # of the confusion matrix of two classes
            terms["f1"] = terms["mcc"] = tuple(float(cell == i) for i in range(4))
        return Judged(best, terms)


@dataclass(frozen=True, kw_only=True)
class LastWord(Scored):
    """Does greedy decoding write `target` after the prompt, and how probable is it? (LAMBADA)"""

    prompt: str
    target: str

    @property
    def solved(self) -> str:
        return f"{self.prompt} {self.target}{BETWEEN}"

    @property
    def label(self) -> str:
        return self.target

    def requests(self, examples: str) -> list[tuple[str, str]]:
        return [(examples + self.prompt, self.target)]

    def judge(self, likelihoods: Sequence[Likelihood]) -> Judged:
        ((nats, is_greedy),) = likelihoods
        return Judged(is_greedy, {"acc": (float(is_greedy), 1.0), "perplexity": (nats, 1.0)})


@dataclass(frozen=True, kw_only=True)
class Passage(Question):
    """A text whose whole log-likelihood is computed. words, num_bytes: of the original text."""

    text: str
    words: int
    num_bytes: int

    @property
    def solved(self) -> str:
        return self.text + BETWEEN

    @property
    def label(self) -> str:
        return ""

    def judge(self, nats: float) -> Judged:
        """Judge the text by its log-likelihood in nats."""
        by_bytes = (nats, float(self.num_bytes))
        return Judged(
            nats,
            {
                "word_perplexity": (nats, float(self.words)),
                "byte_perplexity": by_bytes,
                "bits_per_byte": by_bytes,
            },
        )


@dataclass(frozen=True, kw_only=True)
class Rated(Question):
    """How similar are two texts? gold: the mean rating of people; None if the row has none."""

    texts: tuple[str, str]
    gold: float | None

    @property
    def has_answer(self) -> bool:
        return self.gold is not None

    @property
    def solved(self) -> str:
        return f"{self.texts[0]} {self.texts[1]}{BETWEEN}"

    @property
    def label(self) -> str:
        return ""

    def judge(self, number: float, both_ranks: tuple[float, float] | None) -> Judged:
        """Judge a predicted number. both_ranks: of the prediction and of gold among all rows."""
        if self.gold is None or both_ranks is None:
            return Judged(number, {})

        def sums(x: float, y: float) -> tuple[float, ...]:
            return x, y, x * x, y * y, x * y, 1.0

        x, y = both_ranks
        return Judged(number, {"spearman": sums(x, y), "pearson": sums(number, self.gold)})


@dataclass(frozen=True, kw_only=True)
class Completion(Question):
    """The answer is what greedy decoding writes after the prompt, up to a line break.

    answers: reference answers; empty if the question has none (SQuAD 2.0). target: the answer of a
    solved example. max_tokens: the most tokens that are generated.
    """

    prompt: str
    answers: tuple[str, ...]
    target: str
    max_tokens: int = 64

    @property
    def solved(self) -> str:
        return f"{self.prompt} {self.target}{BETWEEN}"

    @property
    def label(self) -> str:
        return self.target

    @abstractmethod
    def judge(self, text: str) -> Judged:
        """Judge the generated text."""


@dataclass(frozen=True, kw_only=True)
class Answering(Completion):
    """Exact match and F1 of the words, in percent, by the official rules of SQuAD 1.1 and 2.0.
    question, context: what a question-answering model reads.

    Rajpurkar et al. 2016, section 6.1; 2018, section 5. Only the empty answer is right for a
    question without an answer: a model writes "unanswerable" for it.
    """

    question: str = ""
    context: str = ""

    def judge(self, text: str) -> Judged:
        answer = "" if plain_words(text) == ["unanswerable"] else text.strip()
        references = [reference for reference in self.answers if plain_words(reference)] or [""]
        exact = max(float(plain_words(answer) == plain_words(text)) for text in references)
        f1 = max(_f1(answer, reference) for reference in references)
        group = "HasAns" if self.answers else "NoAns"
        rows = {"exact": exact, "f1_words": f1, f"{group}_exact": exact, f"{group}_f1": f1}
        return Judged(answer, {name: (100 * value, 1.0) for name, value in rows.items()})


@dataclass(frozen=True, kw_only=True)
class Writing(Completion):
    """Whether the text is exactly the answer, apart from spaces around it."""

    def judge(self, text: str) -> Judged:
        answer = text.strip()
        return Judged(answer, {"exact_match": (float(answer in self.answers), 1.0)})


@dataclass(frozen=True, kw_only=True)
class Translating(Completion):
    """BLEU and chrF of the translation, by sacrebleu."""

    source: str

    def judge(self, text: str) -> Judged:
        answer = text.strip()
        sums = score_translations([answer], [self.answers[0]]).sums
        return Judged(answer, {name: tuple(rows.terms[0].tolist()) for name, rows in sums.items()})


def _f1(answer: str, reference: str) -> float:
    """The F1 of the words. If either has none, 1 if both have none, else 0."""
    if not plain_words(answer) or not plain_words(reference):
        return float(plain_words(answer) == plain_words(reference))
    return word_f1(answer, reference)
