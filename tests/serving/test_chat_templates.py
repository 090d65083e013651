"""Prompts of chat templates are those of transformers."""

import asyncio
import json

import pytest

from headway.base.errors import DataError, UsageError
from headway.interop import ChatTemplate, read_chat_template, read_tokenizer
from headway.interop.chat_prompts import Conversation
from headway.serving.http.chat_templates import Templates
from headway.serving.http.replies import ApiError
from tests.fixtures.chat_tokenizers import UNIGRAM, Pairs, write_chat_tokenizer
from tests.fixtures.coroutines import run

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Report the weather <today> & 'tomorrow' in Zürich",
        "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
    },
}
TALK = [
    {"role": "system", "content": "You paint trees.\n"},
    {"role": "user", "content": "  a small dog \n"},
    {"role": "assistant", "content": "the red fox", "reasoning": "why not?"},
    {"role": "user", "content": "the old baker?"},
]
CALLS = [
    {"role": "user", "content": "rain?", "name": None},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "function": {"name": "weather", "arguments": {"b": 1, "a": 2}}}
        ],
    },
    {"role": "tool", "content": '{"rain": true}', "tool_call_id": "c1"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "and"}, {"type": "text", "text": " now"}],
    },
]
PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
TEMPLATES = {
    "tools are none": "{% if tools is not none %}TOOLS{{ tools|length }}{% endif %}" + PLAIN,
    "documents are none": "{{ documents is none }} {{ documents is defined }}" + PLAIN,
    "tokens": "[{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ unk_token }}]" + PLAIN,
    "a token is tested": "{{ pad_token is defined }}{{ bos_token is defined }}" + PLAIN,
    "compact JSON": "{{ messages | tojson(separators=(',', ':')) }}",
    "sorted JSON": "{{ messages | tojson(sort_keys=true, indent=2) }}",
    "ASCII JSON": "{% for t in tools or [] %}{{ t | tojson(ensure_ascii=True) }}{% endfor %}",
    "JSON of tools": "{% for t in tools or [] %}{{ t | tojson(indent=4) }}\n{% endfor %}" + PLAIN,
    "positional JSON": "{{ messages | tojson(false, 1) }}",
    "generation": "{% for m in messages %}<|im_start|>{{ m.role }}\n{% generation %}"
    "{{ m.content }}{% set x = 3 %}{% endgeneration %}<|im_end|>\n{% endfor %}{{ x }}",
    "generation with minus": "{% for m in messages -%}\n {%- generation -%} {{ m.role }} "
    "{%- endgeneration -%} {% endfor %}",
    "loop controls": "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}"
    "{{ m.role }}{% if loop.index > 2 %}{% break %}{% endif %}{% endfor %}",
    "namespace": "{% set ns = namespace(last=-1, n=dict(a=1)) %}{% for m in messages %}"
    "{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{{ ns.last }}",
    "reversed": "{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }}{% endfor %}",
    "blocks": "  {% if true %}\n    a\n  {% endif %}\n\n{% for m in messages %}\n  {{ m.role }}\n"
    "  {%- if not loop.last %}, {% endif %}\n{% endfor %}\n",
    "generation prompt": "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% endif %}",
    "instructions": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] "
    "{{ m.content }} [/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}",
    "trimmed": "{% for m in messages %}{{ '<s>' + m['role'] + '\n' + m.content | trim + '</s>' }}"
    "{% endfor %}",
    "reasoning": "{% for m in messages %}{% if m.thinking %}<think>{{ m.reasoning_content }}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}",
    "reasoning twice": "{% for m in messages %}{% if m.reasoning_content %}<think>"
    "{{ m.reasoning_content }}</think>{{ m.thinking }}{% endif %}{{ m.content }}{% endfor %}",
    "calls": "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "{{ c.function.name }}({{ c.function.arguments | tojson }}){{ c.id }}{% endfor %}"
    "{% elif m.role == 'tool' %}{{ m.tool_call_id }}={{ m.content }}{% elif m.content is string %}"
    "{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}"
    "{% if m.name is defined or (not m.tool_calls and m.content is not defined) %}NULL{% endif %}"
    "{% endfor %}",
    "variables": "{{ enable_thinking }}{{ shade | default('none') }}{{ nothing is none }}" + PLAIN,
    "macro": "{% macro turn(m) %}<s>{{ m.role | upper }}</s>{% endmacro %}"
    "{% for m in messages %}{{ turn(m) }}{% endfor %}",
    "documents": "{% for d in documents or [] %}{{ d.title }}: {{ d.text }}\n{% endfor %}" + PLAIN,
    "line ends": "a\r\n{{ 'b' }}\r\n",
}
NAMES = {
    "bos_token": "<s>",
    "eos_token": {"__type": "AddedToken", "content": "</s>"},
    "unk_token": "<unk>",
}


