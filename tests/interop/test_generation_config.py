"""generation_config.json decides how the model of a pretrained folder decodes."""

import json
import warnings

import pytest
import torch

import headway
from headway.base.errors import DataError, HeadwayWarning, UsageError
from headway.decoding import GenerationConfig
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.encoder_decoders import marian, theirs_of
from tests.fixtures.hf_gpt import PROMPT, STORY, Bytes
from tests.fixtures.language_model_tokenizers import put

transformers = pytest.importorskip("transformers")

TEXTS = ["the fox eats the lemon", "two dogs", "a small red tree sees the dog"]
BEAMS = {"num_beams": 4, "max_length": 24}
SEARCHES = [
    BEAMS,
    {**BEAMS, "length_penalty": 2.0, "early_stopping": True},
    {**BEAMS, "length_penalty": 0.3, "early_stopping": "never"},
    {**BEAMS, "no_repeat_ngram_size": 2, "min_length": 9},
    {**BEAMS, "repetition_penalty": 1.6, "renormalize_logits": True},
    {**BEAMS, "bad_words_ids": [[3], [5, 6]], "suppress_tokens": [9], "eos_token_id": [0, 7]},
    {**BEAMS, "begin_suppress_tokens": [4, 8], "forced_bos_token_id": 11},
    {"max_new_tokens": 7, "min_new_tokens": 3, "forced_eos_token_id": None},
]


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    model, folder = marian(tmp_path_factory.mktemp("marian"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    return folder


def set_generation(folder, values):
    """Write the decoding keys of a folder, beside the ids of its special tokens."""
    path = folder / "generation_config.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    ids = {key: value for key, value in kept.items() if key.endswith("_token_id")}
    ids = {"forced_eos_token_id": 0, **ids, "eos_token_id": 0}
    ids.pop("forced_bos_token_id", None)
    merged = {key: value for key, value in {**ids, **values}.items() if value is not None}
    path.write_text(json.dumps(merged))


@pytest.mark.turns(2)
@pytest.mark.parametrize("values", SEARCHES, ids=lambda values: "-".join(values))
def test_a_folder_translates_as_generate_with_its_own_settings(values, translator):
    set_generation(translator, values)
    theirs = transformers.MarianMTModel.from_pretrained(translator).eval()
    bundle = headway.load(translator)
    for text in TEXTS:
        source = bundle.tokenizer.source
        ids = torch.tensor([[*source.encode(text), source.eos]])
        output = theirs.generate(input_ids=ids, attention_mask=torch.ones_like(ids))[0, 1:].tolist()
        ends = [n for n, token in enumerate(output) if token in bundle.tokenizer.target.ends]
        ((best,),) = bundle.search([text])
        assert list(best.tokens) == (output[: ends[0]] if ends else output)


def test_options_of_a_user_replace_those_of_the_folder(translator, tmp_path):
    set_generation(translator, {**BEAMS, "length_penalty": 0.0})
    bundle = headway.load(translator)
    greedy = bundle.translate(TEXTS[:1], beam=1)[0]
    flags = ("--beam", "1", "--length-penalty", "1.0")
    said = run_headway("translate", str(translator), TEXTS[0], *flags, cwd=tmp_path).stdout
    assert said.strip("\n") == greedy
    said = run_headway("translate", str(translator), TEXTS[0], cwd=tmp_path).stdout
    assert said.strip("\n") == bundle.translate(TEXTS[:1])[0]
    assert "".join(bundle.stream(TEXTS[0])) == bundle.translate(TEXTS[:1])[0]


def test_settings_and_ends_survive_saving_and_export(translator, tmp_path):
    values = {**BEAMS, "no_repeat_ngram_size": 2, "eos_token_id": [0, 7]}
    set_generation(translator, values)
    bundle = headway.load(translator)
    bundle.save(tmp_path / "saved")
    saved = headway.load(tmp_path / "saved")
    assert saved.search(TEXTS) == bundle.search(TEXTS)
    run_headway("export", "saved", "--to", "hf", "-o", "out", cwd=tmp_path)
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert values.items() <= written.items()
    assert headway.load(tmp_path / "out").search(TEXTS) == bundle.search(TEXTS)


def test_without_decoding_keys_the_defaults_are_those_of_headway(translator):
    set_generation(translator, {})
    bundle = headway.load(translator)
    assert bundle.default_options.beam == 4
    assert bundle.default_options.normalisation == "transformers"


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt")
    torch.manual_seed(5)
    tokenizer = Bytes()
    shape = {"n_embd": 24, "n_layer": 2, "n_head": 2, "n_positions": 64}
    config = transformers.GPT2Config(
        vocab_size=tokenizer.size, bos_token_id=0, eos_token_id=1, **shape
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    tokenizer.save(folder)
    put(folder, tokenizer_config={"bos_token": "<s>", "eos_token": "</s>"})
    return folder


@pytest.mark.parametrize(
    "values",
    [
        {"num_beams": 3, "max_new_tokens": 12},
        {"num_beams": 3, "max_length": 40, "no_repeat_ngram_size": 2, "length_penalty": 0.0},
        {"max_new_tokens": 9, "repetition_penalty": 1.5, "suppress_tokens": [5, 6]},
        {"min_new_tokens": 5, "max_new_tokens": 9, "begin_suppress_tokens": [7], "min_length": 35},
        {"num_beams": 2, "max_new_tokens": 9, "eos_token_id": [1, 30, 40, 50, 60, 70]},
    ],
    ids=lambda values: "-".join(values),
)
def test_a_language_model_continues_as_generate_with_its_own_settings(values, language_model):
    put(language_model, generation_config={"bos_token_id": 0, "eos_token_id": 1, **values})
    theirs = transformers.GPT2LMHeadModel.from_pretrained(language_model).eval()
    bundle = headway.load(language_model)
    for text in STORY[:3]:
        ids = torch.tensor([bundle.tokenizer.begin(text)])
        mask = torch.ones_like(ids)
        output = theirs.generate(input_ids=ids, attention_mask=mask)[0, ids.shape[1] :].tolist()
        ends = [n for n, token in enumerate(output) if token in bundle.tokenizer.ends]
        ((best,),) = bundle.generate([text])
        assert list(best.tokens) == (output[: ends[0]] if ends else output)
        assert "".join(bundle.stream(text)) == best.text


def test_every_end_token_ends_an_output_and_none_before_the_minimum(language_model):
    put(language_model, config={**json.loads((language_model / "config.json").read_text())})
    put(language_model, generation_config={"eos_token_id": [1, 5]})
    bundle = headway.load(language_model)
    assert bundle.tokenizer.ends == (1, 5)
    fives = {"forbid_ids": tuple(str(i) for i in range(bundle.tokenizer.size) if i not in (5, 9))}
    ((best,),) = bundle.generate([PROMPT], temperature=1.0, max_tokens=40, **fives)
    assert best.reason == "end" and 5 not in best.tokens
    ((longer,),) = bundle.generate([PROMPT], temperature=1.0, max_tokens=40, min_tokens=30, **fives)
    assert len(longer.tokens) >= 30


def test_the_ends_of_generation_config_replace_those_of_config(language_model):
    contents = json.loads((language_model / "config.json").read_text())
    put(language_model, config={**contents, "eos_token_id": [1, 7]}, generation_config={})
    assert headway.load(language_model).tokenizer.ends == (1, 7)
    put(language_model, generation_config={"eos_token_id": [5, 6]})
    assert headway.load(language_model).tokenizer.ends == (1, 5, 6)
    put(language_model, config=contents)


def test_sampling_of_the_folder_is_the_default_and_max_tokens_replaces_max_length(language_model):
    sampling = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "max_length": 40}
    put(language_model, generation_config={"eos_token_id": 1, **sampling})
    bundle = headway.load(language_model)
    config = bundle.with_defaults({})
    assert (config.temperature, config.top_p, config.top_k, config.max_length) == (0.6, 0.9, 50, 40)
    assert bundle.with_defaults({"max_tokens": 5}).max_length is None
    assert bundle.with_defaults({"temperature": 0.0}).temperature == 0
    with pytest.raises(UsageError, match="max_length=40 leaves no room"):
        bundle.generate([PROMPT * 3])


def test_a_folder_that_decides_nothing_has_the_defaults_of_headway(language_model):
    put(language_model, generation_config={"eos_token_id": 1})
    config = headway.load(language_model).with_defaults({})
    assert config == GenerationConfig(normalisation="transformers")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epsilon_cutoff": 0.1}, "epsilon_cutoff=0.1 is ignored: .* differ from"),
        ({"exponential_decay_length_penalty": [3, 1.1]}, "exponential_decay_length_penalty="),
        ({"forced_eos_token_id": 1}, "forced_eos_token_id=1 is ignored"),
        ({"do_sample": True, "num_beams": 2}, "do_sample=True is ignored"),
        ({"unheard_of": 3}, "unheard_of=3 is ignored: Headway does not know"),
    ],
)
def test_a_key_that_cannot_be_honoured_is_named_in_a_warning(values, message, language_model):
    put(language_model, generation_config={"eos_token_id": 1, **values})
    with pytest.warns(HeadwayWarning, match=message):
        headway.load(language_model)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"guidance_scale": 2.0}, "guidance_scale=2.0: must be left out"),
        ({"force_words_ids": [[3]]}, "force_words_ids"),
        ({"num_beams": 0}, "num_beams=0: must be a whole number"),
        ({"length_penalty": -1.0}, "length_penalty=-1.0"),
        ({"bad_words_ids": [3]}, "bad_words_ids"),
        ({"suppress_tokens": ["a"]}, "suppress_tokens"),
        ({"early_stopping": "sometimes"}, "early_stopping"),
    ],
)
def test_values_that_cannot_be_are_refused_with_their_key(values, message, language_model):
    put(language_model, generation_config={"eos_token_id": 1, **values})
    with pytest.raises(DataError, match=message):
        headway.load(language_model)


