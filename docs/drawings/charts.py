"""The charts above the tables of docs/results.md and docs/speed.md, drawn from these tables.

Every number is read from its row, so that chart and table cannot disagree; a row that is renamed
or lost is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from drawings.kit import Sheet
from drawings.tables import Table, table

LEFT = 158
"""Where bars begin; their names are left of it."""
WIDE = 178
"""Width of the longest bar."""
Bars = Mapping[str, Sequence[tuple[float, str]]]
"""Name of a row -> the values of its bars, and the text beside each."""


def _chart(title: str, unit: str, bars: Bars, legend: Sequence[str], line: str = "") -> Sheet:
    """Horizontal bars in groups. legend: what the bars of a group are. line: the name of 1."""
    most = max(value for group in bars.values() for value, _ in group)
    top = 26 + 18 * len(legend) + (16 if line else 0)
    steps = [15 * len(group) + 9 for group in bars.values()]
    sheet = Sheet(top + sum(steps) + 4, title)
    sheet.text(8, 16, unit, "small soft start")
    kinds = ("more", "line") if len(legend) > 1 else ("more",)
    one = LEFT + WIDE / most
    if line:
        sheet.line((one, top - 6), (one, top + sum(steps) - 6), kind="accent")
        sheet.text(one, top - 10, line, "small accent")
    for number, name in enumerate(legend if len(legend) > 1 else ()):
        sheet.bar(8, 24 + 18 * number, 12, 11, kinds[number])
        sheet.text(26, 34 + 18 * number, name, "small start")
    y = float(top)
    for (name, group), step in zip(bars.items(), steps, strict=True):
        sheet.text(LEFT - 6, y + 7.5 * len(group) + 4, name, "small end")
        for number, (value, shown) in enumerate(group):
            width = WIDE * value / most
            sheet.bar(LEFT, y + 15 * number, width, 13, kinds[number])
            x = LEFT + width + 5
            if line and x - 3 < one < x + 28:  # a number is not written over the line
                x = one + 4
            sheet.text(x, y + 15 * number + 11, shown, "small start")
        y += step
    return sheet


def _number(text: str) -> float:
    """The first number of a cell."""
    match = re.search(r"\d[\d,]*(?:\.\d+)?", text)
    if match is None:
        raise ValueError(f"there is no number in the cell {text!r}")
    return float(match[0].replace(",", ""))


def minutes(text: str) -> float:
    """The longest time of a cell such as "Zen 5, 2 min 8 s" or "54 to 108 s", in minutes."""
    if match := re.search(r"([\d.]+) min(?: (\d+) s)?", text):
        return float(match[1]) + float(match[2] or 0) / 60
    if match := re.search(r"(\d[\d,]*) (?:CPU )?s\b", text):
        return float(match[1].replace(",", "")) / 60
    raise ValueError(f"there is no time in the cell {text!r}")


def _results() -> Table:
    return table("results.md", "Headway")


def _speed() -> Table:
    return table("speed.md", "compared with")


TRAININGS = {
    "names of emoji, English-French, 371 names": ("names of emoji", "{} BLEU"),
    "Multi30k English-German, test_2016_flickr": ("Multi30k, en-de", "{} BLEU"),
    "Tatoeba English-French, 2,000 validation pairs": ("Tatoeba, en-fr", "{} BLEU"),
    "Python's manual, last chapters": ("GPT, Python's manual", "{} bits/byte"),
    "BERT from scratch, 1,682 pairs of texts": ("BERT, next sentence", "{}"),
    "handwritten digits, 385 images": ("handwritten digits", "{}"),
    "Fashion-MNIST, 2,000 images": ("Fashion-MNIST", "{}"),
    "twenty spoken words, 160 files": ("twenty spoken words", "{} of 160"),
    "spoken phrases, 709 words": ("spoken phrases", "{} word errors"),
}


def training_times() -> Sheet:
    bars = {}
    for first, (name, form) in TRAININGS.items():
        row = _results().row(first)
        time = minutes(row["machine, training time"])
        bars[name] = [(time, form.format(row["Headway"].replace(" %", "\u2009%")))]
    return _chart("Minutes of training from scratch", "minutes of training, from scratch", bars, ())


def _beside(first: str) -> Sequence[tuple[float, str]]:
    row = _results().row(first)
    cells = row["Headway"], row["for comparison"].partition("transformers ")[2].split()[-1]
    return [(_number(cell), cell) for cell in cells]


def beside_transformers() -> Sheet:
    bars = {
        "SST-2": _beside("SST-2, 872 sentences, from MiniLM"),
        "CLINC150": _beside("CLINC150, 3,100 questions, from MiniLM"),
        "WNUT-17, F1": _beside("WNUT-17, 1,009 sentences, from MiniLM"),
        "SQuAD 1.1, F1": _beside("SQuAD 1.1, 1,019 questions, from MiniLM"),
        "CIFAR-10, from scratch": _beside("CIFAR-10, 1,000 images, 12 epochs of 10,000"),
    }
    title = "Scores of the same training in two libraries"
    return _chart(title, "accuracy or F1 of the same training", bars, ("Headway", "transformers"))


def translation() -> Sheet:
    results = _results()
    multi30k = results.row("Multi30k English-German, test_2016_flickr")
    rows = [row for row in results.rows if row[0] == "the same, ensemble of two seeds"]
    ensembles = [row[list(results.columns).index("Headway")] for row in rows]
    five = results.row("Tatoeba English-French, 1,000 validation pairs")["Headway"]
    long = results.row("Tatoeba English-French, 2,000 validation pairs")["Headway"]
    cells = {
        "Multi30k, plain loop": multi30k["for comparison"].rpartition(" ")[2],
        "Multi30k, one model": multi30k["Headway"],
        "ensemble, Zen 5": ensembles[0],
        "ensemble, Zen 3": ensembles[1],
        "Tatoeba, 5 minutes": five.partition(";")[0],
        "Tatoeba, 22 minutes": long,
    }
    bars = {name: [(_number(cell), cell)] for name, cell in cells.items()}
    return _chart("BLEU of translators trained from scratch", "BLEU", bars, ())


def _ratios(column: str, rows: Mapping[str, str], second: str | None = None) -> Bars:
    """The ratios of rows in a column: "a; b" are two bars, or `second` is another column."""
    bars: dict[str, list[tuple[float, str]]] = {}
    for first, name in rows.items():
        row = _speed().row(first)
        cells = [row[column], row[second]] if second else row[column].split("; ")
        shown = [cell.partition(" (")[0] for cell in cells if cell]
        bars[name] = [(_number(cell), cell) for cell in shown]
    return bars


def laptops() -> Sheet:
    rows = {
        "train a translator, float32": "train a translator",
        "train a language model": "train a language model",
        "translate with a small translator, beam 4, default options": "translate, beam 4",
        "translate, 6+6 x 512, 32 sentences, greedy": "larger one, greedy",
        "generate with GPT-2 124 M, one text": "GPT-2, one text",
        "generate with GPT-2 124 M, 8 texts (H200: 64)": "GPT-2, 8 texts",
        "encode 1,000 sentences with MiniLM": "encode sentences",
    }
    bars = _ratios("Zen 5", rows, "Zen 4")
    title = "Speed beside transformers on two cores"
    return _chart(title, "times the speed of transformers", bars, ("Zen 5", "Zen 4"), "as fast")


def engines() -> Sheet:
    rows = {
        "GPT-2 124 M, one text, float32; int8": "GPT-2, one text",
        "GPT-2 124 M, 8 texts, float32; int8": "GPT-2, 8 texts",
        "translate, 6+6 x 512, greedy, float32; int8": "translate, greedy",
        "translate, 6+6 x 512, beam 4, float32; int8": "translate, beam 4",
        "a Llama of 201 M, one text, float32; int8; int4": "Llama, one text",
        "the same, a prompt of 400 tokens": "Llama, prompt",
    }
    bars = {name: group[:2] for name, group in _ratios("AVX2", rows).items()}
    title = "Speed beside CTranslate2 and llama.cpp, AVX2 only"
    unit = "times the speed of CTranslate2; Llama: of llama.cpp"
    return _chart(title, unit, bars, ("float32", "int8"), "as fast")


def gpu() -> Sheet:
    rows = {
        "train GPT-2 124 M, bfloat16, 32 x 1,024 tokens; with --graphs": "train GPT-2 124 M",
        "train GPT-2 350 M, the same batch; with --graphs": "train GPT-2 350 M",
        "generate with GPT-2 124 M, one text": "GPT-2, one text",
        "generate with GPT-2 124 M, 8 texts (H200: 64)": "GPT-2, 64 texts",
        "generate with GPT-2 XL, bfloat16, one text": "GPT-2 XL, one text",
        "translate, 6+6 x 512, 32 sentences, greedy": "translate, greedy",
        "the same, beam 4": "translate, beam 4",
    }
    bars = {name: group[:1] for name, group in _ratios("H200", rows).items()}
    title = "Speed beside compiled transformers on an H200"
    return _chart(title, "times the speed of transformers, H200", bars, (), "as fast")


CHARTS = {
    "training-times": training_times,
    "beside-transformers": beside_transformers,
    "translation": translation,
    "speed-cpu": laptops,
    "speed-engines": engines,
    "speed-gpu": gpu,
}
