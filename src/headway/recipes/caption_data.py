"""From a person's pictures and captions to pictures of one size, captions and a tokenizer in the
run folder; what exists is reused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headway.bundle import CaptionReader, ImageEncoding, TextBundle
from headway.bundle.caption_reader import FILE
from headway.data.captions import CaptionCorpus, Spoken, prepare_captions
from headway.data.formats import check_table
from headway.data.formats.captions import CaptionColumns, CaptionedImage, read_captions, split_of
from headway.data.image_corpus import mean_and_deviation
from headway.errors import DataError, UsageError
from headway.recipes.caption_config import CaptionDataConfig, CaptionRunConfig
from headway.tasks.image_data import content, note_dark, sized_reader
from headway.tasks.job import Emit
from headway.tasks.splits import hold_out
from headway.text import TextPieces, TextTokenizer

SPLITS = ("train", "valid")


@dataclass(frozen=True)
class Starts:
    """The models that the halves begin as, where they do."""

    encoder: ImageEncoding | None = None
    decoder: TextBundle | None = None


@dataclass(frozen=True)
class PreparedCaptions:
    """What a captioner learns from."""

    reader: CaptionReader
    train: CaptionCorpus
    valid: CaptionCorpus


def check_captions(config: CaptionRunConfig) -> None:
    """UsageError unless the table and the pictures are there, and the settings agree."""
    data, model, training = config.data, config.model, config.training
    if data.train is None:
        raise UsageError(
            "there are no captions to learn from",
            hint=f"headway train {config.recipe} TABLE --data.text COLUMN, with a column image of "
            "picture files, or --data.images ARRAYS.npz",
        )
    check_table(Path(data.train))
    if data.images is not None and not Path(data.images).is_file():
        raise UsageError("no such file", data.images, "--data.images names an .npz file")
    if not data.text or len(set(data.text)) < len(data.text) or not all(data.text):
        raise UsageError(f"data.text={','.join(data.text)}: must be columns, each once")
    room = model.gpt.max_length
    if training.decoder is None and model.gpt.positions == "learned" and room <= data.max_length:
        raise UsageError(
            f"model.gpt.max_length={room} learned positions do not hold captions of up to "
            f"data.max_length={data.max_length} pieces and their first token",
            hint=f"--model.gpt.max-length {data.max_length + 1}",
        )
    if training.frozen and training.encoder is None:
        raise UsageError("training.frozen keeps what an encoder learned", hint="--from-encoder")


def captioned_images(
    data: CaptionDataConfig, emit: Emit = lambda event: None
) -> dict[str, list[CaptionedImage]]:
    """train, valid and test: as the table says, else some of train are valid, by their content, so
    that an image that occurs twice is not on both sides (`hold_out`); the first image with a
    caption in a language that no training image has is not held out. DataError where a side is
    empty, or where no training image has a caption in one of the languages."""
    columns = CaptionColumns(text=data.text, image=data.image, split=data.split_column)
    images = None if data.images is None else Path(data.images)
    every = read_captions(Path(str(data.train)), columns, images)
    found = {name: split_of(every, name) for name in (*SPLITS, "test")}
    if not found["valid"]:
        found["train"], found["valid"] = hold_out(
            found["train"],
            lambda captioned: content(captioned.image),
            data.held_out,
            labels=lambda captioned: captioned.captions.keys(),
            emit=emit,
            unit="images",
        )
    if found["test"]:
        text = f"{len(found['test']):,} pictures called test are left for headway eval"
        emit({"kind": "note", "text": text})
    for name, side in (("train", "left to train on"), ("valid", "held out")):
        if not found[name]:
            raise DataError(
                f"of {len(every):,} pictures none is {side}", data.train, "--data.held-out 0.2"
            )
    for language in data.text:
        if not any(language in captioned.captions for captioned in found["train"]):
            raise DataError(
                f"no training image has a caption in the column {language!r}",
                data.train,
                "add some, or leave the column out of --data.text",
            )
    return found


def prepare_all(
    config: CaptionRunConfig, starts: Starts, folder: Path, emit: Emit
) -> PreparedCaptions:
    """Pictures, captions and the reader in `folder`, made once."""
    place = folder / "data"
    there = [folder / FILE, *(place / name for name in SPLITS)]
    if all(path.exists() for path in there):
        train, valid = (CaptionCorpus.open(place / name) for name in SPLITS)
        _tell(train, valid, emit, reused=True)
        return PreparedCaptions(CaptionReader.load(folder), train, valid)
    given = captioned_images(config.data, emit)
    start = None if starts.encoder is None else starts.encoder.reader
    told = str(config.data.train), "--model.vit.image-size 64"
    images = [each.image for each in given["train"]]
    sized = sized_reader(config.model.vit, config.data, start, images, told)
    made = {}
    for name in SPLITS:

        def progress(done: int, name: str = name) -> None:
            emit({"kind": "preparing", "what": name, "done": done, "unit": "pictures"})

        exists = (place / name).exists()
        made[name] = (
            CaptionCorpus.open(place / name)
            if exists
            else prepare_captions(given[name], sized, place / name, progress)
        )
    train, valid = made["train"], made["valid"]
    if start is None:
        mean, deviation = mean_and_deviation(train.images)
        sized = replace(sized, mean=mean, deviation=deviation)
    note_dark(train.images, emit)
    _tell(train, valid, emit, reused=False)
    tokenizer = _tokenizer(config.data, starts.decoder, train, emit)
    languages = config.data.text if len(config.data.text) > 1 else ()
    reader = CaptionReader(sized, tokenizer, languages, config.data.max_length)
    reader.save(folder)
    return PreparedCaptions(reader, train, valid)


def _tokenizer(
    data: CaptionDataConfig, start: TextBundle | None, train: CaptionCorpus, emit: Emit
) -> TextTokenizer:
    if start is not None:
        tokenizer, how = start.tokenizer, "of the model it starts from"
    else:
        emit({"kind": "preparing", "what": "tokenizer", "done": 0, "unit": "captions"})
        texts = (f" {text}" for row in train.captions for said in row.values() for text in said)
        tokenizer, how = TextPieces.train(texts, data.vocabulary), "byte-level BPE"
    emit({"kind": "tokenizer", "pieces": tokenizer.size, "how": how})
    return tokenizer


def spoken(
    corpus: CaptionCorpus, columns: Sequence[str], reader: CaptionReader
) -> tuple[list[Spoken], int]:
    """All captions as tokens, and how many are longer than `reader.longest` and left out."""
    found, longer = [], 0
    for language in columns:
        first = reader.first(language if reader.languages else None)
        said = [
            (picture, text)
            for picture, row in enumerate(corpus.captions)
            for text in row.get(language, ())
        ]
        ids = reader.encode([text for _, text in said])
        for (picture, _), pieces in zip(said, ids, strict=True):
            if len(pieces) > reader.longest:
                longer += 1
            else:
                found.append(Spoken(picture, (first, *pieces, reader.tokenizer.eos)))
    if not found:
        raise DataError("no caption is short enough", hint="a greater --data.max-length")
    return found, longer


def referenced(corpus: CaptionCorpus, language: str, most: int) -> Iterator[tuple[int, list[str]]]:
    """At most so many pictures, spread evenly, with what was said of each in that language."""
    there = [i for i, row in enumerate(corpus.captions) if language in row]
    count = min(most, len(there))
    for place in range(count):
        picture = there[place * len(there) // count]
        yield picture, list(corpus.captions[picture][language])


def _tell(train: CaptionCorpus, valid: CaptionCorpus, emit: Emit, *, reused: bool) -> None:
    for corpus in (train, valid):
        facts = {"what": corpus.images.folder.name, "count": len(corpus), "unit": "pictures"}
        emit({"kind": "prepared", **facts, "reused": reused})
