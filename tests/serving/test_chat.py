"""Chat: templates in a child process, and JSON of a given form."""

import json
import resource

import pytest

from headway.base.errors import DataError
from headway.interop import ChatTemplate, read_chat_template
from headway.serving.http.chat_templates import Conversation, Templates
from headway.serving.http.replies import ApiError
from tests.fixtures.chat_model import BUNDLE, HELLO, START, STOP, TEMPLATE
from tests.fixtures.coroutines import run
from tests.fixtures.hf_tokenizer import END
from tests.fixtures.model_server import language_model, running


@pytest.fixture(scope="module")
def client():
    models = {"chat": BUNDLE, "plain": language_model()}
    with running(models, templates={"chat": TEMPLATE}) as client:
        yield client


@pytest.fixture(scope="module")
def tokens_of():
    """tokens_of(template, messages) -> the tokens of the prompt, by one child process for all."""
    templates = Templates()

    def answer(template, messages):
        conversation = Conversation(messages=[{"role": r, "content": c} for r, c in messages])
        made = ChatTemplate(by_name={"default": template})
        return run(templates.tokens(made, conversation, BUNDLE.tokenizer))

    yield answer
    run(templates.close())


def id_of(text):
    (token,) = BUNDLE.tokenizer.encode_with_special_tokens(text)
    return token


def test_a_template_makes_the_prompt(tokens_of):
    ids = tokens_of(TEMPLATE, [("user", " The old baker "), ("assistant", "waves")])
    encode = BUNDLE.tokenizer.encode_with_special_tokens
    text = f"{START}user\nThe old baker{STOP}\n{START}assistant\nwaves{STOP}\n{START}assistant\n"
    assert ids == encode(text) and ids.count(id_of(START)) == 3


@pytest.mark.parametrize("word", [START, STOP, END, "\ue0000\ue001", "\ue000", START * 3])
def test_what_a_user_wrote_never_becomes_a_special_token(word, tokens_of):
    ids = tokens_of(TEMPLATE, [("user", f"a {word} b")])
    usual = tokens_of(TEMPLATE, [("user", "a b")])
    for special in (START, STOP, END):
        assert ids.count(id_of(special)) == usual.count(id_of(special))
    assert word in BUNDLE.tokenizer._engine.decode(ids, skip_special_tokens=False)


HOSTILE = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.__class__.__base__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__['os'].system('id') }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ messages.append(1) }}",
    "{{ (messages|map(attribute='__class__')|list)[0].__mro__ }}",
    "{{ 'a' * 10**9 }}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(99999) %}{{ 'aaaaaaaaaaaaaaaaaaaa' }}{% endfor %}",
    "{% set x = namespace(v='a') %}{% for i in range(60) %}{% set x.v = x.v + x.v %}{% endfor %}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}{{ os.getcwd() }}",
    "{% extends 'x' %}",
    "{{ '%1000000000d' % 3 }}",
    "{{ '{:>1000000000}'.format(3) }}",
    "{{ raise_exception('no') }}",
    "{{ unclosed",
    "{% if %}",
    "{{ undefined_name.field }}",
    "{{ messages[99].content.x }}",
]


ENDLESS = HOSTILE[10]


@pytest.mark.parametrize("template", [one for one in HOSTILE if one != ENDLESS])
def test_a_hostile_template_is_refused_in_time(template, tokens_of):
    with pytest.raises(ApiError) as refused:
        tokens_of(template, [("user", "a")])
    assert refused.value.status == 400
    assert "uid=" not in refused.value.message and "root:" not in refused.value.message


HIDDEN = ["{{ ''|attr('__class__') }}", "{{ strftime_now.__globals__ }}"]


@pytest.mark.parametrize("template", HIDDEN)
def test_what_the_sandbox_hides_is_undefined(template, tokens_of):
    assert tokens_of(template, [("user", "a")]) == [BUNDLE.tokenizer.bos]


