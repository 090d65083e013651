"""The data of captioning: images, captions and tokenizer in the run folder, and examples.

Prepared data that exists in the run folder is reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from headway.base.errors import DataError, UsageError
from headway.bundle import ImageEncoding, TextBundle
from headway.data.bad_rows import BadRows
from headway.data.image_examples import ImageExamples, examples_of_corpus, examples_of_images
from headway.data.image_reader import ImageReader
from headway.data.prepared import prepared
from headway.data.rows import check_table
from headway.data.split import check_sides, evenly_spaced, hold_out
from headway.tasks.captioning.batches import TokenizedCaption
from headway.tasks.captioning.bundle import CaptionerBundle
from headway.tasks.captioning.caption_corpus import CaptionCorpus, prepare_captions
from headway.tasks.captioning.caption_files import (
    CaptionColumns,
    CaptionedImage,
    Captions,
    read_captions,
    split_of,
)
from headway.tasks.captioning.config import CaptionDataConfig, CaptionEvaluation, CaptionRunConfig
from headway.tasks.captioning.reader import FILE, CaptionReader
from headway.tasks.image_data import (
    content,
    normalised_reader,
    sized_reader,
    warn_of_dark_images,
)
from headway.tasks.job import Emit
from headway.text import TextBPE, TextTokenizer

SPLITS = ("train", "valid")


@dataclass(frozen=True)
class Starts:
    """The models that encoder and decoder are initialised from; None: from scratch."""

    encoder: ImageEncoding | None = None
    decoder: TextBundle | None = None


@dataclass(frozen=True)
class PreparedCaptions:
    """The training and validation data of a captioner."""

    reader: CaptionReader
    train: CaptionCorpus
    valid: CaptionCorpus


def check_captions(config: CaptionRunConfig) -> None:
    """Raise UsageError if the table or the images are missing, or if settings conflict."""
    data, model, training = config.data, config.model, config.training
    if data.train is None:
        raise UsageError(
            "no table of training captions is named",
            hint=f"headway train {config.recipe} TABLE --data.text COLUMN, where the column "
            "`image` names image files, or with --data.images ARRAYS.npz",
        )
    check_table(Path(data.train))
    if data.images is not None and not Path(data.images).is_file():
        raise UsageError("no such file", data.images, "--data.images must name an .npz file")
    if not data.text or len(set(data.text)) < len(data.text) or not all(data.text):
        raise UsageError(
            f"data.text={','.join(data.text)}: must be names of columns, each of them once"
        )
    limit = model.gpt.max_length
    if training.decoder is None and model.gpt.positions == "learned" and limit <= data.max_length:
        raise UsageError(
            f"model.gpt.max_length={limit} is too small: captions have up to "
            f"data.max_length={data.max_length} tokens and a start token",
            hint=f"--model.gpt.max-length {data.max_length + 1}",
        )
    if training.frozen and training.encoder is None:
        raise UsageError(
            "training.frozen freezes a pre-trained encoder, and none is named",
            hint="--from-encoder MODEL",
        )


def captioned_images(
    data: CaptionDataConfig, emit: Emit = lambda event: None
) -> dict[str, list[CaptionedImage]]:
    """Read the captioned images of the splits train, valid and test.

    The table assigns the splits. If it has no validation images, a fraction of the training images
    is held out; the content of an image decides, so that duplicates are in the same split
    (`hold_out`). The first image with a caption in a language without a training caption is not
    held out. Raises DataError if a split is empty, or if no training image has a caption in one of
    the languages.
    """
    columns = CaptionColumns(text=data.text, image=data.image, split=data.split_column)
    images = None if data.images is None else Path(data.images)
    bad_rows = BadRows.of(data.bad_rows)
    captioned_images = read_captions(Path(str(data.train)), columns, images, bad_rows)
    bad_rows.announce(emit)
    splits = {name: split_of(captioned_images, name) for name in (*SPLITS, "test")}
    if not splits["valid"]:
        splits["train"], splits["valid"] = hold_out(
            splits["train"],
            lambda captioned: content(captioned.image),
            data.held_out,
            labels=lambda captioned: captioned.captions.keys(),
            emit=emit,
            unit="images",
        )
    if splits["test"]:
        text = f"{len(splits['test']):,} images of the test split are left for headway eval"
        emit({"kind": "note", "text": text})
    description, hint = f"{len(captioned_images):,} images", "--data.held-out 0.2"
    check_sides(
        splits["train"],
        splits["valid"],
        description,
        str(data.train),
        hint,
        lambda captioned: content(captioned.image),
    )
    for language in data.text:
        if not any(language in captioned.captions for captioned in splits["train"]):
            raise DataError(
                f"no training image has a caption in the column {language!r}",
                data.train,
                "add captions, or leave the column out of --data.text",
            )
    return splits


def prepare_all(
    config: CaptionRunConfig, starts: Starts, folder: Path, emit: Emit
) -> PreparedCaptions:
    """Prepare images, captions and the reader in the run folder, or reuse them."""
    reader = CaptionReader.load(folder) if (folder / FILE).exists() else None
    start = None if starts.encoder is None else starts.encoder.reader

    @cache
    def splits() -> dict[str, list[CaptionedImage]]:
        return captioned_images(config.data, emit)

    @cache
    def sized() -> ImageReader:
        if reader is not None:
            return reader.images
        images = [captioned.image for captioned in splits()["train"]]
        where_and_hint = str(config.data.train), "--model.vit.image-size 64"
        return sized_reader(config.model.vit, config.data, start, images, where_and_hint)

    def split(name: str) -> CaptionCorpus:
        return prepared(
            folder / "data" / name,
            lambda path: CaptionCorpus.open(path, sized()),
            lambda path, progress: prepare_captions(splits()[name], sized(), path, progress),
            lambda corpus: {"count": len(corpus), "unit": "images"},
            emit,
            "images",
        )

    train, valid = (split(name) for name in SPLITS)
    if reader is None:
        images = normalised_reader(sized(), start, train.images)
        warn_of_dark_images(train.images, emit)
        tokenizer = _tokenizer(config.data, starts.decoder, train, emit)
        languages = config.data.text if len(config.data.text) > 1 else ()
        reader = CaptionReader(images, tokenizer, languages, config.data.max_length)
        reader.save(folder)
    return PreparedCaptions(reader, train, valid)


def _tokenizer(
    data: CaptionDataConfig, start: TextBundle | None, train: CaptionCorpus, emit: Emit
) -> TextTokenizer:
    if start is not None:
        tokenizer, how = start.tokenizer, "of the pre-trained model"
    else:
        emit({"kind": "preparing", "what": "tokenizer", "done": 0, "unit": "captions"})
        texts = (f" {text}" for row in train.captions for group in row.values() for text in group)
        tokenizer, how = TextBPE.train(texts, data.vocabulary), "byte-level BPE"
    emit({"kind": "tokenizer", "vocabulary_size": tokenizer.size, "how": how})
    return tokenizer


def caption_tokens(
    captions: Sequence[Captions], columns: Sequence[str], reader: CaptionReader, longest: int
) -> tuple[list[TokenizedCaption], int]:
    """Encode all captions; leave out those of more than `longest` tokens.

    Returns the encoded captions, and the number of captions that are left out.
    """
    encoded, longer = [], 0
    for language in columns:
        first = reader.first(language if reader.languages else None)
        texts = [
            (image, text)
            for image, by_language in enumerate(captions)
            for text in by_language.get(language, ())
        ]
        ids = reader.encode([text for _, text in texts])
        for (image, _), tokens in zip(texts, ids, strict=True):
            if len(tokens) > longest:
                longer += 1
            else:
                encoded.append(TokenizedCaption(image, (first, *tokens, reader.tokenizer.eos)))
    return encoded, longer


@dataclass(frozen=True)
class CaptionExamples:
    """Images with reference captions.

    captions: the captions of each image, by language. columns: the languages. split: the name of
    the split or of the files, for the terminal.
    """

    images: ImageExamples
    captions: Sequence[Captions]
    columns: tuple[str, ...]
    split: str

    def __len__(self) -> int:
        return len(self.captions)

    def chosen(self, language: str, limit: int | None) -> list[int]:
        """Choose at most `limit` images with a caption in that language, evenly spaced.

        Returns their indices. limit: None for all.
        """
        indices = [i for i, captions in enumerate(self.captions) if language in captions]
        return [indices[i] for i in evenly_spaced(len(indices), limit)]


def prepared_examples(corpus: CaptionCorpus, columns: tuple[str, ...]) -> CaptionExamples:
    """Return the prepared validation images of a run as examples."""
    name = corpus.images.folder.name
    return CaptionExamples(examples_of_corpus(corpus.images), corpus.captions, columns, name)


def read_examples(
    bundle: CaptionerBundle, paths: Sequence[Path], config: Any, options: CaptionEvaluation
) -> CaptionExamples:
    """Read the captioned images of tables, whatever their split.

    The columns are those of the run, or the languages of a model without a run.
    """
    if isinstance(config, CaptionRunConfig):
        data = config.data
    else:
        data = CaptionDataConfig(text=bundle.languages or CaptionDataConfig().text)
    columns = CaptionColumns(text=data.text, image=data.image, split=None)
    images = [image for path in paths for image in read_captions(path, columns)]
    return _of_images(images, data.text, ", ".join(map(str, paths)))


def held_out_examples(
    bundle: CaptionerBundle, run: Path, config: Any, options: CaptionEvaluation
) -> CaptionExamples:
    """Read the test images of a run, or its validation images.

    The test images are read if `options.split` is "test" and the table has any. Raises UsageError
    unless the run trained a captioner.
    """
    if not isinstance(config, CaptionRunConfig):
        raise UsageError(
            f"{run} is no run of a captioner", hint="name a run folder of a captioner: runs/NAME"
        )
    splits = captioned_images(config.data)
    name = "test" if options.split == "test" and splits["test"] else "valid"
    return _of_images(splits[name], config.data.text, name)


def _of_images(
    images: Sequence[CaptionedImage], columns: tuple[str, ...], split: str
) -> CaptionExamples:
    files = examples_of_images([captioned.image for captioned in images])
    return CaptionExamples(files, [captioned.captions for captioned in images], columns, split)
