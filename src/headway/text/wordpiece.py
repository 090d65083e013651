"""What an encoder reads: texts between marks, [CLS] text [SEP]. Devlin et al. 2019, figure 2."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from headway.errors import DataError, UsageError
from headway.files import read_json, write_file
from headway.text.bpe import LONGEST_WORD, checked
from headway.text.hf_tokenizer import FILE, FILE_LIMIT, WORD_STARTS, ForeignTokenizer

FORMAT = "headway marked 1"
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUES = "##"  # what a word piece begins with that goes on with the word before it
REPEATED = 10_000  # times a word is given to the engine at once


@dataclass(frozen=True)
class Marks:
    """Ids that stand around texts and in the place of words.

    start: [CLS]. end: [SEP], `between` of them after the first of two texts (BERT 1, RoBERTa 2).
    """

    pad: int
    start: int
    end: int
    mask: int
    between: int = 1

    def frame(
        self, first: Sequence[int], second: Sequence[int] | None = None, room: int | None = None
    ) -> tuple[list[int], list[int]]:
        """(ids, types): [CLS] first [SEP], or [CLS] first [SEP] second [SEP].

        types: 0 up to the first [SEP], with those between, and 1 after it. room: the most ids; the
        longer text loses tokens at its end until both fit (Devlin et al. 2019, appendix A.2), and
        where one of two long ones may keep a token more, the longer may, as in transformers.
        """
        if second is None:
            kept = first if room is None else first[: max(0, room - 2)]
            ids = [self.start, *kept, self.end]
            return ids, [0] * len(ids)
        a, b = len(first), len(second)
        if room is not None:
            a, b = _shortened(a, b, max(0, room - 2 - self.between))
        left = [self.start, *first[:a], *[self.end] * self.between]
        right = [*second[:b], self.end]
        return left + right, [0] * len(left) + [1] * len(right)


def _shortened(a: int, b: int, room: int) -> tuple[int, int]:
    """How much of two lengths is kept so that they fit."""
    if a + b <= room:
        return a, b
    half = room // 2
    if a > b:
        return (room - b, b) if b <= half else (room - half, half)
    return (a, room - a) if a <= half else (half, room - half)


def _learned(words: Counter[str], size: int) -> dict[str, int]:
    """At most `size` pieces of these words, in an order that follows from the words alone.

    The engine numbers letters inside words as its hash table gives them, another way each time, and
    breaks ties by those numbers; so they are numbered here.
    """
    letters: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            letters[letter] += count
    # a letter may become two pieces, one that begins a word and one that goes on
    ranked = sorted(letters, key=lambda letter: (-letters[letter], letter))
    kept = sorted(ranked[: (size - len(SPECIALS)) // 2])
    known = frozenset(kept)
    inner = {letter for word in words for letter in word[1:]} & known
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=[*SPECIALS, *kept, *(CONTINUES + letter for letter in sorted(inner))],
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    engine = tokenizers.Tokenizer(models.WordPiece(unk_token=SPECIALS[1]))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.train_from_iterator(_repeated(words, known), trainer)
    return dict(engine.get_vocab())


def _smoothed(counted: Sequence[Counter[str]], exponent: float) -> Counter[str]:
    """The counts together, each source's times what its share grows by; no word falls below 1."""
    totals = [words.total() for words in counted]
    powers = [(total / max(1, sum(totals))) ** exponent for total in totals]
    together: Counter[str] = Counter()
    for words, total, power in zip(counted, totals, powers, strict=True):
        if not total:
            continue
        grown = power / sum(powers) * sum(totals) / total
        for word, count in words.items():
            together[word] += max(1, round(count * grown))
    return together


def _repeated(words: Counter[str], letters: frozenset[str]) -> Iterator[str]:
    """Each word as often as it stood in the texts, without letters that are not known."""
    for word in sorted(words):
        spelled = "".join(letter for letter in word if letter in letters)
        for start in range(0, words[word], REPEATED):
            yield f"{spelled} " * min(REPEATED, words[word] - start)


