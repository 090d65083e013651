"""The conversations of a run and their images: reads, splits, resizes and encodes them, and makes
batches of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from headway.base.errors import DataError, UsageError
from headway.base.files import read_bytes
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import ImageEncoding, TextBundle
from headway.data.bad_rows import NONE_LEFT_OUT, BadRows
from headway.data.dialogues import DIALOGUES, ENDINGS, Dialogue, read_dialogues
from headway.data.formats.images import LabelledImage
from headway.data.formats.split_files import files_of
from headway.data.image_corpus import (
    ImageCorpus,
    ImageExamples,
    examples_of_corpus,
    examples_of_images,
)
from headway.data.image_reader import ImageReader
from headway.data.images import BYTES_LIMIT
from headway.data.prepared import Progress, prepared
from headway.data.store import Array, Offsets, StoreWriter
from headway.data.stream import Batch
from headway.tasks.dialogue_packing import packed
from headway.tasks.dialogue_store import (
    TRAIN,
    VALID,
    EncodedDialogues,
    fitted_length,
    opened_store,
    write_dialogues,
)
from headway.tasks.finetuning import ExampleFiles, Sides
from headway.tasks.image_data import ImageSource, PreparedImages, prepare_splits
from headway.tasks.job import Emit
from headway.tasks.seeing.config import LONGEST, SeeRunConfig, SeeScoring
from headway.tasks.seeing.model import MultimodalBundle
from headway.tasks.target_mask import IMAGE_TOKEN, OwnRenderer, RenderedDialogue, with_role_tokens
from headway.text import PretrainedTokenizer, TextBPE, load_tokenizer

CONVERSATIONS = ExampleFiles(
    examples=DIALOGUES, kinds=".jsonl, .json or .parquet", endings=ENDINGS, content=DIALOGUES
)
NUMBERS = "images"
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True)
class Starts:
    """The models that the GPT and the image encoder are initialised from; None: from scratch."""

    language: TextBundle | None = None
    encoder: ImageEncoding | None = None


@dataclass(frozen=True)
class SeenDialogues(EncodedDialogues):
    """Conversations as tokens, with their images.

    images: the images of all conversations. numbers[image_offsets[i] : image_offsets[i + 1]]: which
    of them conversation i has, in the order of their places.
    """

    images: ImageExamples
    numbers: Array
    image_offsets: Offsets

    @classmethod
    def opened(
        cls, folder: Path, renderer: OwnRenderer, vocabulary: int, images: ImageExamples
    ) -> SeenDialogues:
        """Open what `write_seen` wrote. Raises DataError if another renderer encoded it."""
        store = opened_store(folder, renderer)
        encoded = EncodedDialogues.of(store, vocabulary)
        numbers, offsets = store.sequences(
            NUMBERS, "int32", below=max(1, len(images)), may_be_empty=True
        )
        return cls(**vars(encoded), images=images, numbers=numbers, image_offsets=offsets)

    def images_of(self, indices: Iterable[int]) -> list[int]:
        """Return the numbers of the images of conversations, in the order of their places."""
        offsets = self.image_offsets
        return [int(n) for i in indices for n in self.numbers[offsets[i] : offsets[i + 1]]]


@dataclass(frozen=True)
class SeenBatch(Batch):
    """Conversations with their images for next-token prediction, as `training.objectives.Texts`.

    targets: the next token, -1 where it is not learned. images: those of all conversations, in the
    order of their places; None if there are none. count: the number of targets.
    """

    examples = "conversations"
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    images: Float[Tensor, "I C Y X"] | None
    indices: tuple[int, ...]
    count: int
    lengths: None = None


def seen_batch(
    dialogues: SeenDialogues, indices: Sequence[int] | Array, reader: ImageReader
) -> SeenBatch:
    """Return conversations, padded on the right, and their images as one batch."""
    chosen = [int(index) for index in indices]
    texts = packed(dialogues, [[index] for index in chosen])
    numbers = dialogues.images_of(chosen)
    images = dialogues.images.batch(numbers, reader) if numbers else None
    return SeenBatch(texts.tokens, texts.targets, images, tuple(chosen), texts.count)


def check_seeing(config: SeeRunConfig) -> None:
    """Raise UsageError if conversations are missing, or if settings conflict."""
    data, training = config.data, config.training
    if not data.train:
        raise UsageError(
            "no training conversations are named",
            hint="headway data fetch drawn-shapes; headway train see data/drawn-shapes",
        )
    files_of(data.train, data.valid, ENDINGS, DIALOGUES)
    if training.frozen and training.encoder is None:
        raise UsageError(
            "training.frozen freezes a pre-trained encoder, and none is named",
            hint="--from-encoder MODEL",
        )


def image_files(dialogues: Sequence[Dialogue]) -> dict[Path, int]:
    """Return the files of the images of conversations -> their numbers, in order."""
    files = dict.fromkeys(
        file for one in dialogues for file in one.images if isinstance(file, Path)
    )
    return {file: number for number, file in enumerate(files)}


def _images(files: Iterable[Path]) -> list[LabelledImage]:
    return [LabelledImage("", str(file), partial(read_bytes, file, BYTES_LIMIT)) for file in files]


def write_seen(
    dialogues: Sequence[Dialogue],
    renderer: OwnRenderer,
    vocabulary: int,
    length: int,
    folder: Path,
    bad_rows: BadRows,
    images: ImageExamples,
    progress: Progress = lambda done: None,
) -> SeenDialogues:
    """Encode conversations into the new folder `folder`, and open it; as `write_dialogues`.

    images: those of `image_files`, in order. Raises DataError for a conversation whose images need
    more than `length` positions.
    """
    numbers = image_files(dialogues)

    def append_more(store: StoreWriter, kept: Sequence[RenderedDialogue]) -> None:
        for one in kept:
            if renderer.is_cut(one):
                raise DataError(
                    f"the images of the conversation need more than {length} positions",
                    one.dialogue.where,
                    "a larger --training.length, fewer images, or larger patches",
                )
        shown = [[numbers[file] for file in one.dialogue.images] for one in kept]  # type: ignore[index]
        store.append_sequences(NUMBERS, shown, "int32")

    write_dialogues(
        dialogues, renderer, vocabulary, length, folder, bad_rows, progress, append_more
    )
    return SeenDialogues.opened(folder, renderer, vocabulary, images)


class SeeingData:
    """The data of a run, prepared in its folder step by step: images, tokenizer, conversations."""

    def __init__(self, config: SeeRunConfig, starts: Starts, folder: Path, emit: Emit) -> None:
        self._config, self._starts, self._folder, self._emit = config, starts, folder, emit
        self._bad_rows = BadRows.of(config.data.bad_rows)
        self._sides = cache(self._read)
        self.images = self._prepare_images()
        self.tokenizer = self._prepare_tokenizer()

    def _read(self) -> Mapping[str, list[Dialogue]]:
        """Read the conversations of both sides. Those about one image are on the same side."""
        data = self._config.data
        dialogues, valid = CONVERSATIONS.read(
            data, lambda files: read_dialogues(files, self._bad_rows)
        )

        def content(one: Dialogue) -> str:
            return "\n".join(map(str, one.images)) or one.question

        sides = CONVERSATIONS.split(data, dialogues, valid, content, emit=self._emit)
        for side in sides:
            if not any(one.images for one in side):
                raise DataError(
                    "no conversation has an image",
                    ", ".join(data.train),
                    "headway train chat trains models that read texts only",
                )
        return dict(zip((TRAIN, VALID), sides, strict=True))

    def _prepare_images(self) -> PreparedImages:
        config, encoder = self._config, self._starts.encoder

        def read() -> ImageSource:
            return ImageSource(
                splits={name: _images(image_files(side)) for name, side in self._sides().items()},
                classes=("",),
                where=", ".join(config.data.train),
            )

        start = None if encoder is None else encoder.reader
        return prepare_splits(
            read, config.model.vit, config.data, start, self._folder, self._emit, key="model.vit"
        )

    def _prepare_tokenizer(self) -> PretrainedTokenizer:
        if (self._folder / TOKENIZER_FILE).exists():
            tokenizer = load_tokenizer(self._folder)
            assert isinstance(tokenizer, PretrainedTokenizer)
            return tokenizer
        start = self._starts.language
        if start is not None:
            tokenizer, how = start.tokenizer, "of the pre-trained model"
        else:
            texts = (turn.content for one in self._sides()[TRAIN] for turn in one.turns)
            tokenizer = TextBPE.train(texts, self._config.data.vocabulary)
            how = "byte-level BPE"
        tokenizer = with_role_tokens(tokenizer, [IMAGE_TOKEN])
        tokenizer.save(self._folder)
        self._emit({"kind": "tokenizer", "vocabulary_size": tokenizer.size, "how": how})
        return tokenizer

    def conversations(self, patches: int, length: int) -> Sides[SeenDialogues]:
        """Encode the conversations, or reuse them. patches: of an image."""
        renderer, size = OwnRenderer(self.tokenizer, patches), self.tokenizer.size

        def side(name: str, corpus: ImageCorpus) -> SeenDialogues:
            images = examples_of_corpus(corpus)
            return prepared(
                self._folder / "data" / f"{name}-conversations",
                lambda path: SeenDialogues.opened(path, renderer, size, images),
                lambda path, progress: write_seen(
                    self._sides()[name],
                    renderer,
                    size,
                    length,
                    path,
                    self._bad_rows,
                    images,
                    progress,
                ),
                lambda side: {"count": len(side), "unit": DIALOGUES, "skipped": dict(side.skipped)},
                self._emit,
                DIALOGUES,
            )

        sides = Sides(side(TRAIN, self.images.train), side(VALID, self.images.valid))
        self._bad_rows.announce(self._emit)
        return sides


def held_out_seeing(
    bundle: MultimodalBundle, run: Path, config: object, options: SeeScoring
) -> SeenDialogues:
    """Open the held-out conversations of a run. Raises UsageError if they are missing."""
    folder = run / "data" / f"{VALID}-conversations"
    if not folder.is_dir():
        raise UsageError(
            "the held-out conversations of the run are missing",
            str(folder),
            f"name a file: headway eval {run} FILE",
        )
    corpus = ImageCorpus.open(run / "data" / VALID, bundle.reader.images)
    return SeenDialogues.opened(
        folder, bundle.renderer, bundle.tokenizer.size, examples_of_corpus(corpus)
    )


def read_seeing(
    bundle: MultimodalBundle, paths: Sequence[Path], config: object, options: SeeScoring
) -> SeenDialogues:
    """Read and encode the conversations of files, with their images."""
    length = config.training.length if isinstance(config, SeeRunConfig) else None
    length = fitted_length(length, LONGEST, bundle.model.max_length)
    dialogues = list(read_dialogues(paths))
    images = examples_of_images(_images(image_files(dialogues)))
    with tempfile.TemporaryDirectory() as folder:  # the files stay mapped after they are removed
        return write_seen(
            dialogues,
            bundle.renderer,
            bundle.tokenizer.size,
            length,
            Path(folder) / "dialogues",
            NONE_LEFT_OUT,
            images,
        )
