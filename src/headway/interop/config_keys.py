"""The keys of config.json that no family reads, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping

from headway.interop.generation_config import ROLES
from headway.interop.generation_keys import KEYS
from headway.interop.hf_config import Ignored

_WRITER = Ignored("it names the program or the file that the model is from")
_TRAINING = Ignored("it concerns training only")
_START = Ignored("it concerns the weights at the start of training")
_RETURNED = Ignored("it concerns what a model of transformers returns")
_SPEED = Ignored("it concerns speed and memory, not the outputs")
_TASKS = Ignored("it has presets for pipelines of transformers, which a model does not use")
_SUMMARY = Ignored("it concerns a head of another class (double heads)")
_DECODING = Ignored("it is read with generation_config.json")
_TOKENS = Ignored("the readers of the tokenizer use it")
_DERIVED = Ignored("it follows from other keys")
_SCORES = Ignored("the reader of a model that scores pairs uses it")
_BACKBONE = Ignored("it concerns the use as a backbone of another model")


def _refused(reason: str, *neutral: object) -> Ignored:
    return Ignored(reason, neutral, refused=True)


def _lost(reason: str, *neutral: object) -> Ignored:
    return Ignored(reason, neutral)


OLD_ROLES = (
    *("sep_token_id", "cls_token_id", "mask_token_id", "model_max_length"),
    *("bos_token_ids", "eos_token_ids", "pad_token_ids"),
)
"""Keys of special tokens that only old folders have."""

IGNORED_KEYS: Mapping[str, Ignored] = {
    **dict.fromkeys(KEYS, _DECODING),
    **dict.fromkeys((*ROLES, *OLD_ROLES), _TOKENS),
    **dict.fromkeys(
        ("transformers_version", "_name_or_path", "_commit_hash", "adapters", "finetuning_task"),
        _WRITER,
    ),
    **dict.fromkeys(
        (
            "language",
            "name",
            "model_name",
            "_num_labels",
            "tokenizer_class",
            "unsloth_version",
            "transformers.js_config",
        ),
        _WRITER,
    ),
    **dict.fromkeys(("dtype", "torch_dtype", "model_type", "architectures"), _DERIVED),
    **dict.fromkeys(
        (
            *("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "embd_pdrop"),
            *("activation_dropout", "classifier_dropout", "classifier_dropout_prob"),
            *("encoder_layerdrop", "decoder_layerdrop", "drop_path_rate", "dropout_rate"),
            *(
                "hidden_dropout_prob",
                "resid_pdrop",
                "dropout",
                "qa_dropout",
                "gradient_checkpointing",
            ),
            *(
                "seq_classif_dropout",
                "classif_dropout",
                "layerdrop",
                "output_past",
                "router_aux_loss_coef",
            ),
            *("problem_type", "static_position_embeddings", "extra_pos_embeddings"),
        ),
        _TRAINING,
    ),
    **dict.fromkeys(
        (
            "initializer_range",
            "initializer_factor",
            "init_std",
            "layerscale_value",
            "use_mask_token",
        ),
        _START,
    ),
    **dict.fromkeys(
        (
            "output_attentions",
            "output_hidden_states",
            "return_dict",
            "use_return_dict",
            "output_scores",
        ),
        _RETURNED,
    ),
    **dict.fromkeys(
        (
            *("use_cache", "torchscript", "use_bfloat16", "chunk_size_feed_forward"),
            *("pretraining_tp", "reorder_and_upcast_attn", "attn_implementation"),
            *("_attn_implementation", "_attn_implementation_autoset", "tf_legacy_loss"),
        ),
        _SPEED,
    ),
    **dict.fromkeys(("task_specific_params", "prefix"), _TASKS),
    **dict.fromkeys(
        (
            *("summary_activation", "summary_first_dropout", "summary_proj_to_labels"),
            *("summary_type", "summary_use_proj"),
        ),
        _SUMMARY,
    ),
    **dict.fromkeys(
        (
            *("n_ctx", "n_special", "predict_special_tokens", "num_hidden_layers", "label2id"),
            *("id2label", "num_labels", "dense_act_fn", "is_gated_act", "max_window_layers"),
            *("num_attention_heads", "hidden_size", "embedding_size", "num_hidden_groups"),
            *("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor"),
            *("is_encoder_decoder", "pooler_type", "pooler_size_per_head", "directionality"),
            *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
            *("normalize_before", "normalize_embedding", "add_bias_logits", "n_positions"),
            *("add_final_layer_norm", "max_length", "pooler_act", "pooler_output_size"),
        ),
        _DERIVED,
    ),
    **dict.fromkeys(
        (
            *("out_features", "out_indices", "stage_names", "reshape_hidden_states"),
            *("apply_layernorm", "encoder_stride"),
        ),
        _BACKBONE,
    ),
    **dict.fromkeys(("sentence_transformers", "sbert_ce_default_activation_function"), _SCORES),
    "tie_word_embeddings": Ignored("this class has no output projection"),
    "force_bos_token_to_be_generated": _lost("name the token as forced_bos_token_id", False),
    "sliding_window": Ignored("it has an effect only with use_sliding_window"),
    "use_sliding_window": _refused("Headway cannot read sliding windows here", False),
    "layerscale": _refused("the family has a LayerScale in every block", True),
    "sinusoidal_pos_embds": Ignored("the file contains the table of positions"),
    "add_cross_attention": _refused("a model without a source has no cross-attention", False),
    "is_decoder": _refused("an encoder cannot be a decoder here", False),
    "position_embedding_type": _refused("Headway reads absolute positions", "absolute"),
    "pruned_heads": _refused("Headway cannot read pruned heads", {}),
    "tie_encoder_decoder": _refused("Headway cannot read tied stacks", False),
    "cross_attention_hidden_size": _refused("Headway cannot read a projection between stacks"),
    "quantization_config": _refused("Headway reads weights of floating-point numbers"),
    "quantization": _refused("Headway reads weights of floating-point numbers"),
    "auto_map": _lost("it names code in the folder, which Headway never runs"),
    "layer_types": _refused("Headway reads full attention in every layer"),
    "attention_multiplier": _refused("Headway cannot read scales of this kind", 1, 1.0),
    "embedding_multiplier": _refused("Headway cannot read scales of this kind", 1, 1.0),
    "residual_multiplier": _refused("Headway cannot read scales of this kind", 1, 1.0),
    "logits_scaling": _refused("Headway cannot read scales of this kind", 1, 1.0),
    "final_logit_softcapping": _refused("Headway cannot limit logits"),
    "attn_logit_softcapping": _refused("Headway cannot limit logits"),
}
"""Keys of config.json that no reader of a family reads -> what that means."""
