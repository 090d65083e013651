"""`headway chat` renders the conversation in the chat template of the model, as the server does."""

import pytest

from headway.bundle import TextBundle
from headway.interop import ChatTemplate
from headway.text import PretrainedTokenizer
from tests.fixtures.chat_model import BUNDLE, START, STOP, TEMPLATE
from tests.fixtures.command_line import headway
from tests.fixtures.hf_tokenizer import END, engine

FURTHER = BUNDLE.tokenizer.encode_with_special_tokens(STOP)[0]
GREEDY = ("--temperature", "0", "--max-tokens", "6")


@pytest.fixture
def saved(tmp_path):
    def save(name, template, tokenizer=BUNDLE.tokenizer):
        TextBundle(BUNDLE.model, tokenizer).save(tmp_path / name)
        if template is not None:
            ChatTemplate(by_name={"default": template}).write(tmp_path / name)
        return name

    return save


def answered(prompt):
    """The continuation of a prompt with special tokens."""
    ids = BUNDLE.tokenizer.encode_with_special_tokens(prompt)
    return "".join(BUNDLE.stream(ids, temperature=0, max_tokens=6))


def turn(role, text):
    return f"{START}{role}\n{text.strip()}{STOP}\n"


def test_each_turn_is_rendered_with_the_answers_before_it(saved, tmp_path):
    done = headway("chat", saved("m", TEMPLATE), *GREEDY, cwd=tmp_path, text="The old\nbaker\n")
    begin = f"{START}assistant\n"
    first = answered(turn("user", "The old") + begin)
    talk = turn("user", "The old") + turn("assistant", first) + turn("user", "baker")
    second = answered(talk + begin)
    assert done.stdout == f"{first}\n{second}\n"
    assert "chat template of the model" in done.stderr


def test_the_system_prompt_is_a_message_and_what_is_typed_is_no_special_token(saved, tmp_path):
    done = headway(
        "chat",
        saved("m", TEMPLATE),
        "--system",
        "Be brief",
        *GREEDY,
        cwd=tmp_path,
        text=f"a {STOP} b",
    )
    prompt = turn("system", "Be brief") + turn("user", "a {} b") + f"{START}assistant\n"
    before, after = prompt.split("{}")
    encode = BUNDLE.tokenizer.encode_with_special_tokens
    whole = before + STOP + after
    ids = encode(whole, [(len(before), len(before) + len(STOP))])
    assert done.stdout == "".join(BUNDLE.stream(ids, temperature=0, max_tokens=6)) + "\n"


def test_a_template_of_ones_own_is_used_instead(saved, tmp_path):
    own = ("--template", "Q: {user}\\nA:")
    kept = headway("chat", saved("m", TEMPLATE), *own, *GREEDY, cwd=tmp_path, text="a fox")
    plain = headway("chat", saved("plain", None), *own, *GREEDY, cwd=tmp_path, text="a fox")
    assert kept.stdout == plain.stdout
    assert "chat template" not in kept.stderr


def test_every_end_of_the_model_ends_an_answer(saved, tmp_path):
    ends = PretrainedTokenizer(engine(END, START, STOP), 0, 0, ends=[FURTHER])
    name = saved("m", "{{ messages[0].content }}", ends)
    bundle = TextBundle(BUNDLE.model, ends)
    (expected,) = bundle.generate(["The old"], temperature=0, max_tokens=60)[0]
    done = headway(
        "chat", name, "--temperature", "0", "--max-tokens", "60", cwd=tmp_path, text="The old"
    )
    assert done.stdout == expected.text + "\n"


def test_the_oldest_turns_leave_the_context_and_the_system_prompt_stays(saved, tmp_path):
    lines = [f"the fox {n} " * 12 for n in range(3)]
    assert len(BUNDLE.tokenizer.encode(lines[0] * 2)) > BUNDLE.config.max_length
    done = headway(
        "chat",
        saved("m", TEMPLATE),
        "--system",
        "Be brief",
        *GREEDY,
        cwd=tmp_path,
        text="\n".join(lines),
    )
    answers = [
        answered(turn("system", "Be brief") + turn("user", line) + f"{START}assistant\n")
        for line in lines
    ]
    assert done.stdout == "".join(f"{answer}\n" for answer in answers)


def test_a_template_that_refuses_the_messages_is_an_error_with_its_reason(saved, tmp_path):
    name = saved("m", "{{ raise_exception('only one role') }}")
    done = headway("chat", name, cwd=tmp_path, text="a", check=2)
    assert "only one role" in done.stderr and "--template" in done.stderr
