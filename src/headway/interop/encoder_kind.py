"""The parts and heads that all families of text encoders have by other names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from headway.base.errors import DataError
from headway.interop.config_fields import Fields, Values
from headway.interop.hf_config import HFConfig, hf_labels
from headway.interop.weight_names import (
    AnyArchitecture,
    Architecture,
    Family,
    Part,
    layers,
    needs,
    prefixed,
)
from headway.models import (
    BertClassifierConfig,
    BertConfig,
    BertQuestionAnsweringConfig,
    BertTaggerConfig,
)
from headway.models.bert import PoolerName

EMBEDDING = "embeddings.word_embeddings.weight"
RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
TaskConfig = BertClassifierConfig | BertTaggerConfig | BertQuestionAnsweringConfig
Config = BertConfig | TaskConfig


@dataclass(frozen=True, kw_only=True)
class EncoderKind:
    """A family of encoders: the names of the parts of a `Bert`, theirs -> ours.

    stem: prefix of the class names. prefix: that of keys; None: the model type. fields: the table
    of config.json, without heads. positive: the fields of ours that must not be 0. classes: suffix
    of each pretraining class -> whether it has a masked-language-modelling head and a next-sentence
    head; "Model" has none. layer: the block with number {}; inside: the layers in it. pooler: the
    pooler; "" if there is none. root: prefix of the keys of the masked-language-modelling head;
    words: its layers; bias: its output bias; copies: keys that are stored as copies, of this bias
    and of the embedding. follows: the next-sentence head. pooled: the layer before a classifier's
    last, and pooling its activation; classes_layer: the last. dropouts: the keys of dropout in a
    classifier and in a tagger, and the default for the classifier; if None, the encoder's. widen:
    the projection of factorised embeddings to the model width.
    """

    model_type: str
    stem: str
    prefix: str | None = None
    fields: Fields
    positive: tuple[str, ...] = ()
    classes: Mapping[str, tuple[bool, bool]]
    layer: str
    inside: Mapping[str, str]
    pooler: str
    root: str
    words: Mapping[str, str]
    bias: str
    copies: Mapping[str, str]
    follows: str = ""
    pooled: str
    pooling: PoolerName = "tanh"
    classes_layer: str = "classifier"
    dropouts: tuple[str, str, float | None] = ("classifier_dropout", "classifier_dropout", None)
    widen: str = ""

    def family(self) -> Family[Config]:
        roots = (self.root, self.follows, self.pooled, "classifier.", "qa_outputs.")
        heads = [root.replace(".", "[.]") for root in roots if root and root != self.pooler]
        return Family(
            model_type=self.model_type,
            prefix=f"{self.prefix or self.model_type}.",
            heads="|".join(f"{root}.*" for root in heads),
            ignored=r"embeddings\.(position_ids|token_type_ids)",
            renamed=RENAMED,
            architectures=(*self._pretrained(), *self._tasks()),
            to_hf_config=self._to_hf_config,
            lacks=self._lacks,
        )

    def _pretrained(self) -> Iterator[AnyArchitecture]:
        """Yield the class without heads and those with the heads of pretraining."""
        for end, heads in self.classes.items():
            yield Architecture(
                names=(self.stem + end,),
                kind=BertConfig,
                config=partial(self._pretrained_config, heads),
                parts=self._bert_parts,
                tied=lambda config: dict(self.copies) if config.masked_lm_head else {},
                fits=partial(_has_heads, heads),
                bare=end == "Model",
            )

    def _pretrained_config(
        self, heads: tuple[bool, bool], hf_config: HFConfig, keys: Collection[str]
    ) -> BertConfig:
        """Return the configuration with the heads of the class, and with those that only the file
        has: many files have a pooler or a head that their class does not have, and it is kept."""
        masked, follows = heads
        if masked or _any(keys, self.root):
            masked = True
            hf_config.must_be("tie_word_embeddings", True)
        follows = follows or _any(keys, self.follows)
        pooler: PoolerName = "tanh" if follows or _any(keys, self.pooler) else "none"
        fields = self.fields.read(hf_config)
        return BertConfig(**fields, pooler=pooler, masked_lm_head=masked, next_sentence=follows)

    def _tasks(self) -> Iterator[AnyArchitecture]:
        """Yield the classes for classification, tagging and question answering.

        Old files of taggers and question-answering models contain an unused pooler.
        """
        old = rf"{self.pooler}\..*" if self.pooler else ""
        for end, kind, config in (
            ("ForSequenceClassification", BertClassifierConfig, self._classifier),
            ("ForTokenClassification", BertTaggerConfig, self._tagger),
            ("ForQuestionAnswering", BertQuestionAnsweringConfig, self._answerer),
        ):
            uses = kind is BertClassifierConfig and self.pooled == self.pooler
            yield Architecture(
                names=(self.stem + end,),
                kind=kind,
                config=config,
                parts=self._task_parts,
                unused="" if uses else old,
            )

    def _encoder(self, hf_config: HFConfig, pooler: PoolerName) -> BertConfig:
        fields = self.fields.read(hf_config)
        return BertConfig(**fields, pooler=pooler, masked_lm_head=False, next_sentence=False)

    def _classifier(self, hf_config: HFConfig, keys: object) -> BertClassifierConfig:
        bert, labels = self._encoder(hf_config, self.pooling), hf_config.labels()
        key, _, default = self.dropouts
        hf_config.must_be("problem_type", _problem(len(labels)))
        dropout = hf_config.number(key, bert.dropout if default is None else default, high=1.0)
        return BertClassifierConfig(bert=bert, num_classes=len(labels), dropout=dropout)

    def _tagger(self, hf_config: HFConfig, keys: object) -> BertTaggerConfig:
        bert, labels = self._encoder(hf_config, "none"), hf_config.labels()
        if len(labels) < 2:
            raise DataError(
                f"id2label has {len(labels)} tag, but a tagger needs at least 2", hf_config.where
            )
        dropout = hf_config.number(self.dropouts[1], bert.dropout, high=1.0)
        return BertTaggerConfig(bert=bert, num_tags=len(labels), dropout=dropout)

    def _answerer(self, hf_config: HFConfig, keys: object) -> BertQuestionAnsweringConfig:
        return BertQuestionAnsweringConfig(bert=self._encoder(hf_config, "none"))

    def _bert_parts(self, config: BertConfig) -> Iterator[Part]:
        yield from self._encoder_parts(config)
        if config.pooler != "none":
            yield from layers({self.pooler: "pooler.project"})
        if config.masked_lm_head:
            yield from layers(self.words)
            yield Part(self.bias, ("masked_lm_head.output.bias",))
        if config.next_sentence:
            yield from layers({self.follows: "next_sentence"})

    def _task_parts(self, config: TaskConfig) -> Iterator[Part]:
        yield from prefixed(self._encoder_parts(config.bert), ours="bert.")
        if isinstance(config, BertClassifierConfig):
            yield from layers({self.pooled: "bert.pooler.project", self.classes_layer: "head"})
        else:
            last = "qa_outputs" if isinstance(config, BertQuestionAnsweringConfig) else "classifier"
            yield from layers({last: "head"})

    def _encoder_parts(self, config: BertConfig) -> Iterator[Part]:
        yield Part(EMBEDDING, ("embedding.words.tokens.weight",))
        positions = "embedding.words.positions.table.vectors"
        yield Part("embeddings.position_embeddings.weight", (positions,))
        if config.token_types:
            yield Part("embeddings.token_type_embeddings.weight", ("embedding.types.weight",))
        yield from layers({"embeddings.LayerNorm": "embedding.norm"})
        if self.widen:
            yield from layers({self.widen: "widen"})
        for number in range(1 if config.shared_layers else config.num_layers):
            yield from layers(
                self.inside, f"{self.layer.format(number)}.", f"encoder.blocks.{number}."
            )

    def _to_hf_config(self, config: Config) -> Values:
        if isinstance(config, BertConfig):
            return {**self.fields.write(config), "tie_word_embeddings": True}
        values = {**self.fields.write(config.bert), "tie_word_embeddings": True}
        if isinstance(config, BertQuestionAnsweringConfig):
            return values
        if isinstance(config, BertTaggerConfig):
            values[self.dropouts[1]] = config.dropout
            return values | hf_labels([f"LABEL_{i}" for i in range(config.num_tags)])
        values |= {
            self.dropouts[0]: config.dropout,
            "problem_type": _problem(config.num_classes),
        }
        return values | hf_labels([f"LABEL_{i}" for i in range(config.num_classes)])

    def _lacks(self, config: Config) -> list[str]:
        """Return the reasons of the family, and those for heads that no class of it has."""
        bert = config if isinstance(config, BertConfig) else config.bert
        reasons = self.fields.lacks(bert)
        if (bert.embedding_width == bert.model_dim) == bool(self.widen):
            width = "different from model_dim" if self.widen else f"None or {bert.model_dim}"
            reasons.append(f"embedding_dim={bert.embedding_dim} (must be {width})")
        reasons += [
            f"{name}=0 (must be 1 or more)" for name in self.positive if not getattr(bert, name)
        ]
        if isinstance(config, BertClassifierConfig):
            reasons += needs(config, {"pooling": ("first",)})
            if config.pooling == "first":
                reasons += needs(bert, {"pooler": (self.pooling,)})
        elif isinstance(config, BertConfig):
            reasons += needs(bert, {"pooler": ("none", "tanh") if self.pooler else ("none",)})
            if (bert.masked_lm_head, bert.next_sentence) not in self.classes.values():
                reasons.append(
                    f"no class with masked_lm_head={bert.masked_lm_head} and "
                    f"next_sentence={bert.next_sentence}"
                )
        return reasons


def _has_heads(heads: tuple[bool, bool], config: BertConfig) -> bool:
    return (config.masked_lm_head, config.next_sentence) == heads


def _any(keys: Collection[str], root: str) -> bool:
    return bool(root) and any(key.startswith(root) for key in keys)


def _problem(labels: int) -> str:
    """Return the `problem_type` of a classifier; one without several labels is a regression."""
    return "regression" if labels == 1 else "single_label_classification"