def _without_space(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    return start, end


class MarkedTokenizer:
    """Pieces of words, the two directions through them, and the marks around texts.

    Trained here (`train`: WordPiece), or somebody else's of the Hugging Face form. What it does to
    text (lower case, accents) is as it was trained: decode(encode(text)) need not be text. Text
    that spells a mark never becomes one. Wu et al. 2016, section 4.1.
    """

    def __init__(self, engine: tokenizers.Tokenizer, marks: Marks) -> None:
        engine.encode_special_tokens = True  # the JSON does not keep this answer
        self.size: int = 1 + max(engine.get_vocab().values(), default=-1)
        names = asdict(marks)
        del names["between"]
        for name, token in names.items():
            if not (0 <= token < self.size) or engine.id_to_token(token) is None:
                raise DataError(f"{name}={token} is outside the vocabulary of {self.size}")
        specials = [
            tokenizers.AddedToken(str(engine.id_to_token(i)), special=True) for i in names.values()
        ]
        engine.add_special_tokens(specials)
        self._engine, self.marks = engine, marks
        facts = json.loads(engine.to_str())["model"]
        self._prefix: str = facts.get("continuing_subword_prefix") or ""  # empty: spaces are marked
        self.special_ids = frozenset(
            i for i, token in engine.get_added_tokens_decoder().items() if token.special
        )
        self.fingerprint: str = hashlib.sha256(self._json()).hexdigest()

    @classmethod
    def train(
        cls, texts: Iterable[str], vocabulary_size: int, lower: bool = True
    ) -> MarkedTokenizer:
        """Learn at most `vocabulary_size` word pieces. lower: no capitals and no accents.

        Deterministic. UsageError for a vocabulary too small to hold anything.
        """
        return cls.train_on([texts], vocabulary_size, lower)

    @classmethod
    def train_on(
        cls,
        sources: Iterable[Iterable[str]],
        vocabulary_size: int,
        lower: bool = True,
        smoothing: float = 1.0,
    ) -> MarkedTokenizer:
        """The same of several sources (languages), so that a small one has pieces too.

        The words of source i count as if its share of all were p_i^a / sum_j p_j^a, where p_i is
        its share and a is `smoothing` (Conneau and Lample 2019, section 3.1).
        """
        if vocabulary_size < 100:
            raise UsageError(
                f"{vocabulary_size=} is below 100", hint="8000 suits a small corpus of one language"
            )
        normalizer = normalizers.BertNormalizer(lowercase=lower)
        splitter = pre_tokenizers.BertPreTokenizer()
        counted: list[Counter[str]] = []
        for texts in sources:
            words: Counter[str] = Counter()
            for text in texts:
                clean = normalizer.normalize_str(checked(text))
                split = splitter.pre_tokenize_str(clean)
                words.update(word for word, _ in split if len(word) <= LONGEST_WORD)
            counted.append(words)
        vocabulary = _learned(_smoothed(counted, smoothing), vocabulary_size)
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
        return cls(engine, Marks(pad, start, end, mask))

    def encode(self, text: str) -> list[int]:
        """Ids of `text` without marks."""
        return list(self._engine.encode(checked(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, on all cores."""
        clean = [checked(text) for text in texts]
        found = self._engine.encode_batch_fast(clean, add_special_tokens=False)
        return [list(encoding.ids) for encoding in found]

    def encode_spans(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """(ids, spans): of each id, which characters of `text` it stands for, [start, end).

        A space that belongs to the piece after it is not counted to it.
        """
        found = self._engine.encode(checked(text), add_special_tokens=False)
        return list(found.ids), [_without_space(text, int(a), int(b)) for a, b in found.offsets]

    def encode_words(self, words: Sequence[str]) -> tuple[list[int], list[int]]:
        """(ids, places) of words that are split already: the number of each id's word."""
        rows = self.encode_batch([word if self._prefix else f" {word}" for word in words])
        ids = [i for row in rows for i in row]
        return ids, [place for place, row in enumerate(rows) for _ in row]

    def continues(self) -> list[bool]:
        """Of each id, whether it goes on with the word that the id before it began."""
        found = [False] * self.size
        for piece, i in self._engine.get_vocab().items():
            if i in self.special_ids:
                continue
            found[i] = self._goes_on(piece)
        return found

    def _goes_on(self, piece: str) -> bool:
        if self._prefix:
            return piece.startswith(self._prefix)
        return not piece.startswith(WORD_STARTS)  # BPE, SentencePiece

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, marks left out, as far as its pieces tell."""
        return str(self._engine.decode(self._known(ids), skip_special_tokens=True))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """What each id stands for, to be shown to a person."""
        return [str(self._engine.id_to_token(i)) for i in self._known(ids)]

    def words(self, ids: Iterable[int]) -> list[str]:
        """Each id as a word for itself; ## begins one that goes on with the word before it."""
        found = []
        for i, piece in zip(known := self._known(ids), self.pieces(known), strict=True):
            if i in self.special_ids:
                found.append(piece)
                continue
            text = str(self._engine.decode([i])).strip().removeprefix(self._prefix)
            found.append(CONTINUES + text if self._goes_on(piece) else text)
        return found

    def _known(self, ids: Iterable[int]) -> list[int]:
        known = [int(i) for i in ids]
        for i in known:
            if not 0 <= i < self.size:
                raise DataError(f"token id {i} is outside the vocabulary of {self.size} pieces")
        return known

    @property
    def engine_json(self) -> dict[str, Any]:
        """The tokenizer in the Hugging Face form, which frames texts as `Marks.frame` does."""
        content: dict[str, Any] = json.loads(self._engine.to_str())
        return content

    def _json(self) -> bytes:
        facts = {"format": FORMAT, "marks": asdict(self.marks), "tokenizer": self.engine_json}
        return (json.dumps(facts, ensure_ascii=False) + "\n").encode()

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` durably: theirs, with the marks around it."""
        write_file(folder / FILE, self._json())

    @classmethod
    def load(cls, folder: Path) -> MarkedTokenizer:
        """Read what `save` wrote; DataError if it is not that."""
        path = folder / FILE
        if not path.is_file():
            raise DataError(f"there is no {FILE}", str(folder))
        facts = read_json(path, FILE_LIMIT)
        marks = facts.get("marks") if isinstance(facts, dict) else None
        if (
            not isinstance(facts, dict)
            or facts.get("format") != FORMAT
            or not isinstance(marks, dict)
            or marks.keys() != Marks.__dataclass_fields__.keys()
            or any(type(value) is not int for value in marks.values())
            or not 1 <= marks["between"] <= 2
        ):
            raise DataError(f"not a tokenizer for encoders ({FORMAT})", str(path))
        engine = ForeignTokenizer.engine_of(facts.get("tokenizer"), str(path))
        try:
            return cls(engine, Marks(**marks))
        except DataError as error:
            raise DataError(error.what, str(path), error.hint) from error
