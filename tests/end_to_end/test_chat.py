"""`headway data check` shows which tokens of a conversation are learned, and a chat model answers
in its own template, here and in Hugging Face's library."""

import json
import warnings
from dataclasses import replace

import pytest
import transformers

from headway.bundle import TextBundle
from headway.interop import ChatTemplate
from headway.models import GPT
from headway.tasks.dialogue_store import with_vocabulary
from headway.tasks.language_modeling.task import to_hugging_face
from headway.tasks.opening import load_as
from headway.tasks.target_mask import TEMPLATE, OwnRenderer, with_role_tokens
from tests.fixtures.command_line import headway
from tests.fixtures.dialogues import TALKS, language_model, rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with conversations, a language model `gpt` and a chat model `chat`."""
    path = tmp_path_factory.mktemp("chat")
    (path / "chat.jsonl").write_text(rows(TALKS), encoding="utf-8")
    start = language_model()
    start.save(path / "gpt")
    tokenizer = with_role_tokens(start.tokenizer)
    settings = replace(start.settings, template=ChatTemplate(by_name={"default": TEMPLATE}))
    model = with_vocabulary(start.model, tokenizer.size)
    TextBundle(model, tokenizer, settings).save(path / "chat")
    return path


def test_the_learned_tokens_of_the_first_conversation_are_in_brackets(folder):
    plain = headway("data", "check", "chat.jsonl", cwd=folder).stdout
    assert "5 conversations" in plain and "headway train chat" in plain
    assert "user: the old baker?\nassistant: [the old baker]" in plain
    for model in ("gpt", "chat"):
        marked = headway("data", "check", "chat.jsonl", "--model", model, cwd=folder).stdout
        line = marked.splitlines()[-1]
        assert line.startswith("</s><|user|>the old baker?<|assistant|>[")
        assert line.endswith("[</s>]") and line.count("<|assistant|>[") == 1
        assert line.replace("][", "").endswith("<|assistant|>[the old baker</s>]")


def test_the_example_is_in_the_json_report(folder):
    command = ("data", "check", "chat.jsonl", "--model", "chat", "--json")
    report = json.loads(headway(*command, cwd=folder).stdout)
    learned = [token for token, is_target in report["example"] if is_target]
    assert "".join(learned) == "the old baker</s>" and report["kind"] == "conversations"


def test_a_file_without_answers_shows_how_many_conversations_have_none(folder):
    (folder / "silent.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "a dog"}]}\n' + rows(TALKS), encoding="utf-8"
    )
    report = headway("data", "check", "silent.jsonl", cwd=folder).stdout
    assert "with an answer 5, without an answer 1" in report


def test_a_chat_model_answers_in_its_own_template(folder):
    options = ("--temperature", "0", "--max-tokens", "5")
    done = headway("chat", "chat", *options, cwd=folder, text="the old\nbaker\n")
    assert len(done.stdout.splitlines()) >= 2
    assert "chat template of the model" in done.stderr


def test_hugging_faces_library_renders_the_exported_template_with_the_same_targets(
    folder, tmp_path
):
    chat = load_as(TextBundle, folder / "chat")
    exportable = GPT(replace(chat.config, positions="learned")).eval()
    bundle = TextBundle(exportable, chat.tokenizer, chat.settings)
    to_hugging_face(bundle, tmp_path / "hf", None)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    renderer = OwnRenderer(bundle.tokenizer)
    for talk in TALKS:
        messages = [{"role": turn.role, "content": turn.content} for turn in talk.turns]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rendered = theirs.apply_chat_template(
                messages, return_dict=True, return_assistant_tokens_mask=True
            )
        ours = renderer.render(talk)
        assert rendered["input_ids"] == ours.tokens
        assert [bool(token) for token in rendered["assistant_masks"]] == ours.is_target
