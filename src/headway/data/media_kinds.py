"""Recognises images, sounds and films by their first bytes: those that are read, and others, for
which it says how to convert them."""

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headway.base.errors import DataError
from headway.base.files import open_plain

_START = 4096  # number of bytes in which text formats are recognised
_IMAGE = "magick {input} {output}.png"
_SOUND = "ffmpeg -i {input} {output}.wav"
_WAV = (b"RIFF", b"RF64", b"BW64")
_READ = {
    b"\x89PNG": ".png",
    b"\xff\xd8\xff": ".jpg",
    b"GIF8": ".gif",
    b"BM": ".bmp",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
    b"II+\0": ".tif",
    b"MM\0+": ".tif",
}
"""First bytes of image files that are read -> suffix."""
_NAMES = {
    ".png": "a PNG image",
    ".jpg": "a JPEG image",
    ".gif": "a GIF image",
    ".bmp": "a BMP image",
    ".tif": "a TIFF image",
    ".webp": "a WebP image",
    ".wav": "a WAV sound",
}
"""Suffix of files that are read -> what such a file is."""


@dataclass(frozen=True)
class MediaKind:
    """A kind of file that Headway does not read.

    name: with an article. suffixes: of such files, the usual one first. command: a shell command
    that converts one, with the fields `input` and `output`; or an instruction without fields.
    """

    name: str
    suffixes: tuple[str, ...]
    command: str

    def remedy(self, where: str) -> str:
        """Return how to convert the file. where: its path, or any other description of it."""
        if "{input}" not in self.command:
            return self.command
        path = PurePosixPath(where.rpartition(":")[2])
        if path.suffix.lower() not in self.suffixes:
            path = PurePosixPath(f"input{self.suffixes[0]}")
        names = {"input": shlex.quote(path.name), "output": shlex.quote(path.stem)}
        return "convert it: " + self.command.format(**names)

    @property
    def remedy_in_folders(self) -> str:
        """How to convert all such files in folders of classes."""
        if "{input}" not in self.command:
            return self.command
        command = self.command.format(input='"$file"', output='"${file%.*}"')
        return f"convert them: for file in */*{self.suffixes[0]}; do {command}; done"


HEIC = MediaKind("a HEIC image", (".heic", ".heif"), _IMAGE)
AVIF = MediaKind("an AVIF image", (".avif",), _IMAGE)
SVG = MediaKind("an SVG drawing", (".svg",), "rsvg-convert {input} -o {output}.png")
MP4 = MediaKind("an MP4 file (a film or an M4A sound)", (".mp4", ".m4a", ".mov"), _SOUND)
OGG = MediaKind("an Ogg sound (Vorbis or Opus)", (".ogg", ".oga", ".opus"), _SOUND)
MP3 = MediaKind("an MP3 sound", (".mp3",), _SOUND)
AAC = MediaKind("an AAC sound", (".aac",), _SOUND)
HTML = MediaKind("a web page", (".html", ".htm"), "download the file itself, not the page about it")
AIFF = MediaKind("an AIFF sound", (".aiff", ".aif", ".aifc"), _SOUND)
_BY_START: tuple[tuple[bytes, MediaKind], ...] = (
    (b"%PDF-", MediaKind("a PDF document", (".pdf",), "pdftoppm -png {input} {output}")),
    (b"8BPS", MediaKind("a Photoshop image", (".psd",), _IMAGE)),
    (b"gimp xcf", MediaKind("a GIMP image", (".xcf",), _IMAGE)),
    (b"%!PS", MediaKind("a PostScript file", (".eps", ".ps"), _IMAGE)),
    (b"\0\0\1\0", MediaKind("an icon", (".ico",), _IMAGE)),
    (b"\xff\x0a", MediaKind("a JPEG XL image", (".jxl",), _IMAGE)),
    (b"\0\0\0\x0cJXL ", MediaKind("a JPEG XL image", (".jxl",), _IMAGE)),
    (b"\0\0\0\x0cjP  ", MediaKind("a JPEG 2000 image", (".jp2", ".j2k"), _IMAGE)),
    (b"\xff\x4f\xff\x51", MediaKind("a JPEG 2000 image", (".j2k", ".jp2"), _IMAGE)),
    (b"\x76\x2f\x31\x01", MediaKind("an OpenEXR image", (".exr",), _IMAGE)),
    (b"SIMPLE  =", MediaKind("a FITS image", (".fits", ".fit"), _IMAGE)),
    (b"fLaC", MediaKind("a FLAC sound", (".flac",), _SOUND)),
    (b"OggS", OGG),
    (b"ID3", MP3),
    (b".snd", MediaKind("an AU sound", (".au", ".snd"), _SOUND)),
    (b"caff", MediaKind("a CAF sound", (".caf",), _SOUND)),
    (b"#!AMR", MediaKind("an AMR sound", (".amr",), _SOUND)),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", MediaKind("a WMA sound", (".wma", ".wmv"), _SOUND)),
    (b"\x1a\x45\xdf\xa3", MediaKind("a WebM or Matroska file", (".webm", ".mkv"), _SOUND)),
    (b"RIFX", MediaKind("a WAV file with big-endian numbers (RIFX)", (".wav",), _SOUND)),
    (b"riff\x2e\x91\xcf\x11", MediaKind("a Wave64 sound", (".w64",), _SOUND)),
    (b"MThd", MediaKind("a MIDI file", (".mid", ".midi"), "render it to a WAV file")),
    (
        b"version https://git-lfs",
        MediaKind("a pointer of Git LFS, not the file itself", (), "git lfs pull"),
    ),
)
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), AVIF),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), HEIC),
}
"""Major brands of ISO base media files (bytes 8 to 12, after `ftyp`); all others are films and
sounds."""
_TESTS: tuple[tuple[Callable[[bytes], object], MediaKind], ...] = (
    (lambda data: data[:4] == b"FORM" and data[8:12] in (b"AIFF", b"AIFC"), AIFF),
    (
        lambda data: data[:4] == b"RIFF" and data[8:12] == b"AVI ",
        MediaKind("an AVI film", (".avi",), _SOUND),
    ),
    (lambda data: data[128:132] == b"DICM", MediaKind("a DICOM image", (".dcm",), _IMAGE)),
    (
        lambda data: re.match(rb"P[1-7]\s", data),
        MediaKind("a PNM image", (".ppm", ".pgm", ".pbm", ".pnm"), _IMAGE),
    ),
    # frames of MPEG sound begin with eleven bits of 1, then version and layer
    (lambda data: re.match(rb"\xff[\xf1\xf9]", data), AAC),
    (lambda data: re.match(rb"\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff]", data), MP3),
    (lambda data: re.match(rb"\s*<(!doctype html|html)", data[:_START], re.IGNORECASE), HTML),
    (lambda data: re.search(rb"<svg[\s>]", data[:_START]) and _is_text(data), SVG),
)


