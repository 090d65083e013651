"""The bundle of a captioner: model, image reader and tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from headway.base.errors import DataError, UsageError
from headway.base.settings import override
from headway.base.shapes import Float, Tensor
from headway.bundle import (
    Attention,
    ForwardPass,
    InputSpec,
    Probe,
    ProbeRequest,
    SearchTrace,
    StoredBundle,
    attention_of,
    image_patches,
    next_token_readout,
    with_normalisation,
)
from headway.bundle.arguments import changed, checked
from headway.bundle.image_encoder import AnyImage, batches_of, check_reader, image_of, names_of
from headway.decoding import (
    BeamSettings,
    Candidate,
    GenerationConfig,
    Observer,
    Sampling,
    Search,
    end_of,
    fast_beam_search,
    fast_greedy_search,
    open_rows,
    run,
    sample_search,
)
from headway.interop import NO_SETTINGS, FolderSettings, Kind
from headway.models import Captioner
from headway.tasks.captioning.limits import (
    limits_of_search,
    longest_caption,
    without_specials,
)
from headway.tasks.captioning.prediction import (
    Caption,
    CaptionedFile,
    CaptionInput,
    CaptionOptions,
    folder_options,
)
from headway.tasks.captioning.reader import CaptionReader


class CaptionerBundle(StoredBundle):
    """A captioner with its reader: it generates sentences that describe images."""

    kind: ClassVar[str] = "captioner"
    settings_kind: ClassVar[Kind | None] = "captioner"
    inputs: ClassVar[InputSpec] = InputSpec(modality="image", target=True, language=True)
    reader_class = CaptionReader
    model: Captioner

    def __init__(
        self, model: Captioner, reader: CaptionReader, settings: FolderSettings = NO_SETTINGS
    ) -> None:
        check_reader(reader.images, model.config.vit)
        if reader.size != model.config.gpt.vocabulary:
            raise DataError(
                f"tokenizer and languages have {reader.size:,} tokens, but the vocabulary size of "
                f"the model is {model.config.gpt.vocabulary:,}",
                hint="use the tokenizer with which the model was trained",
            )
        super().__init__(model, reader, settings)
        self.reader = reader

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the captions; empty if there is one language without a name."""
        return self.reader.languages

    @property
    def longest(self) -> int:
        """The maximum number of tokens of a caption."""
        return longest_caption(self.model, self.reader)

    @checked
    def caption(
        self, images: Sequence[AnyImage], *, language: str | None = None, **settings: Any
    ) -> list[str]:
        """Generate the best caption of every image, in order.

        language: one of `languages`; None: the first. settings: see `search`.
        """
        captions = self.search(images, language=language, **settings)
        return [best[0].text for best in captions]

    def predict(
        self,
        inputs: Sequence[CaptionInput],
        options: CaptionOptions | None = None,
        *,
        first: int = 1,
    ) -> list[CaptionedFile]:
        """Generate captions of image files, as `predicting` does."""
        return run(self.model, self.predicting(inputs, options))

    def predicting(
        self, inputs: Sequence[CaptionInput], options: CaptionOptions | None = None
    ) -> Search[list[CaptionedFile]]:
        """Generate captions of image files, by `search` or by `sample`.

        options: if unset, `default_options`.
        """
        options = options or self.default_options
        for language in options.languages:
            self.reader.first(language)  # raises UsageError for an unknown language
        images, by_language = [item.image for item in inputs], []
        for language in options.languages:
            if options.sample:
                sampling = GenerationConfig(
                    max_tokens=self.longest,
                    samples=options.sample,
                    temperature=options.temperature,
                    top_k=options.top_k,
                    top_p=options.top_p,
                    seed=options.seed,
                )
                captions = yield from self._sampling(images, language, sampling)
            else:
                captions = yield from self._searching(images, language, options, options.top)
            by_language.append(captions)
        return [
            CaptionedFile(
                file=str(image),
                captions=tuple(caption for captions in by_language for caption in captions[i]),
            )
            for i, image in enumerate(images)
        ]

    @checked
    def search(
        self,
        images: Sequence[AnyImage],
        *,
        language: str | None = None,
        num_best: int = 1,
        **settings: Any,
    ) -> list[list[Caption]]:
        """Generate the `num_best` best captions of every image by beam search, best first.

        The captions of an image do not depend on the other images. settings: those of
        `BeamSettings`, such as beam=1 for greedy search. What is unset is that of
        `default_options`.
        """
        usual = BeamSettings(**self.default_options.of_search)
        chosen = changed(usual, settings, "the settings of the search")
        return run(self.model, self._searching(images, language, chosen, num_best))

    def _searching(
        self,
        images: Sequence[AnyImage],
        language: str | None,
        settings: BeamSettings,
        num_best: int,
    ) -> Search[list[list[Caption]]]:
        captions: list[list[Caption]] = []
        for batch in batches_of(self.reader.images, images, self.device):
            captions += yield from self._search_batch(batch, language, settings, num_best)
        return captions

    def search_tensors(
        self,
        images: Float[Tensor, "B C Y X"],
        language: str | None = None,
        settings: BeamSettings | None = None,
        observe: Observer | None = None,
    ) -> list[list[Caption]]:
        """Search for the best caption of images that the reader has converted to tensors.

        settings: if unset, those of a search with four beams. observe: receives the candidates of
        every step of the beam search.
        """
        chosen = settings or BeamSettings()
        return run(self.model, self._search_batch(images, language, chosen, 1, observe))

    def _search_batch(
        self,
        images: Float[Tensor, "B C Y X"],
        language: str | None,
        settings: BeamSettings,
        num_best: int,
        observe: Observer | None = None,
    ) -> Search[list[list[Caption]]]:
        settings.check(num_best)
        first, generation = self.reader.first(language), self.settings.generation
        settings = with_normalisation(settings, generation)
        limits = limits_of_search(self.model, self.reader, generation, first, len(images))
        inputs = (images.to(self.device),)
        if settings.beam == 1:
            greedy = yield from fast_greedy_search(self.model, inputs, limits, settings)
            lists = [[best] for best in greedy]
        else:
            search = fast_beam_search(
                self.model, inputs, limits, settings, num_best=num_best, observe=observe
            )
            lists = run(self.model, search) if settings.coverage else (yield from search)
        name = self._name(language)
        return [
            [
                Caption(
                    h.tokens,
                    h.log_probability,
                    h.score,
                    h.finished,
                    self.reader.decode(h.tokens),
                    name,
                )
                for h in best
            ]
            for best in lists
        ]

    @checked
    def sample(
        self, images: Sequence[AnyImage], *, language: str | None = None, **settings: Any
    ) -> list[list[Caption]]:
        """Sample captions of every image.

        settings: samples (captions per image), temperature, top_k, top_p, min_p, typical, penalties
        and seed, as in `GenerationConfig`. The score of a caption is its log-probability before
        these settings change the distribution.
        """
        config = override(GenerationConfig(max_tokens=self.longest), settings, "sampling")
        if config.contrastive or config.dola != "none":
            raise UsageError(
                "captions are sampled without contrastive search and DoLa",
                hint="leave out contrastive and dola",
            )
        return run(self.model, self._sampling(images, language, config))

    @torch.inference_mode()
    def _sampling(
        self, images: Sequence[AnyImage], language: str | None, config: GenerationConfig
    ) -> Search[list[list[Caption]]]:
        first, name = self.reader.first(language), self._name(language)
        captions: list[list[Caption]] = []
        for batch in batches_of(self.reader.images, images, self.device):
            rules = [
                *without_specials(self.reader),
                *config.rules(self.reader.tokenizer, len(batch)),
            ]
            most = min(config.max_tokens, self.longest)
            sampling = Sampling(eos=self.reader.tokenizer.ends, max_tokens=most, rules=rules)
            seeds = [[config.seed + i for i in range(config.samples)] for _ in batch]
            rows = open_rows(self.model, [[first]] * len(batch), seeds, sampling)
            state = self.model.start(batch).reorder([row.item for row in rows])
            yield from sample_search(self.model, rows, sampling, state)
            sampled = [
                Caption(
                    tuple(row.tokens),
                    row.log_probability,
                    row.log_probability,
                    row.reason == "end",
                    self.reader.decode(row.tokens),
                    name,
                )
                for row in rows
            ]
            captions += [
                sampled[i : i + config.samples] for i in range(0, len(sampled), config.samples)
            ]
        return captions

    def _name(self, language: str | None) -> str | None:
        return language or next(iter(self.languages), None)

    @property
    def default_options(self) -> CaptionOptions:
        """The options where a user sets none: those of the pretrained folder, if there is one."""
        return folder_options(self.settings.generation)

    def reading(
        self,
        image: AnyImage,
        text: str | Sequence[int] | None = None,
        *,
        language: str | None = None,
    ) -> ForwardPass:
        """Prepare a forward pass over an image and a caption, for inspection.

        text: the caption, as text or ids; None: the model's own caption. The tokens of the image
        are named [CLS], [R1], ... (register tokens) and "row,column" (patches). The input of the
        decoder is its target shifted by one token. Raises UsageError if the caption is too long.
        """
        images = image_of(self.reader.images, image, self.device)
        if text is None:
            tokens = list(self.search_tensors(images, language)[0][0].tokens)
        else:
            tokens = self.reader.encode([text])[0] if isinstance(text, str) else [*text]
        limit = self.model.max_length
        if limit is not None and len(tokens) >= limit:
            raise UsageError(
                f"the caption has {len(tokens)} tokens, but the model has learned positions for at "
                f"most {limit - 1}",
                hint="shorten the caption",
            )
        ids = {
            "read": [self.reader.first(language), *tokens],
            "target": [*tokens, self.reader.tokenizer.eos],
        }
        decoder_input = torch.tensor([ids["read"]], device=self.device)
        patches = {"image": names_of(self.model.vit, images.shape[2], images.shape[3])}
        return ForwardPass(
            model=self.model,
            run=lambda: self.model(images, decoder_input),
            tokens=patches
            | {side: self.reader.token_strings(tokens) for side, tokens in ids.items()},
            axes={
                "encoder": ("image", "image"),
                "decoder": ("read", "read"),
                "cross": ("target", "image"),
            },
            embeddings={"image": "vit.embedding", "read": "embedding"},
            ids=ids,
            words={side: self.reader.words(tokens) for side, tokens in ids.items()},
        )

    def attention(
        self,
        image: AnyImage,
        text: str | None = None,
        *,
        language: str | None = None,
        layers: Sequence[str] = (),
        heads: Sequence[int] = (),
    ) -> Attention:
        """Return the attention weights of a forward pass over an image and a caption.

        text: the caption; None: the model's own caption. Row t of a map of the decoder is the query
        that predicts target token t; the keys of cross-attention are the image tokens. layers,
        heads: the layers and heads to return; if empty, all.
        """
        return attention_of(self.reading(image, text, language=language), layers, heads)

    def _probe(self, request: ProbeRequest) -> Probe:
        reading = self.reading(request.input, request.target, language=request.language)
        reader, ids = self.reader, reading.ids["target"]
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=reader.decode(ids),
            readout=next_token_readout(
                self.model, "target", range(len(ids)), reader.size, reader.token_strings
            ),
            tokenizers={"read": reader.tokenizer, "target": reader.tokenizer},
            images={"image": image_patches(self.model.vit, reader.images, request.input)},
        )

    def trace_search(
        self, input: AnyImage, *, language: str | None = None, beam: int = 4
    ) -> SearchTrace:
        """Return all candidates that the beam search for the best caption scored."""
        images = image_of(self.reader.images, input, self.device)
        candidates: list[Candidate] = []
        ((best,),) = self.search_tensors(
            images, language, BeamSettings(beam=beam), candidates.append
        )
        return SearchTrace(
            candidates=candidates,
            first=self.reader.first(language),
            best=best.tokens,
            end=end_of(best.tokens, candidates) if best.finished else (),
            names=self.reader.token_strings,
        )
