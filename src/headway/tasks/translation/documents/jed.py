"""JSON catalogues of web pages, in the form of Jed: read as sentence pairs.

A catalogue is an object from messages to the list of their plural forms; the key "" has the header,
and a context is written before the message and the character U+0004, as in an MO file.
"""

from __future__ import annotations

from collections.abc import Iterator

from headway.base.errors import DataError
from headway.base.files import parse_json


def jed_pairs(data: bytes, where: str) -> Iterator[tuple[int, str, str]]:
    """Yield the number, the source and the first form of the messages in the bytes of a catalogue.

    where: its name in errors. The catalogue has no plural source, so further forms are left out.
    Raises DataError, with the number of the message, for anything but such a catalogue.
    """
    catalogue = parse_json(data, where)
    if not isinstance(catalogue, dict):
        raise DataError("the catalogue must be a JSON object, but is another JSON value", where)
    for number, (key, forms) in enumerate(catalogue.items(), start=1):
        if not key:
            continue
        if not _is_forms(forms):
            raise DataError(
                "the value of a message must be a list of texts, its plural forms, but is "
                f"{type(forms).__name__}",
                f"{where}, message {number:,}",
                "write it as in the documentation of Jed",
            )
        source = key.rpartition("\4")[2]
        if source.strip() and forms and forms[0].strip():
            yield number, source, forms[0]


def _is_forms(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(form, str) for form in value)
