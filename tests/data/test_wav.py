"""WAV files of all kinds of samples and headers, with samples that are known by construction."""

import struct

import numpy as np
import pytest

from headway.base.errors import DataError
from headway.data.images import decoded
from headway.data.sound import decoded_sound, sound_pixels, sound_shape
from headway.data.wav import A_LAW, EXTENSIBLE, FLOAT, MU_LAW, PCM, read_wav

GUID = bytes.fromhex("0000 0000 1000 8000 00aa 0038 9b71".replace(" ", ""))
AMBISONIC = bytes.fromhex("0000 2107 d311 8644 c8c1 ca00 0000".replace(" ", ""))
HALVES = (0.0, 0.5, -0.5, -1.0)


def chunk(name: bytes, content: bytes, size: int | None = None, *, pads: bool = True) -> bytes:
    size = len(content) if size is None else size
    return name + struct.pack("<I", size) + content + b"\0" * (pads and len(content) % 2)


def described(
    kind: int, bits: int, channels: int = 1, rate: int = 8000, extended: bytes = b""
) -> bytes:
    """Return a chunk `fmt `. extended: identifier of a sub-format, without its first two bytes."""
    frame = channels * -(-bits // 8)
    content = struct.pack("<HHIIHH", kind, channels, rate, rate * frame, frame, bits)
    if extended:
        content = struct.pack("<H", EXTENSIBLE) + content[2:]
        content += struct.pack("<HHI", 22, bits, 0) + struct.pack("<H", kind) + extended
    return chunk(b"fmt ", content)


def wav(*chunks: bytes, start: bytes = b"RIFF", size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return start + struct.pack("<I", len(body) if size is None else size) + body


def packed(kind: int, bits: int, values=HALVES) -> bytes:
    """Return samples as a WAV file of this format has them."""
    samples = np.array(values)
    if kind == FLOAT:
        return samples.astype(f"<f{bits // 8}").tobytes()
    if bits == 8:
        return (samples * 128 + 128).astype(np.uint8).tobytes()
    whole = (samples * 2.0 ** (bits - 1)).astype(np.int64)
    return b"".join(int(value).to_bytes(bits // 8, "little", signed=True) for value in whole)


FORMATS = [(PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64)]


@pytest.mark.parametrize(
    "extended", [b"", GUID, AMBISONIC], ids=["plain", "extensible", "ambisonic"]
)
@pytest.mark.parametrize(("kind", "bits"), FORMATS)
def test_samples_of_every_format_are_read(kind, bits, extended):
    data = wav(described(kind, bits, extended=extended), chunk(b"data", packed(kind, bits)))
    assert decoded_sound(data, "x.wav").samples.tolist() == list(HALVES)


@pytest.mark.parametrize("channels", [1, 2, 6, 64])
def test_many_channels_are_averaged(channels):
    samples = np.repeat([0.25, -0.5], channels) + np.tile(np.linspace(-0.1, 0.1, channels), 2)
    data = wav(
        described(FLOAT, 32, channels, extended=GUID), chunk(b"data", packed(FLOAT, 32, samples))
    )
    mean = 0.0 if channels > 1 else -0.1  # of the differences between channels
    expected = [0.25 + mean, -0.5 + mean]
    assert decoded_sound(data, "x").samples.tolist() == pytest.approx(expected, abs=1e-6)


def test_twenty_bits_are_read_from_their_container_of_three_bytes():
    data = wav(described(PCM, 20), chunk(b"data", packed(PCM, 24)))
    assert decoded_sound(data, "x").samples.tolist() == list(HALVES)


@pytest.mark.parametrize(
    ("kind", "codes", "expected"),
    [  # G.711, of 32,768: the smallest steps, both ends, and the first step of a middle segment
        (MU_LAW, [0xFF, 0x7F, 0xFE, 0x7E, 0x80, 0x00, 0xBF], [0, 0, 8, -8, 32_124, -32_124, 1980]),
        (
            A_LAW,
            [0xD5, 0x55, 0xD4, 0x54, 0xAA, 0x2A, 0x95],
            [8, -8, 24, -24, 32_256, -32_256, 2112],
        ),
    ],
    ids=["mu-law", "A-law"],
)
def test_mu_law_and_a_law_are_expanded(kind, codes, expected):
    data = wav(described(kind, 8), chunk(b"data", bytes(codes)))
    assert (decoded_sound(data, "x").samples * 32_768).tolist() == expected


def test_a_signal_compressed_by_mu_law_or_a_law_is_restored_to_its_accuracy():
    """The nearest code of every sample is at most 1/16 of the sample away: 4 bits of mantissa."""
    wave = np.sin(np.arange(400) / 7) * 0.9
    for kind in (MU_LAW, A_LAW):
        every = wav(described(kind, 8), chunk(b"data", bytes(range(256))))
        levels = decoded_sound(every, "x").samples.double().numpy()
        assert len(set(levels.tolist())) >= 255
        codes = np.abs(levels[None] - wave[:, None]).argmin(1).astype(np.uint8)
        data = wav(described(kind, 8), chunk(b"data", codes.tobytes()))
        error = np.abs(decoded_sound(data, "x").samples.numpy() - wave)
        assert (error <= np.abs(wave) / 16 + 1e-3).all()


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk(b"LIST", b"INFOISFT\x05\0\0\0Lavf\0"), chunk(b"fact", b"\4\0\0\0")],
        [chunk(b"bext", bytes(603)), chunk(b"JUNK", bytes(28))],
        [chunk(b"odd ", b"123")],
        [chunk(b"odd ", b"123", pads=False)],
    ],
    ids=["list and fact", "broadcast", "odd size", "odd size, not padded"],
)
def test_other_chunks_are_skipped(chunks):
    form, samples = described(PCM, 16), chunk(b"data", packed(PCM, 16))
    for data in (wav(*chunks, form, samples), wav(form, *chunks, samples)):
        assert decoded_sound(data, "x").samples.tolist() == list(HALVES)
    after = wav(form, samples, *chunks)
    assert decoded_sound(after, "x").samples.tolist() == list(HALVES)


@pytest.mark.parametrize(
    ("whole", "size"),
    [
        (0xFFFFFFFF, 0xFFFFFFFF),  # ffmpeg
        (0x7FFFF024, 0x7FFFF000),  # sox
        (0x80000024, 0x80000000),  # arecord
        (0, 0),
        (36, 0),  # a header that was written before the samples
    ],
)
def test_a_sound_from_a_pipe_has_all_samples_to_the_end_of_the_file(whole, size):
    content = packed(PCM, 16)
    data = wav(described(PCM, 16), chunk(b"data", content, size), size=whole)
    assert decoded_sound(data, "x").samples.tolist() == list(HALVES)
    assert sound_shape(data, "x") == sound_pixels(data, "x").shape
    unfinished = data + b"\1"  # half a sample
    assert decoded_sound(unfinished, "x").samples.tolist() == list(HALVES)


def test_an_empty_sound_before_another_chunk_has_no_samples():
    data = wav(described(PCM, 16), chunk(b"data", b""), chunk(b"LIST", b"INFO"))
    with pytest.raises(DataError, match="has no samples"):
        decoded_sound(data, "x")


@pytest.mark.parametrize("start", [b"RF64", b"BW64"])
def test_files_with_sizes_of_64_bits_are_read(start):
    content = packed(PCM, 24)
    sizes = chunk(b"ds64", struct.pack("<QQQI", 200, len(content), 4, 0))
    samples = chunk(b"data", content, 0xFFFFFFFF) + chunk(b"LIST", b"INFO")
    data = wav(sizes, described(PCM, 24), samples, start=start, size=0xFFFFFFFF)
    assert decoded_sound(data, "x").samples.tolist() == list(HALVES)
    assert decoded(data, "x.wav").shape == (64, 1, 1)


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000])
def test_a_tone_has_its_band_at_every_rate(rate):
    tone = np.sin(2 * np.pi * 1000 * np.arange(rate // 2) / rate) / 2
    pixels = {
        (kind, bits): decoded(
            wav(described(kind, bits, rate=rate), chunk(b"data", packed(kind, bits, tone))), "x"
        )
        for kind, bits in ((PCM, 16), (FLOAT, 32))
    }
    first, second = pixels.values()
    assert first.shape == second.shape and first.shape[0] == 64
    assert (
        first[..., 0].mean(1).argmax() == second[..., 0].mean(1).argmax() == 42
    )  # band 21, from the bottom


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (
            wav(described(2, 4)),
            "compressed: Microsoft ADPCM",
            "ffmpeg -i x.wav -c:a pcm_s16le x-pcm",
        ),
        (wav(described(0x55, 0)), "compressed: MP3", "pcm_s16le"),
        (wav(described(0x1234, 16)), r"unknown format \(0x1234\)", "pcm_s16le"),
        (wav(described(PCM, 16, extended=bytes(14))), "unknown format", "pcm_s16le"),
        (wav(described(FLOAT, 16)), "must have 32 or 64 bits, but have 16", "pcm_s16le"),
        (wav(described(PCM, 64)), "must have 8 or 16 or 24 or 32 bits, but have 64", "pcm_s16le"),
        (wav(described(PCM, 16, 65)), "65 channels", "mono"),
        (wav(chunk(b"fmt ", bytes(15))), "description of its samples is too short", "copy"),
        (wav(chunk(b"data", bytes(8))), "samples come before their description", "copy"),
        (wav(described(PCM, 16)), "it has no samples", "copy"),
        (wav(chunk(b"LIST", b"INFO")), "it has no description", "copy"),
        (b"", "it is empty", "copy"),
        (b"something else", "its first bytes are others", "copy"),
        (b"fLaC" + bytes(40), "but is a FLAC sound", "ffmpeg -i input.flac input.wav"),
    ],
)
def test_what_is_not_read_is_named_with_its_remedy(data, message, hint):
    with pytest.raises(DataError, match=message) as error:
        read_wav(data, "folder/x.wav")
    assert hint in str(error.value.hint) and error.value.where == "folder/x.wav"


