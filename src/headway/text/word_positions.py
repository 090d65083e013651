"""Groups the tokens of a text into words, for any kind of tokenizer."""

from collections.abc import Sequence

from headway.text.encoder_tokenizer import EncoderTokenizer
from headway.text.hf_tokenizer import PretrainedTokenizer
from headway.text.pretrained_sentence import PretrainedSentenceTokenizer
from headway.text.sentence_subwords import SentenceSubwords
from headway.text.tokenizer import SentenceTokenizer, TextTokenizer


def positions_of_words(
    tokenizer: SentenceTokenizer | EncoderTokenizer | TextTokenizer, ids: Sequence[int]
) -> list[list[int]]:
    """Return, for each word, the positions of its tokens in `ids`, in order.

    A special token is a word of its own.
    """
    if isinstance(tokenizer, SentenceSubwords | PretrainedSentenceTokenizer):
        return [positions for _, positions in tokenizer.words(ids)]
    if isinstance(tokenizer, EncoderTokenizer):
        continues = tokenizer.continues()
        begins = [not continues[i] for i in ids]
        special = tokenizer.special_ids
    else:
        special = frozenset((tokenizer.bos, tokenizer.eos))
        if isinstance(tokenizer, PretrainedTokenizer):
            begins = tokenizer.begins_word(ids)
        else:
            begins = [token[:1].isspace() for token in tokenizer.token_strings(ids)]
    groups: list[list[int]] = []
    for position, i in enumerate(ids):
        is_separate = i in special or (position > 0 and ids[position - 1] in special)
        if not groups or begins[position] or is_separate:
            groups.append([position])
        else:
            groups[-1].append(position)
    return groups
