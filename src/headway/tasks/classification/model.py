"""The bundle of a text classifier: model, tokenizer and labels; and its Hugging Face folders
(`...ForSequenceClassification`)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch

from headway import interop
from headway.base.errors import DataError, UsageError
from headway.base.files import read_json
from headway.base.settings import required, setting
from headway.base.shapes import Float, Tensor
from headway.base.sharing import WHOLE, Share
from headway.bundle import (
    Attending,
    Classified,
    ClassOptions,
    ForwardPass,
    InputSpec,
    Probe,
    ProbeRequest,
    Readout,
    StoredBundle,
    check_outputs,
    class_names,
    encoder_pass,
)
from headway.bundle.arguments import checked
from headway.data.padding import collate_encoder_batch, shortest_first
from headway.models import BertClassifier, TextClassifier
from headway.tasks.classification.reader import ClassReader, Numbers, Texts
from headway.text import EncoderTokenizer, load_tokenizer, positions_of_words
from headway.transforms.quantize import float32_copy

ROWS = 64
"""Batch size, in texts."""

ACTIVATION, ACTIVATION_NAME = "sentence_transformers", "activation_fn"
FORMER_ACTIVATION = "sbert_ce_default_activation_function"
"""Keys by which config.json names the activation of the score of a pair (sentence-transformers)."""
SIGMOID = "torch.nn.modules.activation.Sigmoid"
IDENTITY = "torch.nn.modules.linear.Identity"


@dataclass(frozen=True, kw_only=True)
class ClassInput:
    """One input of a classifier of texts."""

    text: str = required("the text that is classified")
    second: str | None = setting(None, "Second text, for a model that classifies pairs.")

    @property
    def texts(self) -> Texts:
        """The text, or the pair of texts."""
        return self.text if self.second is None else (self.text, self.second)


DEFAULTS = ClassOptions()


@dataclass(frozen=True, kw_only=True)
class ClassifiedText:
    """The prediction for a text or a pair of texts.

    number: the prediction of a regression model. label: the most probable class. probabilities: of
    the requested number of labels, most probable first.
    """

    text: str
    second: str | None = None
    number: float | None = None
    label: str | None = None
    probabilities: dict[str, float] | None = None


class ClassifierBundle(StoredBundle, Attending):
    """A text classifier on a language model or an encoder, with its reader.

    A regression model has no labels; it predicts a number for each text.
    """

    kind: ClassVar[str] = "classifier"
    inputs: ClassVar[InputSpec] = InputSpec(second=True)
    model: TextClassifier | BertClassifier

    def __init__(self, model: TextClassifier | BertClassifier, reader: ClassReader) -> None:
        check_outputs(reader.outputs, model.config.num_classes)
        super().__init__(model, reader)
        self.reader = reader

    @classmethod
    def load_reader(cls, model: TextClassifier | BertClassifier, folder: Path) -> ClassReader:
        """Load the reader with the tokenizer of a language model or of an encoder."""
        marked = isinstance(model, BertClassifier)
        return ClassReader.load(folder, EncoderTokenizer.load if marked else load_tokenizer)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.reader.labels

    @checked
    def classify(self, texts: Sequence[Texts]) -> list[Classified]:
        """Classify texts. The result of a text does not depend on the other texts.

        texts: strings, or pairs (first, second) for a model of text pairs. Returns predictions in
        order. Raises UsageError for a regression model.
        """
        if self.reader.numbers is not None:
            raise UsageError("this model predicts numbers, not classes", hint="bundle.score(texts)")
        return [
            Classified.ranked(self.labels, row) for row in self.logits(texts).softmax(-1).tolist()
        ]

    @checked
    def score(self, texts: Sequence[Texts]) -> list[float]:
        """Predict the number of each text, in order, on the scale of the training labels.

        `reader.numbers` has the range of the training labels; a prediction may lie slightly outside
        it. Raises UsageError for a model of classes.
        """
        if self.reader.numbers is None:
            raise UsageError(
                "this model predicts classes, not numbers", hint="bundle.classify(texts)"
            )
        return [self.reader.numbers.restored(z) for z in self.logits(texts)[:, 0].tolist()]

    def with_label_scale(self) -> ClassifierBundle:
        """Return a bundle of regression whose model predicts labels: their scale is in its head.

        The head predicts the normalised z, and y = z deviation + mean; that of the copy predicts y
        directly with weight deviation w and bias deviation b + mean. A bundle of classes is
        returned itself.
        """
        numbers = self.reader.numbers
        if numbers is None:
            return self
        model = copy.deepcopy(float32_copy(self.model))
        with torch.no_grad():
            model.head.weight.mul_(numbers.deviation)
            model.head.bias.mul_(numbers.deviation).add_(numbers.mean)
        plain = replace(numbers, mean=0.0, deviation=1.0)
        return ClassifierBundle(model, replace(self.reader, numbers=plain))

    def predict(
        self, inputs: Sequence[ClassInput], options: ClassOptions = DEFAULTS, *, first: int = 1
    ) -> list[ClassifiedText]:
        """Classify the inputs, or predict their numbers. first: number of the first, in errors."""
        logits = self.logits([item.texts for item in inputs], first=first)
        if self.reader.numbers is not None:
            numbers = map(self.reader.numbers.restored, logits[:, 0].tolist())
            return [
                ClassifiedText(text=item.text, second=item.second, number=number)
                for item, number in zip(inputs, numbers, strict=True)
            ]
        predictions = []
        for item, row in zip(inputs, logits.softmax(-1).tolist(), strict=True):
            classified = Classified.ranked(self.labels, row)
            predictions.append(
                ClassifiedText(
                    text=item.text,
                    second=item.second,
                    label=classified.label,
                    probabilities=classified.best(options),
                )
            )
        return predictions

    @property
    def input_limit(self) -> int:
        """The maximum number of tokens of a text, or of both texts of a pair together."""
        return self.reader.max_length

    def input_lengths(self, inputs: Sequence[ClassInput]) -> list[int]:
        """Return the number of tokens of each input before truncation."""
        return self.reader.lengths([item.texts for item in inputs])

    @checked
    @torch.inference_mode()
    def logits(
        self,
        texts: Sequence[Texts],
        share: Share = WHOLE,
        *,
        first: int = 1,
    ) -> Float[Tensor, "N C"]:
        """Compute the output of the head for each text, in order.

        share: of an evaluation. first: the number of the first text, in errors.
        """
        rows, types = self.reader.encode(texts, first)

        def compute(chosen: Sequence[int]) -> Float[Tensor, "B C"]:
            batch = collate_encoder_batch(
                [rows[i] for i in chosen], [types[i] for i in chosen], self.reader.pad
            ).to(str(self.device))
            outputs: Tensor = self.model(batch.tokens, batch.keys, batch.types)
            return outputs.float()

        logits = torch.zeros(len(rows), self.reader.outputs, device=self.device)
        batches = list(shortest_first(rows, ROWS))
        for chosen, of_batch in zip(batches, share.each(batches, compute, len), strict=True):
            logits[chosen] = of_batch.to(logits.device)
        return logits

    def reading(self, text: str, second: str | None = None) -> ForwardPass:
        """Prepare a forward pass over one text or a pair, for inspection; it returns the logits."""
        (ids,), (types,) = self.reader.encode([text if second is None else (text, second)])
        if isinstance(self.reader.tokenizer, EncoderTokenizer):
            return encoder_pass(self.model, self.reader.tokenizer, ids, types, within="bert.")
        batch = collate_encoder_batch([ids], [types], self.reader.pad).to(str(self.device))
        return ForwardPass(
            model=self.model,
            run=lambda: self.model(batch.tokens, batch.keys, batch.types),
            tokens={"text": self.reader.tokenizer.token_strings(ids)},
            axes={"decoder": ("text", "text")},
            embeddings={"text": "gpt.embedding"},
            ids={"text": ids},
            words={"text": positions_of_words(self.reader.tokenizer, ids)},
        )

    def _probe(self, request: ProbeRequest) -> Probe:
        text, second = request.input, request.second
        reading = self.reading(text, second)
        texts = text if second is None else (text, second)
        labels = self.labels
        if self.reader.numbers is not None:
            answer, labels = f"{self.score([texts])[0]:.3g}", ("the number",)
        else:
            answer = self.classify([texts])[0].label
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=answer,
            readout=self._readout(labels, len(reading.ids["text"])),
            tokenizers={"text": self.reader.tokenizer},
        )

    def _readout(self, labels: Sequence[str], length: int) -> Readout:
        """Describe the logits: they are read at [CLS], or at a language model's last token."""
        position, equation = length - 1, "z = x_last W_cᵀ"
        function: Callable[..., Tensor] = TextClassifier.classify
        if isinstance(self.model, BertClassifier):
            config = self.model.config
            pooler = self.model.bert.config.pooler
            vector = "mean_t x_t" if config.pooling == "mean" else "x_[CLS]"
            if pooler == "gelu-norm":
                vector = f"norm(gelu({vector} W))"
            elif config.pooling == "first":
                vector = f"{pooler}({vector} W + b)"
            position, equation = 0, f"z = {vector} W_c + b_c"
            function = BertClassifier.classify
        return Readout(
            side="text",
            positions=[position],
            logits=lambda output: output,
            names=class_names(labels),
            equation=equation,
            function=function,
        )


