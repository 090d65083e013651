"""A tokenizer whose tokens are whole words, for models that other libraries convert."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def write_word_tokenizer(folder: Path, tokens: Sequence[str], *, ends: bool = False) -> None:
    """Write a tokenizer to a Hugging Face folder. tokens: in the order of their ids. ends: whether
    </s> follows every text.

    </s> must be among the tokens. It replaces unknown words, too.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    end = "</s>"
    engine = Tokenizer(WordLevel({token: i for i, token in enumerate(tokens)}, unk_token=end))
    engine.pre_tokenizer = WhitespaceSplit()
    if ends:
        named = [(end, tokens.index(end))]
        engine.post_processor = TemplateProcessing(single=f"$A {end}", special_tokens=named)
    PreTrainedTokenizerFast(
        tokenizer_object=engine, bos_token=end, eos_token=end, unk_token=end
    ).save_pretrained(folder)
