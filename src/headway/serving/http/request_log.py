"""The log of the server: JSON lines on standard error, without texts, keys and addresses."""

import json
import logging
import sys
import time
import traceback

from starlette.requests import Request

REQUESTS = logging.getLogger("headway.serving.requests")
ERRORS = logging.getLogger("headway.serving.errors")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, what happened, and its `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        return json.dumps(line, ensure_ascii=False)


def write_log(*, requests: bool) -> None:
    """Write errors, and if `requests` every request, to standard error, as lines of JSON only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for logger, level in ((ERRORS, logging.ERROR), (REQUESTS, logging.INFO)):
        logger.handlers = [handler] if requests or logger is ERRORS else [logging.NullHandler()]
        logger.setLevel(level)
        logger.propagate = False
    # asyncio warns in plain text of clients that leave early: "socket.send() raised exception."
    logging.getLogger("asyncio").setLevel(logging.ERROR)


def log_request(request: Request, status: int, begun: float) -> None:
    """Log a request that was answered; of a stream, when its first event was sent.

    begun: by `time.monotonic`. The path has no query, which may have texts.
    """
    fields = {
        "method": request.method,
        "path": request.url.path,
        "status": status,
        "ms": round(1000 * (time.monotonic() - begun), 1),
    }
    REQUESTS.info("request", extra={"fields": fields})


def log_error(request: Request, error: Exception) -> None:
    """Log an error that the server did not expect, with its traceback.

    The message of an exception may repeat what a client sent, so only its type is kept.
    """
    fields = {"path": request.url.path, "type": type(error).__name__}
    places = traceback.format_tb(error.__traceback__)
    ERRORS.error("internal error", extra={"fields": {**fields, "places": places[-8:]}})
