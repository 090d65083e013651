"""The keys that Headway does not read, by the file that has them, with the reasons.

A key is irrelevant whatever its value, or something is lost unless its value is neutral, or a value
that is not neutral makes the folder unusable. `HFConfig.check_all_read` warns of all other keys.
"""

from collections.abc import Mapping

from headway.interop.hf_config import Ignored

Keys = Mapping[str, Ignored]


def _irrelevant(reason: str, keys: str) -> dict[str, Ignored]:
    """keys: names, separated by white space."""
    return dict.fromkeys(keys.split(), Ignored(reason))


def lost(reason: str, *neutral: object) -> Ignored:
    """Return the rule for a key of which a warning names every value but the neutral ones."""
    return Ignored(reason, neutral)


def _refused(reason: str, *neutral: object) -> Ignored:
    return Ignored(reason, neutral, refused=True)


def _differs(reason: str, *neutral: object) -> Ignored:
    return lost(f"{reason}, so outputs differ from those of transformers", *neutral)


_CONSTRAINTS = "Headway cannot read constraints; remove the key and name phrases by --contain"
GENERATION: Keys = {
    **_irrelevant(
        "it names the program that wrote the file",
        "_from_model_config _commit_hash transformers_version",
    ),
    **_irrelevant(
        "it concerns speed and memory, not the outputs",
        """
        use_cache cache_implementation cache_config max_cache_len compile_config disable_compile
        low_memory prefill_chunk_size continuous_batching_config
        """,
    ),
    **_irrelevant(
        "it concerns what `generate` returns besides the tokens",
        """
        output_attentions output_hidden_states output_scores output_logits
        return_dict_in_generate
        """,
    ),
    **_irrelevant(
        "speculative decoding has the same outputs; see --draft and --lookup",
        """
        use_mtp is_assistant num_assistant_tokens num_assistant_tokens_schedule
        assistant_confidence_threshold prompt_lookup_num_tokens max_matching_ngram_size
        assistant_early_exit assistant_lookbehind target_lookbehind assistant_ensemble_weight
        speculation_type
        """,
    ),
    **_irrelevant(
        "it has an effect only where do_sample is true", "temperature top_k top_p min_p typical_p"
    ),
    **_irrelevant("Headway refuses logits that are not finite", "remove_invalid_values"),
    **_irrelevant(
        "the reader of a transcriber uses it, or the options of headway transcribe replace it",
        """
        lang_to_id task_to_id no_timestamps_token_id is_multilingual max_initial_timestamp_index
        prev_sot_token_id alignment_heads return_timestamps forced_decoder_ids language task
        """,
    ),
    "condition_on_prev_tokens": _differs("a window is transcribed without the text before", False),
    "no_speech_threshold": _differs("Headway transcribes windows without speech, too"),
    "compression_ratio_threshold": _differs("Headway transcribes every window once"),
    "logprob_threshold": _differs("Headway transcribes every window once"),
    "do_sample": _differs("this kind of model searches for its outputs by beams", False),
    "max_time": _differs("Headway has no limit of time for an output"),
    "stop_strings": _differs("this kind of model has no stop strings", []),
    "forced_bos_token_id": _differs("a language model continues its prompt"),
    "forced_eos_token_id": _differs("an output of maximum length is cut"),
    "top_h": _differs("Headway has no top-h sampling"),
    "epsilon_cutoff": _differs("Headway has no epsilon sampling; see --min-p", 0, 0.0),
    "eta_cutoff": _differs("Headway has no eta sampling; see --min-p", 0, 0.0),
    "encoder_repetition_penalty": _differs("only tokens of the output are penalised", 1, 1.0),
    "encoder_no_repeat_ngram_size": _differs("n-grams of the source may occur in the output", 0),
    "exponential_decay_length_penalty": _differs("Headway has no length penalty for single tokens"),
    "sequence_bias": _differs("Headway has no bias of sequences; see --bias", {}, []),
    "token_healing": _differs("the last token of a prompt is kept", False),
    "num_return_sequences": _differs(
        "there is one output; ask for more with --samples or --nbest", 1
    ),
    "penalty_alpha": _differs("contrastive search must be asked for: --contrastive", 0, 0.0),
    "dola_layers": _differs("DoLa must be asked for: --dola"),
    "diversity_penalty": _differs("diverse beam search must be asked for: --diversity", 0, 0.0),
    "num_beam_groups": _differs("diverse beam search must be asked for: --beam-groups", 1),
    "watermarking_config": _differs("Headway writes no watermark"),
    "guidance_scale": _refused(
        "Headway has no classifier-free guidance; remove the key to generate without it", 1, 1.0
    ),
    "constraints": _refused(_CONSTRAINTS, []),
    "force_words_ids": _refused(_CONSTRAINTS, []),
}
"""Keys of generation_config.json that `read_generation_defaults` does not always read."""

