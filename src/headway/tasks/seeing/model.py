"""The bundle of a multimodal GPT: prompts with images in, answers out."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch

from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.bundle import (
    ForwardPass,
    GeneratingBundle,
    ImagePatches,
    InputSpec,
    Probe,
    ProbeRequest,
    image_patches,
    next_token_readout,
)
from headway.bundle.arguments import checked
from headway.bundle.files import check_vocabulary_size
from headway.bundle.image_encoder import AnyImage, batches_of, check_reader
from headway.data.dialogues import IMAGE, USER, Turn
from headway.data.image_reader import ImageReader
from headway.decoding import generate_from_tokens
from headway.interop import NO_SETTINGS, ChatTemplate, FolderSettings
from headway.models import MultimodalGPT, WithImages
from headway.tasks.target_mask import TEMPLATE, OwnRenderer
from headway.text import TextTokenizer, load_tokenizer, positions_of_words

CHAT = FolderSettings(template=ChatTemplate(by_name={"default": TEMPLATE}))
"""The settings of a model that is trained here: its chat template."""


@dataclass(frozen=True)
class MultimodalReader:
    """The image preprocessing and the tokenizer of a multimodal GPT."""

    images: ImageReader
    tokenizer: TextTokenizer

    @property
    def fingerprint(self) -> str:
        """The sha256 of everything that pixels and tokens depend on."""
        parts = f"{self.images.fingerprint} {self.tokenizer.fingerprint}"
        return hashlib.sha256(parts.encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Write images.json and the files of the tokenizer."""
        self.images.save(folder)
        self.tokenizer.save(folder)

    @classmethod
    def load(cls, folder: Path) -> MultimodalReader:
        """Load the files that `save` wrote. Raises DataError if they are invalid."""
        return cls(ImageReader.load(folder), load_tokenizer(folder))


class MultimodalBundle(GeneratingBundle):
    """A multimodal GPT with its tokenizer and its image reader."""

    kind: ClassVar[str] = "multimodal language model"
    inputs: ClassVar[InputSpec] = InputSpec(images=True)
    reader_class = MultimodalReader
    model: MultimodalGPT

    def __init__(
        self, model: MultimodalGPT, reader: MultimodalReader, settings: FolderSettings = NO_SETTINGS
    ) -> None:
        check_vocabulary_size(reader.tokenizer.size, model.config.vocabulary)
        check_reader(reader.images, model.config.vit)
        super().__init__(model, reader, settings)
        self.reader, self.tokenizer = reader, reader.tokenizer
        self.renderer = OwnRenderer(reader.tokenizer, model.config.patches)

    @property
    def patches(self) -> int:
        """The number of places of an image in a prompt."""
        return self.model.config.patches

    def with_images(self, images: Sequence[AnyImage]) -> MultimodalBundle:
        """Return the bundle with the images of the prompts that it continues, in their order.

        The prompts of its methods have places for them, as those of `prompt`. Without images it is
        this bundle. Raises DataError for an image that cannot be read.
        """
        if not images:
            return self
        seeing = copy.copy(self)
        seeing.model = WithImages(self.model, self.pixels(images)).eval()
        return seeing

    def pixels(self, images: Sequence[AnyImage]) -> Float[Tensor, "I C Y X"]:
        """Return images as the input of the model. Raises DataError for one that cannot be read."""
        return torch.cat(list(batches_of(self.reader.images, images, self.device)))

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Return the tokens of a conversation, with places for its images, after which the model
        answers."""
        return self.renderer.prompt(turns)

    @checked
    def answer(self, question: str, images: Sequence[AnyImage] = (), **settings: object) -> str:
        """Return the answer to a question about images, by greedy decoding.

        The images come before the question, in order. settings: as in `GenerationConfig`.
        """
        config = self.with_defaults({"temperature": 0.0, **settings})
        prompt = self.prompt([asked(question, images)])
        model = self.with_images(images).model
        return generate_from_tokens(model, self.tokenizer, [prompt], config)[0][0].text.strip()

    def reading(
        self, question: str, images: Sequence[AnyImage] = (), written: Sequence[int] = ()
    ) -> ForwardPass:
        """Return the forward pass for a question about images and the tokens of the answer.

        The places of an image are named "row,column". Raises UsageError if the text is longer than
        the context of a model with learned positions.
        """
        ids = [*self.prompt([asked(question, images)]), *written]
        room = self.model.max_length
        if room is not None and len(ids) > room:
            raise UsageError(
                f"the text and the images have {len(ids)} tokens and patches, but the model has "
                f"learned positions for at most {room}",
                hint="shorten the text, or show fewer images",
            )
        model = self.with_images(images).model
        tokens = torch.tensor([ids], device=self.device)
        return ForwardPass(
            model=_without_encoder(self.model),
            run=lambda: model(tokens),
            tokens={"text": self._names(ids)},
            axes={"decoder": ("text", "text")},
            embeddings={"text": "embedding"},
            ids={"text": ids},
            words={"text": positions_of_words(self.tokenizer, ids)},
        )

    def places(self, ids: Sequence[int]) -> list[int]:
        """Return the positions of tokens at which patches stand."""
        return [i for i, token in enumerate(ids) if token == self.model.config.image_token]

    def _names(self, ids: Sequence[int]) -> list[str]:
        """Return a readable text for each token, and "row,column" for each patch."""
        names = self.tokenizer.token_strings(ids)
        columns = self.model.config.vit.grid[1]
        for number, place in enumerate(self.places(ids)):
            row, column = divmod(number % self.model.config.patches, columns)
            names[place] = f"{row},{column}"
        return names

    def _probe(self, request: ProbeRequest) -> Probe:
        images = request.images
        prompt = self.prompt([asked(request.input, images)])
        config = self.with_defaults({"temperature": 0.0, "max_tokens": max(1, request.written)})
        model = self.with_images(images).model
        ((best,),) = generate_from_tokens(model, self.tokenizer, [prompt], config)
        written = best.tokens[: request.written]
        reading = self.reading(request.input, images, written)
        # patches of several images could not be drawn over one
        shown: dict[str, ImagePatches] = {}
        if len(images) == 1:
            patches = image_patches(self.model.vit, self.reader.images, images[0])
            shown = {"text": replace(patches, num_prefix_tokens=self.places(prompt)[0])}
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=best.text,
            readout=next_token_readout(
                self.model,
                "text",
                range(1, len(reading.ids["text"]) + 1),
                self.tokenizer.size,
                self.tokenizer.token_strings,
            ),
            tokenizers={"text": self.tokenizer},
            images=shown,
            generated={"text": len(prompt)} if written else {},
        )


def _without_encoder(model: MultimodalGPT) -> MultimodalGPT:
    """Return a view of the model for inspection, which shows the GPT only: the image encoder has
    read the images before, each for itself."""
    view = copy.copy(model)
    view._modules = {name: part for name, part in model._modules.items() if name != "vit"}
    return view


def asked(question: str, images: Sequence[object]) -> Turn:
    """Return the turn of a user who shows images and asks a question about them."""
    text = question.replace(IMAGE, " ") if images else question
    return Turn(USER, IMAGE * len(images) + text, images=tuple(images))