@pytest.fixture(scope="module")
def prompts():
    """prompts(template, conversations, tokenizer) -> the tokens of conversations, or the errors."""
    templates = Templates()

    async def all_of_them(template, conversations, tokenizer):
        calls = (templates.tokens(template, talk, tokenizer) for talk in conversations)
        return await asyncio.gather(*calls, return_exceptions=True)

    yield lambda *arguments: run(all_of_them(*arguments))
    run(templates.close())


def theirs(reference, template, talk):
    """Return the tokens of transformers."""
    return reference.apply_chat_template(
        list(talk.messages),
        tools=talk.tools,
        documents=talk.documents,
        chat_template=template,
        add_generation_prompt=talk.add_generation_prompt,
        continue_final_message=talk.continued_field or False,
        return_dict=False,
        **talk.variables,
    )


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return Pairs(tmp_path_factory.mktemp("chat"), **NAMES)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_that_of_transformers(name, pairs, prompts):
    ours, reference = pairs.by_kind["byte-level"]
    template = ChatTemplate(by_name={"default": TEMPLATES[name]}, special_tokens=_texts(NAMES))
    talks = [
        Conversation(messages=TALK),
        Conversation(messages=TALK, add_generation_prompt=False, tools=[WEATHER]),
        Conversation(messages=TALK, documents=[{"title": "Zoo", "text": "a fox"}]),
        Conversation(messages=TALK, variables={"enable_thinking": False, "nothing": None}),
        Conversation(messages=TALK, variables={"bos_token": "hm", "shade": [1, {"a": 2}]}),
    ]
    if name in ("calls", "compact JSON", "sorted JSON"):
        talks += [Conversation(messages=CALLS, tools=[WEATHER, WEATHER])]
    expected = [theirs(reference, TEMPLATES[name], talk) or [ours.bos] for talk in talks]
    assert prompts(template, talks, ours) == expected


def _texts(names):
    return {name: t["content"] if isinstance(t, dict) else t for name, t in names.items()}


CONTINUED = [*TALK, {"role": "assistant", "content": "the old ", "thinking": " a dog"}]
PARTS = [*TALK, {"role": "assistant", "content": [{"type": "text", "text": "a lemon"}]}]


@pytest.mark.parametrize(
    ("name", "messages", "continued"),
    [
        ("generation prompt", CONTINUED, "content"),
        ("trimmed", CONTINUED, "content"),
        ("reasoning", CONTINUED, "reasoning_content"),
        ("reasoning", CONTINUED, "thinking"),
        ("calls", PARTS, "content"),
    ],
)
def test_the_last_message_is_continued_as_in_transformers(
    name, messages, continued, pairs, prompts
):
    ours, reference = pairs.by_kind["byte-level"]
    talk = Conversation(messages=messages, continued_field=continued, add_generation_prompt=False)
    template = ChatTemplate(by_name={"default": TEMPLATES[name]}, special_tokens=_texts(NAMES))
    (ids,) = prompts(template, [talk], ours)
    assert ids == theirs(reference, TEMPLATES[name], talk)
    assert ours.decode(ids).endswith(("the old ", "the old", " a dog", "a lemon"))


@pytest.mark.parametrize(
    ("source", "messages", "continued", "why"),
    [
        (PLAIN, CONTINUED, "reasoning_content", "does not use 'reasoning_content'"),
        (PLAIN, CALLS[:2], "content", "no text in 'content'"),
        ("{{ messages[0].content }}", CONTINUED, "content", "does not write its text unchanged"),
    ],
)
def test_a_message_that_cannot_be_continued_is_refused(
    source, messages, continued, why, pairs, prompts
):
    talk = Conversation(messages=messages, continued_field=continued)
    template = ChatTemplate(by_name={"default": source})
    (error,) = prompts(template, [talk], pairs.by_kind["byte-level"][0])
    assert isinstance(error, ApiError) and error.status == 400 and why in error.message


@pytest.mark.parametrize(
    "files",
    [
        {"bos_token": None, "eos_token": "</s>"},
        {"pad_token": "<|im_end|>", "mask_token": "[INST]"},
        {},
    ],
)
def test_a_template_gets_the_tokens_that_the_folder_names(files, tmp_path, prompts):
    reference = write_chat_tokenizer(tmp_path, "byte-level", **files)
    names = ["bos_token", "eos_token", "unk_token", "pad_token", "mask_token", "cls_token"]
    source = "".join(f"({{{{ {name} }}}} {{{{ {name} is defined }}}})" for name in names)
    (tmp_path / "chat_template.jinja").write_text(source)
    template = read_chat_template(tmp_path)
    assert template.special_tokens == reference.special_tokens_map
    bundle = read_tokenizer(write_config(tmp_path))
    (ids,) = prompts(template, [Conversation(messages=TALK)], bundle)
    assert ids == theirs(reference, source, Conversation(messages=TALK))


