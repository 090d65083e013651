"""The fields of known clients that a route does not honour, and what the server does with each.

A `RequestBody` declares the fields that a route honours. Each of the tables here is the other part
of a route's schema: fields that the clients of OpenAI, vLLM, text-generation-inference, SGLang,
llama.cpp, Ollama, Mistral, Jina, Cohere and LibreTranslate know. Such a field is refused with its
name, unless its value changes nothing, or it has no effect on any result. No value of a known field
is dropped in silence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from headway.serving.http.replies import ApiError


@dataclass(frozen=True)
class Refused:
    """A field that gets 400. neutral: values that change nothing, which are accepted, as null is.
    instead: what to send in its place; "" if there is nothing."""

    neutral: tuple[object, ...] = ()
    instead: str = ""

    def accepts(self, value: object) -> bool:
        """Return whether a value changes nothing."""
        return value is None or any(
            value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
            for neutral in self.neutral
        )


@dataclass(frozen=True)
class WithoutEffect:
    """A field that changes no result whatever its value is. reason: why."""

    reason: str


KnownFields = Mapping[str, Refused | WithoutEffect]


class RequestBody(msgspec.Struct, kw_only=True):
    """The body of a request: the fields that a route honours. known: those that it does not."""

    known: ClassVar[KnownFields] = {}


def refuse(known: KnownFields, name: str, value: object) -> None:
    """Raise ApiError 400 if a field of `known` has a value that the route would drop."""
    treatment = known.get(name)
    if isinstance(treatment, Refused) and not treatment.accepts(value):
        message = f"{name} is not available on this route"
        hint = f": {treatment.instead}" if treatment.instead else ""
        raise ApiError(400, message + hint, param=name)


_LABEL = WithoutEffect("a label of the request, for its sender")
_SCHEDULING = WithoutEffect("the server has one way to schedule requests")
_NOTHING_STORED = WithoutEffect("the server stores no requests")
_NO_TOOLS = "use POST /v1/chat/completions"
_THINKING = Refused((), "use chat_template_kwargs, in chat, if the template has it")
_GRAMMAR = "use structured_outputs with json, regex or choice"

ABOUT_THE_REQUEST: KnownFields = {
    "user": _LABEL,
    "metadata": _LABEL,
    "request_id": _LABEL,
    "safety_identifier": _LABEL,
    "prompt_cache_key": WithoutEffect("the prefix cache finds equal prompts by itself"),
    "prompt_cache_retention": WithoutEffect("the prefix cache drops the oldest prompts"),
    "service_tier": _SCHEDULING,
    "store": _NOTHING_STORED,
    "priority": Refused((0,)),
}
"""Fields of every route of OpenAI's and vLLM's API."""

GENERATION: KnownFields = {
    **ABOUT_THE_REQUEST,
    # vLLM
    "prompt_logprobs": Refused((), "use echo with logprobs, in completions"),
    "skip_special_tokens": Refused((True,)),
    "spaces_between_special_tokens": WithoutEffect("outputs have no special tokens"),
    "guided_grammar": Refused((), _GRAMMAR),
    "guided_decoding_backend": Refused(("auto",)),
    "guided_whitespace_pattern": Refused(),
    "structural_tag": Refused((), _GRAMMAR),
    "logits_processors": Refused(([],)),
    "return_tokens_as_token_ids": Refused((False,)),
    "return_token_ids": Refused((False,)),
    "return_prompt_token_ids": Refused((False,)),
    "kv_transfer_params": Refused(({},)),
    "vllm_xargs": Refused(({},)),
    "mm_processor_kwargs": Refused(({},)),
    "media_io_kwargs": Refused(({},)),
    "prompt_embeds": Refused(([],)),
    "thinking_token_budget": Refused(),
    "repetition_detection": Refused(),
    # text-generation-inference
    "do_sample": Refused((True,), "use temperature: 0 for greedy decoding"),
    "max_new_tokens": Refused((), "use max_tokens"),
    "return_full_text": Refused((False,), "use echo, in completions"),
    "truncate": Refused((), "use truncate_prompt_tokens"),
    "watermark": Refused((False,)),
    "details": Refused((False,), "use logprobs"),
    "decoder_input_details": Refused((False,), "use echo with logprobs, in completions"),
    "top_n_tokens": Refused((0,), "use logprobs, or top_logprobs in chat"),
    "adapter_id": Refused(("",), "serve the model with its adapter merged"),
    "lora_id": Refused(("",), "serve the model with its adapter merged"),
    "inputs": Refused((), "use prompt, or messages in chat"),
    "parameters": Refused(({},), "send its fields beside the prompt"),
    # llama.cpp
    "n_predict": Refused((), "use max_tokens"),
    "n_probs": Refused((0,), "use logprobs"),
    "n_keep": Refused((0,)),
    "id_slot": Refused((-1,)),
    "json_schema": Refused((), "use response_format, or structured_outputs with json"),
    "repeat_penalty": Refused((1.0,), "use repetition_penalty"),
    "repeat_last_n": Refused((-1,)),
    "dynatemp_range": Refused((0.0,)),
    "mirostat": Refused((0,)),
    "mirostat_tau": WithoutEffect("a setting of mirostat, which is refused"),
    "mirostat_eta": WithoutEffect("a setting of mirostat, which is refused"),
    "dry_multiplier": Refused((0.0,)),
    "xtc_probability": Refused((0.0,)),
    "tfs_z": Refused((1.0,)),
    "samplers": Refused(),
    # SGLang, Ollama, Mistral
    "regex": Refused((), "use structured_outputs with regex"),
    "ebnf": Refused((), _GRAMMAR),
    "min_new_tokens": Refused((0,), "use min_tokens"),
    "no_repeat_ngram_size": Refused((0,)),
    "num_beams": Refused((1,), "use use_beam_search"),
    "num_return_sequences": Refused((1,), "use n"),
    "max_length": Refused((), "use max_tokens"),
    "penalty_alpha": Refused((0,)),
    "top_a": Refused((0,)),
    "lora_path": Refused(("",), "serve the model with its adapter merged"),
    "custom_logit_processor": Refused(("",)),
    "return_hidden_states": Refused((False,)),
    "separate_reasoning": Refused((False,)),
    "stream_reasoning": WithoutEffect("a setting of separate_reasoning, which is refused"),
    "rid": _LABEL,
    "options": Refused(({},), "send its fields beside the prompt or the messages"),
    "format": Refused(("",), "use response_format"),
    "keep_alive": WithoutEffect("a model stays in memory as long as the server runs"),
    "random_seed": Refused((), "use seed"),
    "safe_prompt": Refused((False,), "write the rules in a message"),
    **dict.fromkeys(("enable_thinking", "think", "thinking", "reasoning"), _THINKING),
}
"""Fields of completions and chat."""

COMPLETIONS: KnownFields = {
    **GENERATION,
    "suffix": Refused(("",)),
    "messages": Refused((), "use POST /v1/chat/completions"),
    "max_completion_tokens": Refused((), "use max_tokens"),
    "top_logprobs": Refused((0,), "use logprobs: NUMBER"),
    "tools": Refused(([],), _NO_TOOLS),
}

CHAT: KnownFields = {
    **GENERATION,
    "tool_prompt": Refused((), "write it in a message; the chat template introduces the tools"),
    "functions": Refused(([],), "use tools"),
    "function_call": Refused(("none", "auto"), "use tool_choice"),
    "modalities": Refused((["text"], [])),
    "audio": Refused(),
    "prediction": WithoutEffect("a prediction makes outputs faster, and changes none"),
    "reasoning_effort": Refused(("none",), "use chat_template_kwargs, if the template has it"),
    "verbosity": Refused(("medium",), "ask for it in a message"),
    "web_search_options": Refused(),
    "moderation": Refused(),
    "include_reasoning": Refused((True,)),
    "guideline": Refused((), "use chat_template_kwargs, if the template has it"),
    "echo": Refused((False,)),
    "add_special_tokens": Refused((False,)),
    "chat_template": Refused((), "the server uses the template of the model's folder"),
    "prompt": Refused((), "use POST /v1/completions"),
    "suffix": Refused(("",)),
}

_STATELESS = "the server stores no responses: send the whole conversation as input"

RESPONSES: KnownFields = {
    **ABOUT_THE_REQUEST,
    "previous_response_id": Refused((), _STATELESS),
    "conversation": Refused((), _STATELESS),
    "background": Refused((False,)),
    "include": Refused(([],)),
    "max_tool_calls": Refused(),
    "prompt": Refused((), "use input"),
    "reasoning": Refused(({},), "use chat_template_kwargs, if the template has it"),
    "stream_options": Refused(({}, {"include_obfuscation": False})),
    "top_logprobs": Refused((0,)),
    "truncation": Refused(("disabled",)),
    "context_management": Refused(([],)),
    "moderation": Refused(),
    "messages": Refused((), "use input"),
    "max_tokens": Refused((), "use max_output_tokens"),
    "max_completion_tokens": Refused((), "use max_output_tokens"),
    "response_format": Refused((), "use text.format"),
    "n": Refused((1,)),
}

_TRUNCATION: KnownFields = {
    "truncation": Refused((True,)),
    "truncate_prompt_tokens": Refused((-1,)),
    "truncation_direction": Refused(("right", "Right")),
    "truncation_side": Refused(("right",)),
    "mm_processor_kwargs": Refused(({},)),
    "additional_data": Refused(),
}
"""Fields of routes whose models cut what exceeds their maximum length at its end."""

EMBEDDINGS: KnownFields = {
    **ABOUT_THE_REQUEST,
    **_TRUNCATION,
    "add_special_tokens": Refused((True,)),
    "normalize": Refused((True,), "use POST /embed"),
    "embed_dtype": Refused(("float32",)),
    "endianness": Refused(("native", "little")),
    "messages": Refused((), "use input"),
    "chat_template": Refused(),
    "chat_template_kwargs": Refused(({},)),
    "add_generation_prompt": Refused((False,)),
    "continue_final_message": Refused((False,)),
    "cache_salt": WithoutEffect("embeddings have no prefix cache"),
    "inputs": Refused((), "use input, or POST /embed"),
    "texts": Refused((), "use input"),
    "input_type": Refused((), "use prompt_name, or write the prompt before the texts"),
    "task": Refused((), "use prompt_name, or write the prompt before the texts"),
    "late_chunking": Refused((False,)),
    "truncate": Refused((True,)),
    "embedding_type": Refused(("float",), "use encoding_format"),
    "embedding_types": Refused((["float"],), "use encoding_format"),
}

EMBED: KnownFields = {
    **_TRUNCATION,
    "options": WithoutEffect("settings of Hugging Face's queue"),
    "parameters": Refused(({},), "send its fields beside inputs"),
    "input": Refused((), "use inputs, or POST /v1/embeddings"),
}

_PAIRS: KnownFields = {
    **ABOUT_THE_REQUEST,
    **_TRUNCATION,
    "activation": Refused((True,)),
    "use_activation": Refused((True,)),
    "softmax": Refused((True,)),
    "truncate": Refused((True,)),
}

RERANK: KnownFields = {
    **_PAIRS,
    "raw_scores": Refused((False,)),
    "return_text": Refused((), "use return_documents"),
    "texts": Refused((), "use documents"),
    "top_k": Refused((), "use top_n"),
    "max_tokens_per_doc": Refused(),
    "max_chunks_per_doc": Refused((1,)),
    "max_doc_length": Refused(),
    "max_query_length": Refused(),
    "overlap_tokens": Refused(),
    "rank_fields": Refused((["text"],), "send each document as a text"),
    "return_embeddings": Refused((False,)),
    "instruction": Refused((), "write the instruction before the query"),
    "input_type": Refused(),
}

SCORE: KnownFields = {
    **_PAIRS,
    "encoding_format": Refused(("float",)),
    "queries": Refused((), "use text_1"),
    "documents": Refused((), "use text_2, or POST /v1/rerank"),
    "data_1": Refused((), "use text_1"),
    "data_2": Refused((), "use text_2"),
}

TOKENIZE: KnownFields = {
    "messages": Refused((), "use prompt"),
    "content": Refused((), "use prompt"),
    "inputs": Refused((), "use prompt"),
    "add_special": Refused((), "use add_special_tokens"),
    "with_pieces": Refused((False,), "use return_token_strs"),
    "parse_special": Refused((False,)),
    "add_generation_prompt": Refused((False,)),
    "continue_final_message": Refused((False,)),
    "chat_template": Refused(),
    "chat_template_kwargs": Refused(({},)),
    "tools": Refused(([],)),
    "mm_processor_kwargs": Refused(({},)),
}

DETOKENIZE: KnownFields = {
    "skip_special_tokens": Refused((True,)),
    "ids": Refused((), "use tokens"),
}

_GREEDY = "transcripts are decoded greedily"

TRANSCRIPTIONS: KnownFields = {
    # OpenAI
    "prompt": Refused(("",)),
    "temperature": Refused((0, 0.0), _GREEDY),
    "stream": Refused((False,)),
    "include": Refused(),
    "chunking_strategy": Refused(("auto",)),
    "known_speaker_names": Refused(),
    "known_speaker_references": Refused(),
    # vLLM
    **ABOUT_THE_REQUEST,
    **dict.fromkeys(("seed", "top_p", "top_k", "min_p"), WithoutEffect(_GREEDY)),
    "frequency_penalty": Refused((0,)),
    "presence_penalty": Refused((0,)),
    "repetition_penalty": Refused((1,)),
    "max_completion_tokens": Refused(),
    "use_beam_search": Refused((False,)),
    "n": Refused((1,)),
    "length_penalty": Refused((1,)),
    "include_stop_str_in_output": Refused((False,)),
    "hotwords": Refused(("",)),
    "to_language": Refused(("en",)),
    "stream_include_usage": Refused((False,)),
    "stream_continuous_usage_stats": Refused((False,)),
    "vllm_xargs": Refused(({},)),
}
"""Fields of transcriptions and translations."""

PREDICTIONS: KnownFields = {
    "options": WithoutEffect("settings of Hugging Face's queue"),
}
"""Fields beside `inputs` and `parameters` in the form of Hugging Face's inference API."""

PARAMETERS: Mapping[str, KnownFields] = {
    "tag": {
        "ignore_labels": Refused((["O"],)),
        "stride": Refused(),
    },
    "classify": {"function_to_apply": Refused()},
    "translate": {
        "clean_up_tokenization_spaces": Refused((False,)),
        "truncation": Refused(("do_not_truncate",)),
        "generate_parameters": Refused(({},), "send its fields in parameters"),
    },
    "fill": {"targets": Refused(([],))},
    "answer": {
        "align_to_words": Refused((True,)),
        "doc_stride": Refused(),
        "handle_impossible_answer": Refused(),
        "max_answer_len": Refused(),
        "max_question_len": Refused(),
        "max_seq_len": Refused(),
    },
    "caption": {"generation_parameters": Refused(({},), "send its fields in parameters")},
}
"""Verb -> the fields of `parameters` that are no options of its tasks."""

LIBRETRANSLATE: KnownFields = {
    "api_key": WithoutEffect("the key of this server is in the header Authorization"),
}
"""Fields beside `q` in the form of LibreTranslate."""
