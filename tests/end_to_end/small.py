"""A tiny language pair, and a tiny translator for it, through the real command line."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from headway.cli.main import main

ROOT = Path(__file__).resolve().parents[2]

NOUNS = {"fox": "fuchs", "dog": "hund", "baker": "bäcker", "lemon": "zitrone", "tree": "baum"}
VERBS = {"sees": "sieht", "likes": "mag", "paints": "malt"}
COLOURS = {"red": "rote", "old": "alte", "small": "kleine", "": ""}

TINY = [
    *("--model.model-dim", "24", "--model.num-heads", "3", "--model.ffn-dim", "40"),
    *("--model.encoder-layers", "1", "--model.decoder-layers", "2", "--data.vocabulary", "300"),
    *("--training.tokens", "220", "--schedule.warmup", "5", "--threads", "1"),
    *("--evaluation.sentences", "6", "--evaluation.every", "10", "--checkpoint.every", "5"),
]


def sentences() -> list[tuple[str, str]]:
    """240 sentences of a grammar, in a fixed order that does not follow the grammar."""
    pairs = []
    for colour, farbe in COLOURS.items():
        for subject, wer in NOUNS.items():
            for verb, tut in VERBS.items():
                for thing in ("lemon", "tree", "dog", "fox"):
                    source = f"the {colour} {subject} {verb} the {thing}".replace("  ", " ")
                    target = f"{farbe} {wer} {tut} {NOUNS[thing]}".strip()
                    pairs.append((source, target))
    return sorted(pairs, key=lambda pair: pair[0][::-1])


def write_corpus(folder: Path) -> Path:
    """train.tsv, valid.tsv, test.tsv with a header; no source stands in two of them."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = sentences()
    splits = {"train": pairs[20:], "valid": pairs[:10], "test": pairs[10:20]}
    for split, rows in splits.items():
        lines = ["en\tde", *("\t".join(row) for row in rows)]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def train_words(data: Path, run: str, *more: str) -> list[str]:
    start = ["train", "translate", str(data), "--source", "en", "--target", "de", "--run", run]
    return [*start, *TINY, *more]


def headway(
    *words: str, cwd: Path, text: str | bytes = "", check: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, where torch is loaded already, as in a pipe.

    `check` is the expected exit code; None for any.
    """
    torch.set_num_threads(1)
    streams = {name: io.TextIOWrapper(io.BytesIO(), "utf-8") for name in ("stdout", "stderr")}
    standard_input = io.TextIOWrapper(io.BytesIO(raw(text)), "utf-8")
    program = str(ROOT / "src" / "headway" / "__main__.py")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.chdir(cwd)
        patch.setattr("sys.argv", [program, *words])
        for name, stream in {**streams, "stdin": standard_input}.items():
            patch.setattr(f"sys.{name}", stream)
        main()
    printed = (stream.buffer.getvalue() for stream in streams.values())
    return finished(words, int(end.value.code or 0), *printed, check)


def headway_process(
    *words: str, cwd: Path, text: str | bytes = "", check: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """As `headway`, in a process of its own (3 seconds), where the process is what is tested."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "headway", *words],
        cwd=cwd,
        input=raw(text),
        capture_output=True,
        env=environment,
        timeout=120,
        check=False,
    )
    return finished(words, done.returncode, done.stdout, done.stderr, check)


def raw(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def finished(
    words: Sequence[str], code: int, output: bytes, errors: bytes, check: int | None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.CompletedProcess(words, code, output.decode(), errors.decode())
    assert "Traceback" not in done.stderr, done.stderr
    assert check is None or code == check, done.stderr
    return done


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]