def write_config(folder):
    (folder / "config.json").write_text(json.dumps({"eos_token_id": 2}))
    return folder


@pytest.mark.parametrize(
    ("settings", "files"),
    [
        ({"chat_template": "one"}, {}),
        ({"chat_template": "one"}, {"chat_template.jinja": "two"}),
        ({"chat_template": "one"}, {"additional_chat_templates/tool_use.jinja": "with tools"}),
        (
            {},
            {
                "chat_template.jinja": "two",
                "additional_chat_templates/tool_use.jinja": "with tools",
                "additional_chat_templates/rag.jinja": "with texts",
            },
        ),
        (
            {
                "chat_template": [
                    {"name": "default", "template": "a"},
                    {"name": "rag", "template": "b"},
                ]
            },
            {},
        ),
        ({"chat_template": {"tool_use": "a", "default": "b"}}, {}),
    ],
)
def test_templates_are_selected_as_in_transformers(settings, files, tmp_path):
    (tmp_path / "additional_chat_templates").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    reference = write_chat_tokenizer(tmp_path, "byte-level", eos_token="</s>", **settings)
    template = read_chat_template(tmp_path)
    for tools in (None, [], [WEATHER]):
        for name in (None, "rag", "tool_use"):
            try:
                expected = reference.get_chat_template(name, tools)
            except ValueError:
                expected = None
            if expected == name is not None:  # transformers takes it for a template
                expected = None
            assert _selected(template, name, tools) == expected


def _selected(template, name, tools):
    try:
        return template.selected(name, has_tools=tools is not None)
    except UsageError as error:
        assert "templates: " in error.what
        return None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (3, "'default' must be a text"),
        ([{"template": "a"}], r"chat_template\[0\] must be an object with name and template"),
        (["a"], r"chat_template\[0\] must be an object"),
        ([{"name": "default"}], "'default' must be a text"),
        ({"default": None}, "'default' must be a text"),
    ],
)
def test_damaged_templates_are_refused_with_their_file(value, why, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": value}))
    with pytest.raises(DataError, match=why) as refused:
        read_chat_template(tmp_path)
    assert refused.value.where.endswith("tokenizer_config.json")
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        read_chat_template(tmp_path)


@pytest.mark.parametrize("kind", UNIGRAM)
def test_no_space_is_added_where_a_user_spells_a_special_token(kind, pairs, prompts):
    ours, reference = pairs.by_kind[kind]
    template = ChatTemplate(
        by_name={"default": TEMPLATES["instructions"]}, special_tokens=_texts(NAMES)
    )
    talk = Conversation(messages=[{"role": "user", "content": "a</s>b"}])
    (ids,) = prompts(template, [talk], ours)
    # other letters in its place are encoded in the same way, but for themselves
    usual = reference("<s>[INST] a\ue000b [/INST]", add_special_tokens=False).input_ids
    unknown, spelled = usual.index(0), [reference.convert_tokens_to_ids(c) for c in "</s>"]
    assert ids == [*usual[:unknown], *spelled, *usual[unknown + 1 :]]


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages | tojson(ensure_ascii=true) }}",
        "{{ messages[0].content.split('</s>') | join('|') }}",
        "{{ messages[0].content[:4] }}</s>{{ messages[0].content[4:] }}",
        "{{ messages[0].content | upper }}{{ messages[0].content | replace('</s>', '') }}",
        "{% for name, value in messages[0].items() %}{{ name }}{{ value }}{% endfor %}",
        "{{ tools | tojson }}{{ documents }}{{ shade }}",
    ],
)
def test_no_filter_makes_a_special_token_of_what_a_user_wrote(source, pairs, prompts):
    ours, _ = pairs.by_kind["byte-level"]
    text = "a </s>b<s> \ue000\ue001 \\ue000"
    talk = Conversation(
        messages=[{"role": text, "content": text}],
        tools=[{"name": text}],
        documents=[{"text": text}],
        variables={"shade": [text]},
    )
    (ids,) = prompts(ChatTemplate(by_name={"default": source}), [talk], ours)
    allowed = source.count("</s>{{")
    assert ids.count(2) == allowed and 1 not in ids
    decoded = ours._engine.decode(ids, skip_special_tokens=False)
    assert not any("\ue002" <= character <= "\uf8ff" for character in decoded)


def test_conversations_that_are_nested_too_deeply_are_refused(pairs, prompts):
    deep = []
    for _ in range(5000):
        deep = [deep]
    talk = Conversation(messages=TALK, tools=[{"a": deep}])
    (error,) = prompts(
        ChatTemplate(by_name={"default": PLAIN}), [talk], pairs.by_kind["byte-level"][0]
    )
    assert isinstance(error, ApiError) and "nested too deeply" in error.message