def _is_text(data: bytes) -> bool:
    return data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


def is_wav(data: bytes) -> bool:
    """Return whether these bytes start like a WAV file."""
    return data[:4] in _WAV and data[8:12] == b"WAVE"


def suffix_of(data: bytes) -> str | None:
    """Return the suffix of an image or sound file that is read, by its first bytes, else None."""
    if is_wav(data):
        return ".wav"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((suffix for start, suffix in _READ.items() if data.startswith(start)), None)


def recognised(data: bytes) -> MediaKind | None:
    """Return the kind of a file that is not read, by its first bytes, or None if it is unknown."""
    tested = (kind for is_kind, kind in _TESTS if is_kind(data))
    return _by_start(data) or next(tested, None)


def _by_start(data: bytes) -> MediaKind | None:
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], MP4)
    return next((kind for start, kind in _BY_START if data.startswith(start)), None)


def name_of(data: bytes) -> str | None:
    """Return what an image, sound or film is, read or not, by the number at its start, or None."""
    suffix, kind = suffix_of(data), _by_start(data)
    return _NAMES[suffix] if suffix is not None else None if kind is None else kind.name


_KINDS = (HEIC, *_BRANDS.values(), MP4, *(kind for _, kind in (*_BY_START, *_TESTS)))
BY_SUFFIX = {suffix: kind for kind in _KINDS for suffix in kind.suffixes if suffix != ".wav"}
"""Suffix -> the kind of files that have it."""


def start_of(path: Path) -> bytes:
    """Return the first bytes of a file, by which it is recognised; none if it cannot be read."""
    try:
        with open_plain(path) as file:
            return file.read(_START)
    except (OSError, DataError):
        return b""


def remedy_of(path: Path) -> str:
    """Return how to convert a file, by its first bytes or else its suffix."""
    kind = recognised(start_of(path)) or BY_SUFFIX.get(path.suffix.lower())
    return "convert or rename the file" if kind is None else kind.remedy(str(path))


def counted(names: Iterable[str]) -> str:
    """Describe files by their suffixes, the most frequent ones first: "12 .flac, 1 .txt"."""
    counts: dict[str, int] = {}
    for name in names:
        suffix = PurePosixPath(name).suffix.lower() or "without suffix"
        counts[suffix] = counts.get(suffix, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in ordered[5:])
    parts = [f"{count:,} {suffix}" for suffix, count in ordered[:5]]
    return ", ".join([*parts, f"{rest:,} others"] if rest else parts)
