"""Sound as numbers: waveforms from WAV files, and the pictures of them that models read.

A log-mel spectrogram is a picture with one channel, Y = mel bands and X = frames: what reads
patches of images reads it (lectures 1.5, 2.7: "anything can be cut into tokens").
"""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from headway.errors import DataError
from headway.settings import LENGTH, setting
from headway.shapes import Float, Tensor

BYTES_LIMIT = 256 * 2**20
LONGEST = 600.0  # seconds that are read at once
RATES = (1_000, 768_000)  # samples a second that a file may have
FLOOR = 1e-10  # of power, before its logarithm is taken
_ZEROS = 12  # of the sinc on each side, when the rate is changed
_ROLLOFF = 0.95  # of the new rate's half: what is above goes


@dataclass(frozen=True)
class Waveform:
    """samples: -1 to 1, all channels' mean. rate: samples a second."""

    samples: Float[Tensor, " T"]
    rate: int

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.samples) / self.rate


@dataclass(frozen=True, kw_only=True)
class SpectrogramConfig:
    """How a waveform becomes a picture."""

    rate: int = setting(16_000, "samples a second; other rates are brought to it", gt=0)
    window: int = setting(400, "samples that a frame looks at", gt=1, le=LENGTH)
    hop: int = setting(160, "samples from a frame to the next", gt=0)
    fft: int = setting(512, "samples that a frame is padded to before it is transformed", gt=1)
    mels: int = setting(64, "bands of frequencies", gt=0)
    lowest: float = setting(20.0, "lower edge of the lowest band, Hz", ge=0)
    highest: float | None = setting(None, "upper edge of the highest band; none: half the rate")

    def __post_init__(self) -> None:
        if self.window > self.fft:
            raise ValueError(f"window={self.window} must be at most fft={self.fft}")
        if not self.lowest < self.top <= self.rate / 2:
            raise ValueError(
                f"lowest={self.lowest:g} < highest={self.top:g} <= half of rate={self.rate} must "
                "hold"
            )

    @property
    def top(self) -> float:
        """Upper edge of the highest band, Hz."""
        return self.rate / 2 if self.highest is None else self.highest

    def frames(self, samples: int) -> int:
        """Of so many samples, the last frame filled up with silence."""
        return max(1, math.ceil((samples - self.window) / self.hop) + 1)


def is_sound(data: bytes) -> bool:
    """Whether these bytes begin as a WAV file does."""
    return data[:4] == b"RIFF" and data[8:12] == b"WAVE"


def decoded_sound(data: bytes, where: str) -> Waveform:
    """A WAV file of whole numbers: 8, 16, 24 or 32 bits, any number of channels.

    DataError for anything else, for none, for a file that ends before its last sample, and for more
    than 10 minutes. where: names it.
    """
    with _opened(data, where) as file:
        width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
        packed = file.readframes(file.getnframes())
    if width not in (1, 2, 3, 4):
        raise DataError(f"samples of {8 * width} bits", where, "convert it to 16-bit PCM")
    samples = _numbers(packed, width).reshape(-1, channels).mean(1)
    if not len(samples):
        raise DataError("a sound without a sample", where)
    return Waveform(torch.from_numpy(samples.astype(np.float32)), rate)


@contextmanager
def _opened(data: bytes, where: str) -> Iterator[wave.Wave_read]:
    """The header has been read, and the sound is one that may be decoded."""
    try:
        stream = io.BytesIO(data)
        with wave.open(stream) as file:
            channels, rate, count = file.getnchannels(), file.getframerate(), file.getnframes()
            if not RATES[0] <= rate <= RATES[1] or not 1 <= channels <= 64:
                raise DataError(f"{channels} channels of {rate:,} samples a second", where)
            if count > LONGEST * rate:
                raise DataError(
                    f"{count / rate:,.0f} seconds, more than the {LONGEST:.0f} read at once", where
                )
            # the header is read up to the first sample
            needed, found = count * channels * file.getsampwidth(), len(data) - stream.tell()
            if found < needed:
                raise DataError(
                    f"the file is cut short: its header announces {needed:,} bytes of samples, "
                    f"and {found:,} are there",
                    where,
                    "copy or record it again",
                )
            yield file
    except DataError:
        raise
    except (wave.Error, EOFError, RuntimeError, ValueError) as error:
        raise DataError(
            f"not a WAV file of whole numbers: {error}", where, "convert it to 16-bit PCM"
        ) from error