READ_GENERATION: Keys = _irrelevant(
    "it is read with generation_config.json",
    """
    num_beams length_penalty early_stopping repetition_penalty no_repeat_ngram_size min_length
    min_new_tokens max_length max_new_tokens suppress_tokens begin_suppress_tokens bad_words_ids
    renormalize_logits
    """,
)
"""The keys of generation_config.json that it reads, which old folders have in config.json."""

ROLES = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
"""Keys of config.json and generation_config.json that the readers of tokenizers use."""

_SCALES = "Headway cannot read scales of this kind"
_QUANTISED = "Headway reads weights of floating-point numbers"
CONFIG: Keys = {
    **READ_GENERATION,
    **dict.fromkeys(GENERATION, READ_GENERATION["num_beams"]),
    # the names of special tokens are only in old folders
    **_irrelevant(
        "the readers of the tokenizer use it",
        f"""
        {" ".join(ROLES)} sep_token_id cls_token_id mask_token_id model_max_length bos_token_ids
        eos_token_ids pad_token_ids
        """,
    ),
    **_irrelevant(
        "it names the program or the file that the model is from",
        """
        transformers_version _name_or_path _commit_hash adapters finetuning_task language name
        model_name _num_labels tokenizer_class unsloth_version transformers.js_config
        """,
    ),
    **_irrelevant(
        "it concerns training only",
        """
        attention_dropout attention_probs_dropout_prob attn_pdrop embd_pdrop activation_dropout
        classifier_dropout classifier_dropout_prob encoder_layerdrop decoder_layerdrop
        drop_path_rate dropout_rate hidden_dropout_prob resid_pdrop dropout qa_dropout
        gradient_checkpointing seq_classif_dropout classif_dropout layerdrop output_past
        router_aux_loss_coef problem_type static_position_embeddings extra_pos_embeddings
        embedding_dropout emb_pdrop hidden_dropout residual_dropout sparse_prediction
        sparse_pred_ignore_index pooler_dropout cls_dropout pos_embed_shift pos_embed_jitter
        pos_embed_rescale apply_spec_augment mask_time_prob mask_time_length mask_time_min_masks
        mask_feature_prob mask_feature_length mask_feature_min_masks
        """,
    ),
    **_irrelevant(
        "it concerns the weights at the start of training",
        """
        initializer_range initializer_factor init_std layerscale_value use_mask_token
        initializer_cutoff_factor logit_scale_init_value
        """,
    ),
    **_irrelevant(
        "it concerns what a model of transformers returns",
        """
        output_attentions output_hidden_states return_dict use_return_dict output_scores
        output_router_logits
        """,
    ),
    **_irrelevant(
        "it concerns speed and memory, not the outputs",
        """
        use_cache torchscript use_bfloat16 chunk_size_feed_forward pretraining_tp
        reorder_and_upcast_attn attn_implementation _attn_implementation
        _attn_implementation_autoset tf_legacy_loss slow_but_exact init_device reference_compile
        deterministic_flash_attn repad_logits_with_grad
        """,
    ),
    **_irrelevant(
        "it has presets for pipelines of transformers, which a model does not use",
        "task_specific_params prefix",
    ),
    **_irrelevant(
        "it concerns a head of another class",
        """
        classifier_pooling pool_scales use_auxiliary_head auxiliary_loss_weight auxiliary_channels
        auxiliary_num_convs auxiliary_concat_input semantic_loss_ignore_index add_fpn
        summary_activation summary_first_dropout summary_last_dropout summary_proj_to_labels
        summary_type
        summary_use_proj use_weighted_layer_sum classifier_proj_size median_filter_width
        """,
    ),
    **_irrelevant(
        "it follows from other keys",
        """
        dtype torch_dtype model_type architectures n_ctx n_special predict_special_tokens
        num_hidden_layers label2id id2label num_labels dense_act_fn is_gated_act max_window_layers
        num_attention_heads hidden_size embedding_size num_hidden_groups net_structure_type gap_size
        num_memory_blocks down_scale_factor is_encoder_decoder pooler_type pooler_size_per_head
        directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
        normalize_before normalize_embedding add_bias_logits n_positions add_final_layer_norm
        max_length pooler_act pooler_output_size pooler_hidden_size layer_norm_eps
        """,
    ),
    **_irrelevant(
        "it concerns the use as a backbone of another model",
        """
        out_features out_indices stage_names reshape_hidden_states apply_layernorm encoder_stride
        """,
    ),
    **_irrelevant(
        "the reader of a model that scores pairs uses it",
        "sentence_transformers sbert_ce_default_activation_function",
    ),
    **_irrelevant(
        "transformers does not read it, either",
        "learned_pos_emb embedding_fraction norm_type apply_rotary",
    ),
    **_irrelevant("other keys say the same", "initial_context_length experts_per_token"),
    **_irrelevant("this class has no output projection", "tie_word_embeddings"),
    **_irrelevant("it has an effect only with use_sliding_window", "sliding_window"),
    **_irrelevant("the file contains the table of positions", "sinusoidal_pos_embds"),
    "force_bos_token_to_be_generated": lost("name the token as forced_bos_token_id", False),
    "auto_map": lost("it names code in the folder, which Headway never runs"),
    "clip_qkv": _refused("Headway cannot clip queries, keys and values"),
    "router_jitter_noise": lost("the inputs of routers get no noise in training", 0, 0.0),
    "use_sliding_window": _refused("Headway cannot read sliding windows here", False),
    "layerscale": _refused("the family has a LayerScale in every block", True),
    "add_cross_attention": _refused("a model without a source has no cross-attention", False),
    "is_decoder": _refused("an encoder cannot be a decoder here", False),
    "position_embedding_type": _refused("Headway reads absolute positions", "absolute"),
    "pruned_heads": _refused("Headway cannot read pruned heads", {}),
    "tie_encoder_decoder": _refused("Headway cannot read tied stacks", False),
    "cross_attention_hidden_size": _refused("Headway cannot read a projection between stacks"),
    "quantization_config": _refused(_QUANTISED),
    "quantization": _refused(_QUANTISED),
    "layer_types": _refused("Headway reads full attention in every layer"),
    "attention_multiplier": _refused(_SCALES, 1, 1.0),
    "embedding_multiplier": _refused(_SCALES, 1, 1.0),
    "residual_multiplier": _refused(_SCALES, 1, 1.0),
    "logits_scaling": _refused(_SCALES, 1, 1.0),
    "final_logit_softcapping": _refused("Headway cannot limit logits"),
    "attn_logit_softcapping": _refused("Headway cannot limit logits"),
}
"""Keys of config.json that no reader of a family, or not every one, reads."""

