"""Generated instructions have exact answers, and what is held out is never learned."""

import json
import re
from random import Random

import pytest

from headway.base.errors import UsageError
from headway.data.instructions import KINDS, NOUNS, OPPOSITES, instruction, pretraining_lines
from headway.datasets.fetch import fetch
from headway.datasets.instructions import PARTS, TEXT


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_held_out_contents_and_phrasings_of_its_own(kind):
    phrasings, new = KINDS[kind].phrasings, KINDS[kind].new_phrasings
    assert len({*phrasings, *new}) == len(phrasings) + len(new) == 11
    random = Random(1)
    learned = {instruction(kind, random).question for _ in range(300)}
    held_out = {instruction(kind, random, held_out=True).question for _ in range(100)}
    other = {
        instruction(kind, random, held_out=True, new_phrasing=True).question for _ in range(100)
    }
    assert not learned & held_out and not held_out & other and not learned & other


def answers(kind):
    random = Random(2)
    ones = [instruction(kind, random) for _ in range(200)]
    return [(one.question, one.answer) for one in ones]


def test_the_answers_are_right():
    for question, answer in answers("add"):
        numbers = [int(n) for n in "".join(c if c.isdigit() else " " for c in question).split()]
        assert sum(numbers) == int(answer)
    for question, answer in answers("sort"):
        assert answer.split() == sorted(c for c in question if c.isdigit())
    for question, answer in answers("reverse"):
        assert answer[::-1] in question
    for question, answer in answers("upper"):
        assert answer.lower() in question and answer.isupper()
    for question, answer in answers("repeat"):
        assert question.endswith(answer)
    for question, answer in answers("extract"):
        assert f"[{answer}]" in question
    for question, answer in answers("count"):
        last = [word for word in question.split(": ")[-1].split(" in ")[-1].split()]
        assert sum(word in NOUNS for word in last) == int(answer)
    for question, answer in answers("opposite"):
        assert OPPOSITES[OPPOSITES[answer]] == answer and OPPOSITES[answer] in question
    assert {answer for _, answer in answers("member")} == {"yes", "no"}


def test_the_text_for_pre_training_tells_no_held_out_sum_and_every_opposite():
    text = "\n".join(pretraining_lines(Random(3), 8000))
    random = Random(4)
    for _ in range(50):
        one = instruction("add", random, held_out=True)
        first, second = re.findall("[0-9]+", one.question)
        facts = (
            f"{first} [+] {second}",
            f"sum of {first} and {second}",
            f"adds {first} and {second}",
        )
        assert not any(re.search(rf"\b{fact}\b", text) for fact in facts)
    for word, opposite in OPPOSITES.items():
        assert any(
            fact.format(word=word, answer=opposite) in text for fact in KINDS["opposite"].facts
        )


def test_the_data_set_has_its_files_and_is_reused(tmp_path, monkeypatch):
    for name, part in PARTS.items():
        monkeypatch.setitem(PARTS, name, type(part)(3, part.held_out, part.new_phrasing))
    fetched = fetch("instructions", None, tmp_path / "data")
    assert fetched["instructions"] == dict.fromkeys(PARTS, 30) and not fetched.reused
    rows = (tmp_path / "data" / "new-phrasings.jsonl").read_text().splitlines()
    row = json.loads(rows[0])
    assert [message["role"] for message in row["messages"]] == ["user", "assistant"]
    assert {json.loads(row)["kind"] for row in rows} == set(KINDS)
    assert (tmp_path / "data" / TEXT).read_text().endswith(".\n")
    assert fetch("instructions", None, tmp_path / "data").reused
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError, match="not a complete fetched data set"):
        fetch("instructions", None, tmp_path / "other")
