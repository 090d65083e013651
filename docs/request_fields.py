"""Makes docs/reference/request_fields.md from the tables that the server itself uses.

`python docs/request_fields.py` writes the page; a test compares it with the tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from headway.serving.http.app import ENDPOINTS
from headway.serving.http.known_fields import (
    LIBRETRANSLATE,
    PARAMETERS,
    PREDICTIONS,
    KnownFields,
    Refused,
    WithoutEffect,
)
from headway.serving.http.predictions import PredictionRequest
from headway.tasks.translation.libretranslate import FIELDS

PAGE = Path(__file__).parent / "reference" / "request_fields.md"
HEAD = """# Fields of requests

This page lists how `headway serve` treats each field that the clients of OpenAI, vLLM,
text-generation-inference, SGLang, llama.cpp, Ollama, Mistral, Jina, Cohere, Hugging Face and
LibreTranslate may send. A field is honoured, or refused (400) by name, or it changes no result. A
refused field is accepted with null and with a value that changes nothing. Unknown fields are
ignored; the header `x-headway-ignored-fields` of the reply names them. `python
docs/request_fields.py` makes this page from the tables of the server. [Serve models over
HTTP](../howto/serve.md) describes the routes.
"""


def page() -> str:
    """Return the text of the page."""
    sections = [HEAD]
    bodies = {e.path: e.body for e in ENDPOINTS if e.body is not None}
    for body in dict.fromkeys(bodies.values()):
        paths = ", ".join(f"`POST {path}`" for path, other in bodies.items() if other is body)
        honoured = (field.encode_name for field in structs.fields(body))
        sections.append(_section(paths, honoured, body.known))
    fields = (field.encode_name for field in structs.fields(PredictionRequest))
    sections.append(
        _section("`POST /translate`, `/classify` and the other verbs", fields, PREDICTIONS)
    )
    for verb, known in PARAMETERS.items():
        title = f"`parameters` of `POST /{verb}`"
        sections.append(_section(title, "the flags of `headway " + verb + "`", known))
    sections.append(
        _section("`POST /translate` in LibreTranslate's form", (*FIELDS, "model"), LIBRETRANSLATE)
    )
    return "\n".join(sections)


def _section(title: str, honoured: Iterable[str] | str, known: KnownFields) -> str:
    """Return a section. honoured: the names of fields, or a description of them."""
    names = honoured
    if not isinstance(honoured, str):
        names = ", ".join(f"`{name}`" for name in sorted(honoured))
    lines = [f"## {title}", "", f"Honoured: {names}.", "", "| field | otherwise |", "|---|---|"]
    lines += [f"| `{name}` | {_treatment(known[name])} |" for name in sorted(known)]
    return "\n".join(lines) + "\n"


def _treatment(treatment: Refused | WithoutEffect) -> str:
    if isinstance(treatment, WithoutEffect):
        return f"changes no result: {treatment.reason}"
    values = " or ".join(f"`{json.dumps(value)}`" for value in treatment.neutral)
    unless = f", unless it is {values}" if values else ""
    instead = f"; {treatment.instead}" if treatment.instead else ""
    return f"refused{unless}{instead}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