def from_hugging_face(model: BertClassifier, folder: Path, model_type: str) -> ClassifierBundle:
    """Make a bundle of the model with the tokenizer and the labels of the folder.

    It accepts single texts and pairs. A model with one output predicts a number: the output itself
    if it was trained by regression or names the identity as its activation, else its sigmoid.
    """
    labels = interop.read_labels(folder, model_type)
    numbers = Numbers(0.0, 1.0, sigmoid=_has_sigmoid(folder)) if len(labels) == 1 else None
    tokenizer, names = interop.read_encoder_tokenizer(folder, model_type), () if numbers else labels
    reader = ClassReader(tokenizer, names, model.config.bert.max_length, numbers, pairs=None)
    return ClassifierBundle(model, reader)


def to_hugging_face(bundle: ClassifierBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the classifier, its tokenizer and its labels.

    The scale of a regression model is folded into its head.
    """
    numbers, model = bundle.reader.numbers, bundle.with_label_scale().model
    assert isinstance(model, BertClassifier)
    labels = bundle.labels or None
    settings: dict[str, object] = {}
    if numbers is not None and numbers.sigmoid:
        settings = {"problem_type": None, ACTIVATION: {ACTIVATION_NAME: SIGMOID}}
    tokenizer = bundle.reader.tokenizer
    return interop.write_text_model(model, tokenizer, folder, family, labels, keys=settings)


def _has_sigmoid(folder: Path) -> bool:
    """Return whether the score of a model with one output is the sigmoid of the output.

    Raises DataError for an activation that is neither the sigmoid nor the identity.
    """
    path = folder / "config.json"
    values: dict[str, object] = read_json(path)
    if values.get("problem_type") == "regression":
        return False
    settings = values.get(ACTIVATION)
    named = settings.get(ACTIVATION_NAME) if isinstance(settings, dict) else None
    named = values.get(FORMER_ACTIVATION) if named is None else named
    if named not in (None, SIGMOID, IDENTITY):
        raise DataError(
            f"the activation of the score is {named!r}; known are {SIGMOID} and {IDENTITY}",
            str(path),
        )
    return named != IDENTITY
