"""Runs on sounds, which are read as images of their frequencies."""

import io
import shutil
import subprocess
import wave

import numpy as np
import pytest

from headway import load
from headway.base.errors import DataError
from headway.runs import recipe, saved, train

RATE = 8000
SMALL = {
    **{"model_dim": 24, "num_heads": 3, "ffn_dim": 40, "num_layers": 1},
    **{"patch_size": 64, "patch_width": 4},
}
LOOP = {
    **{
        "training.batch_size": 6,
        "training.average": 0.0,
        "schedule.warmup": 3,
        "machine.threads": 1,
    },
    **{"optimizer.kind": "adamw", "optimizer.lr": 5e-3},
}
TONES = {"low": 300, "high": 2500}


def wav(hertz, seconds, seed):
    random = np.random.default_rng(seed)
    times = np.arange(int(RATE * seconds)) / RATE
    sound = 0.4 * np.sin(2 * np.pi * hertz * times) + 0.02 * random.standard_normal(len(times))
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound * 32_767).astype("<i2").tobytes())
    return out.getvalue()


@pytest.fixture(scope="module")
def tones(tmp_path_factory):
    """A folder with tones/low/0.wav ..., of different lengths, and a table of their captions."""
    folder = tmp_path_factory.mktemp("sound")
    rows = ["image\tcaption"]
    for name, hertz in TONES.items():
        (folder / "tones" / name).mkdir(parents=True)
        for i in range(10):
            path = folder / "tones" / name / f"{i}.wav"
            path.write_bytes(wav(hertz * (1 + 0.02 * i), 0.12 + 0.01 * i, i))
            rows.append(f"{path}\ta {name} tone")
    (folder / "tones.tsv").write_text("\n".join(rows) + "\n")
    return folder


def test_tones_of_any_length_are_classified(tones, tmp_path):
    shape = {f"model.{name}": value for name, value in SMALL.items()}
    settings = {"data.train": str(tones / "tones"), "data.held_out": 0.3, "training.steps": 60}
    config = recipe("sound", ("test", {**LOOP, **shape, **settings, "evaluation.every": 20}))
    outcome = train(config, tmp_path / "run")
    assert outcome.best == 1.0
    bundle = load(tmp_path / "run")
    predictions = bundle.classify([wav(310, 0.07, 99), wav(2600, 0.4, 98)])
    assert [prediction.label for prediction in predictions] == ["low", "high"]
    model = saved(tmp_path / "run").model
    assert (model.image_size, model.image_width, model.channels) == (64, 20, 1)


def test_a_captioner_describes_sounds(tones, tmp_path):
    shape = {f"model.vit.{name}": value for name, value in SMALL.items()}
    gpt = {"model_dim": 24, "num_heads": 3, "ffn_dim": 40, "num_layers": 1, "dropout": 0.0}
    shape |= {f"model.gpt.{name}": value for name, value in gpt.items()}
    settings = {"data.train": str(tones / "tones.tsv"), "data.fit": "pad", "data.held_out": 0.3}
    settings |= {"data.vocabulary": 270, "training.steps": 120, "evaluation.every": 40}
    settings |= {"model.vit.dropout": 0.0, "training.smoothing": 0.0, "augmentation.padding": 0}
    config = recipe("caption", ("test", {**LOOP, **shape, **settings, "optimizer.lr": 1e-2}))
    train(config, tmp_path / "run")
    bundle = load(tmp_path / "run")
    captions = bundle.caption([wav(310, 0.07, 99), wav(2600, 0.2, 98)])
    assert [caption[0].text if isinstance(caption, list) else caption for caption in captions] == [
        "a low tone",
        "a high tone",
    ]


def test_a_damaged_sound_is_named(tones, tmp_path):
    shutil.copytree(tones / "tones", tmp_path / "bad")
    (tmp_path / "bad" / "low" / "0.wav").write_bytes(b"RIFF0000WAVEnothing")
    config = recipe("sound", ("test", {**LOOP, "data.train": str(tmp_path / "bad")}))
    with pytest.raises(DataError, match="must be a WAV file"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


WORDS = ("zero", "one", "two", "three", "four", "five", "yes", "no", "stop", "go")
TRAINING_VOICES = (
    *("en-us+m1", "en-us+m3", "en-us+f1", "en-us+f4", "en-gb+m2", "en-gb+f2"),
    "en-gb-scotland+m5",
)
UNSEEN_VOICES = ("en-us+m4", "en-us+f3", "en-gb+m7")


@pytest.mark.slow
def test_words_are_recognised_from_voices_that_are_not_in_the_training_data(tmp_path):
    if shutil.which("espeak-ng") is None:
        pytest.skip("espeak-ng is not installed")
    for split, voices in (("train", TRAINING_VOICES), ("valid", UNSEEN_VOICES)):
        for word in WORDS:
            (tmp_path / "words" / split / word).mkdir(parents=True)
            for voice in voices:
                for speed, pitch in ((130, 35), (150, 50), (175, 60)):
                    path = tmp_path / "words" / split / word / f"{voice}-{speed}.wav"
                    options = ["-v", voice, "-s", str(speed), "-p", str(pitch), "-w", str(path)]
                    subprocess.run(["espeak-ng", *options, word], check=True, capture_output=True)
    settings = {"data.train": str(tmp_path / "words"), "training.epochs": 40.0}
    settings |= {"model.size": "mini", "machine.threads": 1, "evaluation.every": 50}
    outcome = train(recipe("sound", ("test", settings)), tmp_path / "run")
    assert outcome.best >= 0.9
