"""BERT, RoBERTa and its variants, DistilBERT, ALBERT, ELECTRA in Hugging Face folders.

They have the same parts and heads by other names: each is a table of config.json and of tensors.
BERT has post-norm, learned positions and a pooler on [CLS]. The positions of RoBERTa start after
the id of the padding token. DistilBERT has neither token types nor a pooler. The layers of ALBERT
share one block, and its embeddings are factorised, as those of a small ELECTRA are.
"""

from dataclasses import replace

from headway.interop.config_fields import Fields, Key, Values, choice, number, probability, whole
from headway.interop.encoders.kind import EMBEDDING, EncoderKind
from headway.interop.hf_config import ACTIVATIONS, HFConfig

DEEPEST = 1000  # more layers than any model has; shared layers do not make a file larger

# Our single dropout is their dropout after each sublayer; we have no dropout on attention weights.
FIELDS = Fields(
    keys=(
        whole("vocab_size", "vocabulary"),
        whole("hidden_size", "model_dim"),
        whole("num_hidden_layers", "num_layers", below=DEEPEST),
        whole("num_attention_heads", "num_heads"),
        whole("intermediate_size", "ffn_dim"),
        whole("max_position_embeddings", "max_length", 512),
        whole("type_vocab_size", "token_types", 2),
        number("layer_norm_eps", "norm_eps", 1e-12),
        probability("hidden_dropout_prob", "dropout", 0.1),
    ),
    fixed={
        "norm": "post",
        "positions": "learned",
        "attention": "scaled-dot",
        "first_position": 0,
        "shared_layers": False,
    },
    expected={
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "pruned_heads": {},
    },
    constant={"attention_probs_dropout_prob": 0.0},
)
BERT = EncoderKind(
    model_type="bert",
    stem="Bert",
    fields=FIELDS.extended(choice("hidden_act", "activation", ACTIVATIONS, "gelu")),
    positive=("token_types",),
    classes={
        "Model": (),
        "ForPreTraining": ("masked_lm_head", "next_sentence"),
        "ForMaskedLM": ("masked_lm_head",),
        "ForNextSentencePrediction": ("next_sentence",),
    },
    layer="encoder.layer.{}",
    inside={
        "attention.self.query": "attention.query",
        "attention.self.key": "attention.key",
        "attention.self.value": "attention.value",
        "attention.output.dense": "attention.output",
        "attention.output.LayerNorm": "around_attention.norm",
        "intermediate.dense": "feedforward.expand",
        "output.dense": "feedforward.contract",
        "output.LayerNorm": "around_feedforward.norm",
    },
    pooler="pooler.dense",
    root="cls.predictions.",
    words={
        "cls.predictions.transform.dense": "masked_lm_head.transform",
        "cls.predictions.transform.LayerNorm": "masked_lm_head.norm",
    },
    bias="cls.predictions.bias",
    copies={
        "cls.predictions.decoder.weight": EMBEDDING,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    follows="cls.seq_relationship",
    pooled={"pooler.dense": "pooler.project"},
)


def _first_position(hf_config: HFConfig, fields: Values) -> int:
    length = hf_config.whole("max_position_embeddings", 512)
    return hf_config.padding("max_position_embeddings", length) + 1


def _length_after_padding(hf_config: HFConfig, fields: Values) -> int:
    """Return the maximum length: the table starts with unused rows, one for each id up to that of
    padding."""
    length = hf_config.whole("max_position_embeddings", 512)
    return length - _first_position(hf_config, fields)


# the masked-language-modelling head of RoBERTa uses GELU, whatever hidden_act is
ROBERTA = replace(
    BERT,
    model_type="roberta",
    stem="Roberta",
    prefix="roberta",
    fields=FIELDS.extended(
        Key(
            "max_position_embeddings",
            "max_length",
            _length_after_padding,
            lambda config: config.max_length + config.first_position,
        ),
        Key(
            "pad_token_id",
            "first_position",
            _first_position,
            lambda config: config.first_position - 1,
        ),
        fixed={"activation": "gelu"},
        expected={"hidden_act": "gelu"},
        constant={"hidden_act": "gelu"},
    ),
    positive=("first_position", "token_types"),
    classes={"Model": (), "ForMaskedLM": ("masked_lm_head",)},
    root="lm_head.",
    words={
        "lm_head.dense": "masked_lm_head.transform",
        "lm_head.layer_norm": "masked_lm_head.norm",
    },
    bias="lm_head.bias",
    copies={"lm_head.decoder.weight": EMBEDDING, "lm_head.decoder.bias": "lm_head.bias"},
    follows="",
    pooled={"classifier.dense": "pooler.project"},
    classes_layer="classifier.out_proj",
)
DISTILBERT = EncoderKind(
    model_type="distilbert",
    stem="DistilBert",
    # sinusoidal positions are stored in the file as a table, as learned ones are
    fields=Fields(
        keys=(
            whole("vocab_size", "vocabulary"),
            whole("dim", "model_dim"),
            whole("n_layers", "num_layers", below=DEEPEST),
            whole("n_heads", "num_heads"),
            whole("hidden_dim", "ffn_dim"),
            whole("max_position_embeddings", "max_length", 512),
            probability("dropout", "dropout", 0.1),
            choice("activation", "activation", ACTIVATIONS, "gelu"),
        ),
        fixed={**FIELDS.fixed, "token_types": 0, "norm_eps": 1e-12},
        expected={"pruned_heads": {}},
        constant={"sinusoidal_pos_embds": False, "attention_dropout": 0.0, "qa_dropout": 0.0},
    ),
    classes={"Model": (), "ForMaskedLM": ("masked_lm_head",)},
    layer="transformer.layer.{}",
    inside={
        "attention.q_lin": "attention.query",
        "attention.k_lin": "attention.key",
        "attention.v_lin": "attention.value",
        "attention.out_lin": "attention.output",
        "sa_layer_norm": "around_attention.norm",
        "ffn.lin1": "feedforward.expand",
        "ffn.lin2": "feedforward.contract",
        "output_layer_norm": "around_feedforward.norm",
    },
    pooler="",
    root="vocab_",
    words={
        "vocab_transform": "masked_lm_head.transform",
        "vocab_layer_norm": "masked_lm_head.norm",
    },
    bias="vocab_projector.bias",
    copies={"vocab_projector.weight": EMBEDDING},
    pooled={"pre_classifier": "pooler.project"},
    pooling="relu",
    dropouts=("seq_classif_dropout", "dropout", 0.2),
)


def _check_width(hf_config: HFConfig, fields: Values) -> None:
    if fields["embedding_dim"] == fields["model_dim"]:
        raise hf_config.refusal("embedding_size", fields["model_dim"], "different from hidden_size")


ALBERT = EncoderKind(
    model_type="albert",
    stem="Albert",
    fields=FIELDS.extended(
        choice("hidden_act", "activation", ACTIVATIONS, "gelu_new"),
        whole("embedding_size", "embedding_dim", 128, source="embedding_width"),
        probability("hidden_dropout_prob", "dropout", 0.0),
        fixed={"shared_layers": True},
        expected={"num_hidden_groups": 1, "inner_group_num": 1},
        constant={"num_hidden_groups": 1, "inner_group_num": 1},
        check=_check_width,
    ),
    positive=("token_types",),
    classes={
        "Model": (),
        "ForPreTraining": ("masked_lm_head", "next_sentence"),
        "ForMaskedLM": ("masked_lm_head",),
    },
    layer="encoder.albert_layer_groups.{}.albert_layers.0",
    inside={
        "attention.query": "attention.query",
        "attention.key": "attention.key",
        "attention.value": "attention.value",
        "attention.dense": "attention.output",
        "attention.LayerNorm": "around_attention.norm",
        "ffn": "feedforward.expand",
        "ffn_output": "feedforward.contract",
        "full_layer_layer_norm": "around_feedforward.norm",
    },
    pooler="pooler",
    root="predictions.",
    words={
        "predictions.dense": "masked_lm_head.transform",
        "predictions.LayerNorm": "masked_lm_head.norm",
    },
    bias="predictions.bias",
    copies={
        "predictions.decoder.weight": EMBEDDING,
        "predictions.decoder.bias": "predictions.bias",
    },
    follows="sop_classifier.classifier",
    pooled={"pooler": "pooler.project"},
    dropouts=("classifier_dropout_prob", "classifier_dropout_prob", 0.1),
    widen="encoder.embedding_hidden_mapping_in",
    always_wide=True,
)

# Clark et al. 2020: the discriminator is the encoder that is used, the generator a small helper
ELECTRA = replace(
    BERT,
    model_type="electra",
    stem="Electra",
    fields=FIELDS.extended(
        whole("embedding_size", "embedding_dim", 128, source="embedding_width"),
        fixed={"activation": "gelu"},
        expected={"hidden_act": "gelu"},
        constant={"hidden_act": "gelu"},
    ),
    classes={
        "Model": (),
        "ForPreTraining": ("replaced_token_head",),
        "ForMaskedLM": ("masked_lm_head",),
    },
    pooler="",
    root="generator_",
    words={
        "generator_predictions.dense": "masked_lm_head.transform",
        "generator_predictions.LayerNorm": "masked_lm_head.norm",
    },
    bias="generator_lm_head.bias",
    copies={"generator_lm_head.weight": EMBEDDING},
    follows="",
    replaced={
        "discriminator_predictions.dense": "replaced_token_head.transform",
        "discriminator_predictions.dense_prediction": "replaced_token_head.output",
    },
    pooled={"classifier.dense": "pooler.project"},
    pooling="gelu",
    classes_layer="classifier.out_proj",
    widen="embeddings_project",
)
FAMILIES = tuple(
    kind.family()
    for kind in (
        BERT,
        ROBERTA,
        # Conneau et al. 2020 (100 languages), Martin et al. 2020 (French): other class names
        replace(ROBERTA, model_type="xlm-roberta", stem="XLMRoberta"),
        replace(ROBERTA, model_type="camembert", stem="Camembert"),
        DISTILBERT,
        ALBERT,
        ELECTRA,
    )
)
