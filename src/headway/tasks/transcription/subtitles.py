"""Transcripts as subtitles: SubRip (.srt) and WebVTT (.vtt)."""

from collections.abc import Iterator, Sequence

from headway.tasks.transcription.timestamps import Segment


def clock(seconds: float, point: str = ".") -> str:
    """Format a time as hours:minutes:seconds.milliseconds. point: the decimal point."""
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}{point}{rest % 1000:03}"


def srt_lines(segments: Sequence[Segment]) -> Iterator[str]:
    """Yield the lines of a SubRip file."""
    for number, segment in enumerate(segments, start=1):
        yield from (str(number), _span(segment, ","), segment.text, "")


def vtt_lines(segments: Sequence[Segment]) -> Iterator[str]:
    """Yield the lines of a WebVTT file. W3C, "WebVTT: The Web Video Text Tracks Format", 2019."""
    yield from ("WEBVTT", "")
    for segment in segments:
        text = segment.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        yield from (_span(segment, "."), text, "")


def _span(segment: Segment, point: str) -> str:
    return f"{clock(segment.start, point)} --> {clock(segment.end, point)}"
