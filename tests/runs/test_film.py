"""Glimpses of a model: what they hold, and how a resumed run goes on with its film."""

import numpy as np
import pytest
import torch

from headway.base.errors import DataError
from headway.runs import attention_over_time
from headway.runs.attention_over_time import FilmFolder, glimpse, read_film
from headway.tasks.job import Example, TextPairs
from tests.fixtures.bundles import answerer, captioner, gpt, image_encoder, translator
from tests.fixtures.small_encoder import TEXTS, encoder

FOX = "the fox eats the lemon"
PAIR = Example("two dogs play", target="zwei hunde")


def film_of(folder):
    return FilmFolder(folder / "glimpses", Example(FOX))


def test_a_resumed_run_drops_later_glimpses_and_keeps_the_one_of_its_checkpoint(tmp_path):
    film, model = film_of(tmp_path), gpt()
    for step in (0, 5, 9):
        film.keep(model, step, 1.0)
    film.rewind(5)
    film.keep(model, 5, 7.0)
    glimpses = read_film(tmp_path).glimpses
    assert [(one.step, one.loss) for one in glimpses] == [(0, 1.0), (5, 1.0)]
    assert glimpses[0].input == FOX and glimpses[0].reference is None


def test_attention_is_on_the_reference_and_the_answer_is_the_models_own():
    model = translator()
    frame = glimpse(model, PAIR, "step 0")
    expected = model.probe("two dogs play", target="zwei hunde").reading.tokens
    assert frame.sides["target"].tokens == expected["target"]
    assert frame.answer == model.probe("two dogs play").answer != "zwei hunde"


def test_a_language_model_writes_after_the_text_but_the_tokens_stay_those_of_the_text():
    model = gpt()
    frame = glimpse(model, Example(FOX), "step 0")
    assert len(frame.sides["text"].tokens) == len(model.tokenizer.begin(FOX))
    assert frame.answer


def test_a_glimpse_has_at_most_its_part_of_the_weights(monkeypatch):
    whole = glimpse(translator(), PAIR, "")
    sizes = [sum(w.numel() for w in maps.weights) for maps in whole.maps]
    monkeypatch.setattr(attention_over_time, "CELLS", sum(sizes) // 2)
    few = glimpse(translator(), PAIR, "")
    assert 0 < sum(w.numel() for maps in few.maps for w in maps.weights) <= sum(sizes) // 2
    for maps, all_maps in zip(few.maps, whole.maps, strict=True):
        assert maps.layers[-1] == all_maps.layers[-1]
    monkeypatch.setattr(attention_over_time, "CELLS", 3)
    assert not glimpse(translator(), PAIR, "").maps


@pytest.mark.parametrize("make", [captioner, image_encoder])
def test_models_of_images_are_filmed_with_a_small_image(make):
    pixels = np.random.default_rng(0).integers(0, 256, (19, 23, 3)).astype(np.uint8)
    frame = glimpse(make(), Example(pixels), "step 0")
    assert frame.maps and any(side.image is not None for side in frame.sides.values())


def test_a_question_is_filmed_with_its_context_and_the_answer_that_the_model_marks(tmp_path):
    model = answerer()
    question = Example("who eats", second="the fox eats the lemon", label="the fox")
    film = FilmFolder(tmp_path / "glimpses", question)
    film.keep(model, 3, 1.0)
    (seen,) = read_film(tmp_path).glimpses
    assert seen.given == "who eats\nthe fox eats the lemon" and seen.reference == "the fox"
    assert seen.frame["answer"] == model.answer("who eats", "the fox eats the lemon")[0].text
    assert seen.frame["maps"]


def test_an_encoder_of_pairs_is_filmed_by_the_similarities_of_their_texts(tmp_path):
    model = encoder()
    pairs = TextPairs(TEXTS[:3], [text.lower() for text in TEXTS[1:4]])
    frame = glimpse(model, Example(pairs), "step 0")
    (maps,) = frame.maps
    expected = model.embed(pairs.first) @ model.embed(pairs.second).T
    assert torch.equal(maps.weights[0], expected[None]) and maps.measure == "similarity"
    assert list(frame.sides["first"].tokens) == TEXTS[:3]
    right = sum(int(row.argmax()) == at for at, row in enumerate(expected))
    assert frame.answer.startswith(f"{right} of 3 texts")
    FilmFolder(tmp_path / "glimpses", Example(pairs)).keep(model, 0, None)
    (seen,) = read_film(tmp_path).glimpses
    assert seen.frame["opening"]["map"] == "pairs" and seen.given is None


def test_a_file_without_a_glimpse_is_named(tmp_path):
    film_of(tmp_path).keep(gpt(), 3, None)
    (path,) = (tmp_path / "glimpses").iterdir()
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match=path.name):
        read_film(tmp_path)
