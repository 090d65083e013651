"""python -m tests.safety_net.compare [NAME ...]: compare runs with their records."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.safety_net.cases import chosen_cases
from tests.safety_net.comparison import compare, read_record
from tests.safety_net.running import run_in_new_process


def main(names: Sequence[str]) -> int:
    """Print a report for each case; 1 if one of them differs."""
    records = run_in_new_process(chosen_cases(names))
    reports = [compare(name, read_record(name), now) for name, now in records.items()]
    for report in reports:
        print(report)
    failed = [report.case for report in reports if report.differences]
    print(f"{len(reports)} cases, {len(failed)} differ: {', '.join(failed) or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
