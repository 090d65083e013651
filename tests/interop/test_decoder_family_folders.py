"""Folders of decoder families with a tokenizer and a chat template: explained, drawn, served."""

import json
import warnings

import pytest
import torch
import transformers

import headway as library
from headway.base.errors import HeadwayWarning
from headway.interop import read_chat_template
from headway.interop.explanation import explain
from headway.transforms import fast
from tests.fixtures.chat_tokenizers import write_chat_tokenizer
from tests.fixtures.command_line import headway
from tests.fixtures.decoder_families import FAMILIES
from tests.fixtures.model_server import running
from tests.fixtures.random_weights import with_noise

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TALKS = [
    [{"role": "user", "content": "the old baker paints"}],
    [
        {"role": "system", "content": "a lemon tree"},
        {"role": "user", "content": "Café, the <b>fox</b>"},
        {"role": "assistant", "content": "a small dog"},
        {"role": "user", "content": "the red fox"},
    ],
]
NEW = 8
LONGEST = {"max_position_embeddings": 512, "n_positions": 512, "max_seq_len": 512}


def folder_of(name, folder):
    """Write a model of a family, its tokenizer and its template; return model and tokenizer."""
    names = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    reader = write_chat_tokenizer(folder, "byte-level", **names)
    kind, settings = FAMILIES[name]
    settings = settings | {key: size for key, size in LONGEST.items() if key in settings}
    if "original_max_position_embeddings" in settings:  # longrope: the texts must not be longer
        rope = settings["rope_parameters"] | {"original_max_position_embeddings": 512}
        settings |= {"original_max_position_embeddings": 512, "rope_parameters": rope}
    settings |= {"vocab_size": len(reader), "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    torch.manual_seed(len(name))
    config = transformers.CONFIG_MAPPING[kind](**settings)
    model = with_noise(transformers.AutoModelForCausalLM.from_config(config))
    model.save_pretrained(folder)
    return model, reader


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_folder_is_explained_drawn_and_answers_in_a_chat_as_in_transformers(name, tmp_path):
    model, reader = folder_of(name, tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeadwayWarning)  # longrope: of texts that are too long
        bundle = library.load(tmp_path / "model", "cpu")
        described = explain(tmp_path / "model")
    assert described.family == FAMILIES[name][0]
    headway("inspect", "model", "the old baker", "--html", "page.html", cwd=tmp_path)
    assert (tmp_path / "page.html").stat().st_size > 10_000
    fast(bundle.model)
    template = read_chat_template(tmp_path / "model").by_name["default"]
    with running({"m": bundle}, templates={"m": template}) as client:
        for talk in TALKS:
            prompt = reader.apply_chat_template(talk, add_generation_prompt=True, return_dict=False)
            ids = torch.tensor([prompt])
            written = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=NEW,
                do_sample=False,
                pad_token_id=0,
            )[0, len(prompt) :].tolist()
            written = written[: written.index(2)] if 2 in written else written
            body = {"model": "m", "messages": talk, "max_tokens": NEW, "temperature": 0}
            answer = client.post("/v1/chat/completions", body).json
            assert answer["usage"]["prompt_tokens"] == len(prompt), json.dumps(answer)
            assert answer["choices"][0]["message"]["content"] == bundle.tokenizer.decode(written)
