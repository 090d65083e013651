"""The bundle of a captioner: its inputs, options and captions; and its Hugging Face folders."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from headway import interop
from headway.base.errors import DataError, UsageError
from headway.base.settings import BEAMS, SEED, count, override, required, setting, with_default
from headway.base.shapes import Float, Tensor
from headway.bundle import (
    ForwardPass,
    InputSpec,
    Probe,
    ProbeRequest,
    SearchingBundle,
    SearchTrace,
    best_outputs,
    folder_max_tokens,
    folder_rules,
    image_patches,
    next_token_readout,
    with_normalisation,
)
from headway.bundle.arguments import checked
from headway.bundle.files import CONFIG_FILE
from headway.bundle.image_encoder import AnyImage, batches_of, check_reader, image_of, names_of
from headway.decoding import (
    BeamSettings,
    Forbidden,
    GenerationConfig,
    Hypothesis,
    Limits,
    Observer,
    Rule,
    Sampling,
    Search,
    open_rows,
    run,
    sample_search,
)
from headway.interop import NO_SETTINGS, FolderSettings, Kind
from headway.models import Captioner
from headway.tasks.captioning.reader import CaptionReader
from headway.text import MissingTokenizer, PretrainedTokenizer

LONGEST = 64
"""Maximum number of tokens of a caption, if a Hugging Face folder does not specify it."""


@dataclass(frozen=True, kw_only=True)
class CaptionInput:
    """One input of a captioner."""

    image: Path = required(
        "images (.png .jpg .webp .gif .bmp .tif), or sounds (.wav) for a captioner of sounds"
    )


@dataclass(frozen=True, kw_only=True)
class CaptionOptions(BeamSettings):
    """Options of a prediction."""

    language: str | None = setting(
        None,
        "Language of the caption: a column of the training captions, or several, separated by "
        "commas. If unset, the first.",
    )
    top: int = count(1, "Number of captions per image, best first, with their scores.", BEAMS)
    layer: int | None = setting(
        None, "Decoder block of the plot, counted from 1; if unset, the last.", gt=0
    )
    sample: int = count(0, "Number of captions to sample instead of searching.", BEAMS, least=0)
    temperature: float = with_default(GenerationConfig, "temperature", 0.8)
    top_k: int | None = with_default(GenerationConfig, "top_k", None)
    top_p: float | None = with_default(GenerationConfig, "top_p", None)
    seed: int = setting(0, "Random seed; sample i has seed + i.", ge=0, le=SEED)

    def __post_init__(self) -> None:
        if self.top > self.beam:
            raise ValueError(f"top={self.top}: must be between 1 and the beam width, {self.beam}")

    @property
    def languages(self) -> list[str | None]:
        """The requested languages; None is the model's first language."""
        return [None] if self.language is None else [*self.language.split(",")]


@dataclass(frozen=True)
class Caption(Hypothesis):
    """A generated caption. language: None if the model's language has no name."""

    language: str | None = None


@dataclass(frozen=True, kw_only=True)
class CaptionedFile:
    """An image file and its captions, grouped by language and best first."""

    file: str
    captions: tuple[Caption, ...]


