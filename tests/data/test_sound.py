"""Waveforms and spectrograms, compared with the equations and with transformers."""

import io
import math
import struct
import wave

import numpy as np
import pytest
import torch
from transformers.audio_utils import mel_filter_bank, spectrogram

from headway.base.errors import DataError
from headway.data.sound import (
    SpectrogramConfig,
    Waveform,
    decoded_sound,
    frequency,
    log_mel,
    mel,
    mel_filters,
    resampled,
    sound_pixels,
    sound_shape,
)
from headway.data.wav import is_wav

SMALL = SpectrogramConfig(rate=8000, window=200, hop=80, fft=256, mels=23, lowest=60.0)


def tone(hertz, rate, seconds=0.5):
    return torch.sin(2 * math.pi * hertz * torch.arange(int(rate * seconds)) / rate)


def wav(packed, width=2, channels=1, rate=8000):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(packed)
    return out.getvalue()


@pytest.mark.parametrize(
    ("width", "packed"),
    [
        (1, bytes([128, 192, 64, 0])),
        (2, struct.pack("<4h", 0, 2**14, -(2**14), -(2**15))),
        (3, b"\0\0\0" + b"\0\0\x40" + b"\0\0\xc0" + b"\0\0\x80"),
        (4, struct.pack("<4i", 0, 2**30, -(2**30), -(2**31))),
    ],
)
def test_samples_of_every_width_lie_between_minus_1_and_1(width, packed):
    sound = decoded_sound(wav(packed, width), "x.wav")
    assert sound.samples.tolist() == [0.0, 0.5, -0.5, -1.0]
    assert sound.rate == 8000 and sound.seconds == 4 / 8000


def test_channels_are_averaged():
    packed = struct.pack("<6h", 2**14, 0, 2**14, 2**13, 0, -(2**14))
    assert decoded_sound(wav(packed, channels=2), "x").samples.tolist() == [0.25, 0.375, -0.25]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "must be a WAV"),
        (b"RIFF1234WAVE", "must be a WAV"),
        (b"ID3 some mp3 or other", "must be a WAV file, but is an MP3 sound"),
        (wav(b""), "has no samples"),
        (wav(b"\0\0" * 9000, rate=10)[:60], "of 1,000 to 768,000 Hz are allowed"),
        (wav(b"\0\0" * 8, rate=5), "of 1,000 to 768,000 Hz are allowed"),
    ],
)
def test_data_that_is_no_sound_is_refused_with_its_name(data, message):
    with pytest.raises(DataError, match=message) as error:
        decoded_sound(data, "strange.wav")
    assert "strange.wav" in str(error.value)


@pytest.mark.parametrize("read", [decoded_sound, sound_shape, sound_pixels])
@pytest.mark.parametrize(("width", "channels"), [(2, 1), (3, 2)])
@pytest.mark.parametrize("missing", [1, 100, 6000])
def test_a_sound_that_ends_before_its_last_sample_is_refused(read, width, channels, missing):
    whole = wav(bytes(6000), width, channels)
    read(whole, "whole.wav")
    with pytest.raises(DataError) as error:
        read(whole[:-missing], "short.wav")
    assert error.value.what == (
        "the file is truncated: its header declares 6,000 bytes of samples, but "
        f"it has {6000 - missing:,}"
    )
    assert error.value.where == "short.wav"


def test_chunks_after_the_samples_are_skipped():
    data = wav(struct.pack("<2h", 2**14, 0)) + b"LIST" + struct.pack("<I", 4) + b"INFO"
    assert decoded_sound(data, "x.wav").samples.tolist() == [0.5, 0.0]


def test_a_header_that_declares_hours_of_sound_is_refused_before_reading():
    data = bytearray(wav(b"\0\0" * 100))
    data[40:44] = struct.pack("<I", 2 * 8000 * 7200)
    with pytest.raises(DataError, match="7,200 seconds"):
        decoded_sound(bytes(data), "long.wav")


