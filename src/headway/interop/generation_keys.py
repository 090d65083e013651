"""The keys of generation_config.json that Headway does not read, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping

from headway.interop.hf_config import Ignored

_SPEED = Ignored("it concerns speed and memory, not the outputs")
_RETURNED = Ignored("it concerns what `generate` returns besides the tokens")
_DRAFT = Ignored("speculative decoding has the same outputs; see --draft and --lookup")
_WRITER = Ignored("it names the program that wrote the file")
_SAMPLING = Ignored("it has an effect only where do_sample is true")


def _lost(reason: str, *neutral: object) -> Ignored:
    return Ignored(f"{reason}, so outputs differ from those of transformers", neutral)


IGNORED_KEYS: Mapping[str, Ignored] = {
    "_from_model_config": _WRITER,
    "_commit_hash": _WRITER,
    "transformers_version": _WRITER,
    "use_cache": _SPEED,
    "cache_implementation": _SPEED,
    "cache_config": _SPEED,
    "max_cache_len": _SPEED,
    "compile_config": _SPEED,
    "disable_compile": _SPEED,
    "low_memory": _SPEED,
    "prefill_chunk_size": _SPEED,
    "continuous_batching_config": _SPEED,
    "output_attentions": _RETURNED,
    "output_hidden_states": _RETURNED,
    "output_scores": _RETURNED,
    "output_logits": _RETURNED,
    "return_dict_in_generate": _RETURNED,
    "use_mtp": _DRAFT,
    "is_assistant": _DRAFT,
    "num_assistant_tokens": _DRAFT,
    "num_assistant_tokens_schedule": _DRAFT,
    "assistant_confidence_threshold": _DRAFT,
    "prompt_lookup_num_tokens": _DRAFT,
    "max_matching_ngram_size": _DRAFT,
    "assistant_early_exit": _DRAFT,
    "assistant_lookbehind": _DRAFT,
    "target_lookbehind": _DRAFT,
    "assistant_ensemble_weight": _DRAFT,
    "speculation_type": _DRAFT,
    "remove_invalid_values": Ignored("Headway refuses logits that are not finite"),
    "temperature": _SAMPLING,
    "top_k": _SAMPLING,
    "top_p": _SAMPLING,
    "min_p": _SAMPLING,
    "typical_p": _SAMPLING,
    "do_sample": _lost("this kind of model searches for its outputs by beams", False),
    "max_time": _lost("Headway has no limit of time for an output"),
    "stop_strings": _lost("this kind of model has no stop strings", []),
    "forced_bos_token_id": _lost("a language model continues its prompt"),
    "forced_eos_token_id": _lost("an output of maximum length is cut"),
    "top_h": _lost("Headway has no top-h sampling"),
    "epsilon_cutoff": _lost("Headway has no epsilon sampling; see --min-p", 0, 0.0),
    "eta_cutoff": _lost("Headway has no eta sampling; see --min-p", 0, 0.0),
    "encoder_repetition_penalty": _lost("only tokens of the output are penalised", 1, 1.0),
    "encoder_no_repeat_ngram_size": _lost("n-grams of the source may occur in the output", 0),
    "exponential_decay_length_penalty": _lost("Headway has no length penalty for single tokens"),
    "sequence_bias": _lost("Headway has no bias of sequences; see --bias", {}, []),
    "token_healing": _lost("the last token of a prompt is kept", False),
    "num_return_sequences": _lost("there is one output; ask for more with --samples or --nbest", 1),
    "penalty_alpha": _lost("contrastive search must be asked for: --contrastive", 0, 0.0),
    "dola_layers": _lost("DoLa must be asked for: --dola"),
    "diversity_penalty": _lost("diverse beam search must be asked for: --diversity", 0, 0.0),
    "num_beam_groups": _lost("diverse beam search must be asked for: --beam-groups", 1),
    "watermarking_config": _lost("Headway writes no watermark"),
    "guidance_scale": Ignored(
        "Headway has no classifier-free guidance; remove the key to generate without it",
        (1, 1.0),
        refused=True,
    ),
    "constraints": Ignored(
        "Headway cannot read constraints; remove the key and name phrases by --contain",
        ([],),
        refused=True,
    ),
    "force_words_ids": Ignored(
        "Headway cannot read constraints; remove the key and name phrases by --contain",
        ([],),
        refused=True,
    ),
}
"""Keys that `read_generation_defaults` does not read -> what that means."""

KEYS = frozenset(IGNORED_KEYS) | {
    "num_beams",
    "length_penalty",
    "early_stopping",
    "repetition_penalty",
    "no_repeat_ngram_size",
    "min_length",
    "min_new_tokens",
    "max_length",
    "max_new_tokens",
    "suppress_tokens",
    "begin_suppress_tokens",
    "bad_words_ids",
    "renormalize_logits",
}
"""All keys of `GenerationConfig` of transformers but the ids of roles, which old folders have in
config.json."""
