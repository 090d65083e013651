"""Code shared by BERT, RoBERTa, DistilBERT and ALBERT: the same parts and heads by other names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headway.base.errors import DataError
from headway.interop.hf_config import ACTIVATION_NAMES, HFConfig, hf_labels
from headway.interop.weight_names import Architecture, Family, Part, layers, needs
from headway.models import (
    BertClassifierConfig,
    BertConfig,
    BertQuestionAnsweringConfig,
    BertTaggerConfig,
)
from headway.models.bert import PoolerName

EMBEDDING = "embeddings.word_embeddings.weight"
IGNORED = r"embeddings\.(position_ids|token_type_ids)"
RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
DEEPEST = 1000  # more layers than any model has; shared layers do not make a file larger


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of the parts of a `Bert` in a family, theirs -> ours.

    stem: prefix of the class names. classes: suffix of each pretraining class -> whether it has a
    masked-language-modelling head and a next-sentence head; "Model" has none. layer: the block with
    number {}; inside: the layers in it. pooler: the pooler; "" if there is none. root: prefix of
    the keys of the masked-language-modelling head; words: its layers; bias: its output bias;
    copies: keys that are stored as copies, of this bias and of the embedding. follows: the
    next-sentence head. pooled: the layer before a classifier's last, and pooling its activation;
    classes_layer: the last. dropouts: the keys of dropout in a classifier and in a tagger, and the
    default for the classifier; if None, the encoder's. widen: the projection of factorised
    embeddings to the model width.
    """

    stem: str
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


Settings = Callable[[HFConfig], dict[str, Any]]


def settings(hf_config: HFConfig) -> dict[str, Any]:
    """Return the fields of `BertConfig` whose keys are the same in BERT, RoBERTa and ALBERT.

    Our single dropout is their dropout after each sublayer; we have no dropout on attention
    weights.
    """
    hf_config.must_be("position_embedding_type", "absolute")
    hf_config.must_be("is_decoder", False)
    hf_config.must_be("add_cross_attention", False)
    hf_config.must_be("pruned_heads", {})
    return {
        "vocabulary": hf_config.whole("vocab_size"),
        "model_dim": hf_config.whole("hidden_size"),
        "num_layers": hf_config.whole("num_hidden_layers", below=DEEPEST),
        "num_heads": hf_config.whole("num_attention_heads"),
        "ffn_dim": hf_config.whole("intermediate_size"),
        "max_length": hf_config.whole("max_position_embeddings", 512),
        "token_types": hf_config.whole("type_vocab_size", 2),
        "norm_eps": hf_config.number("layer_norm_eps", 1e-12),
        "dropout": hf_config.number("hidden_dropout_prob", 0.1, high=1.0),
    }


def hf_encoder_config(config: BertConfig) -> dict[str, Any]:
    """Return the keys of config.json for a configuration of ours, the inverse of `settings`."""
    return {
        "vocab_size": config.vocabulary,
        "hidden_size": config.model_dim,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.ffn_dim,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": config.token_types,
        "layer_norm_eps": config.norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": ACTIVATION_NAMES[config.activation],
    }


def encoder_family(
    *,
    model_type: str,
    names: Names,
    settings: Settings,
    to_hf_config: Callable[[BertConfig], dict[str, Any]],
    lacks: Callable[[BertConfig], list[str]],
) -> Family:
    """Return a `Family` of encoders, with the classes that all four families have.

    settings: config.json -> fields of `BertConfig`, except its heads; to_hf_config: the inverse.
    lacks: the reasons why an encoder of ours, without its heads, cannot be represented.
    """
    roots = (names.root, names.follows, names.pooled, "classifier.", "qa_outputs.")
    head_roots = [root for root in roots if root and root != names.pooler]
    return Family(
        model_type=model_type,
        prefix=f"{model_type}.",
        heads="|".join(f"{root.replace('.', '[.]')}.*" for root in head_roots),
        ignored=IGNORED,
        renamed=RENAMED,
        architectures=(*_pretrained(names, settings), *_tasks(names, settings)),
        to_hf_config=partial(_to_hf_config, names, to_hf_config),
        lacks=partial(_lacks, names, lacks),
    )