@pytest.mark.parametrize(("old", "new"), [(44_100, 16_000), (8000, 16_000), (16_000, 11_025)])
def test_another_rate_keeps_a_tone_and_its_length(old, new):
    result = resampled(Waveform(tone(440, old), old), new)
    assert result.rate == new and len(result.samples) == math.ceil(old // 2 * new / old)
    expected = torch.sin(2 * math.pi * 440 * torch.arange(len(result.samples)) / new)
    torch.testing.assert_close(result.samples[300:-300], expected[300:-300], atol=1e-3, rtol=0)


def test_frequencies_above_half_of_the_new_rate_are_removed():
    result = resampled(Waveform(tone(9000, 44_100), 44_100), 16_000)
    assert result.samples[300:-300].abs().max() < 0.01
    same = Waveform(tone(50, 8000), 8000)
    assert resampled(same, 8000) is same


def test_mels_and_their_inverse():
    assert mel(torch.tensor([0.0, 700.0, 1000.0])).tolist() == pytest.approx(
        [0.0, 2595 * math.log10(2), 999.9855], rel=1e-5
    )
    some = torch.linspace(20, 8000, 7, dtype=torch.float64)
    torch.testing.assert_close(frequency(mel(some)), some)


@pytest.mark.parametrize("config", [SMALL, SpectrogramConfig(), SpectrogramConfig(highest=6000.0)])
def test_filters_and_spectrogram_are_those_of_transformers(config):
    size = config.fft // 2 + 1
    bank = mel_filter_bank(size, config.mels, config.lowest, config.top, config.rate, None, "htk")
    np.testing.assert_allclose(mel_filters(config).numpy(), bank.T, atol=1e-6)
    torch.manual_seed(0)
    sound = Waveform(0.1 * torch.randn(config.hop * 9 + config.window), config.rate)
    expected = spectrogram(
        sound.samples.double().numpy(),
        np.hanning(config.window + 1)[:-1],
        config.window,
        config.hop,
        config.fft,
        power=2.0,
        center=False,
        mel_filters=bank,
        log_mel="log",
    )
    result = log_mel(sound, config)
    assert result.shape == (config.mels, 10)
    np.testing.assert_allclose(result.numpy(), expected, atol=2e-5)


def test_a_tone_is_in_the_band_of_its_frequency_and_silence_at_the_floor():
    for hertz in (300, 1100, 2500):
        row = log_mel(Waveform(tone(hertz, 8000), 8000), SMALL).mean(1).argmax().item()
        edges = frequency(
            torch.linspace(mel(torch.tensor(60.0)), mel(torch.tensor(4000.0)), SMALL.mels + 2)
        )
        assert edges[row] <= hertz <= edges[row + 2]
    silent = log_mel(Waveform(torch.zeros(700), 8000), SMALL)
    assert silent.eq(math.log(1e-10)).all()


@pytest.mark.parametrize(("samples", "frames"), [(1, 1), (200, 1), (201, 2), (280, 2), (281, 3)])
def test_the_last_frame_is_padded(samples, frames):
    assert SMALL.frames(samples) == frames
    assert log_mel(Waveform(torch.ones(samples), 8000), SMALL).shape == (23, frames)


def test_impossible_settings_are_refused():
    with pytest.raises(ValueError, match="window=300 must be at most fft=256"):
        SpectrogramConfig(window=300, fft=256)
    with pytest.raises(ValueError, match="highest=9000"):
        SpectrogramConfig(highest=9000.0)


@pytest.mark.parametrize("rate", [8000, 16_000, 44_100])
def test_a_sound_is_an_image_with_low_tones_at_the_bottom_and_black_silence(rate):
    def packed(wave):
        return wav((wave * 32767).short().numpy().tobytes(), rate=rate)

    low, high = (sound_pixels(packed(0.5 * tone(f, rate)), "x") for f in (250, 3000))
    silent = sound_pixels(packed(torch.zeros(rate // 2)), "x")
    assert low.shape == high.shape == silent.shape == sound_shape(packed(tone(9, rate)), "x")
    assert low.dtype == np.uint8 and low.shape[0] == 64 and low.shape[2] == 1
    assert low[..., 0].mean(1).argmax() > high[..., 0].mean(1).argmax() > 5
    assert silent.max() == 0 and low.max() > 150


def test_a_sound_is_recognised_by_its_first_bytes():
    assert is_wav(wav(b"\0\0")) and not is_wav(b"RIFF1234WEBPVP8 ") and not is_wav(b"")
