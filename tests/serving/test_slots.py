"""How many outputs a server decodes together if its user sets no number."""

from headway.serving.engine.slots import default_slots, slots_in
from tests.fixtures import bundles
from tests.fixtures.model_server import language_model


def test_a_cpu_and_a_model_that_generates_no_text_have_16_slots():
    assert default_slots(language_model()) == default_slots(bundles.translator()) == 16


def test_the_slots_of_a_gpu_are_those_whose_keys_and_values_have_room():
    bundle = language_model()  # 3 layers, keys and values of 24 numbers of 4 bytes, 400 tokens
    of_output = 3 * 2 * 24 * 4 * 400
    assert [slots_in(bundle, n * of_output) for n in (0, 16, 40, 256, 900)] == [
        16,
        16,
        40,
        256,
        256,
    ]
    wider = language_model(num_layers=6)
    assert slots_in(wider, 80 * of_output) == 40
