"""WordPiece tokenizers of encoders: texts framed by special tokens, [CLS] text [SEP].

Devlin et al. 2019, figure 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from headway.base.errors import DataError, UsageError
from headway.base.files import read_json, write_file
from headway.text.byte_level import LONGEST_WORD
from headway.text.engine import EngineTokenizer, checked, file_of
from headway.text.hf_tokenizer import FILE, FILE_LIMIT, WORD_STARTS, PretrainedTokenizer
from headway.text.tokenizer import checked_ids

FORMAT = "headway marked 1"
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"  # prefix of a token that continues a word
REPEATED = 10_000  # number of times a word is passed to the engine in one string


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of the special tokens of an encoder.

    start: [CLS]. end: [SEP]. between: number of [SEP] after the first of two texts (BERT 1,
    RoBERTa 2). mask: [MASK], which replaces masked tokens.
    """

    pad: int
    start: int
    end: int
    mask: int
    between: int = 1

    def frame(
        self, first: Sequence[int], second: Sequence[int] | None = None, room: int | None = None
    ) -> tuple[list[int], list[int]]:
        """Return (ids, types) of [CLS] first [SEP], or of [CLS] first [SEP] second [SEP].

        types: segment ids, 0 for the first text and its [SEP], 1 for the second text. room: maximum
        number of ids. If two texts do not fit, the longer one is truncated at its end until both
        fit (Devlin et al. 2019, appendix A.2). If both must be truncated and one can keep one token
        more, the longer one does, as in transformers.
        """
        if second is None:
            clipped = first if room is None else first[: max(0, room - 2)]
            ids = [self.start, *clipped, self.end]
            return ids, [0] * len(ids)
        a, b = len(first), len(second)
        if room is not None:
            a, b = _shortened(a, b, max(0, room - 2 - self.between))
        first_ids = [self.start, *first[:a], *[self.end] * self.between]
        second_ids = [*second[:b], self.end]
        return first_ids + second_ids, [0] * len(first_ids) + [1] * len(second_ids)


def _shortened(a: int, b: int, room: int) -> tuple[int, int]:
    """Return two lengths truncated so that their total is at most `room`."""
    if a + b <= room:
        return a, b
    half = room // 2
    if a > b:
        return (room - b, b) if b <= half else (room - half, half)
    return (a, room - a) if a <= half else (half, room - half)


