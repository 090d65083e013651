"""The arguments of generation in Python: their types are checked, and a prompt may be tokens."""

import pytest

from headway.base.errors import UsageError
from tests.fixtures.bundles import gpt

BUNDLE = gpt()


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"max_tokens": "3"}, "max_tokens='3'"),
        ({"temperature": "0"}, "temperature='0'"),
        ({"stop": "the"}, "stop"),
        ({"samples": True}, "samples=True"),
        ({"max_tokens": [3]}, "max_tokens"),
    ],
)
def test_a_setting_of_a_wrong_type_is_named(settings, named):
    with pytest.raises(UsageError, match="must be") as refused:
        BUNDLE.generate(["the fox"], **settings)
    assert named in str(refused.value)
    with pytest.raises(UsageError):
        list(BUNDLE.stream("the fox", **settings))


def test_a_prompt_may_be_the_tokens_of_a_text():
    settings = {"max_tokens": 5, "temperature": 0, "stop": ["zzz"]}
    tokens = BUNDLE.tokenizer.begin("the fox")
    assert list(BUNDLE.stream(tokens, **settings)) == list(BUNDLE.stream("the fox", **settings))
    with pytest.raises(UsageError, match="no tokens"):
        list(BUNDLE.stream([], **settings))
