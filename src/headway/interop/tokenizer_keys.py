"""Check the keys of tokenizer_config.json and special_tokens_map.json that change texts."""

from pathlib import Path

import tokenizers

from headway.interop.hf_config import HFConfig, Ignored
from headway.interop.ignored_keys import TOKENIZER, lost
from headway.interop.named_tokens import NAMES_FILES, read_json_object
from headway.text.hf_tokenizer import FILE

_TEMPLATE = Ignored("the template in tokenizer.json decides, as in transformers")
_GENERIC = Ignored("the class of the tokenizer uses tokenizer.json as it is")
GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
"""Classes of transformers that do not change a tokenizer.json; the ending Fast is removed."""
_SPACE, _CASE, _ACCENTS, _CHINESE = (
    "add_prefix_space",
    "do_lower_case",
    "strip_accents",
    "tokenize_chinese_chars",
)
SPLITTING_KEYS = (_SPACE, _CASE, _ACCENTS, _CHINESE, "keep_accents")
CLEAN_UP, ADD_END = "clean_up_tokenization_spaces", "add_eos_token"
KEYS = frozenset(TOKENIZER) | {*SPLITTING_KEYS, CLEAN_UP, ADD_END}
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
            key: TOKENIZER["bos_token"]
            for key, value in config.values.items()
            if key.endswith("_token") and isinstance(value, str | dict)
        }
        name = str(config.values.get("tokenizer_class")).removesuffix("Fast")
        is_generic = (folder / FILE).exists() and name in GENERIC_CLASSES
        config.check_all_read(
            {
                **TOKENIZER,
                **tokens,
                **(dict.fromkeys(SPLITTING_KEYS, _GENERIC) if is_generic else _splitting(engine)),
                CLEAN_UP: _clean_up(engine),
                ADD_END: _TEMPLATE if _has_template(folder, engine) else _no_end(),
            }
        )


def _has_template(folder: Path, engine: tokenizers.Tokenizer | None) -> bool:
    return (folder / FILE).exists() or engine is None


def _no_end() -> Ignored:
    return lost("no token follows a prompt, which the model continues", False)


def _clean_up(engine: tokenizers.Tokenizer | None) -> Ignored:
    """Return the rule for the removal of spaces before punctuation, which transformers leaves out
    for BPE, and which the decoder of WordPiece always does."""
    kind = "Unigram" if engine is None else type(engine.model).__name__
    if kind in ("BPE", "WordPiece"):
        return Ignored(f"it changes nothing for {kind}")
    return lost("the spaces before punctuation in an output are kept", False)


def _splitting(engine: tokenizers.Tokenizer | None) -> dict[str, Ignored]:
    """Return the rules for the keys of how texts are split: a value is neutral if the engine does
    what it says."""
    if engine is None:
        why = "the SentencePiece model has its own rules"
        return {
            **{key: lost(why, False) for key in SPLITTING_KEYS},
            **dict.fromkeys((_SPACE, "keep_accents"), lost(why, True)),
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
    return {key: lost(why, does) for key, does in behaviours.items()}