def _numbers(packed: bytes, width: int) -> npt.NDArray[np.float64]:
    """-1 to 1; little-endian, signed but for 8 bits (the format of WAV)."""
    if width == 1:
        return np.frombuffer(packed, np.uint8) / 128.0 - 1.0
    if width == 3:
        wide = np.zeros((len(packed) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(packed, np.uint8).reshape(-1, 3)  # the low byte stays 0
        return wide.reshape(-1).view("<i4") / 2.0**31
    return np.frombuffer(packed, f"<i{width}") / 2.0 ** (8 * width - 1)


def resampled(sound: Waveform, rate: int) -> Waveform:
    """The same sound at another rate: y(t) = sum_n x(n) h(t - n), h a sinc under Hann's window.

    Frequencies above half of the lower rate are taken out, lest they appear as others. Smith,
    "Digital Audio Resampling", 2002. The result has ceil(T rate / sound.rate) samples.
    """
    if rate == sound.rate:
        return sound
    divisor = math.gcd(rate, sound.rate)
    old, new = sound.rate // divisor, rate // divisor
    filters, reach = _filters(old, new)
    padded = F.pad(sound.samples, (reach, reach + old))[None, None]
    found = F.conv1d(padded, filters[:, None], stride=old)[0]  # new x blocks of `old` samples
    count = math.ceil(len(sound.samples) * new / old)
    return Waveform(found.T.reshape(-1)[:count].contiguous(), rate)


@cache
def _filters(old: int, new: int) -> tuple[Float[Tensor, "N W"], int]:
    """Of each of `new` output samples the weights of the inputs around; how far these reach."""
    cutoff = min(old, new) * _ROLLOFF  # in units in which the old rate is `old`
    reach = math.ceil(_ZEROS * old / cutoff)
    inputs = torch.arange(-reach, reach + old, dtype=torch.float64) / old
    outputs = torch.arange(new, dtype=torch.float64)[:, None] / new
    distance = ((inputs - outputs) * cutoff).clamp(-_ZEROS, _ZEROS)
    hann = torch.cos(distance * (math.pi / _ZEROS / 2)) ** 2
    return (torch.sinc(distance) * hann * (cutoff / old)).float(), reach


def mel(frequency: Tensor) -> Tensor:
    """m = 2595 log10(1 + f / 700): steps that sound equally wide. O'Shaughnessy 1987, page 150."""
    return 2595.0 * torch.log10(1.0 + frequency / 700.0)


def frequency(mels: Tensor) -> Tensor:
    """The inverse of `mel`."""
    return 700.0 * (10.0 ** (mels / 2595.0) - 1.0)


@cache
def mel_filters(config: SpectrogramConfig) -> Float[Tensor, "Y F"]:
    """Triangles over the F = fft / 2 + 1 frequencies, as wide on the mel scale, each 1 at its peak.

    Band i rises from edge i to edge i + 1 and falls to edge i + 2; the edges are evenly spread, in
    mels, from `lowest` to the highest frequency.
    """
    ends = mel(torch.tensor([config.lowest, config.top], dtype=torch.float64))
    steps = torch.linspace(0, 1, config.mels + 2, dtype=torch.float64)
    edges = frequency(ends[0] + (ends[1] - ends[0]) * steps)
    bins = torch.linspace(0, config.rate / 2, config.fft // 2 + 1, dtype=torch.float64)
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp_min(0.0).float()


def log_mel(sound: Waveform, config: SpectrogramConfig) -> Float[Tensor, "Y X"]:
    """ln max(M |FFT(w x)|^2, 1e-10) of every frame x: M the mel filters, w Hann's window.

    The lowest band is the first row. The last frame is filled up with silence.
    """
    samples = resampled(sound, config.rate).samples
    frames = config.frames(len(samples))
    samples = F.pad(samples, (0, (frames - 1) * config.hop + config.window - len(samples)))
    cut = samples.unfold(0, config.window, config.hop)  # X x window
    spectrum = torch.fft.rfft(cut * torch.hann_window(config.window), n=config.fft)
    power = spectrum.real**2 + spectrum.imag**2  # X x F
    return torch.log((mel_filters(config) @ power.T).clamp_min(FLOOR))


STANDARD = SpectrogramConfig()
"""What every sound is seen by: 64 bands of 20 to 8,000 Hz, 100 frames a second."""
DARK, BRIGHT = -16.0, 10.0  # ln of power: what 16 bits do not hold, and a loud pure tone


def sound_pixels(data: bytes, where: str) -> npt.NDArray[np.uint8]:
    """The log-mel spectrogram of a WAV file as a grey picture, 64 x 100 a second x 1, low sounds
    below: silence is black. DataError as `decoded_sound`."""
    heard = log_mel(decoded_sound(data, where), STANDARD)
    shade = ((heard - DARK) / (BRIGHT - DARK) * 255).round().clamp(0, 255)
    return np.ascontiguousarray(shade.to(torch.uint8).flip(0)[..., None].numpy())


def sound_shape(data: bytes, where: str) -> tuple[int, int, int]:
    """Height, width and channels of `sound_pixels`, from the header alone. DataError."""
    with _opened(data, where) as file:
        samples = math.ceil(file.getnframes() * STANDARD.rate / file.getframerate())
    return STANDARD.mels, STANDARD.frames(samples), 1
