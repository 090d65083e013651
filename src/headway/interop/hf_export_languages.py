"""Write the tokenizer of mBART, mBART-50, M2M100 or NLLB with its languages for transformers."""

from __future__ import annotations

import json
from pathlib import Path

from headway.base.files import json_bytes, write_file
from headway.interop.added_tokens import declared_in_config
from headway.interop.language_model_tokenizers import VOCABULARY_FILE
from headway.interop.named_tokens import NAMES_FILES
from headway.interop.translator_languages import code_of
from headway.interop.translator_tokenizers import FAIRSEQ_MODEL
from headway.text import LanguageTokens, PretrainedSentenceTokenizer, TokenizerPair
from headway.text.hf_tokenizer import FILE


def write_multilingual(pair: TokenizerPair, languages: LanguageTokens, folder: Path) -> None:
    """Write tokenizer.json, or the SentencePiece model with its vocabulary, and the chosen
    languages as `src_lang` and `tgt_lang`.

    The class of the tokenizer follows from the tokens and their positions.
    """
    source, target = pair.source, pair.target
    assert isinstance(source, PretrainedSentenceTokenizer)
    assert isinstance(target, PretrainedSentenceTokenizer)
    names = sorted(languages.ids.values())
    tokens = [source.tokens[index] for index in names]
    values: dict[str, object] = {
        "tokenizer_class": _class_of(languages, tokens[0]),
        "src_lang": source.language,
        "tgt_lang": target.language,
        "legacy_behaviour": languages.after_source,
        "split_special_tokens": True,  # the text of a special token in an input is plain text
    }
    if source.sentencepiece is None:
        content = json.dumps(source.engine_json, ensure_ascii=False)
        write_file(folder / FILE, content.encode())
    else:
        write_file(folder / FAIRSEQ_MODEL, source.sentencepiece)
        values["additional_special_tokens"] = tokens
        values |= declared_in_config(source)
        if values["tokenizer_class"] == "M2M100Tokenizer":
            ids = {token: index for index, token in enumerate(source.tokens[: names[0]])}
            write_file(folder / VOCABULARY_FILE, json.dumps(ids, ensure_ascii=False).encode())
    write_file(folder / NAMES_FILES[0], json_bytes(values))


def _class_of(languages: LanguageTokens, token: str) -> str:
    """Return the class of transformers. token: that of one of the languages."""
    if languages.starts_target:
        return "MBartTokenizer"
    if token.startswith("__"):
        return "M2M100Tokenizer"
    return "MBart50Tokenizer" if str(code_of(token))[-2:].isupper() else "NllbTokenizer"
