"""Reads WAV files: PCM of 8 to 32 bits, floating point, mu-law and A-law; also RF64 and BW64.

A WAV file is a sequence of chunks, each a name of 4 bytes, a size of 4 bytes (little-endian) and
the content, padded to an even length. Two chunks matter: `fmt ` describes the samples, `data` has
them. Sources: Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0",
1991; Microsoft, "Multiple channel audio data and WAVE files", 2007 (WAVE_FORMAT_EXTENSIBLE); EBU
Tech 3306, 2009 (RF64: sizes of 64 bits in a chunk `ds64`); ITU-T G.711 (mu-law, A-law).
"""

import shlex
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from headway.base.errors import DataError
from headway.data.media_kinds import is_wav, recognised

Samples = npt.NDArray[np.float64]
LONGEST = 600.0  # maximum length of a sound, in seconds
RATES = (1_000, 768_000)  # range of the sampling rate of a file, in Hz
CHANNELS = 64
LOUDEST = 100.0  # maximum floating-point sample; full scale is 1
PCM, FLOAT, A_LAW, MU_LAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
WIDTHS = {PCM: (1, 2, 3, 4), FLOAT: (4, 8), A_LAW: (1,), MU_LAW: (1,)}
"""Format -> accepted numbers of bytes of a sample."""
CODECS = {
    0x02: "Microsoft ADPCM",
    0x11: "IMA ADPCM",
    0x31: "GSM 6.10",
    0x40: "G.721 ADPCM",
    0x50: "MPEG",
    0x55: "MP3",
    0x64: "G.726 ADPCM",
    0xFF: "AAC",
    0x161: "Windows Media Audio",
    0x162: "Windows Media Audio Professional",
    0x1610: "AAC",
    0x2000: "AC-3",
}
"""Format -> name of a compression that is not read."""
UNKNOWN_SIZE = 0x7FFF0000
"""Sizes from here on are written by programs that do not know them, into a pipe: ffmpeg writes
0xFFFFFFFF, sox and arecord about 2 GiB."""
_SUFFIXES = (
    bytes.fromhex("000000001000800000aa00389b71"),
    bytes.fromhex("00002107d3118644c8c1ca000000"),
)
"""Bytes 2 to 16 of the identifiers of sub-formats: the usual ones, and those of Ambisonics."""


@dataclass(frozen=True)
class WavFile:
    """The header of a WAV file, and the bytes of its samples.

    format: one of `WIDTHS`. width: number of bytes of a sample. rate: sampling rate in Hz.
    """

    format: int
    channels: int
    rate: int
    width: int
    packed: memoryview

    @property
    def count(self) -> int:
        """The number of samples of each channel."""
        return len(self.packed) // (self.channels * self.width)

    def samples(self, where: str) -> Samples:
        """Return the samples of all channels, T x channels, from -1 to 1. Raises DataError for
        floating-point samples that are not numbers, or far above 1."""
        packed = self.packed[: self.count * self.channels * self.width]
        numbers = _numbers(packed, self.format, self.width)
        if self.format == FLOAT and len(numbers):
            loudest = np.abs(numbers).max()
            if not loudest <= LOUDEST:  # also NaN
                raise DataError(
                    f"floating-point samples must be from about -1 to 1, but one is {loudest:,g}",
                    where,
                    "divide the samples by the value of full scale, or write 16-bit PCM",
                )
        return numbers.reshape(-1, self.channels)


def read_wav(data: bytes, where: str, longest: float = LONGEST) -> WavFile:
    """Read the header of a WAV file. where: its name, for errors. longest: maximum seconds.

    If the program that wrote the file did not know its size, all bytes to its end are samples.
    Raises DataError for another kind of file or of samples, a truncated file, and a sound that is
    too long.
    """
    if not is_wav(data):
        raise _not_a_wav(data, where)
    description: tuple[int, int, int, int] | None = None
    size_of_data: int | None = None
    start = 12
    while start + 8 <= len(data):
        name, (size,) = data[start : start + 4], struct.unpack_from("<I", data, start + 4)
        start += 8
        if name == b"ds64" and len(data) >= start + 16:
            (size_of_data,) = struct.unpack_from("<Q", data, start + 8)
        elif name == b"fmt ":
            description = _described(data[start : start + size], where)
        elif name == b"data":
            if description is None:
                raise _damaged("its samples come before their description", where)
            if size == 0xFFFFFFFF and size_of_data is not None:
                size = size_of_data
            if _is_unknown(size, data, start):
                size = len(data) - start
            file = WavFile(*description, memoryview(data)[start : start + size])
            return _checked(file, size, where, longest)
        start = _next_chunk(data, start + size)
    missing = "description of its samples" if description is None else "samples"
    raise _damaged(f"it has no {missing}", where)


def _is_unknown(size: int, data: bytes, start: int) -> bool:
    """Return whether the program that wrote `size`, of the samples at `start`, did not know it.

    A size of 0 is meant if the size of the whole file, in its header, ends there.
    """
    available = len(data) - start
    if size == 0:
        (whole,) = struct.unpack_from("<I", data, 4)
        return available > 0 and whole + 8 != len(data)
    return size >= UNKNOWN_SIZE and size > available


