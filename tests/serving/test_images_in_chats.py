"""Chats with images: data: URLs are read, everything else is refused by name."""

import base64
import io
import re

import pytest
from PIL import Image

from tests.fixtures.model_server import language_model, running
from tests.fixtures.multimodal import PATCHES, multimodal, picture

BUNDLE = multimodal()
TEMPLATE = BUNDLE.settings.template.default


@pytest.fixture(scope="module")
def client():
    models = {"seeing": BUNDLE, "plain": language_model()}
    with running(models, templates={"seeing": TEMPLATE, "plain": "{{ messages }}"}) as client:
        yield client


def url(pixels, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"


def asked(*urls, text="the old fox?", **fields):
    shown = [{"type": "image_url", "image_url": {"url": address}} for address in urls]
    content = [*shown, {"type": "text", "text": text}]
    messages = [{"role": "user", "content": content}]
    return {"model": "seeing", "messages": messages, "temperature": 0, "max_tokens": 8, **fields}


def text_of(reply):
    assert reply.status == 200, reply.body
    return reply.json["choices"][0]["message"]["content"].strip()


def test_an_answer_is_that_of_the_model_for_the_images(client):
    one, two = picture(), picture(2)
    for shown in ([one], [two], [one, two]):
        reply = client.post("/v1/chat/completions", asked(*map(url, shown)))
        assert text_of(reply) == BUNDLE.answer("the old fox?", shown, max_tokens=8)
        usage = reply.json["usage"]
        assert usage["prompt_tokens"] > len(shown) * PATCHES
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0


def test_equal_texts_with_other_images_share_nothing_in_the_prefix_cache(client):
    long = "the old baker paints a lemon tree " * 12
    answers = []
    for seed in (1, 2, 1):
        reply = client.post("/v1/chat/completions", asked(url(picture(seed)), text=long))
        answers.append(text_of(reply))
    assert answers[0] == answers[2] != answers[1]


def test_an_answer_is_streamed_and_jpeg_is_read(client):
    reply = client.post("/v1/chat/completions", asked(url(picture(), "JPEG"), stream=True))
    text = "".join(event["choices"][0]["delta"].get("content", "") for event in reply.events)
    assert text.strip() == text_of(
        client.post("/v1/chat/completions", asked(url(picture(), "JPEG")))
    )


def test_a_text_alone_is_answered_as_before(client):
    fields = asked()
    fields["messages"] = [{"role": "user", "content": "the old fox?"}]
    reply = client.post("/v1/chat/completions", fields)
    assert text_of(reply) == BUNDLE.answer("the old fox?", max_tokens=8)


@pytest.mark.parametrize(
    "fields, words",
    [
        (asked("http://example.org/a.png"), "must be a data: URL .* downloads nothing"),
        (asked("https://example.org/a.png"), "must be a data: URL"),
        (asked("file:///etc/passwd"), "must be a data: URL"),
        (asked("/etc/passwd"), "must be a data: URL"),
        (asked("data:image/png;base64,@@"), "in base64"),
        (asked("data:image/png;base64,AAAA"), "cannot be read as an image"),
        (asked(*[url(picture())] * 65), "more than 64 images"),
        (asked(url(picture()), use_beam_search=True), "use_beam_search"),
        (asked(url(picture()), truncate_prompt_tokens=9), "truncate_prompt_tokens"),
        (
            {**asked(url(picture())), "model": "plain"},
            "of type 'image_url', but this model reads only parts of type 'text'",
        ),
        (
            asked() | {"messages": [{**asked(url(picture()))["messages"][0], "role": "assistant"}]},
            "only messages of the role 'user' may have images",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(client, fields, words):
    reply = client.post("/v1/chat/completions", fields)
    assert reply.status == 400, reply.body

    assert re.search(words, reply.json["error"]["message"]), reply.body
