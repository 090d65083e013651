"""Requests and replies in the form of LibreTranslate, a translation server.

{"q": text or list of texts, "source": "en", "target": "de", "alternatives": 0} is answered by
{"translatedText": text or list of texts}. The languages must be those of the model. A model that
no file tells its languages translates as it was trained to, whatever a request names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headway.base.errors import UsageError
from headway.tasks.translation.bundle import TranslatorBundle
from headway.tasks.translation.options import Translated, TranslateInput, TranslateOptions
from headway.tasks.translation.pair_files import same_language

MOST_ALTERNATIVES = 10
FIELDS = ("q", "source", "target", "format", "alternatives")


def is_request(fields: Mapping[str, object]) -> bool:
    """Return whether a request has this form."""
    return "q" in fields


def read_request(
    bundle: TranslatorBundle, fields: Mapping[str, object]
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
    check_languages(bundle, source, target)
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


def targets_of(bundle: TranslatorBundle) -> dict[str, tuple[str, ...]]:
    """Return source language -> target languages; empty if no file names them."""
    if bundle.tokenizer.languages is not None:
        codes = tuple(sorted(bundle.tokenizer.languages.ids))
        return dict.fromkeys(codes, codes)
    directions = bundle.origin.directions
    if bundle.languages:
        directions = tuple(d for d in directions if d.target in bundle.languages)
    sources = dict.fromkeys(direction.source for direction in directions)
    return {
        source: tuple(dict.fromkeys(d.target for d in directions if d.source == source))
        for source in sources
    }


def check_languages(bundle: TranslatorBundle, source: str, target: str | None) -> None:
    """Raise UsageError, with the languages of the model, for a direction that it does not have."""
    if bundle.tokenizer.languages is not None:
        return  # `TranslatorBundle.into` names the nearest languages
    known = targets_of(bundle)
    targets = bundle.languages or tuple(dict.fromkeys(t for ts in known.values() for t in ts))
    if known and source != "auto" and not any(same_language(source, name) for name in known):
        raise _not_translated("source", source, known)
    if target is None or not targets:
        return
    if source != "auto" and known:
        targets = tuple(t for name, ts in known.items() if same_language(source, name) for t in ts)
    exact = bool(bundle.languages)  # its names are tokens
    if not any(target == name or (not exact and same_language(target, name)) for name in targets):
        raise _not_translated("target", target, known or {"auto": targets})


def _not_translated(field: str, language: str, known: Mapping[str, Sequence[str]]) -> UsageError:
    listed = "; ".join(f"{source} to {', '.join(targets)}" for source, targets in known.items())
    return UsageError(f"{field} {language!r}: this model does not translate it; it has {listed}")


def reply(fields: Mapping[str, object], predictions: Sequence[Translated]) -> dict[str, object]:
    """Return the reply: one text for one text, a list for a list."""
    best = [prediction.translations[0].text for prediction in predictions]
    others = [[t.text for t in prediction.translations[1:]] for prediction in predictions]
    is_list = isinstance(fields["q"], list)
    result: dict[str, object] = {"translatedText": best if is_list else best[0]}
    if _number(fields.get("alternatives", 0)):
        result["alternatives"] = others if is_list else others[0]
    return result


def _texts(value: object) -> list[str]:
    texts: list[str] = []
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str) or not text.strip() or "\0" in text:
            raise UsageError("q must be a text that is not empty, or a list of such texts")
        texts.append(text)
    return texts


def _number(value: object) -> int:
    try:
        number = int(value) if isinstance(value, int | float | str) else -1
    except (ValueError, OverflowError):
        number = -1
    if not 0 <= number <= MOST_ALTERNATIVES:
        raise UsageError(f"alternatives must be a number from 0 to {MOST_ALTERNATIVES}")
    return number
