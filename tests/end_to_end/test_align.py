"""`headway align`: Pharaoh lines, the choice of a head, and what is refused."""

import json

import pytest

from headway.inspection import links
from headway.inspection.alignment import Head, align_by_head
from headway.tasks.translation.word_alignment import read_gold, score_links
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.translators import SENTENCES, make


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("align")
    make().save(folder / "model")
    (folder / "pairs.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in SENTENCES))
    (folder / "gold.txt").write_text("0-0 1-1 2-2 3?3 4-4\n0-0 1-1 2-2\n0-0\n")
    return folder


def predicted(head):
    bundle = make()
    return [links(align_by_head(bundle, *pair)[head]) for pair in SENTENCES]


def test_each_pair_is_a_line_of_links_of_the_head_that_is_named(folder):
    words = ("align", "model", "pairs.tsv", "--layer", "2", "--head", "3")
    lines = run_headway(*words, cwd=folder).stdout.splitlines()
    expected = predicted(Head(1, 2))
    assert [
        {tuple(map(int, link.split("-"))) for link in line.split()} for line in lines
    ] == expected
    assert "layer 2, head 3" in run_headway(*words, cwd=folder).stderr
    run_headway(*words, "--output", "links.txt", cwd=folder)
    assert (folder / "links.txt").read_text().splitlines() == lines
    rows = run_headway(*words, "--json", cwd=folder).stdout.splitlines()
    assert [{tuple(link) for link in json.loads(row)["links"]} for row in rows] == expected
    assert json.loads(rows[2])["target"] == ["brot"]


def test_gold_alignments_choose_the_head_on_their_first_half_and_score_it_on_the_second(folder):
    gold = read_gold(folder / "gold.txt")
    heads = [Head(layer, head) for layer in (0, 1) for head in (None, 0, 1, 2)]
    errors = {head: score_links(predicted(head)[:1], gold[:1]).error_rate for head in heads}
    message = run_headway("align", "model", "pairs.tsv", "--gold", "gold.txt", cwd=folder).stderr
    chosen = next(head for head in heads if f"cross-attention of {head}" in message)
    assert errors[chosen] == min(errors.values())
    rate = score_links(predicted(chosen)[1:], gold[1:]).error_rate
    assert f"alignment error rate {rate:.3f}" in message and "on 2 pairs" in message


def test_wrong_requests_are_refused(folder):
    (folder / "short.txt").write_text("0-0\n")
    (folder / "mine.txt").write_text("mine")
    for words, code, reason in [
        (("pairs.tsv", "--head", "1"), 2, "--head needs --layer"),
        (("pairs.tsv", "--layer", "0"), 2, "--layer 0: must be from 1 to 2"),
        (("pairs.tsv", "--layer", "3"), 2, "--layer 3: must be from 1 to 2"),
        (("pairs.tsv", "--layer", "2", "--head", "4"), 2, "--head 4: must be from 1 to 3"),
        (("pairs.tsv", "--gold", "short.txt"), 3, "1 lines of gold alignments for 3 pairs"),
        (("pairs.tsv", "--output", "mine.txt"), 2, "mine.txt exists already"),
        (("nowhere.tsv",), 2, "no such file"),
    ]:
        result = run_headway("align", "model", *words, cwd=folder, check=code)
        assert reason in result.stderr and "Traceback" not in result.stderr
    assert (folder / "mine.txt").read_text() == "mine"
