"""A tokenizer whose tokens are whole words, for models that other libraries convert."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def write_word_tokenizer(folder: Path, tokens: Sequence[str]) -> None:
    """Write a tokenizer to a Hugging Face folder. tokens: in the order of their ids.

    Token 1 replaces unknown words; </s> must be among the tokens.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    unknown = tokens[1]
    engine = Tokenizer(WordLevel({token: i for i, token in enumerate(tokens)}, unk_token=unknown))
    PreTrainedTokenizerFast(
        tokenizer_object=engine, bos_token="</s>", eos_token="</s>", unk_token=unknown
    ).save_pretrained(folder)
