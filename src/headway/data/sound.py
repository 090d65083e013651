"""Sound: waveforms from WAV files, and their log-mel spectrograms.

A log-mel spectrogram is an image with one channel, Y = mel bands and X = frames, so that a model of
image patches can process it ("anything can be cut into tokens").
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from headway.base.errors import DataError
from headway.base.settings import LENGTH, setting
from headway.base.shapes import Float, Tensor
from headway.data.wav import LONGEST, read_wav

BYTES_LIMIT = 256 * 2**20
FLOOR = 1e-10  # minimum power before its logarithm is taken
_ZEROS = 12  # zeros of the sinc on each side, in resampling
_ROLLOFF = 0.95  # cutoff of the resampling filter, as a fraction of half of the lower rate


@dataclass(frozen=True)
class Waveform:
    """A sound. samples: from -1 to 1, the mean of all channels. rate: sampling rate in Hz."""

    samples: Float[Tensor, " T"]
    rate: int

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return len(self.samples) / self.rate


@dataclass(frozen=True, kw_only=True)
class SpectrogramConfig:
    """Settings of a log-mel spectrogram."""

    rate: int = setting(16_000, "sampling rate in Hz; other sounds are resampled to it", gt=0)
    window: int = setting(400, "window length of a frame, in samples", gt=1, le=LENGTH)
    hop: int = setting(160, "hop length between frames, in samples", gt=0)
    fft: int = setting(512, "FFT size, in samples; frames are padded to it with zeros", gt=1)
    mels: int = setting(64, "number of mel bands", gt=0)
    lowest: float = setting(20.0, "lower edge of the lowest mel band, in Hz", ge=0)
    highest: float | None = setting(
        None, "upper edge of the highest mel band, in Hz; if unset, half the sampling rate"
    )

    def __post_init__(self) -> None:
        if self.window > self.fft:
            raise ValueError(f"window={self.window} must be at most fft={self.fft}")
        if not self.lowest < self.top <= self.rate / 2:
            raise ValueError(
                f"lowest={self.lowest:g} must be less than highest={self.top:g}, and highest at "
                f"most half of rate={self.rate}"
            )

    @property
    def top(self) -> float:
        """The upper edge of the highest mel band, in Hz."""
        return self.rate / 2 if self.highest is None else self.highest

    def frames(self, samples: int) -> int:
        """Return the number of frames of `samples` samples; the last one is padded with silence."""
        return max(1, math.ceil((samples - self.window) / self.hop) + 1)


def decoded_sound(data: bytes, where: str, longest: float = LONGEST) -> Waveform:
    """Decode a WAV file (`wav.read_wav`), and average its channels.

    where: name of the file for errors. longest: maximum length in seconds. Raises DataError as
    `read_wav`, and for a file without samples.
    """
    file = read_wav(data, where, longest)
    samples = file.samples(where).mean(1)
    if not len(samples):
        raise DataError("the sound has no samples", where, "record it again, or remove it")
    return Waveform(torch.from_numpy(samples.astype(np.float32)), file.rate)


def resampled(sound: Waveform, rate: int) -> Waveform:
    """Resample a sound: y(t) = sum_n x(n) h(t - n), where h is a Hann-windowed sinc.

    Frequencies above half of the lower rate are removed to avoid aliasing. Smith, "Digital Audio
    Resampling", 2002. The result has ceil(T rate / sound.rate) samples.
    """
    if rate == sound.rate:
        return sound
    divisor = math.gcd(rate, sound.rate)
    old, new = sound.rate // divisor, rate // divisor
    filters, reach = _filters(old, new)
    padded = F.pad(sound.samples, (reach, reach + old))[None, None]
    blocks = F.conv1d(padded, filters[:, None], stride=old)[0]  # new x blocks of `old` samples
    count = math.ceil(len(sound.samples) * new / old)
    return Waveform(blocks.T.reshape(-1)[:count].contiguous(), rate)


@cache
def _filters(old: int, new: int) -> tuple[Float[Tensor, "N W"], int]:
    """Return the filter of each of `new` output samples, and the number of input samples to which
    it extends on each side."""
    cutoff = min(old, new) * _ROLLOFF  # in units in which the old rate is `old`
    reach = math.ceil(_ZEROS * old / cutoff)
    inputs = torch.arange(-reach, reach + old, dtype=torch.float64) / old
    outputs = torch.arange(new, dtype=torch.float64)[:, None] / new
    distance = ((inputs - outputs) * cutoff).clamp(-_ZEROS, _ZEROS)
    hann = torch.cos(distance * (math.pi / _ZEROS / 2)) ** 2
    return (torch.sinc(distance) * hann * (cutoff / old)).float(), reach


def mel(frequency: Tensor) -> Tensor:
    """Convert Hz to mels, m = 2595 log10(1 + f / 700): equal steps sound equal. O'Shaughnessy 1987,
    page 150."""
    return 2595.0 * torch.log10(1.0 + frequency / 700.0)


def frequency(mels: Tensor) -> Tensor:
    """Convert mels to Hz, the inverse of `mel`."""
    return 700.0 * (10.0 ** (mels / 2595.0) - 1.0)


@cache
def mel_filters(config: SpectrogramConfig) -> Float[Tensor, "Y F"]:
    """Return triangular filters over the F = fft / 2 + 1 frequencies, of equal width on the mel
    scale, each 1 at its peak.

    The edges of the `triangles` are evenly spaced, in mels, from `lowest` to the highest frequency.
    """
    ends = mel(torch.tensor([config.lowest, config.top], dtype=torch.float64))
    steps = torch.linspace(0, 1, config.mels + 2, dtype=torch.float64)
    edges = frequency(ends[0] + (ends[1] - ends[0]) * steps)
    return triangles(edges, config.rate, config.fft).float()


def triangles(edges: Float[Tensor, " E"], rate: int, fft: int) -> Float[Tensor, "Y F"]:
    """Return triangular filters over the F = fft / 2 + 1 frequencies, of height 1, in float64.

    Filter i rises from edge i to edge i + 1 and falls to edge i + 2; edges are in Hz.
    """
    bins = torch.linspace(0, rate / 2, fft // 2 + 1, dtype=torch.float64)
    rise = (bins - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    fall = (edges[2:, None] - bins) / (edges[2:] - edges[1:-1])[:, None]
    return torch.minimum(rise, fall).clamp_min(0.0)


def log_mel(sound: Waveform, config: SpectrogramConfig) -> Float[Tensor, "Y X"]:
    """Return the log-mel spectrogram: ln max(M |FFT(w x)|^2, 1e-10) of every frame x, with the mel
    filters M and the Hann window w.

    The lowest band is the first row. The last frame is padded with silence.
    """
    samples = resampled(sound, config.rate).samples
    frames = config.frames(len(samples))
    samples = F.pad(samples, (0, (frames - 1) * config.hop + config.window - len(samples)))
    cut = samples.unfold(0, config.window, config.hop)  # X x window
    spectrum = torch.fft.rfft(cut * torch.hann_window(config.window), n=config.fft)
    power = spectrum.real**2 + spectrum.imag**2  # X x F
    return torch.log((mel_filters(config) @ power.T).clamp_min(FLOOR))


STANDARD = SpectrogramConfig()
"""The spectrogram of all sounds: 64 bands from 20 to 8,000 Hz, 100 frames per second."""
DARK, BRIGHT = -16.0, 10.0  # ln of power: below the precision of 16 bits, and a loud pure tone


def sound_pixels(data: bytes, where: str) -> npt.NDArray[np.uint8]:
    """Return the log-mel spectrogram of a WAV file as a grey image, 64 x 100 per second x 1.

    Low frequencies are at the bottom, silence is black. Raises DataError as `decoded_sound`.
    """
    spectrogram = log_mel(decoded_sound(data, where), STANDARD)
    shade = ((spectrogram - DARK) / (BRIGHT - DARK) * 255).round().clamp(0, 255)
    return np.ascontiguousarray(shade.to(torch.uint8).flip(0)[..., None].numpy())


def sound_shape(data: bytes, where: str) -> tuple[int, int, int]:
    """Return height, width and channels of the result of `sound_pixels`, from the header alone.
    Raises DataError."""
    file = read_wav(data, where)
    samples = math.ceil(file.count * STANDARD.rate / file.rate)
    return STANDARD.mels, STANDARD.frames(samples), 1
