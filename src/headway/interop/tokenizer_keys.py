"""The keys of tokenizer_config.json and special_tokens_map.json that no reader of a tokenizer
reads, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tokenizers

from headway.interop.added_tokens import EXTRA
from headway.interop.generation_config import ROLES
from headway.interop.hf_config import HFConfig, Ignored
from headway.interop.named_tokens import DECLARED, NAMES, NAMES_FILES, read_json_object
from headway.text.hf_tokenizer import FILE

_READ = Ignored("the readers of the tokenizer use it")
_WRITER = Ignored("it names the program or the files that the tokenizer is from")
_BATCHES = Ignored("it concerns batches of texts; Headway pads each kind of model as it needs")
_LENGTH = Ignored("config.json has the maximum number of positions")
_RETURNED = Ignored("it concerns what a tokenizer of transformers returns")
_PLAIN = Ignored("the text of a special token in an input is plain text")
_TEMPLATE = Ignored("the template in tokenizer.json decides, as in transformers")
_SLOW = Ignored("it concerns tokenizers in Python, and the Rust ones ignore it, too")
_GENERIC = Ignored("the class of the tokenizer uses tokenizer.json as it is")
GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
"""Classes of transformers that do not change a tokenizer.json; the ending Fast is removed."""


def _lost(reason: str, *neutral: object) -> Ignored:
    return Ignored(reason, neutral)


IGNORED_KEYS: Mapping[str, Ignored] = {
    **dict.fromkeys((*NAMES, *EXTRA, DECLARED, "chat_template", "tokenizer_class"), _READ),
    **dict.fromkeys(("add_bos_token", "extra_ids", "legacy_behaviour", "language_codes"), _READ),
    **dict.fromkeys(("src_lang", "tgt_lang", "source_lang", "target_lang"), _READ),
    **dict.fromkeys(ROLES, Ignored("generation_config.json and config.json have the ids")),
    **dict.fromkeys(
        (
            *("name_or_path", "_name_or_path", "transformers_version", "_commit_hash", "revision"),
            *("repo_id", "subfolder", "commit_message", "cache_dir", "force_download", "proxies"),
            *("local_files_only", "is_local", "_is_local", "from_slow", "init_inputs", "backend"),
            *("tokenizer_file", "vocab_file", "merges_file", "spm_file", "source_spm", "vocab"),
            *("target_spm", "target_vocab_file", "special_tokens_map_file", "tokenizer_type"),
            *("slow_tokenizer_class", "fast_tokenizer_files", "processor_class", "device_map"),
            *("trust_remote_code", "use_fast", "unsloth_version", "unk_id", "merges", "gguf_file"),
            *("save_jinja_files", "files_loaded", "_from_auto", "_from_pipeline"),
        ),
        _WRITER,
    ),
    **dict.fromkeys(
        (
            *("padding", "padding_side", "pad_to_multiple_of", "pad_token_type_id"),
            *("pad_to_max_length", "padding_strategy", "num_madeup_words"),
        ),
        _BATCHES,
    ),
    **dict.fromkeys(
        (
            *("model_max_length", "max_len", "max_length", "max_target_length", "truncation"),
            *("truncation_strategy", "stride", "max_len_single_sentence", "max_len_sentences_pair"),
        ),
        _LENGTH,
    ),
    **dict.fromkeys(
        (
            *("model_input_names", "return_token_type_ids", "return_tensors", "trim_offsets"),
            *("verbose", "cls_token_box", "response_schema", "response_template"),
            *("return_attention_mask", "spaces_between_special_tokens", "add_special_tokens"),
        ),
        _RETURNED,
    ),
    **dict.fromkeys(
        ("split_special_tokens", "sanitize_control_tokens", "chat_control_tokens", "legacy"),
        _PLAIN,
    ),
    **dict.fromkeys(("do_basic_tokenize", "never_split", "remove_space"), _SLOW),
    "use_default_system_prompt": Ignored("the chat template has the system prompt"),
    "truncation_side": Ignored("Headway says how it shortens a text that is too long"),
    "auto_map": _lost("it names code in the folder, which Headway never runs"),
    "errors": _lost("bytes that are not UTF-8 are replaced", "replace"),
    "sp_model_kwargs": _lost("a text has its most probable segmentation", {}),
    "fix_mistral_regex": _lost("tokenizer.json splits texts as it says", False),
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": _lost(
        "the spaces of an output are kept", False
    ),
    "separate_vocabs": Ignored(
        "Headway reads one vocabulary for both languages", (False,), refused=True
    ),
}
"""Keys of both files -> what it means that no method of `HFConfig` reads them."""

_SPACE, _CASE, _ACCENTS, _CHINESE = (
    "add_prefix_space",
    "do_lower_case",
    "strip_accents",
    "tokenize_chinese_chars",
)
SPLITTING_KEYS = (_SPACE, _CASE, _ACCENTS, _CHINESE, "keep_accents")
CLEAN_UP, ADD_END = "clean_up_tokenization_spaces", "add_eos_token"
KEYS = frozenset(IGNORED_KEYS) | {*SPLITTING_KEYS, CLEAN_UP, ADD_END}
"""All keys that Headway knows."""


def check_tokenizer_keys(folder: Path, engine: tokenizers.Tokenizer | None) -> None:
    """Warn of each key of the two files that changes texts or tokens in transformers, but not here.

    engine: the tokenizer as it was read; None for one of SentencePiece. A key of how texts are
    split needs no warning if the engine does what it says. Raises DataError for a key that makes
    the tokenizer another one.
    """
    for file in NAMES_FILES:
        config = HFConfig(read_json_object(folder / file), str(folder / file))
        tokens = {
            key: _READ
            for key, value in config.values.items()
            if key.endswith("_token") and isinstance(value, str | dict)
        }
        name = str(config.values.get("tokenizer_class")).removesuffix("Fast")
        is_generic = (folder / FILE).exists() and name in GENERIC_CLASSES
        config.check_all_read(
            {
                **IGNORED_KEYS,
                **tokens,
                **(dict.fromkeys(SPLITTING_KEYS, _GENERIC) if is_generic else _splitting(engine)),
                CLEAN_UP: _clean_up(engine),
                ADD_END: _TEMPLATE if _has_template(folder, engine) else _no_end(),
            }
        )


def _has_template(folder: Path, engine: tokenizers.Tokenizer | None) -> bool:
    return (folder / FILE).exists() or engine is None


def _no_end() -> Ignored:
    return _lost("no token follows a prompt, which the model continues", False)


def _clean_up(engine: tokenizers.Tokenizer | None) -> Ignored:
    """Return the rule for the removal of spaces before punctuation, which transformers leaves out
    for BPE, and which the decoder of WordPiece always does."""
    kind = "Unigram" if engine is None else type(engine.model).__name__
    if kind in ("BPE", "WordPiece"):
        return Ignored(f"it changes nothing for {kind}")
    return _lost("the spaces before punctuation in an output are kept", False)


def _splitting(engine: tokenizers.Tokenizer | None) -> dict[str, Ignored]:
    """Return the rules for the keys of how texts are split: a value is neutral if the engine does
    what it says."""
    if engine is None:
        why = "the SentencePiece model has its own rules"
        return {
            **{key: _lost(why, False) for key in SPLITTING_KEYS},
            **dict.fromkeys((_SPACE, "keep_accents"), _lost(why, True)),
        }

    def normalised(text: str) -> str:
        return text if engine.normalizer is None else str(engine.normalizer.normalize_str(text))

    first = normalised("a")
    if engine.pre_tokenizer is not None:
        first = engine.pre_tokenizer.pre_tokenize_str(first)[0][0]
    keeps_accents = normalised("é").casefold() == "é"
    behaviours = {
        _SPACE: first[:1] in ("Ġ", "▁"),
        _CASE: normalised("A").endswith("a"),
        _ACCENTS: not keeps_accents,
        _CHINESE: " " in normalised("中文").strip(),
        "keep_accents": keeps_accents,
    }
    why = "the tokenizer in the folder does otherwise"
    return {key: _lost(why, does) for key, does in behaviours.items()}
