"""The model card of a saved or exported model: README.md, with what its run recorded."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from headway.base.config_files import RUN_FILE
from headway.base.files import read_json, write_file
from headway.base.metrics_file import ASIDE, Event, read_log
from headway.bundle import Bundle
from headway.data.overlap import FEWEST, WORDS, Overlap
from headway.models.contracts import parameter_count
from headway.runs.data_files import NAME as DATA_FILES
from headway.runs.overlap import LARGEST, overlap_of
from headway.runs.recipes import AnyRunConfig, beside_recipe, saved
from headway.tasks.opening import with_article

CARD = "README.md"
FETCHED = ("SOURCES.md", "licences")
"""What `headway data fetch` writes beside data: packages, versions and licences."""
LICENCE = (
    "The licences of the data and of this model are not known to Headway. Add them here before you "
    "publish the model."
)
LOADED = "headway.load(FOLDER)  # in Python; every command of headway takes the folder, too"
ONE_RUN = (
    "The scores are those of one run with one seed, on examples that were held out from training. "
    "They say nothing about texts or images of another kind."
)


def write_card(
    bundle: Bundle,
    run: Path,
    folder: Path,
    *,
    use: str = LOADED,
    checked: str = "",
    facts: Sequence[tuple[str, str]] = (),
    largest: int = LARGEST,
) -> None:
    """Write README.md into the folder of a model.

    run: its run, or any other folder, of which nothing is known. use: code that loads the model.
    checked: how an exported model was compared with the original. facts: names and values of what
    was measured of the exported model. largest: as in `overlap_of`.
    """
    kind, parameters = with_article(bundle.kind), parameter_count(bundle.model)
    description = f"{kind[0].upper()}{kind[1:]} with {parameters:,} parameters"
    how = "exported" if checked else "saved"
    lines = [f"# {run.resolve().name}", "", f"{description}, {how} by Headway.", ""]
    lines += ["```", use.replace(str(folder), folder.name), "```", ""]  # not a path of this machine
    if checked:
        lines += ["## Checked", "", f"{checked[0].upper()}{checked[1:]}.", ""]
    if facts:
        lines += [*_section("Size and scores", "Of this folder."), *_table(("", ""), facts)]
    if (run / RUN_FILE).is_file():
        lines += _of_run(run, largest)
    lines += ["## Limits", "", *([ONE_RUN, ""] if (run / RUN_FILE).is_file() else []), LICENCE]
    write_file(folder / CARD, ("\n".join(lines) + "\n").encode())


def _of_run(run: Path, largest: int) -> Iterator[str]:
    """Yield the sections on scores, training, settings and data."""
    config, log = saved(run), read_log(run / "metrics.jsonl")
    best = next((event for event in reversed(log.get("valid", [])) if event.get("is_best")), None)
    if best is not None:
        scores = [(name, f"{value:.4g}") for name, value in best.items() if _is_score(name, value)]
        yield from _section("Scores", f"On held-out examples, at step {best['step']:,}.")
        yield from _table(("metric", "value"), scores)
    yield from _section("Training", f"Recipe `{config.recipe}`.")
    yield from _table(("", ""), _training(log))
    yield from _settings(config)
    recorded = read_json(run / DATA_FILES) if (run / DATA_FILES).is_file() else {}
    if isinstance(recorded, dict) and recorded:
        rows = [
            (f"`{Path(path).name}`", f"{state.get('bytes', '')}", f"`{state.get('sha256', '')}`")
            for path, state in recorded.items()
            if isinstance(state, dict)
        ]
        yield from _section("Data", "The files that the run was given.")
        yield from _table(("file", "bytes", "SHA-256"), rows)
        for folder in sorted({Path(path).parent for path in recorded}):
            if all((folder / name).exists() for name in FETCHED):
                yield from _section("Sources of the data", "As `headway data fetch` wrote them.")
                text = (folder / FETCHED[0]).read_text(encoding="utf-8", errors="replace")
                yield from [*(f"> {line}" for line in text.splitlines()), ""]
    yield from _section("Training data and held-out data", _overlap(overlap_of(run, largest)))


def _overlap(found: Overlap | str) -> str:
    """Return how many held-out examples are in the training data, in a sentence."""
    if isinstance(found, str):
        return f"Whether held-out examples are in the training data is not known: {found}."
    count = f"{found.examples:,} different held-out examples"
    equal = f"Of {count}, {found.equal:,} are in the training"
    if found.near is None:
        return f"{equal} data."
    return (
        f"{equal} data word for word, and {found.near:,} more share {WORDS} words in a row with a "
        f"training example (shorter ones: all words in a row; those of fewer than {FEWEST} words: "
        "all words of the training example)."
    )


def _is_score(name: str, value: object) -> bool:
    return name not in ASIDE and isinstance(value, int | float)


def _training(log: Mapping[str, list[Event]]) -> Iterator[tuple[str, str]]:
    """Yield what the run says of itself: the model, its batches, its budget, its machine."""
    plan = next(iter(log.get("plan", [])), {})
    for key in ("model", "batches", "machine", "seed"):
        if key in plan:
            yield key, str(plan[key])
    steps = [event["step"] for event in log.get("train", [])]
    if steps:
        yield "updates", f"{steps[-1]:,}"
    seconds = [event["seconds"] for event in log.get("train", []) if "seconds" in event]
    if seconds:
        yield "time", f"{seconds[-1] / 60:.1f} minutes"


def _settings(config: AnyRunConfig) -> Iterator[str]:
    """Yield the settings that differ from the recipe's, but for paths of the user's machine."""
    changed = [
        (f"`{key}`", f"`{value}`")
        for key, _, value in beside_recipe(config)
        if "/" not in str(value)
    ]
    if changed:
        yield from _section("Settings", "Those that differ from the recipe.")
        yield from _table(("setting", "value"), changed)


def _section(title: str, text: str) -> list[str]:
    return [f"## {title}", "", text, ""]


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [header, ("---",) * len(header), *rows]
    return [f"| {' | '.join(cell.replace('|', ' ') for cell in line)} |" for line in lines] + [""]
