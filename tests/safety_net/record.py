"""python -m tests.safety_net.record [NAME ...]: record what runs do today (all cases, or these).

Record with code whose behaviour is to be kept; every case that these start from is recorded too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.safety_net.cases import CASES, chosen_cases
from tests.safety_net.comparison import RECORDS, record_path, write_record
from tests.safety_net.running import run_in_new_process


def main(names: Sequence[str]) -> None:
    """Write one JSON file for each case; records of cases that no longer exist are deleted."""
    for name, record in run_in_new_process(chosen_cases(names)).items():
        write_record(name, record)
        print(f"recorded  {name}: {record_path(name).stat().st_size:,} bytes")
    for path in RECORDS.glob("*.json"):
        if path.stem not in CASES:
            path.unlink()
            print(f"deleted   {path.stem}: no such case")


if __name__ == "__main__":
    main(sys.argv[1:])
