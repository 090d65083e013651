"""Limits on the texts of requests, which are checked before any text is tokenized.

To tokenize 25 MB takes a minute, and to refuse them must take none.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from headway.serving.http.replies import ApiError

R = TypeVar("R")

TEXT_BODY = 4_000_000
"""Bytes of a body that has texts only; JSON is parsed while all other requests wait."""
FORM_BODY = 1_000_000
"""Bytes of a body in the form of HTML's forms, which take more time."""
SHORT = 8_000
"""Bytes of a request whose texts are tokenized at once. Another thread would begin up to 5 ms later
for each thread that computes."""
LONGEST_TEXT, LONGEST_TEXTS = 100_000, 1_000_000
"""Characters of a text, and of all texts of a request, for models that truncate or refuse texts
beyond their maximum length."""


async def beside_others(size: int, function: Callable[..., R], *arguments: object) -> R:
    """Return function(*arguments), which reads texts of `size` bytes.

    Above `SHORT` a thread calls it, so that no other request waits for it.
    """
    if size <= SHORT:
        return function(*arguments)
    return await run_in_threadpool(function, *arguments)


def check_characters(texts: Sequence[str], param: str) -> None:
    """Raise ApiError 400 for a text that is too long, and for texts that are too long together."""
    for n, text in enumerate(texts):
        if len(text) > LONGEST_TEXT:
            message = f"text {n} has {len(text):,} characters; the maximum is {LONGEST_TEXT:,}"
            raise ApiError(400, message, param=param)
    if (total := sum(map(len, texts))) > LONGEST_TEXTS:
        message = f"the texts have {total:,} characters; the maximum is {LONGEST_TEXTS:,}"
        raise ApiError(400, f"{message} in one request", param=param)


def check_body(body: bytes, limit: int | None) -> None:
    """Raise ApiError 413 for a body of more than `limit` bytes; None: every body is accepted."""
    if limit is not None and len(body) > limit:
        message = f"the body has {len(body):,} bytes; the maximum of this route is {limit:,}"
        raise ApiError(413, message)