def _learned(words: Counter[str], size: int) -> dict[str, int]:
    """Learn a WordPiece vocabulary of at most `size` tokens, in an order that depends only on
    `words`.

    The engine numbers the letters inside words in the order of its hash table, which differs
    between runs, and breaks ties by these numbers. So the letters are numbered here.
    """
    letters: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    # A letter may become two tokens: one that begins a word and one that continues it.
    ranked = sorted(letters, key=lambda letter: (-letters[letter], letter))
    alphabet = sorted(ranked[: (size - len(SPECIALS)) // 2])
    known_letters = frozenset(alphabet)
    inner = {letter for word in words for letter in word[1:]} & known_letters
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=[*SPECIALS, *alphabet, *(CONTINUES + letter for letter in sorted(inner))],
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    engine = tokenizers.Tokenizer(models.WordPiece(unk_token=SPECIALS[1]))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.train_from_iterator(_repeated(words, known_letters), trainer)
    return dict(engine.get_vocab())


def _smoothed(counts_by_source: Sequence[Counter[str]], exponent: float) -> Counter[str]:
    """Return the total counts of all sources, after the fraction of each source is smoothed by
    `exponent`; each count is at least 1."""
    totals = [words.total() for words in counts_by_source]
    powers = [(total / max(1, sum(totals))) ** exponent for total in totals]
    total_counts: Counter[str] = Counter()
    for words, total, power in zip(counts_by_source, totals, powers, strict=True):
        if not total:
            continue
        factor = power / sum(powers) * sum(totals) / total
        for word, count in words.items():
            total_counts[word] += max(1, round(count * factor))
    return total_counts


def _repeated(words: Counter[str], letters: frozenset[str]) -> Iterator[str]:
    """Yield each word as often as it occurs in the texts, without letters not in `letters`."""
    for word in sorted(words):
        spelled = "".join(letter for letter in word if letter in letters)
        for start in range(0, words[word], REPEATED):
            yield f"{spelled} " * min(REPEATED, words[word] - start)


def _without_space(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    return start, end


class EncoderTokenizer(EngineTokenizer):
    """A tokenizer for encoders, with the special tokens that frame texts.

    It is trained here (`train`: WordPiece), or comes from a pretrained model in the Hugging Face
    format. Text is normalised (lower case, accents) as in its training, so decode(encode(text)) may
    differ from text. Text that looks like a special token is never encoded as that token.
    Wu et al. 2016, section 4.1.
    """

    def __init__(self, engine: tokenizers.Tokenizer, special_tokens: SpecialTokens) -> None:
        super().__init__(engine)
        self.size: int = 1 + max(engine.get_vocab().values(), default=-1)
        names = asdict(special_tokens)
        del names["between"]
        for name, token in names.items():
            if not (0 <= token < self.size) or engine.id_to_token(token) is None:
                raise DataError(
                    f"{name} must be the id of a token, from 0 to {self.size - 1}, but is {token}"
                )
        specials = [
            tokenizers.AddedToken(str(engine.id_to_token(i)), special=True) for i in names.values()
        ]
        engine.add_special_tokens(specials)
        self.special_tokens = special_tokens
        # empty for BPE and SentencePiece
        self._prefix: str = self.engine_json["model"].get("continuing_subword_prefix") or ""
        self.special_ids = frozenset(
            i for i, token in engine.get_added_tokens_decoder().items() if token.special
        )

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        return [self.special_tokens.start], [self.special_tokens.end]

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, lower: bool = True
    ) -> EncoderTokenizer:
        """Learn a WordPiece vocabulary of at most `vocabulary_size` tokens from `texts`.

        lower: convert to lower case and remove accents. Deterministic. Raises UsageError for a
        vocabulary size below 100.
        """
        return cls.train_on([texts], vocabulary_size, lower)

    @classmethod
    def train_on(
        cls,
        sources: Iterable[Iterable[str]],
        vocabulary_size: int,
        lower: bool = True,
        smoothing: float = 1.0,
    ) -> EncoderTokenizer:
        """Learn one vocabulary from several sources (languages), so that a small one has tokens
        too.

        The words of source i are weighted as if its fraction of all words were p_i^a / sum_j p_j^a,
        where p_i is its true fraction and a is `smoothing` (Conneau and Lample 2019, section 3.1).
        """
        if vocabulary_size < 100:
            raise UsageError(
                f"the vocabulary size must be at least 100, but is {vocabulary_size}",
                hint="set it to 8000 for a small corpus of one language",
            )
        normalizer = normalizers.BertNormalizer(lowercase=lower)
        splitter = pre_tokenizers.BertPreTokenizer()
        counts_by_source: list[Counter[str]] = []
        for texts in sources:
            words: Counter[str] = Counter()
            for text in texts:
                clean = normalizer.normalize_str(checked(text))
                split = splitter.pre_tokenize_str(clean)
                words.update(word for word, _ in split if len(word) <= LONGEST_WORD)
            counts_by_source.append(words)
        vocabulary = _learned(_smoothed(counts_by_source, smoothing), vocabulary_size)
        engine = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=SPECIALS[1]))
        engine.normalizer, engine.pre_tokenizer = normalizer, splitter
        engine.decoder = decoders.WordPiece(prefix=CONTINUES)
        engine.add_special_tokens([tokenizers.AddedToken(name, special=True) for name in SPECIALS])
        pad, _, start, end, mask = (vocabulary[name] for name in SPECIALS)
        engine.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", start), ("[SEP]", end)],
        )
        return cls(engine, SpecialTokens(pad, start, end, mask))

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Return (ids, spans): the ids of `text`, and the characters [start, end) of each id.

        Spans do not include leading spaces.
        """
        (encoding,) = self._engine.encode_batch([checked(text)], add_special_tokens=False)
        return list(encoding.ids), [
            _without_space(text, int(a), int(b)) for a, b in encoding.offsets
        ]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """Encode words that are already split; return (ids, the index of the word of each id)."""
        ids_of_words = self.encode_batch([word if self._prefix else f" {word}" for word in words])
        ids = [i for ids_of_word in ids_of_words for i in ids_of_word]
        return ids, [index for index, ids_of_word in enumerate(ids_of_words) for _ in ids_of_word]

    def continues(self) -> list[bool]:
        """Return, for each id of the vocabulary, whether its token continues a word."""
        continues = [False] * self.size
        for token, i in self._engine.get_vocab().items():
            if i in self.special_ids:
                continue
            continues[i] = self._goes_on(token)
        return continues

    def _goes_on(self, token: str) -> bool:
        if self._prefix:
            return token.startswith(self._prefix)
        return not token.startswith(WORD_STARTS)  # BPE, SentencePiece

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of `ids` without special tokens, as far as the tokens preserve it."""
        return str(self._engine.decode(checked_ids(ids, self.size), skip_special_tokens=True))

    @cached_property
    def unknown(self) -> int | None:
        """The id of the token for unknown characters; None if the tokenizer has none."""
        model = self.engine_json["model"]
        name = model.get("unk_token")
        number = model.get("unk_id") if name is None else self._engine.token_to_id(name)
        return None if number is None else int(number)

    @property
    def has_continuation_prefix(self) -> bool:
        """Whether tokens that continue a word have a prefix (##)."""
        return bool(self._prefix)

    def joined(self, strings: Sequence[str]) -> str:
        """Return the text of the strings of tokens, or of words."""
        decoder = self._engine.decoder
        return " ".join(strings) if decoder is None else str(decoder.decode(list(strings)))

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return the string of each token, for display."""
        return [str(self._engine.id_to_token(i)) for i in checked_ids(ids, self.size)]

    def words(self, ids: Iterable[int]) -> list[str]:
        """Return the text of each id on its own; ## is the prefix of one that continues a word."""
        words = []
        for i, token in zip(
            known := checked_ids(ids, self.size), self.token_strings(known), strict=True
        ):
            if i in self.special_ids:
                words.append(token)
                continue
            text = str(self._engine.decode([i])).strip().removeprefix(self._prefix)
            words.append(CONTINUES + text if self._goes_on(token) else text)
        return words

    def _json(self) -> bytes:
        own = {"format": FORMAT, "special_tokens": asdict(self.special_tokens)}
        return file_of({**own, "tokenizer": self.engine_json})

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` durably: the Hugging Face format and the special tokens."""
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> EncoderTokenizer:
        """Read a file that `save` wrote. Raises DataError for another file."""
        path = folder / FILE
        if not path.is_file():
            raise DataError(
                f"the folder has no {FILE}", str(folder), "give the folder of a saved model"
            )
        content = read_json(path, FILE_LIMIT)
        special_tokens = content.get("special_tokens") if isinstance(content, dict) else None
        if (
            not isinstance(content, dict)
            or content.get("format") != FORMAT
            or not isinstance(special_tokens, dict)
            or special_tokens.keys() != SpecialTokens.__dataclass_fields__.keys()
            or any(type(value) is not int for value in special_tokens.values())
            or not 1 <= special_tokens["between"] <= 2
        ):
            raise DataError(
                f"the file is not an encoder tokenizer of format {FORMAT!r}",
                str(path),
                "give the folder of an encoder that headway saved",
            )
        engine = PretrainedTokenizer.engine_of(content.get("tokenizer"), str(path))
        try:
            return cls(engine, SpecialTokens(**special_tokens))
        except DataError as error:
            raise DataError(error.what, str(path), error.hint) from error