def _pretrained(names: Names, settings: Settings) -> Iterator[Architecture]:
    """Yield the class without heads and those with the heads of pretraining."""
    for end, heads in names.classes.items():
        yield Architecture(
            names=(names.stem + end,),
            kind=BertConfig,
            config=partial(_pretrained_config, names, settings, heads),
            parts=partial(_bert_parts, names),
            tied=partial(_tied, names),
            fits=partial(_has_heads, heads),
            bare=end == "Model",
        )


def _has_heads(heads: tuple[bool, bool], config: BertConfig) -> bool:
    return (config.masked_lm_head, config.next_sentence) == heads


def _pretrained_config(
    names: Names,
    settings: Settings,
    heads: tuple[bool, bool],
    hf_config: HFConfig,
    keys: Collection[str],
) -> BertConfig:
    """Return the configuration with the heads of the class, and with those that only the file has:
    many files have a pooler or a head that their class does not have, and it is kept."""
    masked, follows = heads
    if masked or _any(keys, names.root):
        masked = True
        hf_config.must_be("tie_word_embeddings", True)
    follows = follows or _any(keys, names.follows)
    pooler: PoolerName = "tanh" if follows or _any(keys, names.pooler) else "none"
    return BertConfig(
        **settings(hf_config), pooler=pooler, masked_lm_head=masked, next_sentence=follows
    )


def _any(keys: Collection[str], root: str) -> bool:
    return bool(root) and any(key.startswith(root) for key in keys)


def _tied(names: Names, config: BertConfig) -> dict[str, str]:
    return dict(names.copies) if config.masked_lm_head else {}


def _tasks(names: Names, settings: Settings) -> Iterator[Architecture]:
    """Yield the classes for classification, tagging and question answering.

    Old files of taggers and question-answering models contain an unused pooler.
    """
    old = rf"{names.pooler}\..*" if names.pooler else ""
    for end, kind, config in (
        ("ForSequenceClassification", BertClassifierConfig, _classifier_config),
        ("ForTokenClassification", BertTaggerConfig, _tagger_config),
        ("ForQuestionAnswering", BertQuestionAnsweringConfig, _answerer_config),
    ):
        uses = kind is BertClassifierConfig and names.pooled == names.pooler
        yield Architecture(
            names=(names.stem + end,),
            kind=kind,
            config=partial(config, names, settings),
            parts=partial(_task_parts, names),
            unused="" if uses else old,
        )


def _encoder(settings: Settings, hf_config: HFConfig, pooler: PoolerName) -> BertConfig:
    return BertConfig(
        **settings(hf_config), pooler=pooler, masked_lm_head=False, next_sentence=False
    )


def _classifier_config(
    names: Names, settings: Settings, hf_config: HFConfig, keys: object
) -> BertClassifierConfig:
    bert = _encoder(settings, hf_config, names.pooling)
    key, _, default = names.dropouts
    labels = hf_config.labels()
    problem_type = "regression" if len(labels) == 1 else "single_label_classification"
    hf_config.must_be("problem_type", problem_type)
    dropout = hf_config.number(key, bert.dropout if default is None else default, high=1.0)
    return BertClassifierConfig(bert=bert, num_classes=len(labels), dropout=dropout)


def _tagger_config(
    names: Names, settings: Settings, hf_config: HFConfig, keys: object
) -> BertTaggerConfig:
    bert, labels = _encoder(settings, hf_config, "none"), hf_config.labels()
    if len(labels) < 2:
        raise DataError(
            f"id2label has {len(labels)} tag, but a tagger needs at least 2", hf_config.where
        )
    dropout = hf_config.number(names.dropouts[1], bert.dropout, high=1.0)
    return BertTaggerConfig(bert=bert, num_tags=len(labels), dropout=dropout)


