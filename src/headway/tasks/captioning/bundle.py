"""A captioner with its image reader and tokenizer: images in, sentences out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from headway.bundle import (
    Attention,
    InputSpec,
    Probe,
    ProbeRequest,
    Reading,
    SearchTrace,
    StoredBundle,
    attention_of,
    image_patches,
    next_token_readout,
)
from headway.bundle.image_encoder import Picture, batches_of, check_reader, image_of, names_of
from headway.decoding import (
    Candidate,
    Forbidden,
    GenerationConfig,
    Hypothesis,
    Limits,
    Observer,
    Row,
    Rule,
    Sampling,
    beam_search,
    check_search,
    greedy_search,
    open_rows,
    sample_steps,
)
from headway.errors import DataError, UsageError
from headway.models import Captioner
from headway.settings import override
from headway.shapes import Float, Tensor
from headway.tasks.captioning.prediction import (
    BEST,
    CaptionedFile,
    CaptionInput,
    CaptionOptions,
    WrittenCaption,
)
from headway.tasks.captioning.reader import CaptionReader


@dataclass(frozen=True)
class Caption:
    """What was written of a picture. log_probability in nats; score is what it was ranked by.
    finished: False where it was cut at the longest length."""

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]
    finished: bool


class CaptionerBundle(StoredBundle):
    """A captioner with its reader: pictures in, sentences out."""

    kind: ClassVar[str] = "captioner"
    inputs: ClassVar[InputSpec] = InputSpec(modality="image", target=True, language=True)
    reader_class = CaptionReader
    model: Captioner

    def __init__(self, model: Captioner, reader: CaptionReader) -> None:
        check_reader(reader.images, model.config.vit)
        if reader.size != model.config.gpt.vocabulary:
            raise DataError(
                f"tokenizer and languages make {reader.size:,} tokens, the model has "
                f"{model.config.gpt.vocabulary:,}",
                hint="the model and the tokenizer are not from the same training",
            )
        super().__init__(model, reader)
        self.reader = reader

    @property
    def languages(self) -> tuple[str, ...]:
        """What it speaks; none where that is one language without a name."""
        return self.reader.languages

    @property
    def longest(self) -> int:
        """Most pieces that a caption has."""
        room = self.model.max_length
        return self.reader.longest if room is None else min(self.reader.longest, room - 1)

    def caption(
        self,
        pictures: Sequence[Picture],
        *,
        language: str | None = None,
        beam: int = 4,
        length_penalty: float = 1.0,
    ) -> list[str]:
        """The best caption of each picture, in the order given. beam=1 is greedy. language: one
        that it speaks; None: the first."""
        found = self.search(pictures, language=language, beam=beam, length_penalty=length_penalty)
        return [best[0].text for best in found]

    def predict(
        self,
        inputs: Sequence[CaptionInput],
        options: CaptionOptions = BEST,
        *,
        first: int = 1,
    ) -> list[CaptionedFile]:
        """The captions of image files, by `search` or by `sample`."""
        for language in options.languages:
            self.reader.first(language)  # refuses one that the model does not write
        images = [item.image for item in inputs]
        by_language = [self._written(images, language, options) for language in options.languages]
        return [
            CaptionedFile(
                file=str(image),
                captions=tuple(caption for captions in by_language for caption in captions[i]),
            )
            for i, image in enumerate(images)
        ]

    def _written(
        self, images: Sequence[Path], language: str | None, options: CaptionOptions
    ) -> list[list[WrittenCaption]]:
        if options.sample:
            captions = self.sample(
                images,
                language=language,
                samples=options.sample,
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
                seed=options.seed,
            )
        else:
            captions = self.search(
                images,
                language=language,
                beam=options.beam,
                num_best=options.top,
                length_penalty=options.length_penalty,
            )
        name = language or next(iter(self.languages), None)
        return [
            [
                WrittenCaption(
                    language=name,
                    text=caption.text,
                    score=caption.score,
                    log_probability=caption.log_probability,
                    finished=caption.finished,
                )
                for caption in of_image
            ]
            for of_image in captions
        ]

    def search(
        self,
        pictures: Sequence[Picture],
        *,
        language: str | None = None,
        beam: int = 4,
        num_best: int = 1,
        length_penalty: float = 1.0,
    ) -> list[list[Caption]]:
        """The `num_best` best captions of each picture, best first. What a picture gets does not
        depend on the others."""
        found: list[list[Caption]] = []
        for images in batches_of(self.reader.images, pictures, self.device):
            found += self.search_images(images, language, (beam, num_best, length_penalty))
        return found

    def search_images(
        self,
        images: Float[Tensor, "B C Y X"],
        language: str | None = None,
        how: tuple[int, int, float] = (4, 1, 1.0),
        observe: Observer | None = None,
    ) -> list[list[Caption]]:
        """The same for pictures as the model is given them. how: beam, captions of each, length
        penalty. observe: hears what a beam weighs."""
        beam, num_best, alpha = how
        check_search(beam, num_best, alpha)
        first = self.reader.first(language)
        limits = Limits(
            first, self.reader.tokenizer.eos, [self.longest] * len(images), self._rules()
        )
        inputs = (images.to(self.device),)
        if beam == 1:
            found = [[one] for one in greedy_search(self.model, inputs, limits, alpha)]
        else:
            found = beam_search(
                *(self.model, inputs, limits),
                width=beam,
                alpha=alpha,
                num_best=num_best,
                observe=observe,
            )
        return [[self._caption(one) for one in best] for best in found]

    @torch.inference_mode()
    def sample(
        self, pictures: Sequence[Picture], *, language: str | None = None, **settings: Any
    ) -> list[list[Caption]]:
        """`samples` captions of each picture, drawn by temperature, top_k, top_p, min_p, typical,
        penalties and seed, as `GenerationConfig` has them. Their score is their log-probability
        before any of that."""
        config = override(GenerationConfig(max_tokens=self.longest), settings, "sampling")
        first, found = self.reader.first(language), []
        for images in batches_of(self.reader.images, pictures, self.device):
            rules = [*self._rules(), *config.rules(self.reader.tokenizer, len(images))]
            most = min(config.max_tokens, self.longest)
            eos = self.reader.tokenizer.eos
            sampling = Sampling(eos=eos, max_tokens=most, rules=rules)
            seeds = [[config.seed + i for i in range(config.samples)] for _ in images]
            rows = open_rows(self.model, [[first]] * len(images), seeds, sampling)
            state = self.model.start(images).reorder([row.item for row in rows])
            for _ in sample_steps(self.model, rows, sampling, state):
                pass
            drawn = [self._drawn(row) for row in rows]
            found += [drawn[i : i + config.samples] for i in range(0, len(drawn), config.samples)]
        return found

    def _rules(self) -> list[Rule]:
        specials = self.reader.specials
        return [Forbidden([[token] for token in specials])] if specials else []

    def _caption(self, found: Hypothesis) -> Caption:
        text = self.reader.decode(found.tokens)
        return Caption(text, found.score, found.log_probability, found.tokens, found.finished)

    def _drawn(self, row: Row) -> Caption:
        total = sum(row.log_probabilities)
        text = self.reader.decode(row.tokens)
        return Caption(text, total, total, tuple(row.tokens), row.reason == "end")

    def reading(
        self,
        picture: Picture,
        text: str | Sequence[int] | None = None,
        *,
        language: str | None = None,
    ) -> Reading:
        """What is read while `text` (ids too, or the model's own caption) is written. The picture's
        tokens are the encoder's vectors: [CLS], [R1], ... (registers), and "row,column" of the
        patches. What the decoder reads begins one token earlier than what it predicts."""
        images = image_of(self.reader.images, picture, self.device)
        if text is None:
            written = list(self.search_images(images, language)[0][0].tokens)
        else:
            written = self.reader.encode([text])[0] if isinstance(text, str) else [*text]
        room = self.model.max_length
        if room is not None and len(written) >= room:
            raise UsageError(
                f"the text has {len(written)} pieces, and this model's learned positions end at "
                f"{room - 1}",
                hint="a shorter text",
            )
        ids = {
            "read": [self.reader.first(language), *written],
            "target": [*written, self.reader.tokenizer.eos],
        }
        read = torch.tensor([ids["read"]], device=self.device)
        pieces = {"picture": names_of(self.model.vit, images.shape[2], images.shape[3])}
        return Reading(
            model=self.model,
            run=lambda: self.model(images, read),
            pieces=pieces | {name: self.reader.pieces(own) for name, own in ids.items()},
            axes={
                "encoder": ("picture", "picture"),
                "decoder": ("read", "read"),
                "cross": ("target", "picture"),
            },
            embeddings={"picture": "vit.embedding", "read": "embedding"},
            ids=ids,
            words={name: self.reader.words(own) for name, own in ids.items()},
        )

    def attention(
        self,
        picture: Picture,
        text: str | None = None,
        *,
        language: str | None = None,
        layers: Sequence[str] = (),
        heads: Sequence[int] = (),
    ) -> Attention:
        """Attention weights while `text` (given, or the model's own caption) is written. Row t of a
        decoder map is the query that predicted target piece t; the source is the picture. layers,
        heads: those to keep; none: all."""
        return attention_of(self.reading(picture, text, language=language), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input, request.target, language=request.language)
        reader, ids = self.reader, reading.ids["target"]
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=reader.decode(ids),
            readout=next_token_readout(
                self.model, "target", range(len(ids)), reader.size, reader.pieces
            ),
            tokenizers={"read": reader.tokenizer, "target": reader.tokenizer},
            images={"picture": image_patches(self.model.vit, reader.images, request.input)},
        )

    def trace_search(
        self, input: Picture, *, language: str | None = None, beam: int = 4
    ) -> SearchTrace:
        """Everything that the search for the best caption scored."""
        images = image_of(self.reader.images, input, self.device)
        candidates: list[Candidate] = []
        ((best,),) = self.search_images(images, language, (beam, 1, 1.0), candidates.append)
        return SearchTrace(
            candidates=candidates,
            first=self.reader.first(language),
            best=best.tokens,
            end=(self.reader.tokenizer.eos,) if best.finished else (),
            names=self.reader.pieces,
        )
