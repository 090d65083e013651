"""The comparison of adapters over bases of small numbers, on a tiny text."""

import gzip

import pytest
from bench import adapters

SHAPE = {"model_dim": 32, "num_heads": 2, "ffn_dim": 64, "num_layers": 1}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_has_a_row_for_each_base(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(bytes(range(32, 120)) * 40))
    text, held_out = adapters.read(path)
    assert len(text) + len(held_out) == 88 * 40 and len(held_out) == 352
    base = adapters.trained(text, 8, SHAPE)
    rows = [cells(line) for line in adapters.measure(base, text, held_out, 5)]
    assert [row[0] for row in rows] == list(adapters.KINDS)
    assert rows[0][3] == "+0.00%" and rows[0][5] == "1.00"
    for row in rows:
        assert float(row[2]) < float(row[1])  # the adapters learn over each base
    sizes = [float(row[6]) for row in rows]
    assert sizes[0] >= sizes[3] >= sizes[1] >= sizes[2]


def test_a_text_that_is_too_short_is_refused(tmp_path):
    (tmp_path / "text").write_bytes(b"a" * 1000)
    with pytest.raises(SystemExit, match="1,000 bytes, but at least 1,408 are needed"):
        adapters.read(tmp_path / "text")
