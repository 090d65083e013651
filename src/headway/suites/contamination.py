"""How many rows of a suite occur in texts that a model was trained on, by shared word n-grams.

Brown et al. 2020 (GPT-3), appendix C: n-grams of 13 words; a shorter row must occur as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headway.base.settings import flat
from headway.data.documents import COLLECTIONS, read_documents, text_files
from headway.data.token_shards import TokenShards, is_tokens
from headway.runs.recipes import saved, saved_or_none

WORDS = 13
_WORD = re.compile(r"\w+")


def overlapping(rows: Sequence[str], texts: Iterable[str], words: int = WORDS) -> list[bool]:
    """Return for each row whether some text has `words` of its words in a row.

    Words are compared in lower case, without punctuation. A row without words overlaps nothing.
    """
    wanted: dict[int, dict[tuple[str, ...], list[int]]] = {}
    for number, row in enumerate(rows):
        content = _words(row)
        size = min(words, len(content))
        if size:
            for gram in _grams(content, size):
                wanted.setdefault(size, {}).setdefault(gram, []).append(number)
    overlaps = [False] * len(rows)
    for text in texts:
        content = _words(text)
        for size, grams in wanted.items():
            for gram in _grams(content, size):
                for number in grams.get(gram, ()):
                    overlaps[number] = True
    return overlaps


def training_texts(run: Path) -> list[str]:
    """Return the text files and collections on which a run was trained, as far as they exist.

    A folder of tokens is replaced by the files that were tokenised. The list is empty for a folder
    that is no run, for a run whose texts are elsewhere, and for a task that reads no whole texts.
    """
    config = saved_or_none(run)
    settings = {} if config is None else flat(config)
    if "data.split" not in settings:  # no run that learns from whole texts
        return []
    value = settings["data.train"]
    named = value if isinstance(value, tuple) else (value,)
    sources: list[str] = []
    for source in map(str, filter(None, named)):
        if is_tokens(source):
            shards = TokenShards.open(Path(source)).files
            sources += [file["path"] for shard in shards for file in shard]
        elif source in COLLECTIONS and not Path(source).exists():
            sources.append(source)
        elif Path(source).exists():
            sources += map(str, text_files(Path(source)))
    return [source for source in sources if source in COLLECTIONS or Path(source).is_file()]


def size_of(sources: Sequence[str]) -> int:
    """Return the size of the files in bytes; collections are small and count as 0."""
    return sum(path.stat().st_size for path in map(Path, sources) if path.is_file())


def documents(run: Path, sources: Sequence[str]) -> Iterator[str]:
    """Yield the text of the sources, as the run reads them."""
    text = flat(saved(run))["data.text"]
    assert text is None or isinstance(text, str)
    return (part.text for part in read_documents(sources, text=text))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(words: Sequence[str], size: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(size)), strict=False)
