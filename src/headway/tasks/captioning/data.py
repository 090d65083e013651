"""From images with captions to images of one size, captions and a tokenizer in the run folder; what
exists is reused. And the examples that a captioner is evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.bundle import ImageEncoding, TextBundle
from headway.data.captions import CaptionCorpus, Spoken, prepare_captions
from headway.data.formats import check_table
from headway.data.formats.captions import (
    CaptionColumns,
    CaptionedImage,
    Captions,
    read_captions,
    split_of,
)
from headway.data.image_corpus import mean_and_deviation
from headway.data.image_examples import FileExamples, ImageExamples, PreparedExamples
from headway.errors import DataError, UsageError
from headway.tasks.captioning.config import CaptionDataConfig, CaptionRunConfig
from headway.tasks.captioning.reader import FILE, CaptionReader
from headway.tasks.image_data import content, note_dark, sized_reader
from headway.tasks.job import Emit
from headway.tasks.splits import check_sides, evenly_spaced, hold_out
from headway.text import TextPieces, TextTokenizer

SPLITS = ("train", "valid")


@dataclass(frozen=True)
class Starts:
    """The models that encoder and decoder are initialised from; None: from scratch."""

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
    every_one, hint = f"{len(every):,} pictures", "--data.held-out 0.2"
    check_sides(found["train"], found["valid"], every_one, str(data.train), hint)
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


def caption_tokens(
    captions: Sequence[Captions], columns: Sequence[str], reader: CaptionReader, longest: int
) -> tuple[list[Spoken], int]:
    """All captions as tokens, and how many have more than `longest` pieces and are left out."""
    kept, longer = [], 0
    for language in columns:
        first = reader.first(language if reader.languages else None)
        texts = [
            (image, text)
            for image, by_language in enumerate(captions)
            for text in by_language.get(language, ())
        ]
        ids = reader.encode([text for _, text in texts])
        for (image, _), pieces in zip(texts, ids, strict=True):
            if len(pieces) > longest:
                longer += 1
            else:
                kept.append(Spoken(image, (first, *pieces, reader.tokenizer.eos)))
    return kept, longer


@dataclass(frozen=True)
class CaptionExamples:
    """Images with reference captions. captions: of each image, by language. columns: the languages.
    split: what the images are called, for the screen."""

    images: ImageExamples
    captions: Sequence[Captions]
    columns: tuple[str, ...]
    split: str

    def __len__(self) -> int:
        return len(self.captions)

    def chosen(self, language: str, limit: int | None) -> list[int]:
        """The images with a caption in that language; at most so many, evenly spaced."""
        places = [i for i, captions in enumerate(self.captions) if language in captions]
        return [places[i] for i in evenly_spaced(len(places), limit)]


def prepared_examples(corpus: CaptionCorpus, columns: tuple[str, ...]) -> CaptionExamples:
    """The examples that a run validates on."""
    name = corpus.images.folder.name
    return CaptionExamples(PreparedExamples(corpus.images), corpus.captions, columns, name)


def examples_of_files(
    paths: Sequence[Path], config: Any | None, languages: tuple[str, ...]
) -> CaptionExamples:
    """The images of tables, whatever split they are in. config: of the run, for the names of
    columns; languages: of the model, which name the columns if there is no run."""
    if isinstance(config, CaptionRunConfig):
        data = config.data
    else:
        data = CaptionDataConfig(text=languages or CaptionDataConfig().text)
    columns = CaptionColumns(text=data.text, image=data.image, split=None)
    images = [image for path in paths for image in read_captions(path, columns)]
    return _of_images(images, data.text, ", ".join(map(str, paths)))


def held_out_examples(config: Any, run: Path, split: str) -> CaptionExamples:
    """The images that the run's table calls test, if there are any and `split` is test; else those
    that the run validates on. UsageError unless the run trained a captioner."""
    if not isinstance(config, CaptionRunConfig):
        raise UsageError(
            f"{run} does not say what it was trained on", hint="name a run folder: runs/NAME"
        )
    splits = captioned_images(config.data)
    name = "test" if split == "test" and splits["test"] else "valid"
    return _of_images(splits[name], config.data.text, name)


def _of_images(
    images: Sequence[CaptionedImage], columns: tuple[str, ...], split: str
) -> CaptionExamples:
    files = FileExamples([captioned.image for captioned in images])
    return CaptionExamples(files, [captioned.captions for captioned in images], columns, split)


def _tell(train: CaptionCorpus, valid: CaptionCorpus, emit: Emit, *, reused: bool) -> None:
    for corpus in (train, valid):
        facts = {"what": corpus.images.folder.name, "count": len(corpus), "unit": "pictures"}
        emit({"kind": "prepared", **facts, "reused": reused})
