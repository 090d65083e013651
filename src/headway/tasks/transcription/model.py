"""The bundle of a transcriber: recordings in, transcripts out; and its Hugging Face folders."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from headway import interop
from headway.base.errors import UsageError
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import (
    Attending,
    ForwardPass,
    ImagePatches,
    InputSpec,
    Probe,
    ProbeRequest,
    StoredBundle,
    best_outputs,
    next_token_readout,
)
from headway.bundle.arguments import checked
from headway.bundle.files import check_vocabulary_size
from headway.data.speech import FRAMES_PER_SECOND, read_recording, recording_spectrogram, window_at
from headway.decoding import BeamSettings, Forbidden, ForbiddenFirst, Limits, Rule, run
from headway.interop import NO_SETTINGS, FolderSettings, Kind
from headway.models import Transcriber
from headway.tasks.transcription.options import (
    DEFAULTS,
    RecordingInput,
    Transcript,
    TranscriptOptions,
)
from headway.tasks.transcription.reader import TranscriptReader
from headway.tasks.transcription.timestamps import Segment, TimestampRule, split_at_times
from headway.text import MissingTokenizer

Recording = str | Path | Float[Tensor, " T"]
"""A WAV file, or samples at 16,000 Hz from -1 to 1."""


class Prompted:
    """A transcriber that has read all tokens of a prompt but the last, as `Stepper`.

    The last one is the first token of a search (`Limits.bos`).
    """

    def __init__(self, model: Transcriber, prompt: Sequence[int]) -> None:
        self._model, self._read = model, list(prompt[:-1])

    def start(self, frames: Float[Tensor, "B Y X"]) -> object:
        state = self._model.start(frames)
        if self._read:
            tokens = torch.tensor([self._read] * len(frames), device=frames.device)
            _, state = self._model.step(tokens, state)
        return state

    @property
    def step(self) -> Callable[[Int[Tensor, "N T"], object], tuple[Float[Tensor, "N T V"], object]]:
        return self._model.step  # type: ignore[return-value]

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        return self._model.parameters(recurse)


class TranscriberBundle(StoredBundle, Attending):
    """A transcriber with its reader: it writes the words of recordings."""

    kind: ClassVar[str] = "transcriber"
    settings_kind: ClassVar[Kind | None] = "transcriber"
    inputs: ClassVar[InputSpec] = InputSpec(modality="image", target=True, language=True)
    reader_class = TranscriptReader
    model: Transcriber

    def __init__(
        self, model: Transcriber, reader: TranscriptReader, settings: FolderSettings = NO_SETTINGS
    ) -> None:
        check_vocabulary_size(reader.tokenizer.size, model.config.vocabulary)
        super().__init__(model, reader, settings)
        self.reader = reader

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages; empty for a model of one language."""
        return tuple(self.reader.tokens.languages)

    @property
    def translates(self) -> bool:
        """Whether the model translates into English."""
        return bool(self.languages) and self.reader.tokens.translate is not None

    @property
    def window(self) -> int:
        """The number of frames that the model reads at once: 3,000 are 30 seconds."""
        return 2 * int(self.model.config.source_positions)

    @checked
    def transcribe(
        self,
        recordings: Sequence[Recording],
        *,
        language: str | None = None,
        translate: bool = False,
        timestamps: bool = False,
        beam: int = 1,
    ) -> list[Transcript]:
        """Transcribe recordings, in order. The arguments are those of `TranscriptOptions`."""
        options = TranscriptOptions(
            language=language, translate=translate, timestamps=timestamps, beam=beam
        )
        return [self._transcribed(recording, options) for recording in recordings]

    def predict(
        self,
        inputs: Sequence[RecordingInput],
        options: TranscriptOptions = DEFAULTS,
        *,
        first: int = 1,
    ) -> list[Transcript]:
        """Transcribe WAV files."""
        return [self._transcribed(item.sound, options) for item in inputs]

    def _spectrogram(self, recording: Recording) -> tuple[Float[Tensor, "Y X"], int]:
        """Return the spectrogram of a recording, and the number of its frames with sound."""
        if isinstance(recording, str | Path):
            recording = read_recording(Path(recording))
        return recording_spectrogram(recording, self.model.config.mels, self.window)

    def _transcribed(self, recording: Recording, options: TranscriptOptions) -> Transcript:
        """Transcribe a recording window after window.

        Each window begins where the last complete segment of the one before it ends, so that no
        word is cut; this needs times, which the model writes for a recording of several windows
        even if they are not shown. Radford et al. 2023, section 3.8, where a window is repeated at
        higher temperatures if its transcript is improbable or repeats itself; here it is not.
        """
        self.check_language(options.language, translate=options.translate)
        spectrogram, content = self._spectrogram(recording)
        language, probability = options.language, None
        if language is None and self.languages:
            language, probability = self.detect_language(spectrogram)
        timed = options.has_times or content > self.window
        prompt = self.reader.tokens.prompt(language, translate=options.translate, timestamps=timed)
        segments: list[Segment] = []
        texts: list[str] = []
        start = 0
        while start < content:
            window = window_at(spectrogram, start, self.window)
            output = self._written(window, prompt, options.beam, timed=timed)
            frames = min(self.window, content - start)
            parts, covered = split_at_times(output, self.reader.tokens.first_time, frames)
            for part in parts:
                text = self.reader.decode(part.tokens)
                if text.strip():
                    texts.append(text)
                    begin, end = ((start + at) / FRAMES_PER_SECOND for at in (part.start, part.end))
                    segments.append(Segment(start=begin, end=end, text=text.strip()))
            start += covered
        return Transcript(
            file=str(recording) if isinstance(recording, str | Path) else "",
            language=language,
            language_probability=probability,
            text="".join(texts).strip(),
            segments=tuple(segments),
        )

    def check_language(self, language: str | None, *, translate: bool = False) -> None:
        """Raise UsageError for a language that the model does not have, and for a translation by a
        model that does not translate."""
        known = self.languages
        if not known and (translate or language is not None):
            raise UsageError(
                "this model transcribes one language, and neither detects nor translates others",
                hint="leave out --language and --translate",
            )
        if language is not None and language not in known:
            raise UsageError(
                f"the model does not transcribe the language {language!r}",
                hint=f"it has {', '.join(known)}",
            )
        if translate and not self.translates:
            raise UsageError("this model does not translate", hint="leave out --translate")

    @torch.inference_mode()
    def detect_language(self, spectrogram: Float[Tensor, "Y X"]) -> tuple[str, float]:
        """Return the most probable language of the first window, and its probability.

        P(language | sound) = softmax of the logits after the start token, over languages alone.
        Radford et al. 2023, section 2.3.
        """
        tokens = self.reader.tokens
        first = window_at(spectrogram, 0, self.window).to(self.device)
        logits = self.model(first, torch.tensor([[tokens.start]], device=self.device))[0, -1]
        of_languages = logits[list(tokens.languages.values())].float().softmax(-1)
        best = int(of_languages.argmax())
        return list(tokens.languages)[best], float(of_languages[best])

    def _written(
        self,
        window: Float[Tensor, "1 Y X"],
        prompt: Sequence[int],
        beam: int = 1,
        *,
        timed: bool = False,
    ) -> tuple[int, ...]:
        """Return the tokens that the model writes for a window, by greedy or beam search."""
        settings = BeamSettings(beam=beam, normalisation="transformers")
        prompted = Prompted(self.model, prompt)
        (best,) = run(
            prompted,
            best_outputs(
                prompted,
                (window.to(self.device),),
                self._limits(prompt, timed),
                settings,
                is_greedy=beam == 1,
                num_best=1,
                observe=None,
            ),
        )
        return best[0].tokens

    def _limits(self, prompt: Sequence[int], timed: bool) -> Limits:
        tokens, generation = self.reader.tokens, self.settings.generation
        most = self.model.max_length
        rules: list[Rule] = []
        if generation is not None:
            if generation.forbidden_first:
                rules.append(ForbiddenFirst(generation.forbidden_first))
            if generation.forbidden:
                rules.append(Forbidden(generation.forbidden))
            if generation.max_length is not None:
                most = min(most, generation.max_length + len(prompt))
        if timed:
            end = self.reader.tokenizer.eos
            rules.append(TimestampRule(tokens.first_time, end, tokens.latest_start))
        return Limits(
            prompt[-1],
            self.reader.tokenizer.ends,
            [max(0, most - len(prompt))],
            rules,
            prompts=[list(prompt)],
            cut=True,
        )

    def reading(
        self,
        recording: Recording,
        text: str | Sequence[int] | None = None,
        *,
        language: str | None = None,
    ) -> ForwardPass:
        """Prepare a forward pass over the first window of a recording, for inspection.

        text: the transcript, as text or ids; None: what the model writes, without times. The tokens
        of the sound are named by their times. The attention of the encoder is left out: a window of
        30 seconds has 1,500 tokens. Raises UsageError if the transcript is too long.
        """
        window = window_at(self._spectrogram(recording)[0], 0, self.window)
        return self._reading(window, text, language)

    def _reading(
        self,
        window: Float[Tensor, "1 Y X"],
        text: str | Sequence[int] | None,
        language: str | None,
    ) -> ForwardPass:
        self.check_language(language)
        if language is None and self.languages:
            language, _ = self.detect_language(window[0])
        reader, limit = self.reader, self.model.max_length
        prompt = reader.tokens.prompt(language, translate=False, timestamps=False)
        if text is None:
            tokens = list(self._written(window, prompt))
        else:
            tokens = reader.encode(text) if isinstance(text, str) else [*text]
        if len(prompt) + len(tokens) > limit:
            raise UsageError(
                f"the transcript has {len(tokens)} tokens, but the model has positions for at most "
                f"{limit - len(prompt)}",
                hint="shorten the transcript",
            )
        ids = {"read": [*prompt, *tokens], "target": [*prompt[1:], *tokens, reader.tokenizer.eos]}
        named = {"read": len(prompt), "target": len(prompt) - 1}
        frames = window.to(self.device)
        decoder_input = torch.tensor([ids["read"]], device=self.device)
        places = range(self.model.config.source_positions)
        times = {"sound": [f"{2 * place / FRAMES_PER_SECOND:.2f} s" for place in places]}
        return ForwardPass(
            model=self.model,
            run=lambda: self.model(frames, decoder_input),
            tokens=times | {side: reader.token_strings(of_side) for side, of_side in ids.items()},
            axes={"decoder": ("read", "read"), "cross": ("target", "sound")},
            embeddings={"sound": "source_embedding", "read": "target_embedding"},
            ids=ids,
            words={side: reader.words(of_side, named[side]) for side, of_side in ids.items()},
        )

    def _probe(self, request: ProbeRequest) -> Probe:
        window = window_at(self._spectrogram(request.input)[0], 0, self.window)
        reading = self._reading(window, request.target, request.language)
        reader, ids = self.reader, reading.ids
        language = next(iter(self.languages), None)  # each has one token
        prompt = len(reader.tokens.prompt(language, translate=False, timestamps=False))
        return Probe(
            kind=self.kind,
            reading=reading,
            answer=reader.decode(ids["target"]).strip(),
            readout=next_token_readout(
                self.model,
                "target",
                range(len(ids["target"])),
                reader.tokenizer.size,
                reader.token_strings,
            ),
            tokenizers={"read": reader.tokenizer, "target": reader.tokenizer},
            generated={"read": prompt, "target": prompt - 1},
            images={"sound": _patches(window[0])},
        )


