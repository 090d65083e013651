"""`headway bench`: scores of language models on published and generated suites, offline."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from headway.base.errors import UsageError
from headway.base.files import json_bytes, make_folder, write_file
from headway.base.settings import SEED as SEEDS
from headway.base.settings import count, setting
from headway.cli.flags import OUTPUT, RUN, as_flags
from headway.cli.machine import MachineFlags
from headway.data.overlap import FEWEST, WORDS, overlapping
from headway.suites import (
    GENERATED,
    SEED,
    Plan,
    Result,
    Suite,
    answerer_of,
    generated,
    measure,
    read_suite,
)
from headway.suites.contamination import documents, size_of, training_texts
from headway.suites.curve import curve
from headway.suites.metrics import Measured
from headway.suites.submission import submissions
from headway.terminal.console import data, data_json, say
from headway.terminal.progress import progress

ALL = "generated"
MOST = 64
"""The most solved examples of a prompt."""
MOST_GENERATED = 10_000
"""The most rows of a generated suite."""
LARGEST = 64 * 2**20
"""Size of the training texts in bytes up to which their overlap with the rows is measured."""
FILES = ("results.json", "rows.jsonl", "shots.svg")


@as_flags
class BenchFlags(MachineFlags):
    suite: str = setting(
        "",
        "Folder or file of one benchmark in its official layout, or a generated suite: "
        f"{', '.join(GENERATED)}; {ALL} is all of these.",
    )
    shots: str = setting(
        "0",
        "Number of solved examples in each prompt; several, as in 0,1,2,4,8, give a table and a "
        "curve.",
    )
    limit: int | None = count(
        None, "Maximum number of rows, sampled with the seed. If unset, all rows.", 10_000_000
    )
    split: Literal["train", "validation", "test"] | None = setting(
        None, "Part of the data that is measured. If unset, that of the layout."
    )
    layout: str | None = setting(
        None, "Layout of the files, such as blimp. If unset, it is recognised by the files."
    )
    examples: Literal["random", "balanced", "first"] | None = setting(
        None,
        "How the solved examples are chosen from the training part: again at random for each row, "
        "in equal numbers of each class, or the first ones. If unset, as the layout prescribes.",
    )
    source: str | None = setting(None, "Source language of a translation suite, as in file names.")
    target: str | None = setting(None, "Target language of a translation suite.")
    overlap: Literal["auto", "yes", "no"] = setting(
        "auto",
        f"Count the rows of which {WORDS} words in a row are in the training texts of the run; "
        "auto: if these have at most 64 MB.",
    )
    seed: int = count(
        SEED, "Seed of the rows, of the examples and of generated suites.", SEEDS, least=0
    )
    output: Annotated[Path | None, OUTPUT] = setting(
        None, f"Folder for {', '.join(FILES)}, and the predictions on a test part of GLUE."
    )
    json: bool = setting(False, "Print one JSON object per suite.")


def bench(
    run: Annotated[Path, RUN],
    /,
    *,
    flags: BenchFlags = BenchFlags(),
) -> None:
    """Score a model on a benchmark in a local folder, or on a generated suite.

    No file is downloaded. Prompts and metrics are those of the Language Model Evaluation Harness.
    """
    plan = Plan(
        shots=_shots(flags.shots),
        limit=flags.limit,
        split=flags.split,
        sampling=flags.examples,
        seed=flags.seed,
    )
    suites = list(_suites(flags))
    _check_output(flags.output, suites)
    loader = flags.prepare()
    answerer = answerer_of(loader.load(run))
    results = []
    for suite in suites:
        overlap = _overlap(run, suite, plan, flags.overlap)
        with loader.precision(), progress(f"measuring {suite.name}") as report:
            result = measure(answerer, suite, plan, report)
        results.append(result)
        if flags.json:
            data_json({"model": str(run), **result.as_dict(), "overlap": overlap})
        else:
            for line in _lines(result, overlap):
                data(line)
    if flags.output is not None:
        _write(flags.output, run, suites, results)


def _shots(text: str) -> tuple[int, ...]:
    """Parse --shots. UsageError unless it is one or more different numbers from 0 to `MOST`."""
    words = [word.strip() for word in text.split(",")]
    if all(word.isdecimal() and int(word) <= MOST for word in words):
        numbers = tuple(map(int, words))
        if len(set(numbers)) == len(numbers):
            return numbers
    raise UsageError(
        f"--shots {text}: must be numbers of examples from 0 to {MOST}, each once",
        hint="--shots 0,1,2,4,8",
    )


def _check_output(folder: Path | None, suites: Sequence[Suite]) -> None:
    """UsageError if a file of the results exists in the folder. Called before measuring."""
    submitted = (name for suite in suites for name in suite.layout.submission.values())
    names = dict.fromkeys((*FILES, *submitted))
    existing = [] if folder is None else [name for name in names if (folder / name).exists()]
    if existing:
        raise UsageError(
            f"files exist already: {', '.join(existing)}", str(folder), "choose another folder"
        )


def _suites(flags: BenchFlags) -> Iterator[Suite]:
    """Yield the suites of --suite. UsageError if it names none."""
    if not flags.suite:
        raise UsageError(
            "--suite is missing: it names what is measured",
            hint=f"--suite FOLDER, or one of: {', '.join((ALL, *GENERATED))}",
        )
    names = list(GENERATED) if flags.suite == ALL else [flags.suite]
    if set(names) <= set(GENERATED) and not Path(flags.suite).exists():
        rows = {} if flags.limit is None else {"rows": min(flags.limit, MOST_GENERATED)}
        for name in names:
            yield generated(name, flags.seed, **rows)
        return
    languages = None
    if flags.source is not None and flags.target is not None:
        languages = (flags.source, flags.target)
    yield read_suite(Path(flags.suite), flags.layout, languages=languages)


def _overlap(run: Path, suite: Suite, plan: Plan, wanted: str) -> dict[str, object] | None:
    """The rows of which words are in the training texts of the run; None if not measured."""
    sources = [] if wanted == "no" else training_texts(run)
    if not sources:
        if wanted == "yes":
            raise UsageError(
                f"--overlap yes: {run} names no training texts that exist",
                hint="measure a run folder, on the machine that has its texts",
            )
        return None
    if (size := size_of(sources)) > LARGEST and wanted == "auto":
        say(f"overlap   not measured: the training texts have {size:,} bytes (--overlap yes)")
        return None
    _, parts = suite.evaluated(plan.split)
    rows = [part.question.content for part in parts]
    with progress("comparing with the training texts"):
        shared = sum(overlapping(rows, documents(run, sources)))
    return {"rows": shared, "of": len(rows), "words": WORDS, "texts": sources}


def _lines(result: Result, overlap: dict[str, object] | None) -> Iterator[str]:
    """The result as text: a line for each metric, or a table by the number of examples."""
    yield f"{result.suite}: {result.about}"
    counts = f"{result.rows:,} rows of the part {result.split}, sha256 {result.sha256[:12]}"
    if result.unlabelled:
        counts += f"; {result.unlabelled:,} without a label"
    yield counts
    if overlap is not None:
        yield (
            f"{overlap['rows']:,} of {overlap['of']:,} rows share {overlap['words']} words in a "
            "row with the training texts (shorter rows: all words; of fewer than "
            f"{FEWEST} words: those of a whole text)"
        )
    several = len(result.measurements) > 1
    for measurement in result.measurements:
        if several:
            yield f"{measurement.shots} examples"
        for metric in measurement.metrics:
            yield f"  {_metric(metric)}"
        if not several:
            for name, metric in measurement.groups.items():
                yield f"    {name:<32} {_metric(metric)}"


def _metric(metric: Measured) -> str:
    parts = [f"{metric.name:<16} {metric.value:10.4f}"]
    if metric.low is not None and metric.high is not None:
        parts.append(f"95 % {metric.low:.4f} to {metric.high:.4f} ({metric.interval})")
    if metric.chance is not None:
        parts.append(f"chance {metric.chance:.4f}")
    return "   ".join(parts)


def _write(folder: Path, run: Path, suites: Sequence[Suite], results: Sequence[Result]) -> None:
    """Write the results, the rows, the files of predictions for GLUE and, of several numbers of
    examples, the curve."""
    make_folder(folder)
    report = {"model": str(run), "suites": [result.as_dict() for result in results]}
    write_file(folder / "results.json", json_bytes(report))
    lines = (
        json.dumps({"suite": result.suite, **asdict(row)}, ensure_ascii=False)
        for result in results
        for row in result.answers
    )
    write_file(folder / "rows.jsonl", (f"{line}\n".encode() for line in lines))
    names = ["results.json", "rows.jsonl"]
    for suite, result in zip(suites, results, strict=True):
        for name, content in submissions(suite.layout, result).items():
            write_file(folder / name, content.encode())
            names.append(name)
    if len(results[0].measurements) > 1:
        curve(folder / "shots.svg", results)
        names.append("shots.svg")
    say(f"written   {folder}: {', '.join(names)}")
