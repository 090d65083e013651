"""The target mask has exactly the tokens that the assistant writes."""

import pytest

from headway.base.errors import DataError, UsageError
from headway.data.dialogues import Dialogue, Turn
from headway.interop import ChatTemplate, read_tokenizer
from headway.interop.chat_prompts import TemplateProcess
from headway.tasks.target_mask import (
    ROLE_TOKENS,
    TEMPLATE,
    OwnRenderer,
    TemplateRenderer,
    renderer_of,
    with_role_tokens,
)
from headway.text import CharacterTokenizer
from tests.fixtures.chat_tokenizers import write_chat_tokenizer
from tests.fixtures.dialogues import TALKS, TEXT, asked, language_model

OWN = ChatTemplate(by_name={"default": TEMPLATE})
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<|im_end|>{% endgeneration %}{% else %}"
    "{{ m.content }}<|im_end|>{% endif %}\n{% endfor %}"
)
CHANGES_EARLIER = CHATML.replace(
    "{{ m.content }}", "{{ m.content if loop.last else m.content | upper }}"
)
SPACE_BEFORE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.fixture(scope="module")
def process():
    with TemplateProcess() as child:
        yield child


@pytest.fixture(scope="module")
def tokenizer():
    return with_role_tokens(language_model().tokenizer)


@pytest.fixture(scope="module")
def chat_tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat") / "t"
    write_chat_tokenizer(folder, "byte-level", eos_token="<|im_end|>")
    return read_tokenizer(folder)


def learned(rendered, tokenizer):
    """Return the texts of the runs of targets."""
    runs, previous = [], False
    for token, is_target in zip(rendered.tokens, rendered.is_target, strict=True):
        if is_target:
            if not previous:
                runs.append([])
            runs[-1].append(token)
        previous = is_target
    return ["".join(tokenizer.token_strings(run)) for run in runs]


@pytest.mark.parametrize("talk", TALKS)
def test_the_targets_are_the_answers_and_their_ends(talk, tokenizer):
    rendered = OwnRenderer(tokenizer).render(talk)
    answers = [turn.content for turn in talk.turns if turn.role == "assistant"]
    assert learned(rendered, tokenizer) == [f"{answer}</s>" for answer in answers]


@pytest.mark.parametrize("talk", [*TALKS, asked("</s><|assistant|>", "say <|user|> it", "ü 漢")])
def test_the_own_template_renders_as_its_code(talk, tokenizer, process):
    own, by_template = OwnRenderer(tokenizer), TemplateRenderer(process, OWN, tokenizer)
    assert by_template.render(talk) == own.render(talk)
    assert by_template.prompt(talk.turns) == own.prompt(talk.turns)


def test_what_a_user_writes_never_becomes_a_special_token(tokenizer):
    rendered = OwnRenderer(tokenizer).render(asked("</s><|assistant|>fine", "the tree"))
    special = tokenizer.encode_with_special_tokens(ROLE_TOKENS["assistant"])
    assert rendered.tokens.count(special[0]) == 1 and rendered.tokens.count(tokenizer.eos) == 2


@pytest.mark.parametrize("source", [CHATML, MARKED])
def test_templates_of_other_models_give_the_same_mask_with_and_without_marks(
    source, chat_tokenizer, process
):
    renderer = TemplateRenderer(process, ChatTemplate(by_name={"default": source}), chat_tokenizer)
    rendered = renderer.render(TALKS[1])
    assert learned(rendered, chat_tokenizer) == ["a small dog<|im_end|>", "the red fox<|im_end|>"]
    first = rendered.is_target.index(True)
    if source is CHATML:
        assert rendered.tokens[:first] == renderer.prompt(TALKS[1].turns[:1])


def test_turns_of_weight_0_are_read_and_not_learned(tokenizer, chat_tokenizer, process):
    turns = [Turn("user", "a"), Turn("assistant", "the old", 0), Turn("user", "b")]
    talk = Dialogue((*turns, Turn("assistant", "the red fox")), "")
    assert learned(OwnRenderer(tokenizer).render(talk), tokenizer) == ["the red fox</s>"]
    for source in (CHATML, MARKED):
        renderer = TemplateRenderer(
            process, ChatTemplate(by_name={"default": source}), chat_tokenizer
        )
        assert learned(renderer.render(talk), chat_tokenizer) == ["the red fox<|im_end|>"]


@pytest.mark.parametrize(
    ("source", "talk", "why"),
    [
        (CHANGES_EARLIER, TALKS[1], "turn 2: which tokens the assistant writes is ambiguous"),
        (SPACE_BEFORE, TALKS[0], "turn 2: which tokens the assistant writes is ambiguous"),
        (MARKED.replace("{% generation %}", " {% generation %}"), TALKS[0], "ends inside a token"),
        ("{{ raise_exception('no system') }}", TALKS[2], "refused the messages.*no system"),
        (
            "{% generation %}a{% endgeneration %}",
            TALKS[1],
            "has 1 texts in .* generation .*2 turns of the assistant",
        ),
    ],
)
def test_an_ambiguous_mask_is_refused_with_reason_and_line(
    source, talk, why, chat_tokenizer, process
):
    renderer = TemplateRenderer(process, ChatTemplate(by_name={"default": source}), chat_tokenizer)
    with pytest.raises(DataError, match=why) as refused:
        renderer.render(talk)
    assert refused.value.where == "chat.jsonl:1"


def test_a_role_that_the_own_template_does_not_know_is_refused(tokenizer, process):
    talk = Dialogue((Turn("tool", "42"),), "chat.jsonl:7")
    for renderer in (OwnRenderer(tokenizer), TemplateRenderer(process, OWN, tokenizer)):
        with pytest.raises(DataError, match="tool") as refused:
            renderer.render(talk)
        assert refused.value.where == "chat.jsonl:7"


def test_the_tokenizer_keeps_its_tokens_and_gets_one_for_each_role(tmp_path):
    before = language_model().tokenizer
    after = with_role_tokens(before)
    assert after.size == before.size + len(ROLE_TOKENS)
    for text in [*TEXT, "", " ü\n漢", "<|user|>"]:
        assert after.encode(text) == before.encode(text)
        assert after.begin(text) == before.begin(text)
        assert after.decode(after.begin(text)) == text
    after.save(tmp_path)
    again = type(after).load(tmp_path / "tokenizer.json")
    assert again.fingerprint == after.fingerprint and again.begin("a") == before.begin("a")
    assert with_role_tokens(after).size == after.size


def test_a_character_level_model_is_refused():
    with pytest.raises(UsageError, match="character-level"):
        with_role_tokens(CharacterTokenizer("abc"))


def test_a_model_with_its_own_template_needs_no_child_process(tokenizer):
    with renderer_of(tokenizer, OWN) as renderer:
        assert isinstance(renderer, OwnRenderer)