def test_template_ends_and_settings_survive_fine_tuning_and_export(language_model, tmp_path):
    put(language_model, generation_config={"eos_token_id": [1, 5], "no_repeat_ngram_size": 3})
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    (language_model / "chat_template.jinja").write_text(template)
    (tmp_path / "story.txt").write_text("\n".join(STORY * 9))
    words = ("--run", "tuned", "--steps", "1", "--training.length", "16")
    run_headway("train", "gpt", "story.txt", "--from", str(language_model), *words, cwd=tmp_path)
    run_headway("export", "runs/tuned", "--to", "hf", "-o", "out", cwd=tmp_path)
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert written["eos_token_id"] == [1, 5] and written["no_repeat_ngram_size"] == 3
    assert (tmp_path / "out" / "chat_template.jinja").read_text() == template
    (language_model / "chat_template.jinja").unlink()


def test_old_folders_have_the_keys_in_config(tmp_path):
    model = theirs_of("Bart", vocab_size=97)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    contents = json.loads((tmp_path / "config.json").read_text())
    put(tmp_path, config={**contents, "num_beams": 3, "max_length": 12})
    generation = headway.interop.read_folder_settings(tmp_path, "translator").generation
    assert (generation.beams, generation.max_length, generation.forced_end) == (3, 12, (2,))
