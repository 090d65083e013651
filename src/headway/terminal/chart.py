"""A curve as rows of block characters, for terminals."""

import statistics
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = " ▁▂▃▄▅▆▇█"
PARTS = len(BLOCKS) - 1


def block_chart(values: Sequence[float], top: float, *, width: int, rows: int = 7) -> list[str]:
    """Draw bars of the values in `rows` lines of at most `width` characters.

    The lowest bar has the height of one eighth of a row, and higher values than `top` that of the
    chart. With more values than columns, a bar is the mean of neighbouring ones.
    """
    columns = min(width, len(values))
    ends = [round(at * len(values) / columns) for at in range(columns + 1)]
    means = [statistics.fmean(values[begin:end]) for begin, end in pairwise(ends)]
    bottom = min(means)
    scale = (rows * PARTS - 1) / max(top - bottom, 1e-12)
    heights = [min(rows * PARTS, 1 + round((mean - bottom) * scale)) for mean in means]
    return [
        "".join(BLOCKS[min(PARTS, max(0, height - row * PARTS))] for height in heights).rstrip()
        for row in reversed(range(rows))
    ]
