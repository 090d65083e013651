"""Bodies of the type multipart/form-data, in which a client sends a file beside other fields.

RFC 7578. The guard of the server limits the size of a body, which is in memory already.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message

from starlette.requests import Request

from headway.serving.http.exchange import check_media_type
from headway.serving.http.replies import ApiError

MULTIPART = "multipart/form-data"
MOST_PARTS, LONGEST_HEAD = 64, 8_000  # parts of a body, bytes of the headers of a part


@dataclass(frozen=True)
class Part:
    """A field of a form. filename: None for a field that is no file."""

    content: bytes
    filename: str | None

    def text(self, name: str) -> str:
        """Return the content as text. Raises ApiError 400 if it is not UTF-8, naming the field."""
        try:
            return self.content.decode("utf-8")
        except UnicodeDecodeError:
            raise ApiError(400, f"{name} is not valid UTF-8", param=name) from None


async def read_multipart(request: Request) -> Mapping[str, list[Part]]:
    """Return name -> parts of a body, in order. Raises ApiError 400 or 415 for another body."""
    check_media_type(request, MULTIPART)
    header = request.headers.get("content-type", "")
    boundary = _parameters(f"Content-Type: {header}").get_param("boundary")
    if not isinstance(boundary, str) or not boundary.isascii() or not boundary:
        raise ApiError(400, f"Content-Type {MULTIPART} has no boundary; curl -F writes one")
    parts = (b"\r\n" + await request.body()).split(b"\r\n--" + boundary.encode())[1:]
    if not parts or not parts[-1].startswith(b"--"):
        raise ApiError(400, "the body does not end with the boundary that Content-Type names")
    if len(parts) - 1 > MOST_PARTS:
        raise ApiError(400, f"the form has {len(parts) - 1:,} fields; the maximum is {MOST_PARTS}")
    fields: dict[str, list[Part]] = {}
    for part in parts[:-1]:
        name, field = _part(part)
        fields.setdefault(name, []).append(field)
    return fields


def _part(part: bytes) -> tuple[str, Part]:
    """Return the name and the content of a part, which begins after its boundary."""
    head, blank, content = part.partition(b"\r\n\r\n")
    if not blank or len(head) > LONGEST_HEAD:
        raise ApiError(400, "a part of the form has no headers, or too long ones")
    described = _parameters(head.strip().decode("utf-8", errors="replace"))
    name = described.get_param("name", header="content-disposition")
    if described.get_content_disposition() != "form-data" or not isinstance(name, str):
        raise ApiError(400, 'a part of the form has no header Content-Disposition with a "name"')
    return name, Part(content, described.get_filename())


def _parameters(head: str) -> Message:
    """Return the headers of a text, one per line, whose parameters the result reads."""
    message = Message()
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        message[name.strip()] = value.strip()
    return message