def test_the_child_serves_again_after_a_template_that_took_too_long(tokens_of):
    usual = tokens_of(TEMPLATE, [("user", "a")])

    def spent() -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return ended.ru_utime + ended.ru_stime

    before = spent()
    with pytest.raises(ApiError, match="too much time") as refused:
        tokens_of(ENDLESS, [("user", "a")])
    assert refused.value.status == 400
    assert spent() - before < 6, "a template has 2 seconds of CPU time, besides a start"
    assert tokens_of(TEMPLATE, [("user", "a")]) == usual


def test_a_template_is_read_from_a_folder(tmp_path):
    assert read_chat_template(tmp_path) is None
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": TEMPLATE}))
    assert read_chat_template(tmp_path).default == TEMPLATE
    several = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": TEMPLATE}]
    config.write_text(json.dumps({"chat_template": several}))
    assert read_chat_template(tmp_path).by_name == {"tool_use": "x", "default": TEMPLATE}
    config.write_text(json.dumps({"chat_template": 3}))
    with pytest.raises(DataError, match="128 KiB"):
        read_chat_template(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}")
    assert read_chat_template(tmp_path).by_name == {"default": "{{ bos_token }}"}


def test_a_turn_is_the_continuation_of_the_prompt(client, tokens_of):
    fields = {"model": "chat", "messages": HELLO, "temperature": 0, "max_tokens": 9}
    reply = client.post("/v1/chat/completions", fields).json
    ids = tokens_of(TEMPLATE, [("user", "The old baker")])
    plain = client.complete(model="chat", prompt=ids, temperature=0, max_tokens=9)
    (choice,) = reply["choices"]
    assert choice["message"] == {"role": "assistant", "content": plain["choices"][0]["text"]}
    assert reply["object"] == "chat.completion" and reply["usage"] == plain["usage"]
    streamed = client.post("/v1/chat/completions", {**fields, "stream": True, "logprobs": True})
    parts = [event["choices"][0] for event in streamed.events]
    assert parts[0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(part["delta"].get("content", "") for part in parts)
    assert text == choice["message"]["content"]
    assert parts[-1]["finish_reason"] == choice["finish_reason"]
    scored = [item for part in parts if part["logprobs"] for item in part["logprobs"]["content"]]
    assert len(scored) == reply["usage"]["completion_tokens"]
    assert all(item["logprob"] <= 0 for item in scored)


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"model": "plain"}, "no chat template"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "reads only"),
        ({"tools": [{}]}, "tools"),
        ({"top_logprobs": 3}, "needs logprobs"),
        ({"messages": [{"role": "user", "content": "The old " * 900}]}, "maximum"),
    ],
)
def test_wrong_chats_are_refused(client, fields, words):
    reply = client.post("/v1/chat/completions", {"model": "chat", "messages": HELLO, **fields})
    assert reply.status == 400 and words in reply.body.decode(), reply.body


TOOLS = (
    "{% for m in messages %}<|start|>{{ m.role }}{{ ' ' + m.name if m.name }}\n"
    "{% for call in m.tool_calls or [] %}CALL {{ call.function.name }} {{ call.id }} "
    "{{ call.function.arguments | tojson }}{% endfor %}"
    "{% if m.tool_call_id %}{{ m.tool_call_id }}: {% endif %}{{ m.content or '' }}<|stop|>\n"
    "{% endfor %}{% for d in documents or [] %}DOCUMENT {{ d.text }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    "{% if thinks is defined and not thinks %}NO{% endif %}"
)
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 3}'}}
CALLED = [
    {"role": "user", "content": "The fox", "name": "ann"},
    {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None},
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "red"}]},
]


@pytest.fixture(scope="module")
def tools():
    with running({"chat": BUNDLE}, templates={"chat": TOOLS}) as client:
        yield client


def asked(client, **fields):
    """The reply to a chat, and what the rendered text would be if it was the prompt."""
    body = {"messages": CALLED, "temperature": 0, "max_tokens": 4, **fields}
    reply = client.post("/v1/chat/completions", body)
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"], reply.json["usage"]["prompt_tokens"]


