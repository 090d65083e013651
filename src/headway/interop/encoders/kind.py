"""The parts and heads that all families of text encoders have by other names."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial

from headway.base.errors import DataError
from headway.interop.config_fields import Fields, Values
from headway.interop.hf_config import HFConfig, hf_labels
from headway.interop.weight_names import (
    AnyArchitecture,
    Architecture,
    Family,
    Part,
    Table,
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
from headway.models.bert_config import NewPooler, PoolerName
from headway.models.bert_heads import ClassifierPooling

EMBEDDING = "embeddings.word_embeddings.weight"
HEADS = ("masked_lm_head", "next_sentence", "replaced_token_head")
"""The settings of `BertConfig` that are heads of pretraining."""
POOLINGS: dict[str, ClassifierPooling] = {"cls": "first", "mean": "mean"}
RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
TaskConfig = BertClassifierConfig | BertTaggerConfig | BertQuestionAnsweringConfig
Config = BertConfig | TaskConfig


@dataclass(frozen=True, kw_only=True)
class EncoderKind:
    """A family of encoders: the names of the parts of a `Bert`, theirs -> ours.

    stem: prefix of the class names. prefix: that of keys; None: the model type. fields: the table
    of config.json, without heads. positive: the fields of ours that must not be 0. classes: suffix
    of each pretraining class -> its heads of `HEADS`; "Model" has none. embedding: the key of the
    token embedding; embedding_norm: its norm; distances: the table of distances. layer: the block
    with number {}; inside: the layers in it, of which several of ours may be one. last: the last
    norm. pooler: the pooler; "" if there is none. root: prefix of the keys of the
    masked-language-modelling head; words: its layers; bias: its output bias; copies: keys that are
    stored as copies, of this bias and of the embedding. follows: the next-sentence head. replaced:
    the layers of the head of replaced tokens. pooled: the layers before a classifier's last, theirs
    -> ours, and pooling its activation; classes_layer: the last layer, also a tagger's; answers:
    that of a question-answering model. dropouts: the keys of dropout in a classifier and in a
    tagger, and the default for the classifier; if None, the encoder's. classifier_pooling: the key
    of a classifier's pooling, which is that of [CLS] without a key. widen: the projection of
    factorised embeddings to the model width; always_wide: whether there is one in any model of the
    family. unused: a pattern of further keys that no class uses.
    """

    model_type: str
    stem: str
    prefix: str | None = None
    fields: Fields
    positive: tuple[str, ...] = ()
    classes: Mapping[str, tuple[str, ...]]
    embedding: str = EMBEDDING
    embedding_norm: str = "embeddings.LayerNorm"
    distances: Table = field(default_factory=dict)
    layer: str
    inside: Table
    last: str = ""
    pooler: str
    root: str
    words: Mapping[str, str]
    bias: str
    copies: Mapping[str, str]
    follows: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)
    pooled: Mapping[str, str]
    pooling: NewPooler = "tanh"
    classes_layer: str = "classifier"
    answers: str = "qa_outputs"
    dropouts: tuple[str, str, float | None] = ("classifier_dropout", "classifier_dropout", None)
    classifier_pooling: str = ""
    widen: str = ""
    always_wide: bool = False
    unused: str = ""

    def family(self) -> Family[Config]:
        layers_of_heads = (*self.words, self.bias, *self.copies, *self.replaced, *self.pooled)
        roots = (self.root, self.follows, *layers_of_heads, "classifier.", "qa_outputs.")
        heads = [re.escape(root) for root in roots if root not in ("", self.pooler, self.embedding)]
        ignored = r"embeddings\.(position_ids|token_type_ids)"
        return Family(
            model_type=self.model_type,
            prefix=f"{self.prefix or self.model_type}.",
            heads="|".join(f"{root}.*" for root in heads),
            ignored=f"{ignored}|{self.unused}" if self.unused else ignored,
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
        self, heads: tuple[str, ...], hf_config: HFConfig, keys: Collection[str]
    ) -> BertConfig:
        """Return the configuration with the heads of the class, and with those that only the file
        has: many files have a pooler or a head that their class does not have, and it is kept."""
        roots = dict(zip(HEADS, (self.root, self.follows, *self.replaced), strict=False))
        has: Values = {name: name in heads or _any(keys, roots.get(name, "")) for name in HEADS}
        if has["masked_lm_head"]:
            hf_config.must_be("tie_word_embeddings", True)
        is_pooled = has["next_sentence"] or _any(keys, self.pooler)
        fields = self.fields.read(hf_config)
        return BertConfig(
            **fields,
            pooler="tanh" if is_pooled else "none",
            classifier_pooler=self.pooling,
            **has,
        )

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
            uses = kind is BertClassifierConfig and self.pooler in self.pooled
            yield Architecture(
                names=(self.stem + end,),
                kind=kind,
                config=config,
                parts=self._task_parts,
                unused="" if uses else old,
            )

    def _encoder(self, hf_config: HFConfig, pooler: PoolerName) -> BertConfig:
        fields = self.fields.read(hf_config)
        no_heads: Values = dict.fromkeys(HEADS, False)
        if pooler == "none" and self.pooling == "gelu-norm":
            pooler = "gelu-norm"
        return BertConfig(**fields, pooler=pooler, classifier_pooler=self.pooling, **no_heads)

    def _classifier(self, hf_config: HFConfig, keys: object) -> BertClassifierConfig:
        bert, labels = self._encoder(hf_config, self.pooling), hf_config.labels()
        key, _, default = self.dropouts
        hf_config.must_be("problem_type", _problem(len(labels)))
        dropout = hf_config.number(key, bert.dropout if default is None else default, high=1.0)
        pooling: ClassifierPooling = "first"
        if self.classifier_pooling:
            pooling = hf_config.choice(self.classifier_pooling, POOLINGS, "cls")
        return BertClassifierConfig(
            bert=bert, num_classes=len(labels), dropout=dropout, pooling=pooling
        )

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
            yield from _layers(self.words, config, biases=config.head_bias)
            yield Part(self.bias, ("masked_lm_head.output.bias",))
        if config.next_sentence:
            yield from layers({self.follows: "next_sentence"})
        if config.replaced_token_head:
            yield from layers(self.replaced)

    def _task_parts(self, config: TaskConfig) -> Iterator[Part]:
        yield from prefixed(self._encoder_parts(config.bert), ours="bert.")
        if config.bert.pooler != "none":
            pooled = _layers(self.pooled, config.bert, biases=config.bert.head_bias)
            yield from prefixed(pooled, ours="bert.")
        last = self.classes_layer
        if isinstance(config, BertTaggerConfig):
            last = "classifier"
        elif isinstance(config, BertQuestionAnsweringConfig):
            last = self.answers
        yield from layers({last: "head"})

    def _encoder_parts(self, config: BertConfig) -> Iterator[Part]:
        yield Part(self.embedding, ("embedding.words.tokens.weight",))
        if config.positions == "learned":
            positions = "embedding.words.positions.table.vectors"
            yield Part("embeddings.position_embeddings.weight", (positions,))
        if config.token_types:
            yield Part("embeddings.token_type_embeddings.weight", ("embedding.types.weight",))
        yield from _layers({self.embedding_norm: "embedding.norm"}, config)
        if self.widen and config.embedding_width != config.model_dim:
            yield from layers({self.widen: "widen"})
        for theirs, ours in self.distances.items():
            yield Part(theirs, (f"encoder.blocks.0.attention.{ours}",))
        for number in range(1 if config.shared_layers else config.num_layers):
            inside = dict(self.inside)
            if number == 0 and not config.first_norm:
                inside = {a: b for a, b in inside.items() if b != "around_attention.norm"}
            names = f"{self.layer.format(number)}.", f"encoder.blocks.{number}."
            yield from _layers(inside, config, *names, biases=config.bias)
        if self.last:
            yield from _layers({self.last: "encoder.norm"}, config)

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
        if self.classifier_pooling:
            names = {ours: theirs for theirs, ours in POOLINGS.items()}
            values[self.classifier_pooling] = names[config.pooling]
        return values | hf_labels([f"LABEL_{i}" for i in range(config.num_classes)])

    def _lacks(self, config: Config) -> list[str]:
        """Return the reasons of the family, and those for heads that no class of it has."""
        bert = config if isinstance(config, BertConfig) else config.bert
        reasons = self.fields.lacks(bert) + self._other_settings(bert)
        is_narrow = bert.embedding_width != bert.model_dim
        if is_narrow and not self.widen:
            reasons.append(f"embedding_dim={bert.embedding_dim} (must be None or {bert.model_dim})")
        elif self.always_wide and not is_narrow:
            reasons.append(f"embedding_dim={bert.embedding_dim} (must be different from model_dim)")
        reasons += [
            f"{name}=0 (must be 1 or more)" for name in self.positive if not getattr(bert, name)
        ]
        if isinstance(config, BertClassifierConfig):
            if not self.classifier_pooling:
                reasons += needs(config, {"pooling": ("first",)})
            if config.pooling == "first" or self.classifier_pooling:
                reasons += needs(bert, {"pooler": (self.pooling,)})
        elif isinstance(config, BertConfig):
            reasons += needs(bert, {"pooler": ("none", "tanh") if self.pooler else ("none",)})
            if _heads(bert) not in self.classes.values():
                heads = " and ".join(f"{name}={getattr(bert, name)}" for name in HEADS)
                reasons.append(f"no class with {heads}")
        elif self.pooling == "gelu-norm":
            reasons += needs(bert, {"pooler": (self.pooling,)})
        return reasons

    def _other_settings(self, bert: BertConfig) -> list[str]:
        """Return the settings that are in no table and do not have their defaults."""
        known = {*self.fields.fixed, *(key.ours for key in self.fields.keys), *_OTHERS, *HEADS}
        plain = {item.name: (item.default,) for item in fields(bert) if item.name not in known}
        if "layers" not in known or "l" not in bert.layers:
            plain.pop("window", None)
        if bert.positions != "rotary":
            plain.pop("rotary_base", None)
        return needs(bert, plain)


_OTHERS = ("embedding_dim", "pooler", "classifier_pooler")
"""Settings that `EncoderKind` checks by itself, or that concern new heads only."""


def _layers(
    table: Table, config: BertConfig, theirs: str = "", ours: str = "", *, biases: bool = True
) -> Iterator[Part]:
    """Yield layers and norms. biases: whether the layers have biases; norms have them by kind."""
    for key, value in table.items():
        is_norm = isinstance(value, str) and value.endswith("norm")
        has_bias = config.norm_kind == "layer" if is_norm else biases
        yield from layers({key: value}, theirs, ours, biases=has_bias)


def _heads(config: BertConfig) -> tuple[str, ...]:
    return tuple(name for name in HEADS if getattr(config, name))


def _has_heads(heads: tuple[str, ...], config: BertConfig) -> bool:
    return _heads(config) == heads


def _any(keys: Collection[str], root: str) -> bool:
    return bool(root) and any(key.startswith(root) for key in keys)


def _problem(labels: int) -> str:
    """Return the `problem_type` of a classifier; one without several labels is a regression."""
    return "regression" if labels == 1 else "single_label_classification"
