"""A GPT that reads images: conversations with images as tokens, batches, answers and scores."""

import json

import pytest
import torch
from PIL import Image

import headway
from headway.base.errors import DataError, UsageError
from headway.bundle import TextBundle
from headway.data.dialogues import IMAGE, Dialogue, Turn, read_dialogues
from headway.evaluation.by_kind import KINDS
from headway.inspection.image_attention import look_of_answer
from headway.tasks.opening import load_as
from headway.tasks.seeing.config import SeeRunConfig, SeeScoring
from headway.tasks.seeing.data import read_seeing, seen_batch
from headway.tasks.seeing.model import MultimodalBundle, asked
from headway.tasks.seeing.task import SEEING, answers_of, score_lines, seen_loss
from headway.tasks.target_mask import IMAGE_TOKEN, OwnRenderer
from tests.fixtures.dialogues import language_model
from tests.fixtures.multimodal import PATCHES, multimodal, picture

QUESTION, ANSWER = "the old fox?", "a small dog"


@pytest.fixture(scope="module")
def bundle():
    return multimodal()


def message(*parts):
    content = [
        {"type": "text", "text": part}
        if not part.endswith(".png")
        else {"type": "image", "path": part}
        for part in parts
    ]
    return {"role": "user", "content": content}


@pytest.fixture
def talks(tmp_path):
    """Conversations with one image, with two, and with none."""
    for number in range(3):
        Image.fromarray(picture(number)).save(tmp_path / f"{number}.png")
    answer = {"role": "assistant", "content": ANSWER}
    rows = [
        {"messages": [message("0.png", QUESTION), answer], "kind": "colour"},
        {"messages": [message("1.png", "and", "2.png", QUESTION), answer], "kind": "number"},
        {"messages": [message(QUESTION), answer, message("0.png", "?"), answer], "kind": "colour"},
        {"messages": [message(QUESTION), answer], "kind": "number"},
    ]
    path = tmp_path / "talks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_message_has_texts_and_images_in_their_order(talks):
    one, two, later, none = read_dialogues([talks])
    assert one.turns[0] == Turn("user", f"{IMAGE}{QUESTION}", images=(talks.parent / "0.png",))
    assert two.turns[0].content == f"{IMAGE}and{IMAGE}{QUESTION}"
    assert [path.name for path in two.images] == ["1.png", "2.png"]
    assert [one.kind, two.kind] == ["colour", "number"] and not none.images
    assert not later.turns[0].images and later.images == one.images


@pytest.mark.parametrize(
    "part, words",
    [
        ({"type": "image", "path": "nowhere.png"}, "no such image file: .*nowhere.png"),
        ({"type": "image", "path": "talks.jsonl"}, "an image or sound file must end in"),
        ({"type": "image"}, r"messages\[0\].content\[0\].path is missing"),
        ({"type": "image_url", "image_url": {"url": "http://x"}}, "has no text as its content"),
    ],
)
def test_an_image_that_cannot_be_read_is_named_with_its_line(part, words, talks):
    rows = [
        {"messages": [{"role": "user", "content": [part]}, {"role": "assistant", "content": "a"}]}
    ]
    talks.write_text(json.dumps(rows[0]))
    with pytest.raises(DataError, match=words) as error:
        list(read_dialogues([talks]))
    assert error.value.where == f"{talks}:1"


def test_the_assistant_cannot_show_images(talks):
    row = {"messages": [message(QUESTION), {**message("0.png"), "role": "assistant"}]}
    talks.write_text(json.dumps(row))
    with pytest.raises(DataError, match="'assistant' has no text"):
        list(read_dialogues([talks]))


def test_a_patch_has_a_place_that_is_read_and_never_learned(bundle):
    turn = asked(QUESTION, [picture(), picture(2)])
    tokenizer, renderer = bundle.tokenizer, bundle.renderer
    rendered = renderer.render(Dialogue((turn, Turn("assistant", ANSWER))))
    places = bundle.places(rendered.tokens)
    assert places == list(range(2, 2 + 2 * PATCHES))  # after <bos> and the role of the user
    assert not any(rendered.is_target[place] for place in places)
    learned = [
        t for t, is_target in zip(rendered.tokens, rendered.is_target, strict=True) if is_target
    ]
    assert learned == [*tokenizer.encode(ANSWER), tokenizer.eos]
    words = [t for i, t in enumerate(rendered.tokens) if i not in places]
    plain = OwnRenderer(tokenizer).render(
        Dialogue((Turn("user", QUESTION), Turn("assistant", ANSWER)))
    )
    assert words == plain.tokens


def test_what_a_user_writes_is_no_place_of_an_image(bundle):
    prompt = bundle.prompt([asked(f"{IMAGE_TOKEN} {IMAGE} fox", [picture()])])
    assert len(bundle.places(prompt)) == PATCHES
    assert not bundle.places(bundle.prompt([asked(f"{IMAGE_TOKEN} {IMAGE} fox", [])]))


