"""Any of the tokens that end an output does so in requests, with the fields that concern ends."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from headway.bundle import TextBundle
from headway.text import PretrainedTokenizer
from tests.fixtures.chat_model import BUNDLE, STOP
from tests.fixtures.hf_tokenizer import END, engine
from tests.fixtures.model_server import running

FURTHER = BUNDLE.tokenizer.encode_with_special_tokens(STOP)[0]
ALWAYS = {str(FURTHER): 100}


@pytest.fixture(scope="module")
def client():
    tokenizer = PretrainedTokenizer(engine(END, "<|start|>", STOP), 0, 0, ends=[FURTHER])
    models = {"several": TextBundle(BUNDLE.model, tokenizer), "one": BUNDLE}
    with running(models) as client:
        yield client


def ended(client, **fields):
    """The number of tokens of an output, and why it ended."""
    fields = {"model": "several", "temperature": 0, "max_tokens": 9, "logit_bias": ALWAYS, **fields}
    reply = client.complete(prompt="The old", **fields)
    return reply["usage"]["completion_tokens"], reply["choices"][0]["finish_reason"]


def test_a_further_end_ends_an_output_of_the_model_that_has_it(client):
    assert ended(client) == (0, "stop")
    assert ended(client, model="one") == (9, "length")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"min_tokens": 4}, (4, "stop")),
        ({"ignore_eos": True}, (9, "length")),
        ({"ignore_eos": True, "stop_token_ids": [FURTHER]}, (1, "stop")),
        ({"ignore_eos": True, "stop_token_ids": [FURTHER], "min_tokens": 3}, (4, "stop")),
        ({"top_p": 0, "temperature": None}, (0, "stop")),
    ],
)
def test_fields_about_ends_concern_all_of_them(fields, expected, client):
    assert ended(client, **fields) == expected


def test_outputs_that_ignore_ends_do_not_change_others_beside_them(client):
    with ThreadPoolExecutor(6) as pool:
        asked = [{"ignore_eos": n % 2 == 0, "max_tokens": 40} for n in range(6)]
        lengths = [length for length, _ in pool.map(lambda f: ended(client, **f), asked)]
    assert lengths == [40, 0] * 3