def _next_chunk(data: bytes, end: int) -> int:
    """Return the start of the chunk after one that ends at `end`. Chunks begin at even positions,
    which some programs forget."""
    if end % 2 and data[end : end + 4] not in (b"data", b"fmt "):
        return end + 1
    return end


def _described(chunk: bytes, where: str) -> tuple[int, int, int, int]:
    """Return format, channels, sampling rate and bytes of a sample from a chunk `fmt `."""
    if len(chunk) < 16:
        raise _damaged("the description of its samples is too short", where)
    kind, channels, rate, _, frame, bits = struct.unpack_from("<HHIIHH", chunk)
    if kind == EXTENSIBLE:
        if len(chunk) < 40 or chunk[26:40] not in _SUFFIXES:
            raise _compressed("an unknown format", where)
        (kind,) = struct.unpack_from("<H", chunk, 24)
    if kind not in WIDTHS:
        raise _compressed(CODECS.get(kind, f"an unknown format ({kind:#06x})"), where)
    width = -(-bits // 8)
    if width not in WIDTHS[kind]:
        numbers = "floating-point samples" if kind == FLOAT else "samples"
        accepted = " or ".join(str(8 * width) for width in WIDTHS[kind])
        raise DataError(
            f"{numbers} must have {accepted} bits, but have {bits}", where, _to_pcm(where)
        )
    if not RATES[0] <= rate <= RATES[1] or not 1 <= channels <= CHANNELS:
        raise DataError(
            f"the sound has {channels} channels of {rate:,} Hz, but 1 to {CHANNELS} channels of "
            f"{RATES[0]:,} to {RATES[1]:,} Hz are allowed",
            where,
            "convert it to mono, 16,000 Hz",
        )
    if frame != channels * width:
        raise _damaged(
            f"{channels} channels of {bits} bits are {channels * width} bytes, but its header "
            f"declares {frame}",
            where,
        )
    return kind, channels, rate, width


def _checked(file: WavFile, size: int, where: str, longest: float) -> WavFile:
    """Return the file. size: number of bytes of its samples, by its header."""
    seconds = size // (file.channels * file.width) / file.rate
    if seconds > longest:
        raise DataError(
            f"the sound lasts {seconds:,.0f} seconds, but at most {longest:,.0f} are allowed",
            where,
            "split it into shorter files",
        )
    if len(file.packed) < size:
        raise DataError(
            f"the file is truncated: its header declares {size:,} bytes of samples, but it has "
            f"{len(file.packed):,}",
            where,
            "copy or record it again",
        )
    return file


def _numbers(packed: memoryview, kind: int, width: int) -> Samples:
    """Return samples from -1 to 1. WAV samples are little-endian, and signed except for 8 bits."""
    if kind == FLOAT:
        return np.frombuffer(packed, f"<f{width}").astype(np.float64)
    if kind in (MU_LAW, A_LAW):
        return _expansion(kind)[np.frombuffer(packed, np.uint8)]
    if width == 1:
        return np.frombuffer(packed, np.uint8) / 128.0 - 1.0
    if width == 3:
        wide = np.zeros((len(packed) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(packed, np.uint8).reshape(-1, 3)  # the low byte stays 0
        return wide.reshape(-1).view("<i4") / 2.0**31
    return np.frombuffer(packed, f"<i{width}") / 2.0 ** (8 * width - 1)


@cache
def _expansion(kind: int) -> Samples:
    """Return the sample that each of the 256 codes of mu-law or A-law stands for. G.711, tables 1
    and 2: a sign, an exponent of 3 bits and a mantissa of 4 bits."""
    codes = np.arange(256) ^ (0xFF if kind == MU_LAW else 0x55)
    exponent, mantissa = codes >> 4 & 7, codes & 15
    if kind == MU_LAW:
        size = ((2 * mantissa + 33) << exponent) - 33
        sign, full_scale = np.where(codes & 128, -1, 1), 2.0**13
    else:
        size = np.where(
            exponent > 0, (2 * mantissa + 33) << np.maximum(exponent - 1, 0), 2 * mantissa + 1
        )
        sign, full_scale = np.where(codes & 128, 1, -1), 2.0**12
    return np.asarray(sign * size / full_scale)


def _not_a_wav(data: bytes, where: str) -> DataError:
    kind = recognised(data)
    if kind is not None:
        return DataError(
            f"the file must be a WAV file, but is {kind.name}", where, kind.remedy(where)
        )
    return _damaged("it is empty" if not data else "its first bytes are others", where)


def _damaged(reason: str, where: str) -> DataError:
    text = f"the file must be a WAV file, but is not, or is damaged: {reason}"
    return DataError(text, where, "copy, record or convert it again")


def _compressed(name: str, where: str) -> DataError:
    text = f"the samples of the WAV file are compressed: {name}"
    return DataError(text, where, _to_pcm(where))


def _to_pcm(where: str) -> str:
    """Return the command that writes the samples of a WAV file as numbers."""
    path = PurePosixPath(where.rpartition(":")[2])
    names = (path.name, f"{path.stem}-pcm.wav") if path.suffix else ("input.wav", "output.wav")
    source, target = map(shlex.quote, names)
    return f"convert it: ffmpeg -i {source} -c:a pcm_s16le {target}"
