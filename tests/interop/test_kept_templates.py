"""Chat templates and their special tokens survive saving and export; those of an adapter are its
base model's."""

import json

import pytest
from safetensors.torch import save_file

import headway
from headway import interop
from headway.base.errors import DataError, HeadwayWarning
from headway.bundle import TextBundle
from headway.interop import ChatTemplate, FolderSettings, read_chat_template
from headway.models import GPTConfig
from headway.tasks.opening import family_of, model_path, template_of
from tests.fixtures.hf_gpt import Bytes, random_gpt
from tests.fixtures.language_model_tokenizers import put

TEMPLATES = {"default": "{{ bos_token }}", "tool_use": "with tools", "rag": "with texts"}
LLAMA = {
    "norm": "pre",
    "norm_kind": "rms",
    "activation": "swiglu",
    "positions": "rotary",
    "bias": False,
}


@pytest.fixture
def folder(tmp_path):
    shape = {"model_dim": 12, "num_heads": 2, "ffn_dim": 20, "num_layers": 1, "max_length": 48}
    config = GPTConfig(vocabulary=300, **shape, **LLAMA)
    interop.write_text_model(random_gpt(config), Bytes(), tmp_path / "base", "llama")
    return tmp_path / "base"


@pytest.mark.parametrize("names", [{"eos_token": "</s>", "pad_token": "<s>"}, {}])
@pytest.mark.parametrize("by_name", [TEMPLATES, {"default": "a"}, {"tool_use": "b"}])
def test_templates_and_their_tokens_survive_saving_and_export(by_name, names, folder, tmp_path):
    listed = [{"name": name, "template": text} for name, text in by_name.items()]
    values = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": listed, **names}
    put(folder, tokenizer_config=values)
    expected = ChatTemplate(by_name=by_name, special_tokens=names)
    assert read_chat_template(folder) == expected
    bundle = headway.load(folder)
    bundle.save(tmp_path / "saved")
    saved = headway.load(tmp_path / "saved")
    settings = saved.settings
    interop.write_text_model(
        saved.model, saved.tokenizer, tmp_path / "again", "llama", settings=settings
    )
    for place in ("saved", "again"):
        assert template_of(tmp_path / place) == expected
        assert headway.load(tmp_path / place).settings.template == expected
    tokens = headway.load(tmp_path / "again").tokenizer
    assert (tokens.bos, tokens.eos) == (bundle.tokenizer.bos, bundle.tokenizer.eos)


def test_a_template_whose_folder_names_no_tokens_gets_those_of_the_tokenizer(folder, tmp_path):
    bundle = headway.load(folder)
    settings = FolderSettings(template=ChatTemplate(by_name=TEMPLATES))
    TextBundle(bundle.model, bundle.tokenizer, settings).save(tmp_path / "saved")
    assert template_of(tmp_path / "saved") == settings.template


@pytest.mark.parametrize("name", ["../outside", "a/b", ".hidden", "", "x" * 101])
def test_a_name_that_cannot_be_that_of_a_file_is_refused(name, folder):
    put(folder, tokenizer_config={"chat_template": {name: "text"}})
    with pytest.raises(DataError, match="must be a name of letters") as refused:
        read_chat_template(folder)
    assert refused.value.where.endswith("tokenizer_config.json")


def test_the_template_and_the_family_of_an_adapter_are_those_of_its_base_model(folder, tmp_path):
    (folder / "chat_template.jinja").write_text("base")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    values = {"peft_type": "LORA", "r": 2, "base_model_name_or_path": str(folder)}
    (adapter / "adapter_config.json").write_text(json.dumps(values))
    save_file({}, adapter / "adapter_model.safetensors")
    (adapter / "chat_template.jinja").write_text("adapter")
    assert model_path(adapter) == folder
    assert template_of(adapter).default == "base"
    with pytest.warns(HeadwayWarning, match=r"chat_template.jinja is ignored"):
        assert family_of(adapter) == "gpt"
