"""Files that are not read as images or sounds, recognised by their first bytes."""

import struct

import pytest

from headway.base.errors import DataError
from headway.data.images import decoded
from headway.data.media_kinds import BY_SUFFIX, counted, recognised


def brand(name: bytes) -> bytes:
    return struct.pack(">I", 24) + b"ftyp" + name + bytes(16)


STARTS = {
    "a HEIC image": brand(b"heic"),
    "an AVIF image": brand(b"avif"),
    "an MP4 file (a film or an M4A sound)": brand(b"M4A "),
    "an SVG drawing": b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- drawn -->\n<svg width="3">',
    "a PDF document": b"%PDF-1.7\n",
    "a Photoshop image": b"8BPS\0\1",
    "a PostScript file": b"%!PS-Adobe-3.0",
    "an icon": b"\0\0\1\0\1\0",
    "a JPEG XL image": b"\0\0\0\x0cJXL \r\n",
    "a JPEG 2000 image": b"\0\0\0\x0cjP  \r\n",
    "an OpenEXR image": b"\x76\x2f\x31\x01\2",
    "a PNM image": b"P6\n2 2\n255\n",
    "a DICOM image": bytes(128) + b"DICM",
    "a FITS image": b"SIMPLE  =                    T",
    "a FLAC sound": b"fLaC\0\0",
    "an Ogg sound (Vorbis or Opus)": b"OggS\0\2",
    "an MP3 sound": b"\xff\xfb\x90\x64",
    "an AAC sound": b"\xff\xf1\x50\x80",
    "an AIFF sound": b"FORM\0\0\0\x40AIFFCOMM",
    "an AU sound": b".snd\0\0\0\x18",
    "a CAF sound": b"caff\0\1",
    "an AMR sound": b"#!AMR\n",
    "an AVI film": b"RIFF\x40\0\0\0AVI LIST",
    "a WebM or Matroska file": b"\x1a\x45\xdf\xa3\1",
    "a WAV file with big-endian numbers (RIFX)": b"RIFX\0\0\0\x24WAVEfmt ",
    "a MIDI file": b"MThd\0\0\0\6",
    "a web page": b"\n<!DOCTYPE html><html><title>404</title><svg >",
    "a pointer of Git LFS, not the file itself": b"version https://git-lfs.github.com/spec/v1\n",
}


@pytest.mark.parametrize("name", STARTS)
def test_the_error_names_the_kind_and_its_remedy(name):
    with pytest.raises(DataError) as error:
        decoded(STARTS[name], "folder/it.png")
    assert error.value.what == f"the file cannot be read as an image: it is {name}"
    assert error.value.hint and error.value.hint != "convert it, copy it again, or remove it"


def test_a_command_has_the_name_of_the_file_if_its_suffix_fits():
    kind = recognised(STARTS["a HEIC image"])
    assert kind is not None and kind is BY_SUFFIX[".heic"]
    assert kind.remedy("/a/my photo.HEIC") == "convert it: magick 'my photo.HEIC' 'my photo'.png"
    assert kind.remedy("data.zip:ant/1.heic") == "convert it: magick 1.heic 1.png"
    assert kind.remedy("a.parquet[3]") == "convert it: magick input.heic input.png"


def test_bytes_of_no_known_kind_are_not_recognised():
    for data in (
        b"",
        b"\x89PNG",
        b"RIFF\0\0\0\0WEBP",
        b"plain text about <svg>",
        b"\xff\xd8\xff\xe0",
    ):
        assert recognised(data) is None


def test_files_are_counted_by_suffix_the_most_frequent_first():
    names = ["a.txt", "b.FLAC", "c.flac", "d", *(f"x.{letter}" for letter in "abcd")]
    assert counted(names) == "2 .flac, 1 .a, 1 .b, 1 .c, 1 .d, 2 others"