def _patches(window: Float[Tensor, "Y X"]) -> ImagePatches:
    """Return a window as a grey image, whose patches have all bands of two frames."""
    mels, frames = window.shape
    low, high = float(window.min()), float(window.max())
    shade = ((window - low) / max(high - low, 1e-6) * 255).round().to(torch.uint8)
    pixels = np.ascontiguousarray(shade.flip(0)[..., None].numpy())  # low frequencies at the bottom
    return ImagePatches(
        pixels=pixels, grid=(1, frames // 2), reach=(mels, frames), num_prefix_tokens=0
    )


def from_hugging_face(model: Transcriber, folder: Path, model_type: str) -> TranscriberBundle:
    """Make a bundle of the model with the tokenizer and the special tokens of the folder."""
    interop.check_speech_processor(folder, model.config)
    tokenizer = interop.read_tokenizer(folder)
    if isinstance(tokenizer, MissingTokenizer):
        tokenizer.size = model.config.vocabulary
    tokens = interop.read_speech_tokens(folder, tokenizer, model.config)
    settings = interop.read_folder_settings(folder, "transcriber")
    return TranscriberBundle(model, TranscriptReader(tokenizer, tokens), settings)


def to_hugging_face(bundle: TranscriberBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the transcriber, its tokenizer and its special tokens."""
    reader = bundle.reader
    return interop.write_transcriber(
        bundle.model, reader.tokenizer, reader.tokens, folder, family, bundle.settings
    )
