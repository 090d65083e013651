"""The row of `headway translate`: both sides are commands."""

import io

import pytest
from bench import peers, translation
from bench.commands import Ran
from bench.sides import Settings

from headway.cli.inputs import CHUNK
from tests.fixtures.translators import SENTENCES, make


def test_the_speed_is_that_of_the_lines_after_the_first_chunk():
    parts = [(3.0, "a\n" * (CHUNK - 1)), (4.0, "b\n"), (5.0, "c\n" * 20), (6.0, "d\n" * 10)]
    answer = translation._answer(Ran(parts, 7.0, 8.0, 9.0))
    assert (answer["work"], answer["seconds"], answer["whole"]) == (30, 2.0, 7.0)
    assert len(answer["texts"]) == CHUNK + 30


def test_the_script_of_a_peer_prints_its_lines_in_order(monkeypatch, capsys):
    batches = []

    def translate(texts):
        batches.append(len(texts))
        return [text.upper() for text in texts]

    lines = [f"{'x' * (n % 7)} {n}" for n in range(150)]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    peers.translate_lines(translate, chunk=100)
    assert capsys.readouterr().out.split("\n")[:-1] == [line.strip().upper() for line in lines]
    assert batches == [64, 36, 50]


@pytest.mark.slow
def test_both_commands_translate_the_same_sentences(tmp_path, monkeypatch):
    """A tiny translator that transformers' Pegasus can represent."""
    make().save(tmp_path)
    texts = [text for text, _ in SENTENCES] * 4
    (tmp_path / translation.SENTENCES).write_text("".join(f"{text}\n" for text in texts))
    monkeypatch.setattr(translation, "CHUNK", 5)
    settings = Settings(
        claim="translation", side="", folder=str(tmp_path), threads=1, allocator=None, work=11
    )
    ours, peer = translation.ours(settings), translation.transformers(settings)
    answers = [ours({"flags": []}), peer({"attention": "eager"})]
    assert [len(answer["texts"]) for answer in answers] == [11, 11]
    assert all(answer["work"] == 6 and answer["whole"] > 0 for answer in answers)