def test_a_model_of_texts_refuses_conversations_with_images(bundle):
    turn = asked(QUESTION, [picture()])
    with pytest.raises(DataError, match="the model reads no images") as error:
        OwnRenderer(bundle.tokenizer).render(Dialogue((turn,), "x.jsonl:3"))
    assert error.value.where == "x.jsonl:3" and "headway train see" in str(error.value)


def test_a_batch_has_the_images_of_its_conversations_in_the_order_of_their_places(bundle, talks):
    dialogues = read_seeing(bundle, [talks], None, SeeScoring())
    batch = seen_batch(dialogues, [1, 3, 0], bundle.reader.images)
    expected = bundle.pixels([str(talks.parent / f"{n}.png") for n in (1, 2, 0)])
    assert torch.equal(batch.images, expected)
    assert (batch.tokens == bundle.model.config.image_token).sum() == 3 * PATCHES
    assert seen_batch(dialogues, [3], bundle.reader.images).images is None
    targets = batch.targets[batch.targets >= 0]
    assert batch.count == len(targets) == 3 * (len(bundle.tokenizer.encode(ANSWER)) + 1)


def test_the_loss_of_a_batch_is_the_sum_of_those_of_its_conversations(bundle, talks):
    dialogues = read_seeing(bundle, [talks], None, SeeScoring())

    def loss(*indices):
        return seen_loss(bundle.model, seen_batch(dialogues, indices, bundle.reader.images))

    together = loss(0, 1, 2, 3)
    alone = [loss(index) for index in range(4)]
    assert together.count == sum(part.count for part in alone)
    torch.testing.assert_close(together.total, sum(part.total for part in alone))


def test_images_beyond_the_length_are_refused_with_their_line(bundle, talks):
    config = SeeRunConfig()
    object.__setattr__(config.training, "length", 9)
    with pytest.raises(DataError, match="images of the conversation need more than 9 positions"):
        read_seeing(bundle, [talks], config, SeeScoring())


def test_answers_are_counted_by_kind_of_question(bundle, talks, monkeypatch):
    dialogues = read_seeing(bundle, [talks], None, SeeScoring())
    outputs = iter([ANSWER, "no", ANSWER, "no"])
    monkeypatch.setattr(
        "headway.tasks.seeing.task.answers_of",
        lambda bundle, dialogues, part: [(next(outputs), ANSWER) for _ in part],
    )
    scores = SEEING.evaluate(bundle, dialogues)
    assert scores["exact"] == 0.5 and scores.counts["conversations"] == 4
    assert scores.details[KINDS] == {
        "colour": {"count": 2, "mean": 1.0},
        "number": {"count": 2, "mean": 0.0},
    }
    assert score_lines(scores)[2:] == ["colour  100.0% of 2", "number    0.0% of 2"]


def test_answers_of_a_batch_are_those_of_each_question_alone(bundle, talks):
    dialogues = read_seeing(bundle, [talks], None, SeeScoring())
    together = [output for output, _ in answers_of(bundle, dialogues, range(4))]
    assert together == [answers_of(bundle, dialogues, [i])[0][0] for i in range(4)]
    assert len(set(together)) > 1


def test_an_answer_depends_on_the_image_and_on_no_other_call(bundle):
    settings = {"max_tokens": 8}
    first = bundle.answer(QUESTION, [picture()], **settings)
    others = {bundle.answer(QUESTION, [picture(seed)], **settings) for seed in range(2, 9)}
    assert others - {first}
    assert bundle.answer(QUESTION, [picture()], **settings) == first
    assert bundle.with_images([]) is bundle


def test_a_saved_model_answers_the_same(bundle, tmp_path):
    bundle.save(tmp_path / "model")
    loaded = headway.load(tmp_path / "model", "cpu")
    assert isinstance(loaded, MultimodalBundle)
    assert loaded.settings.template == bundle.settings.template
    shown = [picture(), picture(2)]
    assert loaded.answer(QUESTION, shown, max_tokens=8) == bundle.answer(
        QUESTION, shown, max_tokens=8
    )
    with pytest.raises(UsageError, match="holds a multimodal language model"):
        load_as(TextBundle, tmp_path / "model")


def test_a_probe_names_patches_and_shows_the_answer(bundle):
    probe = bundle.probe(QUESTION, images=[picture()], written=4)
    names, start = probe.reading.tokens["text"], probe.generated["text"]
    assert names[2 : 2 + PATCHES] == ["0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]
    output = probe.reading.run()
    assert output.shape[1] == len(names) and len(names) > start
    chosen = probe.readout.logits(output).argmax(-1)[start - 1 : -1].tolist()
    assert chosen == probe.reading.ids["text"][start:]


def test_models_of_texts_take_no_images():
    with pytest.raises(UsageError, match="language model reads no images beside a text"):
        language_model().probe("fox", images=[picture()])


def test_every_word_of_an_answer_has_a_map(bundle):
    looks = look_of_answer(bundle, picture(), QUESTION)
    probe = bundle.probe(QUESTION, images=[picture()])
    (side,) = probe.generated
    answer = "".join(probe.reading.tokens[side][probe.generated[side] :])
    assert "".join(looks.names).split() == ["".join(answer.split())]
