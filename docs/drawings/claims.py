"""Figures of the claims that are measured by comparing trained models.

The numbers are read from the tables of docs/log/results.md, so that figure and table cannot differ.
"""

from __future__ import annotations

from drawings.kit import Sheet
from drawings.tables import DOCS, tables

RESULTS = DOCS / "log" / "results.md"


def table(claim: str, column: str) -> dict[str, str]:
    """The first table with this column below the heading of a claim, such as "(c)".

    Returns the text of its first column -> the text of the column. ValueError if there is none.
    """
    text = RESULTS.read_text(encoding="utf-8")
    section = text.partition(f"\n### {claim} ")[2].partition("\n### ")[0]
    for found in tables(section):
        if column in found.columns:
            place = list(found.columns).index(column)
            return {row[0]: row[place] for row in found.rows}
    raise ValueError(f"docs/log/results.md: claim {claim} has no table with a column {column!r}")


def _bars(values: dict[str, float], title: str, unit: str) -> Sheet:
    sheet = Sheet(44 + 36 * len(values), title)
    most = max(values.values())
    for number, (name, value) in enumerate(values.items()):
        y = 44 + 36 * number
        sheet.text(136, y + 5, name, "small end")
        sheet.bar(142, y - 9, 200 * value / most, 20)
        sheet.text(148 + 200 * value / most, y + 5, f"{value:g}", "small start")
    sheet.text(142, 14, unit, "small soft start")
    return sheet


def _bleu(claim: str, title: str) -> Sheet:
    rows = table(claim, "BLEU")
    values = {name.partition(", trained")[0]: float(text) for name, text in rows.items()}
    return _bars(values, title, "BLEU on Multi30k after 800 steps")


def score_functions() -> Sheet:
    return _bleu("(c)", "BLEU with seven score functions")


def number_of_heads() -> Sheet:
    rows = table("(e)", "BLEU")
    values = {
        f"{name} head{'s' if name != '1' else ''}": float(text) for name, text in rows.items()
    }
    return _bars(values, "BLEU with one to eight heads", "BLEU on Multi30k after 800 steps")


def growing_keys() -> Sheet:
    rows = table("(f)", "value")
    sheet = Sheet(132, "Time of the loop over prefixes, relative to one masked call")
    sheet.text(12, 18, "time of the loop / time of one masked call", "small soft start")
    for number, kernel in enumerate(("reference", "fused")):
        text = next(value for name, value in rows.items() if f", {kernel} kernel" in name)
        low, high = (float(part) for part in text.split(" to "))
        y = 44 + 38 * number
        sheet.text(112, y + 5, f"{kernel} kernel", "small end")
        sheet.line((120, y - 12), (120, y + 18))
        sheet.bar(120 + 4 * low, y - 9, 4 * (high - low), 20)
        sheet.text(126 + 4 * high, y + 5, f"{low:g} to {high:g}", "small start")
    sheet.text(12, 122, "sequences of 32 to 1,024 tokens", "small soft start")
    return sheet


def number_of_layers() -> Sheet:
    rows = {name: text for name, text in table("(g)", "BLEU").items() if "trained" not in name}
    values = {f"{name} layers": float(text) for name, text in rows.items()}
    return _bars(values, "BLEU with one to four layers", "BLEU on Multi30k after 800 steps")


def examples_in_the_prompt() -> Sheet:
    accuracy, best = (table("(i)", column) for column in ("accuracy", "best possible"))
    sheet = Sheet(44 + 36 * len(accuracy), "Accuracy by the number of examples in the prompt")
    sheet.text(142, 14, "accuracy; line: the best possible", "small soft start")
    for number, (name, text) in enumerate(accuracy.items()):
        y = 44 + 36 * number
        end = 142 + 200 * float(best[name])
        sheet.text(136, y + 5, f"{name} example{'s' if name != '1' else ''}", "small end")
        sheet.bar(142, y - 9, 200 * float(text), 20)
        sheet.line((end, y - 13), (end, y + 15))
        sheet.text(end + 6, y + 5, text, "small start")
    return sheet


def _by_kind(claim: str, column: str, line: str, title: str) -> Sheet:
    """Exact answers by kind: bars of a column, and lines at the values of the column `line`."""
    values, lines = table(claim, column), table(claim, line)
    sheet = Sheet(30 + 30 * len(values), title)
    sheet.text(112, 14, f"exact answers; line: {line}", "small soft start")
    for number, (name, text) in enumerate(values.items()):
        y = 38 + 30 * number
        value, other = (float(part.rstrip(" %")) for part in (text, lines[name]))
        sheet.text(106, y + 5, name, "small end")
        sheet.bar(112, y - 8, 2 * value, 16)
        sheet.line((112 + 2 * other, y - 11), (112 + 2 * other, y + 11))
        sheet.text(118 + 2 * max(value, other), y + 5, text, "small start")
    return sheet


def kinds_of_instructions() -> Sheet:
    title = "Exact answers by kind of instruction"
    return _by_kind("(j)", "known phrasings", "new phrasings", title)


def kinds_of_questions() -> Sheet:
    title = "Exact answers to questions about images, by kind"
    return _by_kind("(l)", "seen combinations", "held-out combinations", title)


def shorter_answers() -> Sheet:
    rows = {name: float(text) for name, text in table("(k)", "tokens of an answer").items()}
    return _bars(rows, "Length of answers before and after training", "tokens of an answer")


DRAWINGS = {
    "claim-c": score_functions,
    "claim-e": number_of_heads,
    "claim-f": growing_keys,
    "claim-g": number_of_layers,
    "claim-i": examples_in_the_prompt,
    "claim-j": kinds_of_instructions,
    "claim-k": shorter_answers,
    "claim-l": kinds_of_questions,
}
