"""`data check` counts records that are no pairs, whatever the file, by their numbers."""

import json

import pytest

from tests.fixtures.command_line import headway

ROWS = [{"source": f"the fox {n}", "target": f"der Fuchs {n}"} for n in range(4)]
SHORT = [*ROWS[:2], {"source": "the owl", "other": 3}, *ROWS[2:]]


def write(path, rows):
    if path.suffix == ".parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        names = ("source", "target")
        table = arrow.table({name: [row.get(name) for row in rows] for name in names})
        parquet.write_table(table, path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_a_record_without_a_side_is_counted_with_its_number(name, tmp_path):
    write(tmp_path / name, SHORT)
    done = headway("data", "check", name, cwd=tmp_path, check=None)
    assert done.returncode in (0, 3) and "unexpected" not in done.stderr, done.stderr
    assert "3: the object must have a text under 'target'" in done.stdout
