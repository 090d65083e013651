"""Requests and replies in the form of LibreTranslate, a translation server.

{"q": text or list of texts, "source": "en", "target": "de", "alternatives": 0} is answered by
{"translatedText": text or list of texts}. A model for one direction ignores the languages, which
it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headway.errors import UsageError
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.options import TranslateInput, TranslateOptions
from headway.tasks.translation.predicting import Translated

MOST_ALTERNATIVES = 10


def is_request(fields: Mapping[str, Any]) -> bool:
    """Return whether a request has this form."""
    return "q" in fields


def read_request(
    bundle: TranslatorBundle, fields: Mapping[str, Any]
) -> tuple[list[TranslateInput], TranslateOptions]:
    """Return the inputs and options of a request. Raises UsageError for invalid fields."""
    texts = _texts(fields["q"])
    if fields.get("format", "text") not in ("text", ""):
        raise UsageError("format must be text: HTML is translated by headway translate -o")
    target = fields.get("target") or None
    if target is not None and not isinstance(target, str):
        raise UsageError("target must be the name of a language")
    source = fields.get("source") or "auto"
    if not isinstance(source, str):
        raise UsageError("source must be the name of a language")
    has_tokens = bundle.tokenizer.languages is not None
    alternatives = _number(fields.get("alternatives", 0))
    defaults = bundle.default_options
    options = replace(
        defaults,
        beam=max(defaults.beam, alternatives + 1),
        nbest=alternatives + 1,
        to=target if bundle.languages or has_tokens else None,
        from_language=source if has_tokens and source != "auto" else None,
    )
    return [TranslateInput(text=text) for text in texts], options


def reply(fields: Mapping[str, Any], predictions: Sequence[Translated]) -> dict[str, Any]:
    """Return the reply: one text for one text, a list for a list."""
    best = [prediction.translations[0].text for prediction in predictions]
    others = [[t.text for t in prediction.translations[1:]] for prediction in predictions]
    is_list = isinstance(fields["q"], list)
    result: dict[str, Any] = {"translatedText": best if is_list else best[0]}
    if _number(fields.get("alternatives", 0)):
        result["alternatives"] = others if is_list else others[0]
    return result


def _texts(value: Any) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise UsageError("q must be a text that is not empty, or a list of such texts")
    return texts


def _number(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= MOST_ALTERNATIVES:
        raise UsageError(f"alternatives must be a number from 0 to {MOST_ALTERNATIVES}")
    return number
