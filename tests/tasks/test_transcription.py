"""Transcription: the rule of times, segments, subtitles, long recordings, training, the command."""

import json

import pytest
import torch
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, UsageError
from headway.data.speech import recording_spectrogram
from headway.decoding import PartialOutput
from headway.tasks.transcription.config import SpeechDataConfig
from headway.tasks.transcription.data import SpokenText, check_language, read_spoken, speech_batch
from headway.tasks.transcription.options import RecordingInput, TranscriptOptions
from headway.tasks.transcription.subtitles import clock, srt_lines, vtt_lines
from headway.tasks.transcription.task import (
    TRANSCRIPTION,
    prediction_lines,
    speech_loss,
    spoken_words,
)
from headway.tasks.transcription.timestamps import Segment, TimestampRule, split_at_times
from tests.fixtures.command_line import headway as command
from tests.fixtures.small_whisper import noise, transcriber, write_folder, write_wav

TIME = 20  # the token of 0.00
SEGMENTS = (
    Segment(start=0.0, end=2.5, text="A & B <"),
    Segment(start=3661.25, end=3662.0, text="two"),
)


def after(*tokens, logits=None):
    """The tokens that the rule allows after others: 0 to 16 are words, 17 is the end."""
    rule = TimestampRule(TIME, 17, latest_start=3)
    scores = torch.zeros(1, 30) if logits is None else logits
    scores = scores.clone()
    scores[0, :19] += 9  # so that times together are not more probable than a word
    allowed = rule(scores, [PartialOutput(list(tokens), [18], 0)])
    return {i for i, value in enumerate(allowed[0].tolist()) if value > -torch.inf}


def test_an_output_begins_with_an_early_time():
    assert after() == {20, 21, 22, 23}


def test_times_are_in_pairs_and_increase():
    words, special = set(range(17)), {17, 18}
    assert after(20) == words | special  # words, or the end, after the beginning of a segment
    assert after(20, 4) == words | special | set(range(21, 30))  # not 0.00 again
    assert after(20, 4, 25) == special | set(range(25, 30))
    assert after(20, 4, 25, 25) == words | special
    assert after(20, 4, 25, 25, 3) == words | special | set(range(26, 30))


def test_a_time_is_written_if_all_times_together_are_more_probable_than_every_word():
    scores = torch.zeros(1, 30)
    scores[0, 21:] = 8.5  # each is less probable than a word, all together are more
    assert after(20, 4, logits=scores) == set(range(21, 30))


def test_the_rule_changes_each_row_by_itself():
    rule, scores = TimestampRule(TIME, 17), torch.randn(3, 30)
    written = [PartialOutput(tokens, [18], i) for i, tokens in enumerate(([], [20], [20, 4, 25]))]
    together = rule(scores, written)
    for i, one in enumerate(written):
        assert torch.equal(rule(scores[i : i + 1], [one])[0], together[i])


@pytest.mark.parametrize(
    ("tokens", "spans", "covered"),
    [
        ([20, 4, 5, 22, 22, 6, 25, 25], [(0, 4), (4, 10)], 10),  # the next begins at 0.10 s
        ([20, 4, 5, 22, 22, 6, 7], [(0, 4)], 4),  # a segment without an end is read again
        ([20, 4, 22, 22, 6, 25], [(0, 4), (4, 10)], 200),  # a single time: nothing after it
        ([20, 4, 5], [(0, 200)], 200),
        ([20, 4, 5, 23], [(0, 6)], 200),
        ([4, 5], [(0, 200)], 200),
        ([], [(0, 200)], 200),
        ([20, 20], [(0, 0)], 200),  # never a window that covers nothing
    ],
)
def test_the_output_of_a_window_is_split_at_its_times(tokens, spans, covered):
    segments, frames = split_at_times(tokens, TIME, 200)
    assert [(part.start, part.end) for part in segments] == spans and frames == covered


def test_subtitles():
    assert clock(3661.2345) == "01:01:01.234" and clock(59.9996) == "00:01:00.000"
    assert list(srt_lines(SEGMENTS)) == [
        *("1", "00:00:00,000 --> 00:00:02,500", "A & B <", ""),
        *("2", "01:01:01,250 --> 01:01:02,000", "two", ""),
    ]
    assert list(vtt_lines(SEGMENTS)) == [
        *("WEBVTT", ""),
        *("00:00:00.000 --> 00:00:02.500", "A &amp; B &lt;", ""),
        *("01:01:01.250 --> 01:01:02.000", "two", ""),
    ]


@pytest.fixture(scope="module")
def bundle():
    return transcriber()


def test_a_long_recording_is_transcribed_to_its_end_and_times_increase(bundle):
    (found,) = bundle.transcribe([noise(7.3)], language="fr")
    assert len(found.segments) > 1 and found.text
    starts = [segment.start for segment in found.segments]
    assert starts == sorted(starts) and all(s.start <= s.end for s in found.segments)
    assert 6.3 < found.segments[-1].end < 8.3  # the window with the end of the recording
    (again,) = bundle.transcribe([noise(7.3)], language="fr", timestamps=True)
    assert again == found  # times are written although they are not shown


def test_beams_find_an_output_that_is_at_least_as_probable(bundle):
    frames = recording_spectrogram(noise(0.9), 8, 100)[0][None]
    prompt = bundle.reader.tokens.prompt("en", translate=False, timestamps=False)

    def score(tokens):
        read = torch.tensor([[*prompt, *tokens]])
        with torch.inference_mode():
            log_p = bundle.model(frames, read)[0, len(prompt) - 1 : -1].log_softmax(-1)
        return log_p.gather(1, torch.tensor(tokens)[:, None]).mean()

    greedy, beams = (bundle._written(frames, prompt, beam) for beam in (1, 4))
    assert score(list(beams)) >= score(list(greedy)) - 1e-4