TOKENIZER: Keys = {
    **_irrelevant(
        "the readers of the tokenizer use it",
        """
        bos_token eos_token unk_token sep_token pad_token cls_token mask_token extra_special_tokens
        additional_special_tokens added_tokens_decoder chat_template tokenizer_class add_bos_token
        extra_ids legacy_behaviour language_codes src_lang tgt_lang source_lang target_lang
        """,
    ),
    **_irrelevant("generation_config.json and config.json have the ids", " ".join(ROLES)),
    **_irrelevant(
        "it names the program or the files that the tokenizer is from",
        """
        name_or_path _name_or_path transformers_version _commit_hash revision repo_id subfolder
        commit_message cache_dir force_download proxies
        local_files_only is_local _is_local from_slow init_inputs backend tokenizer_file vocab_file
        merges_file spm_file source_spm vocab
        target_spm target_vocab_file special_tokens_map_file tokenizer_type slow_tokenizer_class
        fast_tokenizer_files processor_class device_map trust_remote_code use_fast unsloth_version
        unk_id merges gguf_file save_jinja_files files_loaded _from_auto _from_pipeline
        """,
    ),
    **_irrelevant(
        "it concerns batches of texts; Headway pads each kind of model as it needs",
        """
        padding padding_side pad_to_multiple_of pad_token_type_id pad_to_max_length
        padding_strategy num_madeup_words
        """,
    ),
    **_irrelevant(
        "config.json has the maximum number of positions",
        """
        model_max_length max_len max_length max_target_length truncation truncation_strategy stride
        max_len_single_sentence max_len_sentences_pair
        """,
    ),
    **_irrelevant(
        "it concerns what a tokenizer of transformers returns",
        """
        model_input_names return_token_type_ids return_tensors trim_offsets verbose cls_token_box
        response_schema response_template return_attention_mask spaces_between_special_tokens
        add_special_tokens
        """,
    ),
    **_irrelevant(
        "the text of a special token in an input is plain text",
        "split_special_tokens sanitize_control_tokens chat_control_tokens legacy",
    ),
    **_irrelevant(
        "it concerns tokenizers in Python, and the Rust ones ignore it, too",
        "do_basic_tokenize never_split remove_space split_by_punct",
    ),
    **_irrelevant("the chat template has the system prompt", "use_default_system_prompt"),
    **_irrelevant("Headway says how it shortens a text that is too long", "truncation_side"),
    "auto_map": lost("it names code in the folder, which Headway never runs"),
    "errors": lost("bytes that are not UTF-8 are replaced", "replace"),
    "sp_model_kwargs": lost("a text has its most probable segmentation", {}),
    "fix_mistral_regex": lost("tokenizer.json splits texts as it says", False),
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": lost(
        "the spaces of an output are kept", False
    ),
    "separate_vocabs": _refused("Headway reads one vocabulary for both languages", False),
}
"""Keys of tokenizer_config.json and special_tokens_map.json that `HFConfig` does not read."""

