"""The model, an encoder with one number for each token, and its bundle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from headway.bundle import (
    BundleWithReader,
    Probe,
    ProbeRequest,
    Readout,
    framed_reading,
    word_outputs,
)
from headway.data.word_targets import WordRow, word_rows
from headway.models import Bert, BertConfig
from headway.models.bert_heads import drop_heads
from headway.models.registry import ModelSpec
from headway.settings import section
from headway.shapes import Bool, Float, Int, Tensor
from headway.tasks.task import NO_OPTIONS, NoOptions, TextInput
from headway.text import MarkedTokenizer


@dataclass(frozen=True, kw_only=True)
class WordRegressorConfig:
    bert: BertConfig = section(BertConfig)

    family: ClassVar[str] = "word-regressor"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}


class WordRegressor(nn.Module):
    """y_t = w · h_t + b, with h the encoder's vectors."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = drop_heads(bert, "none")
        self.config = WordRegressorConfig(bert=bert.config)
        self.head = nn.Linear(bert.config.model_dim, 1, device=bert.tokens.weight.device)

    def forward(
        self, tokens: Int[Tensor, "B T"], keys: Bool[Tensor, "B T"], types: Any = None
    ) -> Float[Tensor, "B T"]:
        numbers: Tensor = self.head(self.bert.encode(tokens, keys, types))[..., 0]
        return numbers


MODEL = ModelSpec(WordRegressorConfig, lambda config: WordRegressor(Bert(config.bert)))


@dataclass(frozen=True)
class Rated:
    words: tuple[str, ...]
    numbers: tuple[float, ...]


class WordRegressorBundle(BundleWithReader):
    kind: ClassVar[str] = "word regressor"
    reader_class = MarkedTokenizer
    model: WordRegressor

    def rows(self, sentences: Sequence[Sequence[str]]) -> list[list[WordRow]]:
        return word_rows(self.tokenizer, sentences, self.config.bert.max_length)

    def numbers(
        self,
        sentences: Sequence[Sequence[str]],
        progress: Callable[[int], None] = lambda done: None,
    ) -> list[list[float]]:
        """One for each word; what a sentence gets does not depend on the others."""
        rows_of = self.rows(sentences)
        rows = [row for own in rows_of for row in own]
        outputs = iter(word_outputs(self.model, rows, self.tokenizer.marks.pad, progress))
        return [[number for _ in own for number in next(outputs).tolist()] for own in rows_of]

    def predict(
        self, inputs: Sequence[TextInput], options: NoOptions = NO_OPTIONS, *, first: int = 1
    ) -> list[Rated]:
        words = [each.text.split() for each in inputs]
        rated = zip(words, self.numbers(words), strict=True)
        return [Rated(tuple(own), tuple(numbers)) for own, numbers in rated]

    def _probe(self, request: ProbeRequest) -> Probe:
        words = request.input.split()
        row = self.rows([words])[0][0]  # of a long text its first row
        firsts, ids = list(row.firsts), list(row.ids)
        types = [0] * len(ids)
        return Probe(
            kind=self.kind,
            reading=framed_reading(self.model, self.tokenizer, ids, types, within="bert."),
            answer=" ".join(f"{number:.1f}" for number in self.numbers([words])[0]),
            readout=Readout(
                side="text",
                positions=firsts,
                logits=lambda output: output[0, firsts, None],
                names=lambda columns: ["the number"] * len(columns),
                equation="y = w · h + b",
                function=WordRegressor.forward,
            ),
            tokenizers={"text": self.tokenizer},
        )
