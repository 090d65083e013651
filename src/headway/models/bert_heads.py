"""An encoder with one more output layer: classes, tags, answers. Devlin et al. 2019, figure 4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import nn

from headway.blocks import Dropout, Pooler, mean_pooled
from headway.models.bert import POOLERS, Bert, BertConfig, PoolerName
from headway.settings import section, setting
from headway.shapes import Bool, Float, Int, Tensor

_SIZES: dict[str, dict[str, Any]] = {
    name: {f"bert.{key}": value for key, value in size.items()}
    for name, size in BertConfig.sizes.items()
}


@dataclass(frozen=True, kw_only=True)
class BertClassifierConfig:
    """Shape of a `BertClassifier`: its encoder's, and what stands on it."""

    bert: BertConfig = section(BertConfig)
    num_classes: int = setting(2, "what a text may be; 1: a number instead", gt=0)
    pooling: Literal["first", "mean"] = setting(
        "first", "a text's vector: [CLS]'s through the pooler, or the mean of all"
    )
    dropout: float = setting(0.1, "share of that vector dropped while training", ge=0, lt=1)

    family: ClassVar[str] = "bert-classifier"
    sizes: ClassVar[dict[str, dict[str, Any]]] = _SIZES


class BertClassifier(nn.Module):
    """P(class | text or two texts) = softmax(W pooled + b); with one class, W pooled + b itself.

    The encoder is `bert` itself, its heads dropped; it gets a fresh pooler if it has none and needs
    one. Devlin et al. 2019, section 4.1 (GLUE).
    """

    def __init__(
        self,
        bert: Bert,
        num_classes: int,
        pooling: Literal["first", "mean"] = "first",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        pooler: PoolerName = bert.config.pooler
        if pooling == "mean":
            pooler = "none"
        elif pooler == "none":
            pooler = "tanh"
        self.bert = drop_heads(bert, pooler)
        self.config = BertClassifierConfig(
            bert=bert.config, num_classes=num_classes, pooling=pooling, dropout=dropout
        )
        self.dropout = Dropout(dropout)
        self.head = _head(bert, num_classes)

    def init_weights(self) -> None:
        """Every value, those of the encoder too."""
        self.bert.init_weights()
        _init_head(self.head)

    def classify(
        self, hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """Logits from the encoder's vectors."""
        mean = self.config.pooling == "mean"
        pooled = mean_pooled(hidden, keys) if mean else self.bert.pool(hidden)
        logits: Tensor = self.head(self.dropout(pooled))
        return logits

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"],
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B C"]:
        """Logits of each text's class."""
        return self.classify(self.bert.encode(tokens, keys, types), keys)


@dataclass(frozen=True, kw_only=True)
class BertTaggerConfig:
    """Shape of a `BertTagger`."""

    bert: BertConfig = section(BertConfig)
    num_tags: int = setting(3, "what a token may be", gt=1)
    dropout: float = setting(0.1, "share of each vector dropped while training", ge=0, lt=1)

    family: ClassVar[str] = "bert-tagger"
    sizes: ClassVar[dict[str, dict[str, Any]]] = _SIZES


class BertTagger(nn.Module):
    """P(tag of token t) = softmax(W h_t + b). Devlin et al. 2019, section 5.3 (CoNLL)."""

    def __init__(self, bert: Bert, num_tags: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.bert = drop_heads(bert, "none")
        self.config = BertTaggerConfig(bert=bert.config, num_tags=num_tags, dropout=dropout)
        self.dropout = Dropout(dropout)
        self.head = _head(bert, num_tags)

    def init_weights(self) -> None:
        """Every value, those of the encoder too."""
        self.bert.init_weights()
        _init_head(self.head)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"],
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T C"]:
        """Logits of every token's tag."""
        logits: Tensor = self.head(self.dropout(self.bert.encode(tokens, keys, types)))
        return logits


@dataclass(frozen=True, kw_only=True)
class BertAnswererConfig:
    """Shape of a `BertAnswerer`."""

    bert: BertConfig = section(BertConfig)

    family: ClassVar[str] = "bert-answerer"
    sizes: ClassVar[dict[str, dict[str, Any]]] = _SIZES


class BertAnswerer(nn.Module):
    """P(the answer begins at t) = softmax over t of S h_t, P(it ends at t) = softmax of E h_t.

    The question is the first text, what holds the answer the second. Devlin et al. 2019, section
    4.2 (SQuAD).
    """

    def __init__(self, bert: Bert) -> None:
        super().__init__()
        self.bert = drop_heads(bert, "none")
        self.config = BertAnswererConfig(bert=bert.config)
        self.head = _head(bert, 2)

    def init_weights(self) -> None:
        """Every value, those of the encoder too."""
        self.bert.init_weights()
        _init_head(self.head)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"],
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T 2"]:
        """Logits of the answer's first token and of its last."""
        logits: Tensor = self.head(self.bert.encode(tokens, keys, types))
        return logits


def bert_classifier(config: BertClassifierConfig) -> BertClassifier:
    """A classifier with a fresh encoder."""
    return BertClassifier(Bert(config.bert), config.num_classes, config.pooling, config.dropout)


def bert_tagger(config: BertTaggerConfig) -> BertTagger:
    """A tagger with a fresh encoder."""
    return BertTagger(Bert(config.bert), config.num_tags, config.dropout)


def bert_answerer(config: BertAnswererConfig) -> BertAnswerer:
    """An answerer with a fresh encoder."""
    return BertAnswerer(Bert(config.bert))


def drop_heads(bert: Bert, pooler: PoolerName) -> Bert:
    """`bert` itself, without its heads of pre-training and with the pooler asked for.

    A pooler that it lacks starts as N(0, 0.02^2); one of its own stays unless "none" is asked for.
    """
    weight = bert.tokens.weight
    bert.config = replace(bert.config, masked_words=False, next_sentence=False, pooler=pooler)
    bert.masked_words = bert.next_sentence = None
    if pooler == "none":
        bert.pooler = None
    elif bert.pooler is None:
        bert.pooler = Pooler(bert.config.model_dim, POOLERS[pooler]).to(weight.device, weight.dtype)
        if weight.device.type != "meta":
            _init_head(bert.pooler.project)
    return bert


def _head(bert: Bert, outputs: int) -> nn.Linear:
    weight = bert.tokens.weight
    head = nn.Linear(bert.config.model_dim, outputs, device=weight.device, dtype=weight.dtype)
    if weight.device.type != "meta":
        _init_head(head)
    return head


def _init_head(head: nn.Linear) -> None:
    """N(0, 0.02^2), zero bias."""
    nn.init.normal_(head.weight, std=0.02)
    nn.init.zeros_(head.bias)
