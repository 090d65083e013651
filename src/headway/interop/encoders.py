"""What BERT, RoBERTa, DistilBERT and ALBERT have alike: the same parts by other names, and the same
heads on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headway.errors import DataError
from headway.interop.hf_config import ACTIVATION_NAMES, Facts, label_facts
from headway.interop.weight_names import Architecture, Family, Part, layers, needs
from headway.models import BertAnswererConfig, BertClassifierConfig, BertConfig, BertTaggerConfig
from headway.models.bert import PoolerName

EMBEDDING = "embeddings.word_embeddings.weight"
IGNORED = r"embeddings\.(position_ids|token_type_ids)"
RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
DEEPEST = 1000  # more layers than anybody has; shared ones cost nothing in the file


@dataclass(frozen=True, kw_only=True)
class Names:
    """How a family calls the parts of a `Bert`: theirs -> ours.

    stem: what its classes begin with. classes: those of pre-training by the end of their names, and
    whether they guess words and judge the next sentence; Model is the bare one. layer, inside: a
    block, by its number, and the layers in it. pooler: none if "". root: what the keys of the head
    for hidden words begin with; words: its layers; bias: its last; copies: of it and of the
    embedding. follows: the head for the next sentence. pooled, pooling: the layer under a
    classifier's last, and its activation; classes_layer: the last. dropouts: the keys of a
    classifier's and a tagger's dropout, and the former's default (none: the encoder's).
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


Settings = Callable[[Facts], dict[str, Any]]


def settings(facts: Facts) -> dict[str, Any]:
    """The fields of `BertConfig` that BERT, RoBERTa and ALBERT name alike.

    One dropout of ours stands for theirs after each sublayer; theirs on attention weights is not
    here.
    """
    facts.must_be("position_embedding_type", "absolute")
    facts.must_be("is_decoder", False)
    facts.must_be("add_cross_attention", False)
    facts.must_be("pruned_heads", {})
    return {
        "vocabulary": facts.whole("vocab_size"),
        "model_dim": facts.whole("hidden_size"),
        "num_layers": facts.whole("num_hidden_layers", below=DEEPEST),
        "num_heads": facts.whole("num_attention_heads"),
        "ffn_dim": facts.whole("intermediate_size"),
        "max_length": facts.whole("max_position_embeddings", 512),
        "token_types": facts.whole("type_vocab_size", 2),
        "norm_eps": facts.number("layer_norm_eps", 1e-12),
        "dropout": facts.number("hidden_dropout_prob", 0.1, high=1.0),
    }


def encoder_facts(config: BertConfig) -> dict[str, Any]:
    """The way back."""
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
    facts: Callable[[BertConfig], dict[str, Any]],
    lacks: Callable[[BertConfig], list[str]],
) -> Family:
    """A `Family` of encoders, with the classes that all four have.

    settings: config.json -> fields of `BertConfig` but for its heads; facts: the way back. lacks:
    why an encoder of ours, its heads aside, cannot be one of these.
    """
    roots = (names.root, names.follows, names.pooled, "classifier.", "qa_outputs.")
    own = [root for root in roots if root and root != names.pooler]
    return Family(
        model_type=model_type,
        prefix=f"{model_type}.",
        heads="|".join(f"{root.replace('.', '[.]')}.*" for root in own),
        ignored=IGNORED,
        renamed=RENAMED,
        architectures=(*_pretrained(names, settings), *_tasks(names, settings)),
        facts=partial(_facts, names, facts),
        lacks=partial(_lacks, names, lacks),
    )


def _pretrained(names: Names, settings: Settings) -> Iterator[Architecture]:
    """Bare, and with the heads of pre-training."""
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
    return (config.masked_words, config.next_sentence) == heads


def _pretrained_config(
    names: Names,
    settings: Settings,
    heads: tuple[bool, bool],
    facts: Facts,
    found: Collection[str],
) -> BertConfig:
    """What the class must have, and what the file has beside that: many have a pooler or another
    head than their class, and all of it is worth keeping."""
    masked, follows = heads
    if masked or _any(found, names.root):
        masked = True
        facts.must_be("tie_word_embeddings", True)
    follows = follows or _any(found, names.follows)
    pooler: PoolerName = "tanh" if follows or _any(found, names.pooler) else "none"
    return BertConfig(**settings(facts), pooler=pooler, masked_words=masked, next_sentence=follows)


def _any(found: Collection[str], root: str) -> bool:
    return bool(root) and any(key.startswith(root) for key in found)


def _tied(names: Names, config: BertConfig) -> dict[str, str]:
    return dict(names.copies) if config.masked_words else {}