PROCESSOR: Keys = {
    **_irrelevant(
        "the processor follows from it, or from the type of the model",
        "image_processor_type feature_extractor_type",
    ),
    **_irrelevant(
        "it concerns how transformers calls the processor, not what that computes",
        """
        processor_class _processor_class _valid_processor_keys transformers_version
        input_data_format return_tensors device disable_grouping image_seq_length
        return_attention_mask padding_side
        """,
    ),
    **_irrelevant("it follows from the keys that are read", "mel_filters n_samples nb_max_frames"),
    **_irrelevant(
        "it has an effect only if the step that it belongs to is used",
        "crop_size default_to_square image_mean image_std pad_size rescale_factor",
    ),
    "size_divisor": lost("the processor of transformers does not read it, either"),
}
"""Keys of preprocessor_config.json that Headway does not always read."""

ADAPTER: Keys = {
    **_irrelevant(
        "it concerns training only",
        """
        auto_mapping inference_mode lora_dropout task_type revision peft_version loftq_config
        eva_config corda_config runtime_config qalora_group_size ensure_weight_tying megatron_core
        """,
    ),
    **_irrelevant(
        "the names of the tensors say which layers are adapted",
        """
        target_modules exclude_modules modules_to_save layers_to_transform layers_pattern bias
        """,
    ),
    **_irrelevant("it follows from the family of the base model", "fan_in_fan_out"),
    "init_lora_weights": lost("it concerns the start of training", True, False, "gaussian"),
    "lora_bias": _refused("Headway has no biases of adapters", False),
    "use_dora": _refused("Headway cannot merge DoRA", False),
    "use_qalora": _refused("Headway cannot merge QALoRA", False),
    "layer_replication": _refused("Headway cannot replicate layers", []),
    "megatron_config": _refused("Headway cannot merge adapters of Megatron", {}),
    "trainable_token_indices": _refused("Headway cannot merge trained tokens", [], {}),
    "target_parameters": _refused("Headway cannot merge adapters of parameters", []),
    "alora_invocation_tokens": _refused("an activated adapter cannot be merged", []),
    "arrow_config": _refused("Headway cannot merge a router of adapters", {}),
    "use_bdlora": _refused("Headway cannot merge block-diagonal adapters", False, {}),
}
"""Keys of adapter_config.json that Headway does not read."""

POOLING: Keys = _irrelevant(
    "it follows from the encoder", "word_embedding_dimension embedding_dimension"
)
"""Keys of 1_Pooling/config.json of sentence-transformers that Headway does not read."""
SENTENCE_LENGTH: Keys = {
    **_irrelevant(
        "it concerns how sentence-transformers loads the model",
        """
        model_args model_kwargs tokenizer_args processor_kwargs config_args config_kwargs cache_dir
        backend tokenizer_name_or_path modality_config module_output_name unpad_inputs
        processing_kwargs
        """,
    ),
    "transformer_task": lost("Headway reads vectors of tokens", "feature-extraction"),
}
"""Keys of sentence_bert_config.json that Headway does not read."""
COSINE = "cosine"
PROMPTS: Keys = {
    **_irrelevant("it names the program that wrote the file", "__version__"),
    "model_type": _refused("Headway reads bi-encoders", "SentenceTransformer"),
    "similarity_fn_name": lost("Headway compares vectors by their cosine", COSINE),
}
"""Keys of config_sentence_transformers.json that Headway does not read."""
