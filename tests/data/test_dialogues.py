"""Conversations and pairs of answers are read from the common layouts."""

import json

import pytest

from headway.base.errors import DataError
from headway.data.bad_rows import BadRows
from headway.data.dialogues import (
    Dialogue,
    Turn,
    has_dialogues,
    has_preferences,
    read_dialogues,
    read_preferences,
)

HELLO, HI = Turn("user", "Hello"), Turn("assistant", "Hi")
USER, ANSWER = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}
BE_KIND = {"role": "system", "content": "Be kind."}


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("row", "turns"),
    [
        ({"messages": [USER, ANSWER]}, (HELLO, HI)),
        ({"messages": [BE_KIND, USER, ANSWER]}, (Turn("system", "Be kind."), HELLO, HI)),
        (
            {"messages": [USER, {**ANSWER, "weight": 0}, USER, ANSWER]},
            (HELLO, Turn("assistant", "Hi", 0), HELLO, HI),
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]},
            (HELLO,),
        ),
        (
            {
                "conversations": [
                    {"from": "human", "value": "Hello"},
                    {"from": "gpt", "value": "Hi"},
                ]
            },
            (HELLO, HI),
        ),
        ({"instruction": "Hello", "output": "Hi"}, (HELLO, HI)),
        ({"instruction": "Hello", "input": "", "output": "Hi"}, (HELLO, HI)),
        (
            {"instruction": "Add:", "input": "1 2", "output": "3"},
            (Turn("user", "Add:\n\n1 2"), Turn("assistant", "3")),
        ),
        ({"prompt": "Hello", "completion": "Hi"}, (Turn("user", "Hello", 0), HI)),
        (
            {"prompt": [USER, ANSWER, USER], "completion": [ANSWER]},
            (Turn("user", "Hello", 0), Turn("assistant", "Hi", 0), Turn("user", "Hello", 0), HI),
        ),
    ],
)
def test_every_layout_gives_the_same_turns(row, turns, tmp_path):
    path = written(tmp_path / "chat.jsonl", row)
    assert has_dialogues(path) and not has_preferences(path)
    assert [dialogue.turns for dialogue in read_dialogues([path])] == [turns]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"messages": []}, "a list of messages"),
        ({"messages": "Hello"}, "must be a list of messages"),
        ({"messages": [{"content": "Hello"}]}, r"messages\[0\] has no role"),
        ({"messages": [USER, {"role": "assistant", "content": None}]}, r"messages\[1\].* no text"),
        ({"messages": [{**ANSWER, "weight": 2}]}, "must be 0 .* or 1"),
        ({"messages": ["Hello"]}, "must be an object"),
        ({"instruction": "Hello", "output": ""}, "'output' is empty"),
        ({"question": "Hello"}, "expected a conversation.*found 'question'"),
    ],
)
def test_a_row_that_is_no_conversation_is_refused_with_its_line_or_left_out(row, why, tmp_path):
    path = written(tmp_path / "chat.jsonl", {"messages": [USER, ANSWER]}, row)
    with pytest.raises(DataError, match=why) as refused:
        list(read_dialogues([path]))
    assert refused.value.where == f"{path}:2"
    bad_rows = BadRows.of("skip:1")
    assert len(list(read_dialogues([path], bad_rows))) == 1 and len(bad_rows.errors) == 1


WORSE = {"role": "assistant", "content": "What?"}


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Hello", "chosen": "Hi", "rejected": "What?"},
        {"prompt": [USER], "chosen": [ANSWER], "rejected": [WORSE]},
        {"prompt": [USER], "chosen": [USER, ANSWER], "rejected": [USER, WORSE]},
        {"chosen": [USER, ANSWER], "rejected": [USER, WORSE]},
    ],
)
def test_every_layout_gives_the_same_pair_of_answers(row, tmp_path):
    path = written(tmp_path / "pairs.jsonl", row)
    (pair,) = read_preferences([path])
    assert has_preferences(path)
    assert (pair.prompt, pair.chosen, pair.rejected) == ((HELLO,), HI, Turn("assistant", "What?"))
    better, worse = pair.dialogues
    assert better == Dialogue((Turn("user", "Hello", 0), HI), pair.where)
    assert [turn.is_learned for turn in worse.turns] == [False, True]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"chosen": [USER, ANSWER], "rejected": [BE_KIND, WORSE]}, "one prompt with two answers"),
        ({"prompt": "Hello", "chosen": "Hi", "rejected": "Hi"}, "are equal"),
        ({"prompt": "Hello", "chosen": "Hi"}, "'rejected' is missing"),
    ],
)
def test_a_row_that_is_no_pair_of_answers_is_refused(row, why, tmp_path):
    with pytest.raises(DataError, match=why):
        list(read_preferences([written(tmp_path / "pairs.jsonl", row)]))
