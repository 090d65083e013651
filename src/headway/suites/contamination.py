"""The texts that a model was trained on, in which rows of a suite may occur (`data.overlap`)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headway.base.settings import flat
from headway.data.documents import COLLECTIONS, read_documents, text_files
from headway.data.token_shards import TokenShards, is_tokens
from headway.runs.recipes import saved, saved_or_none


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
