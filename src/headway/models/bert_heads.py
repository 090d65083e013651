"""Fine-tuned encoder: logits = W h + b, one new linear layer on the vectors of a `Bert`.

The pre-trained encoder gives a vector for each token; a task adds a single layer. A classifier
applies it to the pooled vector of the text, a tagger to each token; a question-answering model
scores each token as the first and as the last of the answer. Devlin et al. 2019, figure 4.

>>> import torch
>>> from headway.models import Bert, BertClassifier, BertConfig, BertTagger
>>> size = {"model_dim": 8, "num_heads": 2, "ffn_dim": 16, "num_layers": 1, "vocabulary": 10}
>>> words, keys = torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.bool)
>>> BertClassifier(Bert(BertConfig(**size)), num_classes=2)(words, keys).shape  # one per text
torch.Size([1, 2])
>>> BertTagger(Bert(BertConfig(**size)), num_tags=5)(words, keys).shape  # one per word
torch.Size([1, 3, 5])
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from torch import nn

from headway.base.settings import fraction, section, setting, sizes_inside
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.blocks import Dropout, pool_text
from headway.models.bert import Bert, bert_pooler
from headway.models.bert_config import BertConfig, PoolerName

ClassifierPooling = Literal["mean", "first"]
_SIZES = sizes_inside("bert", BertConfig.sizes)


class _BertWithHead(nn.Module):
    """logits = W h_t + b for the vector h_t of each token, which first passes the pooler, if any.

    The encoder is `bert` itself, not a copy; its pre-training heads are removed. pooler: see
    `remove_heads`.
    """

    def __init__(
        self, bert: Bert, outputs: int, dropout: float, pooler: PoolerName = "none"
    ) -> None:
        super().__init__()
        weight = bert.tokens.weight
        self.bert = remove_heads(bert, pooler)
        self.dropout = Dropout(dropout)
        width = bert.config.model_dim
        self.head = nn.Linear(width, outputs, device=weight.device, dtype=weight.dtype)
        if not weight.is_meta:
            _init_head(self.head)

    def init_weights(self) -> None:
        """Initialise all parameters, including those of the encoder."""
        self.bert.init_weights()
        _init_head(self.head)

    def classify(
        self, hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B ... C"]:
        """Return the logits from the vectors of the encoder. keys: True = real."""
        return self._logits(hidden)

    def _logits(self, vectors: Float[Tensor, "*B D"]) -> Float[Tensor, "*B C"]:
        pooler = self.bert.pooler
        return self.head(self.dropout(vectors if pooler is None else pooler.each(vectors)))

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"],
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B ... C"]:
        """Return the logits of each text or token. keys: True = real; types: segments."""
        return self.classify(self.bert.encode(tokens, keys, types), keys)


@dataclass(frozen=True, kw_only=True)
class BertClassifierConfig:
    """Architecture of a `BertClassifier`: its encoder and its head."""

    bert: BertConfig = section(BertConfig)
    num_classes: int = setting(
        2, "number of classes; 1: regression, a number instead of a class", gt=0
    )
    pooling: ClassifierPooling = setting(
        "first",
        "pooling of the text vector: first ([CLS] through the pooler) or mean of all tokens",
    )
    dropout: float = fraction(0.1, "dropout probability of the text vector")

    family: ClassVar[str] = "bert-classifier"
    sizes: ClassVar[dict[str, dict[str, object]]] = _SIZES


class BertClassifier(_BertWithHead):
    """P(class | text or two texts) = softmax(W v + b) with the pooled vector v of the text.

    With one class the output is the number W v + b. A pooler is added if `pooling` needs one.
    Devlin et al. 2019, section 4.1 (GLUE).
    """

    def __init__(
        self,
        bert: Bert,
        num_classes: int,
        pooling: ClassifierPooling = "first",
        dropout: float = 0.1,
    ) -> None:
        pooler: PoolerName = _pooler_of_tokens(bert)
        if pooling == "first" and bert.config.pooler != "none":
            pooler = bert.config.pooler
        elif pooling == "first":
            pooler = bert.config.classifier_pooler
        super().__init__(bert, num_classes, dropout, pooler)
        self.config = BertClassifierConfig(
            bert=bert.config, num_classes=num_classes, pooling=pooling, dropout=dropout
        )

    def classify(
        self, hidden: Float[Tensor, "B T D"], keys: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """Return the logits of the classes from the vectors of the encoder. keys: True = real."""
        return self._logits(pool_text(hidden, keys, self.config.pooling))


@dataclass(frozen=True, kw_only=True)
class BertTaggerConfig:
    """Architecture of a `BertTagger`: its encoder and its head."""

    bert: BertConfig = section(BertConfig)
    num_tags: int = setting(3, "number of tags", gt=1)
    dropout: float = fraction(0.1, "dropout probability of the token vectors")

    family: ClassVar[str] = "bert-tagger"
    sizes: ClassVar[dict[str, dict[str, object]]] = _SIZES


class BertTagger(_BertWithHead):
    """P(tag of token t) = softmax(W h_t + b). Devlin et al. 2019, section 5.3 (CoNLL)."""

    def __init__(self, bert: Bert, num_tags: int, dropout: float = 0.1) -> None:
        super().__init__(bert, num_tags, dropout, _pooler_of_tokens(bert))
        self.config = BertTaggerConfig(bert=bert.config, num_tags=num_tags, dropout=dropout)


@dataclass(frozen=True, kw_only=True)
class BertQuestionAnsweringConfig:
    """Architecture of a `BertQuestionAnswering`: its encoder."""

    bert: BertConfig = section(BertConfig)

    family: ClassVar[str] = "bert-answerer"
    sizes: ClassVar[dict[str, dict[str, object]]] = _SIZES


class BertQuestionAnswering(_BertWithHead):
    """P(answer starts at t) = softmax over t of S h_t; P(answer ends at t) = softmax of E h_t.

    Extractive question answering: the question is the first text, the context that contains the
    answer the second. Devlin et al. 2019, section 4.2 (SQuAD).
    """

    def __init__(self, bert: Bert) -> None:
        super().__init__(bert, 2, 0.0, _pooler_of_tokens(bert))
        self.config = BertQuestionAnsweringConfig(bert=bert.config)


def bert_classifier(config: BertClassifierConfig) -> BertClassifier:
    """Return a classifier with a new encoder."""
    return BertClassifier(Bert(config.bert), config.num_classes, config.pooling, config.dropout)


def bert_tagger(config: BertTaggerConfig) -> BertTagger:
    """Return a tagger with a new encoder."""
    return BertTagger(Bert(config.bert), config.num_tags, config.dropout)


def bert_question_answering(config: BertQuestionAnsweringConfig) -> BertQuestionAnswering:
    """Return a question-answering model with a new encoder."""
    return BertQuestionAnswering(Bert(config.bert))


def remove_heads(bert: Bert, pooler: PoolerName) -> Bert:
    """Remove the pre-training heads of `bert` in place and return it.

    pooler: "none" removes its pooler; otherwise an existing pooler stays, and a missing one is
    added with this activation and weights N(0, 0.02^2). One with a norm continues the layer before
    the logits of masked tokens, if there is one, since it computes the same of a vector.
    """
    weight, masked = bert.tokens.weight, bert.masked_lm_head
    no_heads: dict[str, Any] = {
        "masked_lm_head": False,
        "next_sentence": False,
        "replaced_token_head": False,
    }
    bert.config = replace(bert.config, **no_heads, pooler=pooler)
    bert.masked_lm_head = bert.next_sentence = bert.replaced_token_head = None
    if pooler == "none":
        bert.pooler = None
    elif bert.pooler is None:
        bert.pooler = bert_pooler(bert.config, pooler)
        assert bert.pooler is not None
        bert.pooler.to(weight.device, weight.dtype)
        if pooler == "gelu-norm" and masked is not None and bert.config.embedding_dim is None:
            bert.pooler.project, bert.pooler.norm = masked.transform, masked.norm
        elif not weight.is_meta:
            _init_head(bert.pooler.project)
    return bert


def _pooler_of_tokens(bert: Bert) -> PoolerName:
    """Return the pooler for the vectors of tokens: only one with a norm is for them, too."""
    return "gelu-norm" if bert.config.classifier_pooler == "gelu-norm" else "none"


def _init_head(head: nn.Linear) -> None:
    """Initialise with N(0, 0.02^2) and zero bias."""
    nn.init.normal_(head.weight, std=0.02)
    if head.bias is not None:
        nn.init.zeros_(head.bias)
