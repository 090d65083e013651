"""The rows of translation: but for the first one, both sides end a search by the same rule."""

import pytest
import torch
from bench import translation
from bench.sides import Settings

from tests.fixtures.translators import SENTENCES, make

ENDS = 2.0


@pytest.fixture
def folder(tmp_path):
    """A tiny translator of the form that transformers' Marian has, and its sentences."""
    bundle = make(norm="post")
    last = bundle.model.decoder.blocks[-1].around_feedforward.norm
    with torch.no_grad():  # untrained, it would never end
        bundle.model.output.weight.mul_(2)
        last.shift.add_(ENDS * bundle.model.output.weight[bundle.tokenizer.target.eos])
    bundle.save(tmp_path)
    texts = "".join(f"{text}\n" for text, _ in SENTENCES)
    (tmp_path / translation.SENTENCES).write_text(texts)
    return tmp_path


class Worked:
    """A side without a process. It records the rules of its questions."""

    def __init__(self, work, side, folder):
        self.name, self.rules, self.answers = side, [], []
        self.work = work(
            Settings(
                claim="translation",
                side=side,
                folder=str(folder),
                threads=1,
                allocator=False,
                work=3,
            )
        )

    def ask(self, **question):
        answer = self.work(question)
        if "rule" in question:
            self.rules.append(question["rule"])
            self.answers.append(answer)
        return answer


def test_each_rule_is_asked_of_both_sides_and_takes_their_steps(folder):
    ours = Worked(translation.ours, "ours", folder)
    peer = Worked(translation.peer, "peer", folder)
    rows = list(translation.measure(ours, peer, 1, "cpu"))
    assert [row.name for row in rows] == list(translation.RULES.values())
    assert ours.rules == ["default", *(rule for rule in translation.RULES for _ in range(2))]
    assert peer.rules[-7:] == ours.rules  # before them, its attention was chosen
    steps = [
        dict(zip(side.rules, (answer["steps"] for answer in side.answers), strict=True))
        for side in (ours, peer)
    ]
    assert steps[0]["early"] == steps[1]["early"] < steps[0]["exact"] == steps[1]["exact"]
