"""Odd WAV files: what a transcriber reads of each, beside scipy and the module wave of Python."""

import io
import re
import warnings
import wave

import pytest
import torch
from scipy.io import wavfile
from torch.testing import assert_close

from headway.base.errors import DataError
from headway.data.speech import read_recording
from tests.fixtures.command_line import ROOT
from tests.fixtures.odd_sounds import COUNT, FILES, WAVE

TABLE = ROOT / "docs" / "howto" / "models_you_can_bring.md"
ROW = re.compile(r"^\| (?P<file>.+?) \| (?P<ours>.+?) \| (?P<scipy>.+?) \| (?P<wave>.+?) \|$", re.M)
ROWS = {row["file"]: row for row in ROW.finditer(TABLE.read_text(encoding="utf-8"))}
ERROR = "error: "
REASONS = {
    "no description first": "samples come before their description",
    "truncated": "truncated|too short",
    "no samples": "no samples",
    "empty": "it is empty",
    "not numbers": "must be from about -1 to 1, but one is nan",
    "far above 1": "must be from about -1 to 1, but one is 16,384",
    "longer than two hours": "at most 7,200 are allowed",
    "channels": "1 to 64 channels",
    "rate": "1,000 to 768,000 Hz",
    "silent": "silent",
    "an MP3 sound": "an MP3 sound",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_or_refused_as_the_table_says(name, tmp_path):
    path, expected = tmp_path / "x.wav", ROWS[name]["ours"]
    path.write_bytes(FILES[name])
    if expected.startswith(ERROR):
        with pytest.raises(DataError) as error:
            read_recording(path)
        assert re.search(REASONS[expected.removeprefix(ERROR)], error.value.what)
        return
    samples = read_recording(path)
    assert samples.dtype == torch.float32 and samples.isfinite().all()
    if expected == "exact":
        assert_close(samples, torch.from_numpy(WAVE).float(), rtol=0, atol=1e-7)
    elif expected == "resampled":
        kept = 16_000 / {"8,000 Hz": 8_000, "44,100 Hz": 44_100, "96,000 Hz": 96_000}[name]
        assert len(samples) == -(-COUNT * kept // 1)
    else:
        assert expected == "read" and len(samples) == COUNT


@pytest.mark.parametrize("name", FILES)
def test_peers_do_with_a_file_what_the_table_says(name):
    for peer, read in (("scipy", read_by_scipy), ("wave", read_by_wave)):
        expected = ROWS[name][peer]
        assert read(FILES[name]) == expected, peer


def read_by_scipy(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _, samples = wavfile.read(io.BytesIO(data))
        except Exception as error:
            return type(error).__name__
    return f"{samples.dtype}, {len(samples):,} samples"


def read_by_wave(data):
    try:
        with wave.open(io.BytesIO(data)) as file:
            return f"{len(file.readframes(file.getnframes())):,} bytes"
    except Exception as error:
        return type(error).__name__


def test_the_table_has_every_file_once():
    assert FILES.keys() <= ROWS.keys()