@pytest.mark.parametrize(
    ("options", "message"),
    [({"language": "xx"}, "'xx'"), ({"language": "english"}, "'english'")],
)
def test_unknown_languages_are_refused_with_the_known_ones(options, message, bundle):
    with pytest.raises(UsageError, match=message) as error:
        bundle.transcribe([noise(0.5)], **options)
    assert "en, fr, de" in error.value.hint


def test_the_loss_is_that_of_all_tokens_after_the_start(bundle, tmp_path):
    files = [write_wav(tmp_path / f"{i}.wav", noise(0.4 + i / 10, i)) for i in range(2)]
    texts = ["a fox", "the old owl waits"]
    spoken = [SpokenText(f, text, "de", "x") for f, text in zip(files, texts, strict=True)]
    batch = speech_batch(spoken, [1, 0], bundle)
    loss = speech_loss(bundle.model, batch)
    tokens = bundle.reader.tokens
    total, count = 0.0, 0
    for file, text in zip(files, texts, strict=True):
        prompt = [tokens.start, tokens.languages["de"], tokens.transcribe, tokens.no_timestamps]
        row = [*prompt, *bundle.reader.tokenizer.encode(f" {text}"), bundle.reader.tokenizer.eos]
        samples = torch.frombuffer(bytearray(file.read_bytes()[44:]), dtype=torch.float32)
        frames = recording_spectrogram(samples, 8, 100)[0][None]
        logits = bundle.model(frames, torch.tensor([row[:-1]]))[0]
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(row[1:]), reduction="sum")
        count += len(row) - 1
    assert loss.count == count == batch.count
    assert_close(loss.nats, total.detach(), rtol=1e-5, atol=1e-4)


def test_scores_count_errors_of_words(bundle, tmp_path):
    file = write_wav(tmp_path / "a.wav", noise(0.5))
    output = spoken_words(bundle.transcribe([file], language="en")[0].text)
    scores = TRANSCRIPTION.evaluate(bundle, [SpokenText(file, "the fox waits", "en", "x")])
    errors = max(len(output), 3)  # no word of noise is right
    assert scores.counts["errors"] == errors and scores["wer"] == pytest.approx(errors / 3)
    assert spoken_words('"Hello," she said — twice.') == ["hello", "she", "said", "twice"]


def test_recordings_that_cannot_be_learned_are_refused(bundle, tmp_path):
    long = write_wav(tmp_path / "long.wav", noise(1.2))
    short = write_wav(tmp_path / "short.wav", noise(0.2))
    for one, message in (
        (SpokenText(long, "a", "en", "x"), "lasts 1.2 seconds"),
        (SpokenText(short, "a" * 60, "en", "x"), "tokens, but the model has 40"),
    ):
        with pytest.raises(DataError, match=message):
            speech_batch([one], [0], bundle)
    with pytest.raises(UsageError, match="language of the recordings is missing"):
        check_language(bundle, None)
    table = tmp_path / "t.tsv"
    table.write_text("sound\ttext\nnone.wav\ta\n")
    with pytest.raises(DataError, match=r"none\.wav"):
        list(read_spoken([table], SpeechDataConfig()))


def test_a_transcript_is_a_line_and_its_segments_are_lines_with_times(bundle, tmp_path):
    file = write_wav(tmp_path / "a.wav", noise(2.5))
    (found,) = bundle.predict([RecordingInput(sound=file)])

    def lines(**options):
        shown = prediction_lines(bundle, found, TranscriptOptions(**options))
        return ["".join(part for part, _ in line) for line in shown]

    (line,) = lines()
    name, language, text = line.split("\t")
    assert name == str(file) and text == found.text
    assert language == f"{found.language} {found.language_probability:.2f}"
    first, *rest = lines(timestamps=True)
    assert first == f"{name}\t{language}" and len(rest) == len(found.segments)
    assert rest[0].split("\t")[0] == f"{clock(found.segments[0].start)} --> " + clock(
        found.segments[0].end
    )
    assert lines(format="vtt")[0] == "WEBVTT" and lines(format="srt")[0] == "1"


def test_the_command_transcribes_a_folder_and_refuses_what_is_no_speech(tmp_path):
    write_folder(tmp_path / "whisper")
    (tmp_path / "talks").mkdir()
    for number in range(2):
        write_wav(tmp_path / "talks" / f"{number}.wav", noise(0.6, number), rate=8_000)
    write_wav(tmp_path / "silent.wav", torch.zeros(8000))
    (tmp_path / "no.wav").write_bytes(b"nothing")
    shown = command("transcribe", "whisper", "talks", "--json", cwd=tmp_path).stdout.splitlines()
    records = [json.loads(line) for line in shown]
    assert [record["line"] for record in records] == [1, 2]
    assert {"file", "language", "language_probability", "text", "segments"} <= records[0].keys()
    for name, message in (("silent.wav", "silent"), ("no.wav", "WAV file"), ("x.wav", "no such")):
        refused = command("transcribe", "whisper", name, cwd=tmp_path, check=None)
        assert refused.returncode in (2, 3) and message in refused.stderr
    found = command("doctor", "whisper", cwd=tmp_path).stdout
    for text in ("usable           yes", "whisper", "8 mel bands", "3 languages", "translation"):
        assert text in found
    headway_bundle = headway.load(tmp_path / "whisper", "cpu")
    assert headway_bundle.languages == ("en", "fr", "de") and headway_bundle.window == 100
