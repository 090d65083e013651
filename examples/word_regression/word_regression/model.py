"""The model, an encoder with a linear head of one output per token, and its bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from headway.base.settings import section
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.base.sharing import WHOLE, Share
from headway.bundle import (
    BundleWithReader,
    Probe,
    ProbeRequest,
    Readout,
    encoder_pass,
    word_outputs,
)
from headway.data.word_targets import WordSequence, word_sequences
from headway.models import Bert, BertConfig
from headway.models.bert_heads import remove_heads
from headway.models.registry import ModelSpec
from headway.tasks.task import NO_OPTIONS, NoOptions, TextInput
from headway.text import EncoderTokenizer


@dataclass(frozen=True, kw_only=True)
class WordRegressorConfig:
    """Configuration of the model."""

    bert: BertConfig = section(BertConfig)

    family: ClassVar[str] = "word-regressor"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {}


class WordRegressor(nn.Module):
    """Predicts y_t = w · h_t + b, where h_t is the encoder's vector of token t."""

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = remove_heads(bert, "none")
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
    """The words of a text, and the predicted number of each."""

    words: tuple[str, ...]
    numbers: tuple[float, ...]


class WordRegressorBundle(BundleWithReader):
    """A word regressor with its tokenizer."""

    kind: ClassVar[str] = "word regressor"
    reader_class = EncoderTokenizer
    model: WordRegressor

    def rows(self, sentences: Sequence[Sequence[str]]) -> list[list[WordSequence]]:
        """Encode the words of sentences as sequences of at most the model's maximum length."""
        return word_sequences(self.tokenizer, sentences, self.config.bert.max_length)

    def numbers(
        self,
        sentences: Sequence[Sequence[str]],
        share: Share = WHOLE,
    ) -> list[list[float]]:
        """Predict the number of every word. Those of a sentence do not depend on the others.

        share: of an evaluation; without other processes, all of it.
        """
        rows_by_sentence = self.rows(sentences)
        rows = [row for rows in rows_by_sentence for row in rows]
        outputs = iter(word_outputs(self.model, rows, self.tokenizer.special_tokens.pad, share))
        return [
            [number for _ in rows for number in next(outputs).tolist()] for rows in rows_by_sentence
        ]

    def predict(
        self, inputs: Sequence[TextInput], options: NoOptions = NO_OPTIONS, *, first: int = 1
    ) -> list[Rated]:
        """Predict the numbers of the words of texts, which are split at spaces."""
        texts = [item.text.split() for item in inputs]
        predictions = zip(texts, self.numbers(texts), strict=True)
        return [Rated(tuple(words), tuple(numbers)) for words, numbers in predictions]

    def _probe(self, request: ProbeRequest) -> Probe:
        words = request.input.split()
        row = self.rows([words])[0][0]  # the first sequence of a long text
        firsts, ids = list(row.firsts), list(row.ids)
        types = [0] * len(ids)
        return Probe(
            kind=self.kind,
            reading=encoder_pass(self.model, self.tokenizer, ids, types, within="bert."),
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
