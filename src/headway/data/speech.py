"""Speech: the log-mel spectrogram of a transcriber, cut into windows.

It differs from that of `sound`: frames are centred, mels are Slaney's, filters have equal area, the
logarithm has base 10, and what is 80 dB below the loudest point of the recording is cut off.
"""

import math
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F

from headway.base.errors import DataError
from headway.base.files import read_bytes
from headway.base.shapes import Float, Tensor
from headway.data.sound import BYTES_LIMIT, FLOOR, decoded_sound, resampled, triangles

RATE = 16_000  # sampling rate in Hz
HOP, FFT = 160, 400  # samples between frames, and of a frame
FRAMES_PER_SECOND = RATE // HOP
LONGEST = 2 * 3600.0  # maximum length of a recording, in seconds
_RANGE = 8.0  # log10 of the power between the loudest point and what is cut off
_KNEE, _STEP = 1_000.0, 200 / 3  # Hz: up to where mels are linear, and of one mel there
_GROWTH = math.log(6.4) / 27  # ln of the ratio of frequencies one mel apart, above the knee


def slaney_mel(frequency: float) -> float:
    """Convert Hz to Slaney's mels, which are linear below 1,000 Hz and logarithmic above: 3 f / 200
    and 15 + 27 ln(f / 1000) / ln 6.4. Slaney, "Auditory Toolbox", 1998."""
    if frequency < _KNEE:
        return frequency / _STEP
    return _KNEE / _STEP + math.log(frequency / _KNEE) / _GROWTH


def slaney_frequency(mels: Float[Tensor, " E"]) -> Float[Tensor, " E"]:
    """Convert Slaney's mels to Hz, the inverse of `slaney_mel`."""
    above = _KNEE * torch.exp(_GROWTH * (mels - _KNEE / _STEP))
    return torch.where(mels < _KNEE / _STEP, mels * _STEP, above)


@cache
def speech_filters(mels: int) -> Float[Tensor, "Y F"]:
    """Return triangular filters from 0 to 8,000 Hz, of equal width in Slaney's mels and of area 1
    in Hz."""
    steps = torch.linspace(0, slaney_mel(RATE / 2), mels + 2, dtype=torch.float64)
    edges = slaney_frequency(steps)
    return (triangles(edges, RATE, FFT) * (2 / (edges[2:] - edges[:-2]))[:, None]).float()


def speech_spectrogram(samples: Float[Tensor, " T"], mels: int) -> Float[Tensor, "Y X"]:
    """Return the log-mel spectrogram of samples at 16,000 Hz: X = T / 160 frames, rounded down.

        s = log10 max(M |FFT(w x)|^2, 1e-10),    y = (max(s, max s - 8) + 4) / 4

    with the filters M, the Hann window w, and frames x centred at every 160th sample, mirrored at
    both ends. The lowest band is the first row. Radford et al. 2023, section 2.2.
    """
    spectrum = torch.stft(
        samples, FFT, HOP, window=torch.hann_window(FFT), center=True, return_complex=True
    )
    power = spectrum[:, :-1].abs() ** 2  # F x X
    logarithm = (speech_filters(mels) @ power).clamp_min(FLOOR).log10()
    return (logarithm.clamp_min(float(logarithm.max()) - _RANGE) + 4.0) / 4.0


def read_recording(path: Path) -> Float[Tensor, " T"]:
    """Read a WAV file: its samples at 16,000 Hz, the mean of all channels.

    Raises DataError for a file that is no WAV file, is damaged, longer than two hours or silent.
    """
    return recording_of(read_bytes(path, BYTES_LIMIT), str(path))


def recording_of(data: bytes, where: str) -> Float[Tensor, " T"]:
    """Decode a WAV file as `read_recording` does. where: its name, for errors."""
    sound = decoded_sound(data, where, LONGEST)
    if not bool(sound.samples.any()):
        raise DataError("the sound is silent: all its samples are 0", where, "check the recording")
    return resampled(sound, RATE).samples


def recording_spectrogram(
    samples: Float[Tensor, " T"], mels: int, frames: int
) -> tuple[Float[Tensor, "Y X"], int]:
    """Return the spectrogram of a recording, and the number of its frames with sound.

    A recording that is shorter than a window of `frames` frames is padded with silence to one.
    """
    content = -(-len(samples) // HOP)
    missing = max(0, frames * HOP - len(samples))
    spectrogram = speech_spectrogram(F.pad(samples, (0, missing)), mels)
    return spectrogram, min(content, spectrogram.shape[1])


def window_at(spectrogram: Float[Tensor, "Y X"], start: int, frames: int) -> Float[Tensor, "1 Y W"]:
    """Return `frames` frames of a spectrogram from `start`, padded with zeros at its end."""
    window = spectrogram[None, :, start : start + frames]
    return F.pad(window, (0, frames - window.shape[2]))