def _answerer_config(
    names: Names, settings: Settings, hf_config: HFConfig, keys: object
) -> BertQuestionAnsweringConfig:
    return BertQuestionAnsweringConfig(bert=_encoder(settings, hf_config, "none"))


def _bert_parts(names: Names, config: BertConfig) -> Iterator[Part]:
    yield from _encoder_parts(names, config)
    if config.pooler != "none":
        yield from layers({names.pooler: "pooler.project"})
    if config.masked_lm_head:
        yield from layers(names.words)
        yield Part(names.bias, ("masked_lm_head.output.bias",))
    if config.next_sentence:
        yield from layers({names.follows: "next_sentence"})


def _task_parts(
    names: Names, config: BertClassifierConfig | BertTaggerConfig | BertQuestionAnsweringConfig
) -> Iterator[Part]:
    for part in _encoder_parts(names, config.bert):
        yield replace(part, ours=tuple(f"bert.{name}" for name in part.ours))
    if isinstance(config, BertClassifierConfig):
        yield from layers({names.pooled: "bert.pooler.project", names.classes_layer: "head"})
    else:
        last = "qa_outputs" if isinstance(config, BertQuestionAnsweringConfig) else "classifier"
        yield from layers({last: "head"})


def _encoder_parts(names: Names, config: BertConfig) -> Iterator[Part]:
    yield Part(EMBEDDING, ("embedding.words.tokens.weight",))
    positions = "embedding.words.positions.table.vectors"
    yield Part("embeddings.position_embeddings.weight", (positions,))
    if config.token_types:
        yield Part("embeddings.token_type_embeddings.weight", ("embedding.types.weight",))
    yield from layers({"embeddings.LayerNorm": "embedding.norm"})
    if names.widen:
        yield from layers({names.widen: "widen"})
    for number in range(1 if config.shared_layers else config.num_layers):
        theirs, ours = names.layer.format(number), f"encoder.blocks.{number}"
        yield from layers({f"{theirs}.{k}": f"{ours}.{v}" for k, v in names.inside.items()})


def _to_hf_config(
    names: Names, to_hf_config: Callable[[BertConfig], dict[str, Any]], config: Any
) -> dict[str, Any]:
    if isinstance(config, BertConfig):
        return {**to_hf_config(config), "tie_word_embeddings": True}
    values = {**to_hf_config(config.bert), "tie_word_embeddings": True}
    if isinstance(config, BertQuestionAnsweringConfig):
        return values
    classifies = isinstance(config, BertClassifierConfig)
    count = config.num_classes if classifies else config.num_tags
    key = names.dropouts[0] if classifies else names.dropouts[1]
    values = {key: config.dropout, **values}
    values |= hf_labels([f"LABEL_{i}" for i in range(count)])
    if classifies:
        values["problem_type"] = "regression" if count == 1 else "single_label_classification"
    return values


def _lacks(names: Names, lacks: Callable[[BertConfig], list[str]], config: Any) -> list[str]:
    """Return the reasons of the family, and those for heads that no class of it has."""
    bert = config if isinstance(config, BertConfig) else config.bert
    reasons = needs(
        bert, {"norm": ("post",), "positions": ("learned",), "attention": ("scaled-dot",)}
    )
    reasons += lacks(bert)
    if isinstance(config, BertClassifierConfig):
        reasons += needs(config, {"pooling": ("first",)})
        if config.pooling == "first":
            reasons += needs(bert, {"pooler": (names.pooling,)})
    elif isinstance(config, BertConfig):
        reasons += needs(bert, {"pooler": ("none", "tanh") if names.pooler else ("none",)})
        if (bert.masked_lm_head, bert.next_sentence) not in names.classes.values():
            reasons.append(
                f"no class with masked_lm_head={bert.masked_lm_head} and "
                f"next_sentence={bert.next_sentence}"
            )
    return reasons