def test_a_header_that_contradicts_itself_is_refused():
    form = bytearray(described(PCM, 16, 2))
    form[20] = 2  # bytes of a frame
    with pytest.raises(DataError, match=r"2 channels of 16 bits are 4 bytes, but .* declares 2"):
        read_wav(wav(bytes(form), chunk(b"data", bytes(8))), "x")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 32_767.0])
def test_floating_point_samples_far_above_full_scale_are_refused(value):
    data = wav(described(FLOAT, 32), chunk(b"data", packed(FLOAT, 32, [0.5, value])))
    with pytest.raises(DataError, match="must be from about -1 to 1"):
        decoded_sound(data, "x")
    loud = wav(described(FLOAT, 32), chunk(b"data", packed(FLOAT, 32, [0.5, 1.5])))
    assert decoded_sound(loud, "x").samples.tolist() == [0.5, 1.5]


def test_any_flipped_bytes_are_decoded_or_refused_with_an_error():
    random = np.random.default_rng(0)
    good = wav(
        described(PCM, 24, 2, extended=GUID), chunk(b"fact", b"1234"), chunk(b"data", bytes(48))
    )
    for _ in range(300):
        bad = np.frombuffer(good, np.uint8).copy()
        positions = random.integers(0, len(bad), size=4)
        bad[positions] = random.integers(0, 256, size=4)
        try:
            assert np.isfinite(decoded_sound(bad.tobytes(), "x").samples.numpy()).all()
        except DataError:
            continue
