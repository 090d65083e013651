"""Whisper against transformers: spectrograms, logits, tokens, times, long recordings, export."""

import json

import pytest
import torch
from torch.testing import assert_close

import headway
from headway.base.errors import DataError, UsageError
from headway.data.speech import recording_spectrogram, speech_spectrogram
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.interop import build, read
from headway.models import Transcriber
from headway.transforms import is_quantized
from tests.fixtures.small_whisper import noise
from tests.fixtures.whisper import WINDOW, extractor, folder_of, transformers


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    model = folder_of(folder)
    return model, headway.load(folder, "cpu"), folder


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("count", [400, 481, 16_000, 31 * 16_000 + 77])
def test_the_spectrogram_is_that_of_the_published_processor(count, mels):
    samples = noise(40)[:count]
    theirs = transformers.WhisperFeatureExtractor(feature_size=mels)
    expected = theirs(
        samples.numpy(),
        sampling_rate=16_000,
        return_tensors="pt",
        truncation=False,
        padding="longest",
    ).input_features[0]
    assert_close(speech_spectrogram(samples, mels), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("count", [1, 5000, 480_000])
def test_a_short_recording_is_padded_with_silence_as_by_the_published_processor(count):
    samples = noise(30)[:count]
    theirs = transformers.WhisperFeatureExtractor()
    expected = theirs(samples.numpy(), sampling_rate=16_000, return_tensors="pt").input_features[0]
    ours, content = recording_spectrogram(samples, 80, 3000)
    assert_close(ours, expected, rtol=0, atol=1e-5)
    assert content == -(-count // 160)


def test_logits_and_gradients_are_those_of_transformers(pair):
    theirs, _, folder = pair
    ours = build(*read(folder))
    assert isinstance(ours, Transcriber)
    generator = torch.Generator().manual_seed(1)
    frames = torch.randn(2, 8, WINDOW, generator=generator)
    tokens = torch.randint(0, ours.config.vocabulary, (2, 9), generator=generator)
    theirs.zero_grad()
    expected = theirs(input_features=frames, decoder_input_ids=tokens).logits
    logits = ours(frames, tokens)
    assert_close(logits, expected, rtol=0, atol=1e-5)
    stepped, _ = ours.step(tokens, ours.start(frames))
    assert_close(stepped, expected, rtol=0, atol=1e-5)
    labels = torch.randint(0, ours.config.vocabulary, (2, 9), generator=generator)
    for output in (logits, expected):
        torch.nn.functional.cross_entropy(output.flatten(0, 1), labels.flatten()).backward()
    gradients = dict(theirs.named_parameters())
    for name, ours_name in (
        ("encoder.conv1.weight", "source_embedding.first.weight"),
        ("encoder.layers.1.self_attn.v_proj.bias", "encoder.blocks.1.attention.value.bias"),
        ("decoder.layers.2.encoder_attn.k_proj.weight", "decoder.blocks.2.cross.key.weight"),
        ("decoder.embed_tokens.weight", "target_embedding.tokens.weight"),
    ):
        gradient = ours.get_parameter(ours_name).grad
        assert_close(gradient, gradients[f"model.{name}"].grad, rtol=0, atol=1e-5)
    theirs.zero_grad()


def generated(model, samples, **options):
    """The tokens of `generate` of transformers, without those that are read first."""
    features = extractor()(
        samples.numpy(),
        sampling_rate=16_000,
        return_tensors="pt",
        truncation=False,
        padding="max_length" if len(samples) <= 2 * 16_000 else "longest",
    ).input_features
    return model.generate(features, num_segment_frames=WINDOW, **options)


def written(bundle, samples, prompt):
    """The tokens that are written for the first window."""
    frames = recording_spectrogram(samples, 8, WINDOW)[0][None]
    return list(bundle._written(frames[..., :WINDOW], prompt))


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize("translate", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_greedy_tokens_are_those_of_generate(pair, language, translate, seed):
    theirs, bundle, _ = pair
    samples = noise(1.9, seed)
    task = "translate" if translate else "transcribe"
    expected = generated(
        theirs, samples, language=language, task=task, force_unique_generate_call=True
    )[0].tolist()
    prompt = bundle.reader.tokens.prompt(language, translate=translate, timestamps=False)
    assert expected[: len(prompt)] == prompt
    ours = written(bundle, samples, prompt)
    end = bundle.reader.tokenizer.eos
    assert ours == [token for token in expected[len(prompt) :] if token != end]


@pytest.mark.turns(2)
@pytest.mark.parametrize("seconds", [2.0, 5.3, 9.0])
@pytest.mark.parametrize("seed", [3, 4])
def test_segments_with_times_are_those_of_generate(tmp_path, seconds, seed):
    theirs = folder_of(tmp_path, seed=seed)
    bundle = headway.load(tmp_path, "cpu")
    samples = noise(seconds, seed)
    expected = generated(
        theirs,
        samples,
        language="de",
        task="transcribe",
        return_timestamps=True,
        return_segments=True,
    )["segments"][0]
    (ours,) = bundle.transcribe([samples], language="de", timestamps=True)
    tokenizer = bundle.reader.tokenizer
    first_time = bundle.reader.tokens.first_time
    texts = [
        tokenizer.decode(t for t in part["tokens"].tolist() if t < first_time) for part in expected
    ]
    kept = [
        (round(float(part["start"]), 2), round(float(part["end"]), 2), text.strip())
        for part, text in zip(expected, texts, strict=True)
        if text.strip()
    ]
    assert [(round(s.start, 2), round(s.end, 2), s.text) for s in ours.segments] == kept


def test_the_language_is_detected_as_by_transformers(pair):
    theirs, bundle, _ = pair
    for seed in range(4):
        samples = noise(1.5, seed)
        spectrogram, _ = recording_spectrogram(samples, 8, WINDOW)
        language, probability = bundle.detect_language(spectrogram)
        token = theirs.detect_language(spectrogram[None], num_segment_frames=WINDOW)
        assert bundle.reader.tokens.languages[language] == token.item()
        assert 1 / 3 <= probability <= 1


def test_a_model_of_english_has_no_languages(tmp_path):
    theirs = folder_of(tmp_path, multilingual=False)
    bundle = headway.load(tmp_path, "cpu")
    samples = noise(1.2)
    (ours,) = bundle.transcribe([samples])
    prompt = bundle.reader.tokens.prompt(None, translate=False, timestamps=False)
    expected = generated(theirs, samples, force_unique_generate_call=True)[0].tolist()
    assert expected[:2] == prompt
    end = bundle.reader.tokenizer.eos
    assert written(bundle, samples, prompt) == [t for t in expected[2:] if t != end]
    assert ours.language is None and ours.language_probability is None
    for options in ({"language": "en"}, {"translate": True}):
        with pytest.raises(UsageError, match="one language"):
            bundle.transcribe([samples], **options)


def test_saved_and_exported_models_transcribe_the_same(pair, tmp_path):
    theirs, bundle, _ = pair
    samples = noise(3.0)
    expected = bundle.transcribe([samples], timestamps=True)
    bundle.save(tmp_path / "saved")
    saved = headway.load(tmp_path / "saved", "cpu")
    assert saved.transcribe([samples], timestamps=True) == expected
    exported = export(saved, tmp_path / "hf", HUGGING_FACE)
    assert exported.architecture == "WhisperForConditionalGeneration" and exported.tokens > 0
    assert len(exported.difference) == 2 and max(exported.difference.values()) < 1e-5
    again = headway.load(tmp_path / "hf", "cpu")
    assert again.transcribe([samples], timestamps=True) == expected
    assert again.reader.tokens == bundle.reader.tokens
    model = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path / "hf").eval()
    frames = torch.randn(1, 8, WINDOW)
    tokens = torch.randint(0, 200, (1, 5))
    with torch.no_grad():
        first, second = (
            one(input_features=frames, decoder_input_ids=tokens).logits for one in (model, theirs)
        )
    assert_close(first, second, rtol=0, atol=1e-6)


def test_a_quantised_model_has_nearly_the_same_logits(pair):
    _, bundle, folder = pair
    small = headway.load(folder, "cpu", dtype="int8")
    assert is_quantized(small.model)
    frames, tokens = torch.randn(1, 8, WINDOW), torch.arange(9)[None]
    with torch.inference_mode():
        ours, expected = (one.model(frames, tokens).flatten() for one in (small, bundle))
    assert torch.cosine_similarity(ours, expected, dim=0) > 0.95
    assert not torch.equal(ours, expected)


def test_folders_of_unsupported_models_are_refused(tmp_path):
    folder_of(tmp_path)
    path = tmp_path / "config.json"
    good = json.loads(path.read_text())
    for change, message in (
        ({"activation_function": "relu"}, "activation_function"),
        ({"decoder_attention_heads": 4}, "decoder_attention_heads"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"num_mel_bins": 9}, "conv1"),
        ({"max_source_positions": 10**12}, "max_source_positions"),
    ):
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(DataError, match=message):
            headway.load(tmp_path, "cpu")
    path.write_text(json.dumps(good))
    processor = tmp_path / "preprocessor_config.json"
    values = json.loads(processor.read_text())
    processor.write_text(json.dumps({**values, "hop_length": 200}))
    with pytest.raises(DataError, match="hop_length"):
        headway.load(tmp_path, "cpu")
    processor.unlink()
    generation = tmp_path / "generation_config.json"
    values = json.loads(generation.read_text())
    for change, message in (
        ({"lang_to_id": {"<|en|>": 10**6}}, "no token"),
        ({"lang_to_id": {"english": 5}}, "lang_to_id"),
        ({"no_timestamps_token_id": -1}, "no token"),
        ({"max_initial_timestamp_index": "x"}, "max_initial_timestamp_index"),
    ):
        generation.write_text(json.dumps({**values, **change}))
        with pytest.raises(DataError, match=message):
            headway.load(tmp_path, "cpu")
