"""Times in transcripts: the rule by which a transcriber writes them, and the segments between them.

A window of sound is transcribed as `<|0.00|> words<|2.40|><|2.40|> words<|5.10|>`: each segment has
a time before and after it, in seconds from the start of the window, in steps of 0.02.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.shapes import Float, Tensor
from headway.data.speech import FRAMES_PER_SECOND
from headway.decoding import PartialOutput

STEP = 0.02  # seconds between two times
FRAMES_PER_STEP = round(STEP * FRAMES_PER_SECOND)


@dataclass(frozen=True)
class TimestampRule:
    """Forbids tokens after which the times would not be in pairs, or would not increase.

    An output begins with a time, of at most `latest_start` steps. After the words of a segment and
    its end comes another time, or the end of the output; after the beginning of a segment come
    words. A time is written if all times together are more probable than every other token.
    first_time: the token of 0.00; end: of the end of the output. Radford et al. 2023, section 4.5.
    """

    first_time: int
    end: int
    latest_start: int | None = None

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[PartialOutput]
    ) -> Float[Tensor, "N V"]:
        allowed = logits.clone()
        allowed[:, self.first_time - 1] = -torch.inf  # <|notimestamps|>
        for row, output in zip(allowed, written, strict=True):
            self._forbid(row, output.tokens)
        log_p = allowed.log_softmax(-1)
        of_times = log_p[:, self.first_time :].logsumexp(-1, keepdim=True)
        best_other = log_p[:, : self.first_time].amax(-1, keepdim=True)
        others = torch.arange(logits.shape[1], device=logits.device) < self.first_time
        return allowed.masked_fill(others & (of_times > best_other), -torch.inf)

    def _forbid(self, row: Float[Tensor, " V"], tokens: Sequence[int]) -> None:
        first = self.first_time
        if not tokens:
            row[:first] = -torch.inf
            if self.latest_start is not None:
                row[first + self.latest_start + 1 :] = -torch.inf
            return
        after_time = tokens[-1] >= first
        begins = after_time and (len(tokens) < 2 or tokens[-2] >= first)
        if begins:
            row[first:] = -torch.inf
        elif after_time:
            row[: self.end] = -torch.inf
        times = [token for token in tokens if token >= first]
        if times:
            # the beginning of a segment may be the end of the one before it
            ends = after_time and not begins
            row[first : times[-1] + (0 if ends else 1)] = -torch.inf


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The words from `start` to `end`, in seconds from the beginning of the recording."""

    start: float
    end: float
    text: str


@dataclass(frozen=True)
class TimedTokens:
    """The tokens of a segment, times included. start, end: frames from the start of the window."""

    start: int
    end: int
    tokens: tuple[int, ...]


def split_at_times(
    tokens: Sequence[int], first_time: int, frames: int
) -> tuple[list[TimedTokens], int]:
    """Return the segments of the output for a window, and the number of frames that it covers.

    The next window begins at the end of the last complete segment, unless the output ends with a
    single time: then there is no speech after it. An output without complete segments covers the
    window. frames: those of the window with sound. Radford et al. 2023, section 3.8.
    """

    def frame(token: int) -> int:
        return (token - first_time) * FRAMES_PER_STEP

    is_time = [token >= first_time for token in tokens]
    cuts = [i + 1 for i in range(len(tokens) - 1) if is_time[i] and is_time[i + 1]]
    if not cuts:
        times = [frame(token) for token in tokens if token > first_time]
        return [TimedTokens(0, times[-1] if times else frames, tuple(tokens))], frames
    is_complete = is_time[-2:] == [False, True]
    ends = [*cuts, len(tokens)] if is_complete else cuts
    parts = [tokens[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    segments = [TimedTokens(frame(part[0]), frame(part[-1]), tuple(part)) for part in parts]
    covered = frames if is_complete else segments[-1].end
    return segments, covered or frames
