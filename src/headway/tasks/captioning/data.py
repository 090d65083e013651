"""The data of captioning: images and captions on disk, their preparation, batches, and examples.

Prepared data that exists in the run folder is reused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch

from headway.base.errors import DataError, UsageError
from headway.base.files import parse_json
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.bundle import ImageEncoding, TextBundle
from headway.data.augmentation import AugmentationConfig, augmented, view_generator
from headway.data.bad_rows import BadRows
from headway.data.image_corpus import (
    TEXTS,
    ImageCorpus,
    ImageExamples,
    examples_of_images,
    open_images,
)
from headway.data.image_reader import ImageReader, Normalise
from headway.data.padding import padded
from headway.data.rows import check_table
from headway.data.split import check_sides, evenly_spaced, hold_out
from headway.data.stream import Batch, Indices
from headway.tasks.captioning.caption_files import (
    CaptionColumns,
    CaptionedImage,
    Captions,
    read_captions,
    split_of,
)
from headway.tasks.captioning.config import CaptionDataConfig, CaptionEvaluation, CaptionRunConfig
from headway.tasks.captioning.model import CaptionerBundle
from headway.tasks.captioning.reader import CaptionReader
from headway.tasks.image_data import ImageSource, content, prepare_splits
from headway.tasks.job import Emit
from headway.text import TextBPE, TextTokenizer

SPLITS = ("train", "valid")


@dataclass(frozen=True)
class CaptionCorpus:
    """Images of one size, memory-mapped from disk, and the captions of each image by language."""

    images: ImageCorpus
    captions: Sequence[Captions]

    def __len__(self) -> int:
        return len(self.images)

    @classmethod
    def open(cls, folder: Path, sized: ImageReader) -> CaptionCorpus:
        """Open a folder of images whose texts are captions (`captions_as_text`).

        Raises DataError if it is damaged or its images were resized by another reader than `sized`.
        """
        store = open_images(folder, sized)
        texts, offsets = store.sequences(TEXTS, "uint8")
        captions: list[Captions] = []
        for start, end in pairwise(offsets.tolist()):
            by_language = parse_json(texts[start:end].tobytes(), str(folder))
            if not _is_captions(by_language):
                what = f"row {len(captions)} must have captions by language, but does not"
                raise store.error(what, f"{TEXTS}.bin")
            captions.append({name: tuple(group) for name, group in by_language.items()})
        return cls(ImageCorpus.of(store, sized), captions)


def _is_captions(row: object) -> bool:
    return isinstance(row, dict) and all(
        isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)
        for texts in row.values()
    )


def captions_as_text(images: Sequence[CaptionedImage]) -> list[str]:
    """Return the captions of each image as JSON, the form in which a `CaptionCorpus` has them."""
    return [json.dumps(image.captions, ensure_ascii=False) for image in images]


TokenizedCaptions = dict[int, list[tuple[int, ...]]]
"""Index of an image -> the ids of each of its captions, from first to last special token."""


@dataclass(frozen=True)
class CaptionBatch(Batch):
    """Images with all their captions for teacher forcing.

    images: M normalised images. read: decoder input of B captions. targets: the tokens to predict.
    of: for each caption, the index of its image in `images`. real: True where a target is not
    padding. indices: indices of the images in the corpus. count: the number of targets without
    padding; None if they are to be counted.
    """

    examples = "images"
    images: Float[Tensor, "M C Y X"]
    of: Int[Tensor, " B"]
    read: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    real: Bool[Tensor, "B T"]
    indices: tuple[int, ...] = ()
    count: int | None = None


def collate_captions(
    images: Float[Tensor, "M C Y X"],
    captions: Sequence[Sequence[tuple[int, ...]]],
    indices: Sequence[int],
) -> CaptionBatch:
    """Return normalised images and the captions of each image as one batch."""
    captions_with_image = [(i, ids) for i, of_image in enumerate(captions) for ids in of_image]
    read, real = padded([ids[:-1] for _, ids in captions_with_image], 0)
    targets, _ = padded([ids[1:] for _, ids in captions_with_image], 0)
    of = torch.tensor([i for i, _ in captions_with_image])
    return CaptionBatch(images, of, read, targets, real, tuple(indices), int(real.sum()))


class CaptionedImages:
    """Makes batches of images with all their captions, so that an image is encoded only once for
    them. The augmentation of an image depends only on (seed, epoch, its index).

    images_with_captions: the indices of the images with a caption, in order.
    """

    def __init__(
        self,
        images: ImageCorpus,
        captions: TokenizedCaptions,
        normalise: Normalise,
        augmentation: AugmentationConfig,
        seed: int,
    ) -> None:
        self.images, self.normalise, self.seed = images, normalise, seed
        self.augmentation, self.captions = augmentation, captions
        self.images_with_captions = sorted(captions)

    def batch(self, numbers: Indices, epoch: int) -> CaptionBatch:
        """Return images, as positions in `images_with_captions`, augmented as in epoch `epoch`."""
        indices = [self.images_with_captions[number] for number in numbers]
        images = torch.stack([self._seen(index, epoch) for index in indices])
        captions = [self.captions[index] for index in indices]
        return collate_captions(self.normalise(images * 255), captions, indices)

    def _seen(self, index: int, epoch: int) -> Float[Tensor, "C Y X"]:
        random = view_generator(self.seed, epoch, index)
        return augmented(self.images.image(index), self.augmentation, random)


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


def prepare_captions(
    config: CaptionRunConfig, starts: Starts, folder: Path, emit: Emit
) -> PreparedCaptions:
    """Prepare images, captions and the reader in the run folder, or reuse them."""
    start = None if starts.encoder is None else starts.encoder.reader

    def read() -> ImageSource:
        splits = captioned_images(config.data, emit)
        return ImageSource(
            splits={name: [row.image for row in splits[name]] for name in SPLITS},
            classes=("",),
            texts={name: captions_as_text(splits[name]) for name in SPLITS},
            where=str(config.data.train),
        )

    images = prepare_splits(
        read, config.model.vit, config.data, start, folder, emit, key="model.vit"
    )
    train, valid = (
        CaptionCorpus.open(corpus.folder, images.reader) for corpus in (images.train, images.valid)
    )
    if (folder / CaptionReader.FILE).exists():
        return PreparedCaptions(CaptionReader.load(folder), train, valid)
    tokenizer = _tokenizer(config.data, starts.decoder, train, emit)
    languages = config.data.text if len(config.data.text) > 1 else ()
    reader = CaptionReader(images.reader, tokenizer, languages, config.data.max_length)
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
) -> tuple[TokenizedCaptions, int]:
    """Encode all captions; leave out those of more than `longest` tokens.

    Returns the encoded captions, and the number of captions that are left out.
    """
    encoded: TokenizedCaptions = {}
    longer = 0
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
                caption = (first, *tokens, reader.tokenizer.eos)
                encoded.setdefault(image, []).append(caption)
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


def read_examples(
    bundle: CaptionerBundle, paths: Sequence[Path], config: object, options: CaptionEvaluation
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
    bundle: CaptionerBundle, run: Path, config: object, options: CaptionEvaluation
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