def completed(client, text):
    ids = BUNDLE.tokenizer.encode_with_special_tokens(text)
    reply = client.complete(prompt=ids, temperature=0, max_tokens=4)
    return reply["choices"][0]["text"], len(ids)


TURNS = (
    f"{START}user ann\nThe fox{STOP}\n{START}assistant\n"
    f'CALL look c1 {{"at": 3}}{STOP}\n{START}tool\nc1: red{STOP}\n'
)
BEGIN = f"{START}assistant\n"


@pytest.mark.parametrize(
    "fields, prompt",
    [
        ({}, TURNS + BEGIN),
        ({"add_generation_prompt": False}, TURNS),
        ({"chat_template_kwargs": {"thinks": False}}, TURNS + BEGIN + "NO"),
        ({"chat_template_kwargs": {"thinks": True}}, TURNS + BEGIN),
        ({"documents": [{"text": "the fox"}]}, TURNS + "DOCUMENT the fox\n" + BEGIN),
        ({"continue_final_message": True}, TURNS.removesuffix(f"{STOP}\n")),
        ({"truncate_prompt_tokens": 3, "continue_final_message": True}, None),
    ],
)
def test_what_a_request_says_reaches_the_template(tools, fields, prompt):
    if prompt is None:
        assert asked(tools, **fields)[1] == 3
    else:
        assert asked(tools, **fields) == completed(tools, prompt)


@pytest.mark.parametrize("arguments", ["", "{}", "no object", "[1]"])
def test_arguments_of_a_tool_call_are_an_object_if_they_can_be(tools, arguments):
    call = {**CALL, "function": {"name": "look", "arguments": arguments}}
    turns = [CALLED[0], {"role": "assistant", "tool_calls": [call]}, CALLED[2]]
    written = {"": "{}", "{}": "{}"}.get(arguments, json.dumps(arguments))
    prompt = TURNS.replace('{"at": 3}', written) + BEGIN
    assert asked(tools, messages=turns) == completed(tools, prompt)


@pytest.mark.parametrize(
    "fields, param",
    [
        ({"chat_template_kwargs": {"enable_thinking": False}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": {"bos_token": "x"}}, "chat_template_kwargs"),
        ({"chat_template_kwargs": 3}, "chat_template_kwargs"),
        ({"continue_final_message": True, "add_generation_prompt": True}, "continue_final_message"),
        ({"messages": [{"role": "user", "content": None}]}, "messages"),
        ({"messages": [{"role": "assistant", "content": None}]}, "messages"),
        ({"messages": [{"role": "user", "tool_calls": [CALL]}]}, "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": 3}]}, "messages"),
        ({"messages": [{"role": "assistant", "content": "a", "audio": {"id": "x"}}]}, "messages"),
        ({"messages": [{"content": "a"}]}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ],
)
def test_what_a_chat_cannot_have_is_named(tools, fields, param):
    reply = tools.post("/v1/chat/completions", {"messages": HELLO, **fields})
    assert reply.status == 400 and reply.json["error"]["param"] == param, reply.body


def test_documents_are_refused_if_the_template_does_not_use_them(client):
    fields = {"model": "chat", "messages": HELLO, "documents": [{"text": "a"}]}
    reply = client.post("/v1/chat/completions", fields)
    assert reply.status == 400 and reply.json["error"]["param"] == "documents"
    assert (
        client.post("/v1/chat/completions", {**fields, "documents": [], "max_tokens": 1}).status
        == 200
    )


def test_a_chat_without_a_limit_fills_the_context(client):
    fields = {"model": "chat", "messages": HELLO, "ignore_eos": True, "temperature": 0}
    for limit in ({}, {"max_tokens": -1}, {"max_completion_tokens": -1}):
        usage = client.post("/v1/chat/completions", {**fields, **limit}).json["usage"]
        assert usage["total_tokens"] == 200
