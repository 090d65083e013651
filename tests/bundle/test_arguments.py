"""Python arguments of wrong types are UsageErrors with the names of the arguments in Python."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import headway
from headway.base.errors import UsageError
from headway.bundle.arguments import checked
from tests.fixtures.bundles import (
    answerer,
    bert_classifier,
    captioner,
    gpt,
    image_encoder,
    tagger,
    translator,
)
from tests.fixtures.small_encoder import encoder


@checked
def function(
    text: str = "",
    *,
    number: int = 0,
    fraction: float = 0.0,
    switch: bool = False,
    texts: Sequence[str] = (),
    nested: Sequence[str | Sequence[str]] = (),
    pairs: Sequence[tuple[str, str]] = (),
    path: str | os.PathLike[str] | None = None,
    choice: Literal["a", "b"] | None = None,
    mapping: Mapping[str, int] | None = None,
    call: Callable[[], None] | None = None,
    anything: Any = None,
    **more: int,
) -> None:
    """A function with an argument of every checked kind."""


@pytest.mark.parametrize(
    "arguments",
    [
        {"number": np.int64(3), "fraction": np.float32(0.5)},
        {"fraction": 1, "switch": True},
        {"texts": ["a"], "nested": ("a", ["b", "c"]), "pairs": [("a", "b"), ["c", "d"]]},
        {"texts": np.array(["a", "b"])},
        {"path": Path("a"), "choice": "b", "mapping": {}, "call": print},
        {"path": "a", "anything": object(), "unknown": "text"},
    ],
)
def test_values_of_the_annotated_types_are_accepted(arguments):
    function("x", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": 3}, "text=3: must be text"),
        ({"text": None}, "text=None: must be text"),
        ({"text": b"a"}, "text=b'a': must be text"),
        ({"number": "4"}, "number='4': must be a whole number"),
        ({"number": True}, "number=True: must be a whole number"),
        ({"number": 4.0}, "number=4.0: must be a whole number"),
        ({"fraction": "0.5"}, "fraction='0.5': must be a number"),
        ({"switch": 1}, "switch=1: must be True or False"),
        ({"texts": "a"}, "texts must be a list of texts, not one string"),
        ({"texts": 3}, "texts=3: must be a list of texts"),
        ({"texts": None}, "texts=None: must be a list of texts"),
        ({"texts": ["a", 2]}, "texts[1]=2: must be text"),
        ({"texts": {"a": 1}}, "texts={'a': 1}: must be a list of texts"),
        ({"texts": (c for c in "ab")}, "must be a list of texts"),
        ({"texts": torch.zeros(2)}, "texts[0]=tensor(0.): must be text"),
        ({"nested": ["a", ["b", 3]]}, "nested[1][1]=3: must be text"),
        ({"pairs": [("a", "b", "c")]}, "must be a pair (text, text)"),
        ({"path": 3}, "path=3: must be text or a path or None"),
        ({"choice": "c"}, "choice='c': must be 'a' or 'b' or None"),
        ({"choice": ["a"]}, "choice=['a']: must be 'a' or 'b' or None"),
        ({"mapping": [1]}, "mapping=[1]: must be a dictionary or None"),
        ({"call": 3}, "call=3: must be a function or None"),
        ({"text": ["x" * 100]}, "...: must be text"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_argument(arguments, message):
    with pytest.raises(UsageError) as caught:
        function(**arguments)
    assert message in caught.value.what and caught.value.where == "function()"


def test_a_missing_argument_stays_an_error_of_python():
    with pytest.raises(TypeError, match="missing a required argument: 'folder'"):
        headway.load()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: headway.train("gpt", steps="x"), "steps='x': must be a whole number or None"),
        (lambda: headway.train(3), "name=3: must be text"),
        (lambda: headway.train("gpt", data=3), "data=3: must be text or a path or a list of"),
        (lambda: headway.train("gpt", data=[3]), "data[0]=3: must be text or a path"),
        (lambda: headway.train("gpt", settings=["a"]), "settings=['a']: must be a dictionary"),
        (lambda: headway.train("gpt", listeners=[3]), "listeners[0]=3: must be a function"),
        (lambda: headway.load(3), "folder=3: must be text or a path"),
        (lambda: headway.load(None), "folder=None: must be text or a path"),
        (lambda: headway.load("x", device=0), "device=0: must be text"),
        (lambda: headway.evaluate(3), "model=3: must be an object of Bundle or an object of Run"),
    ],
)
def test_the_functions_of_headway_check_their_arguments(call, message):
    with pytest.raises(UsageError) as caught:
        call()
    assert message in caught.value.what and "--" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "call", "message"),
    [
        (translator, lambda b: b.translate(3), "texts=3: must be a list of texts"),
        (translator, lambda b: b.translate("a"), "texts must be a list of texts, not one string"),
        (translator, lambda b: b.translate([1, 2]), "texts[0]=1: must be text"),
        (translator, lambda b: b.translate(["a"], beam="4"), "beam='4': must be a whole number"),
        (translator, lambda b: b.search(["a"], contain=["b"]), "contain[0]"),
        (translator, lambda b: b.search(["a"], normalisation="x"), "must be 'gnmt' or 'average'"),
        (translator, lambda b: b.into(3), "language=3: must be text or None"),
        (translator, lambda b: b.into(None, "de"), "source language 'de'"),
        (encoder, lambda b: b.embed(None), "texts=None: must be a list of texts"),
        (encoder, lambda b: b.embed(["a"], pooling="max"), "pooling='max': must be"),
        (encoder, lambda b: b.fill(["[MASK]"], top="3"), "top='3': must be a whole number"),
        (gpt, lambda b: b.generate("a"), "prompts must be a list of texts, not one string"),
        (gpt, lambda b: b.generate([None]), "prompts[0]=None: must be text"),
        (
            gpt,
            lambda b: b.generate(["a"], draft="b"),
            "draft='b': must be an object of GeneratingBundle",
        ),
        (
            gpt,
            lambda b: b.generate(["a"], max_tokens="x"),
            "max_tokens='x': must be a whole number",
        ),
        (gpt, lambda b: b.stream(["a"]), "prompt[0]='a': must be a whole number"),
        (bert_classifier, lambda b: b.classify([3]), "texts[0]=3: must be text"),
        (tagger, lambda b: b.tag([["a", 3]]), "texts[0][1]=3: must be text"),
        (answerer, lambda b: b.answer(3, "b"), "question=3: must be text"),
        (answerer, lambda b: b.answer("a", "b", "1"), "top='1': must be a whole number"),
        (captioner, lambda b: b.caption("a.png"), "images must be a list of images, not one"),
        (captioner, lambda b: b.caption([], beam="4"), "beam='4': must be a whole number"),
        (image_encoder, lambda b: b.embed("a.png"), "images must be a list of images, not one"),
        (translator, lambda b: headway.evaluate(b, "x.tsv", neams=3), "neams is no option of"),
    ],
)
def test_the_verbs_of_bundles_check_their_arguments(make, call, message):
    with pytest.raises(UsageError) as caught:
        call(make())
    assert message in caught.value.what and "--" not in caught.value.what