def _tasks(names: Names, settings: Settings) -> Iterator[Architecture]:
    """Classes, tags and answers. Old taggers and answerers keep a pooler that they never use."""
    old = rf"{names.pooler}\..*" if names.pooler else ""
    for end, kind, config in (
        ("ForSequenceClassification", BertClassifierConfig, _classifier_config),
        ("ForTokenClassification", BertTaggerConfig, _tagger_config),
        ("ForQuestionAnswering", BertAnswererConfig, _answerer_config),
    ):
        uses = kind is BertClassifierConfig and names.pooled == names.pooler
        yield Architecture(
            names=(names.stem + end,),
            kind=kind,
            config=partial(config, names, settings),
            parts=partial(_task_parts, names),
            unused="" if uses else old,
        )


def _encoder(settings: Settings, facts: Facts, pooler: PoolerName) -> BertConfig:
    return BertConfig(**settings(facts), pooler=pooler, masked_words=False, next_sentence=False)


def _classifier_config(
    names: Names, settings: Settings, facts: Facts, found: object
) -> BertClassifierConfig:
    bert = _encoder(settings, facts, names.pooling)
    key, _, usual = names.dropouts
    labels = facts.labels()
    wanted = "regression" if len(labels) == 1 else "single_label_classification"
    facts.must_be("problem_type", wanted)
    dropout = facts.number(key, bert.dropout if usual is None else usual, high=1.0)
    return BertClassifierConfig(bert=bert, num_classes=len(labels), dropout=dropout)


def _tagger_config(
    names: Names, settings: Settings, facts: Facts, found: object
) -> BertTaggerConfig:
    bert, labels = _encoder(settings, facts, "none"), facts.labels()
    if len(labels) < 2:
        raise DataError(f"{len(labels)} tag, and there must be two to choose from", facts.where)
    dropout = facts.number(names.dropouts[1], bert.dropout, high=1.0)
    return BertTaggerConfig(bert=bert, num_tags=len(labels), dropout=dropout)


def _answerer_config(
    names: Names, settings: Settings, facts: Facts, found: object
) -> BertAnswererConfig:
    return BertAnswererConfig(bert=_encoder(settings, facts, "none"))


def _bert_parts(names: Names, config: BertConfig) -> Iterator[Part]:
    yield from _encoder_parts(names, config)
    if config.pooler != "none":
        yield from layers({names.pooler: "pooler.project"})
    if config.masked_words:
        yield from layers(names.words)
        yield Part(names.bias, ("masked_words.output.bias",))
    if config.next_sentence:
        yield from layers({names.follows: "next_sentence"})


def _task_parts(
    names: Names, config: BertClassifierConfig | BertTaggerConfig | BertAnswererConfig
) -> Iterator[Part]:
    for part in _encoder_parts(names, config.bert):
        yield replace(part, ours=tuple(f"bert.{name}" for name in part.ours))
    if isinstance(config, BertClassifierConfig):
        yield from layers({names.pooled: "bert.pooler.project", names.classes_layer: "head"})
    else:
        last = "qa_outputs" if isinstance(config, BertAnswererConfig) else "classifier"
        yield from layers({last: "head"})


def _encoder_parts(names: Names, config: BertConfig) -> Iterator[Part]:
    yield Part(EMBEDDING, ("embedding.words.tokens.weight",))
    places = "embedding.words.positions.table.vectors"
    yield Part("embeddings.position_embeddings.weight", (places,))
    if config.token_types:
        yield Part("embeddings.token_type_embeddings.weight", ("embedding.types.weight",))
    yield from layers({"embeddings.LayerNorm": "embedding.norm"})
    if names.widen:
        yield from layers({names.widen: "widen"})
    for number in range(1 if config.shared_layers else config.num_layers):
        theirs, ours = names.layer.format(number), f"encoder.blocks.{number}"
        yield from layers({f"{theirs}.{k}": f"{ours}.{v}" for k, v in names.inside.items()})


def _facts(
    names: Names, facts: Callable[[BertConfig], dict[str, Any]], config: Any
) -> dict[str, Any]:
    if isinstance(config, BertConfig):
        return {**facts(config), "tie_word_embeddings": True}
    told = {**facts(config.bert), "tie_word_embeddings": True}
    if isinstance(config, BertAnswererConfig):
        return told
    classifies = isinstance(config, BertClassifierConfig)
    count = config.num_classes if classifies else config.num_tags
    key = names.dropouts[0] if classifies else names.dropouts[1]
    told = {key: config.dropout, **told}
    told |= label_facts([f"LABEL_{i}" for i in range(count)])
    if classifies:
        told["problem_type"] = "regression" if count == 1 else "single_label_classification"
    return told


def _lacks(names: Names, lacks: Callable[[BertConfig], list[str]], config: Any) -> list[str]:
    """The reasons of the family, and what of the heads has no class there."""
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
        if (bert.masked_words, bert.next_sentence) not in names.classes.values():
            reasons.append(
                f"no class with masked_words={bert.masked_words} and "
                f"next_sentence={bert.next_sentence}"
            )
    return reasons