class CaptionerBundle(SearchingBundle[CaptionInput, CaptionOptions, CaptionedFile]):
    """A captioner with its reader: it generates sentences that describe images."""

    kind: ClassVar[str] = "captioner"
    settings_kind: ClassVar[Kind | None] = "captioner"
    inputs: ClassVar[InputSpec] = InputSpec(modality="image", target=True, language=True)
    reader_class = CaptionReader
    usual = CaptionOptions()
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
        limit = self.model.max_length
        return self.reader.longest if limit is None else min(self.reader.longest, limit - 1)

    @checked
    def caption(
        self, images: Sequence[AnyImage], *, language: str | None = None, **settings: object
    ) -> list[str]:
        """Generate the best caption of every image, in order.

        language: one of `languages`; None: the first. settings: see `search`.
        """
        chosen = self._settings(None, settings)
        captions = run(self.model, self._searching(images, language, chosen, 1))
        return [best[0].text for best in captions]

    def predicting(
        self,
        inputs: Sequence[CaptionInput],
        options: CaptionOptions | None = None,
        *,
        first: int = 1,
    ) -> Search[list[CaptionedFile]]:
        """Generate captions of image files, by `search` or by `sample`."""
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
        **settings: object,
    ) -> list[list[Caption]]:
        """Generate the `num_best` best captions of every image by beam search, best first.

        The captions of an image do not depend on the other images. settings: those of
        `BeamSettings`, such as beam=1 for greedy search. What is unset is that of
        `default_options`.
        """
        chosen = self._settings(None, settings)
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
        settings = with_normalisation(settings, self.settings.generation)
        limits = self._limits(self.reader.first(language), len(images))
        inputs = (images.to(self.device),)
        lists = yield from best_outputs(
            self.model,
            inputs,
            limits,
            settings,
            is_greedy=settings.beam == 1,
            num_best=num_best,
            observe=observe,
        )
        return [[self._caption(found, language) for found in best] for best in lists]

    def _limits(self, first: int, count: int) -> Limits:
        """Return the limits of a search for captions of `count` images.

        first: the first token of all captions.
        """
        ends, generation = self.reader.tokenizer.ends, self.settings.generation
        if generation is None:
            return Limits(first, ends, [self.longest] * count, self._without_specials())
        limit, longest = self.model.max_length, self.reader.longest
        lengths = [longest if limit is None else min(longest, limit)] * count
        return Limits(
            first,
            ends,
            lengths,
            folder_rules(generation, ends, lengths, cut=True),
            prompts=[[first]] * count,
            cut=True,
            renormalise=generation.renormalise,
            never_early=generation.early_stopping == "never",
        )

    def _without_specials(self) -> list[Rule]:
        """Return the rule that no caption contains a special token; nothing if there is none."""
        specials = self.reader.specials
        return [Forbidden([[token] for token in specials])] if specials else []

    def _caption(self, found: Hypothesis, language: str | None) -> Caption:
        """Return an output with its text and its language."""
        return Caption(
            found.tokens,
            found.log_probability,
            found.score,
            found.finished,
            self.reader.decode(found.tokens),
            language or next(iter(self.languages), None),
        )

    @checked
    def sample(
        self, images: Sequence[AnyImage], *, language: str | None = None, **settings: object
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
        first = self.reader.first(language)
        captions: list[list[Caption]] = []
        for batch in batches_of(self.reader.images, images, self.device):
            rules = [
                *self._without_specials(),
                *config.rules(self.reader.tokenizer, len(batch)),
            ]
            most = min(config.max_tokens, self.longest)
            sampling = Sampling(eos=self.reader.tokenizer.ends, max_tokens=most, rules=rules)
            seeds = [[config.seed + i for i in range(config.samples)] for _ in batch]
            rows = open_rows(self.model, [[first]] * len(batch), seeds, sampling)
            state = self.model.start(batch).reorder([row.item for row in rows])
            yield from sample_search(self.model, rows, sampling, state)
            outputs = [self._caption(row.output(""), language) for row in rows]
            samples = range(0, len(outputs), config.samples)
            captions += [outputs[i : i + config.samples] for i in samples]
        return captions

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
        limit = self.model.max_length
        if text is None:
            tokens = list(self.search_tensors(images, language)[0][0].tokens)
            tokens = tokens[: None if limit is None else limit - 1]  # the last is never read
        else:
            tokens = self.reader.encode([text])[0] if isinstance(text, str) else [*text]
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
            generated={"read": 1, "target": 0},
            images={"image": image_patches(self.model.vit, reader.images, request.input)},
        )

    def trace_search(
        self, input: AnyImage, *, language: str | None = None, beam: int = 4
    ) -> SearchTrace:
        """Return all candidates that the beam search for the best caption scored."""
        images = image_of(self.reader.images, input, self.device)
        settings = BeamSettings(beam=beam)
        return self._trace(
            lambda observe: self.search_tensors(images, language, settings, observe)[0][0],
            self.reader.first(language),
            self.reader.token_strings,
        )


def from_hugging_face(model: Captioner, folder: Path, model_type: str) -> CaptionerBundle:
    """Make a bundle of the model with the tokenizer and the image reader of the folder.

    It has one language; captions start with the token `decoder_start_token_id` of
    generation_config.json, or of config.json or its decoder.
    """
    tokenizer = interop.read_tokenizer(folder)
    start = interop.read_start_token(folder)
    if isinstance(tokenizer, MissingTokenizer):
        tokenizer.size = model.config.gpt.vocabulary
    elif type(start) is int:
        tokenizer = PretrainedTokenizer.of_json(
            tokenizer.engine_json, start, tokenizer.eos, str(folder / CONFIG_FILE), tokenizer.ends
        )
    images = interop.read_captioner_images(folder, model.config.vit)
    settings = interop.read_folder_settings(folder, "captioner")
    longest = LONGEST
    if settings.generation is not None:
        longest = folder_max_tokens(settings.generation) or LONGEST
    reader = CaptionReader(images, tokenizer, (), longest)
    return CaptionerBundle(model, reader, settings)


def to_hugging_face(bundle: CaptionerBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the captioner, its tokenizer and its image reader."""
    parts = (bundle.reader.images, bundle.reader.tokenizer)
    return interop.write_captioner(
        bundle.model, *parts, folder, bundle.languages, family, bundle.settings
    )
