"""Glimpses of a model: what they hold, and how a resumed run goes on with its film."""

import numpy as np
import pytest

from headway.base.errors import DataError
from headway.runs import attention_over_time
from headway.runs.attention_over_time import FilmFolder, glimpse, read_film
from headway.tasks.job import Example
from tests.fixtures.bundles import captioner, gpt, image_encoder, translator

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


def test_a_file_without_a_glimpse_is_named(tmp_path):
    film_of(tmp_path).keep(gpt(), 3, None)
    (path,) = (tmp_path / "glimpses").iterdir()
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match=path.name):
        read_film(tmp_path)
