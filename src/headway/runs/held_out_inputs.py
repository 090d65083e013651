"""Held-out inputs of a run, as its log and its film have them: examples for a page."""

from pathlib import Path

from headway.base.errors import HeadwayError
from headway.base.metrics_file import read_log
from headway.bundle import Bundle, TextBundle
from headway.data.text_corpus import TextCorpus
from headway.runs.attention_over_time import read_film
from headway.tasks.text_data import held_out_folder

MOST = 5
PASSAGES, LONGEST = 48, 128  # held-out passages, and tokens of a passage


def held_out_inputs(run: Path) -> list[str]:
    """Return up to five texts that the run evaluated its model on, without having trained on them.

    They are the inputs of its sample outputs; if these have no input, as those of a language model,
    the text of the run's film. Empty for a folder that is no run, and for
    inputs that are no texts.
    """
    try:
        return _of_samples(run) or _of_film(run)
    except (HeadwayError, OSError):
        return []  # an unfinished or damaged run: the page starts without examples


def held_out_passages(run: Path, bundle: Bundle) -> list[str]:
    """Return passages that are spread over the held-out text of a language model's run.

    Empty for a model that was trained elsewhere, and for a run of another kind.
    """
    if not isinstance(bundle, TextBundle):
        return []
    try:
        corpus = TextCorpus.open(held_out_folder(run), bundle.tokenizer)
    except HeadwayError:
        return []
    length = min(LONGEST, bundle.config.max_length - 1)  # <bos> precedes a passage
    count = min(PASSAGES, max(1, len(corpus) // length))
    starts = [number * len(corpus) // count for number in range(count)]
    texts = (
        bundle.tokenizer.decode(corpus.ids[start : start + length].tolist()) for start in starts
    )
    return [text for text in texts if text]


def _of_samples(run: Path) -> list[str]:
    log = run / "metrics.jsonl"
    rows = read_log(log).get("sample", []) if log.is_file() else []
    texts = [row.get("source") or row.get("prompt") or "" for row in reversed(rows)]
    return list(dict.fromkeys(text for text in texts if isinstance(text, str) and text.strip()))[
        :MOST
    ]


def _of_film(run: Path) -> list[str]:
    texts = [one.input for one in read_film(run).glimpses[:1]]
    return [text for text in texts if text is not None and text.strip()]
