"""How many translations by CTranslate2 of an exported model are those of Headway.

    python -m bench.ctranslate2_agreement RUN FILE.tsv

RUN is a run of `headway train translate` with one vocabulary, FILE.tsv has its source language in
the first column, with a header. Both libraries translate the first 200 texts, greedily and with
beam 4, without length penalty.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import headway
from bench.peers import by_ctranslate2
from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.target import export
from headway.tasks.opening import load_as
from headway.tasks.translation.bundle import TranslatorBundle

TEXTS = 200


def main(run: str, file: str) -> None:
    import ctranslate2

    lines = Path(file).read_text(encoding="utf-8").splitlines()[1 : TEXTS + 1]
    texts = [line.split("\t")[0] for line in lines]
    bundle = load_as(TranslatorBundle, run)
    ours = {beam: bundle.translate(texts, beam=beam, length_penalty=0) for beam in (1, 4)}
    print(
        f"{len(texts)} texts, headway {headway.__version__}, ctranslate2 {ctranslate2.__version__}"
    )
    options = {"length_penalty": 0, "min_decoding_length": 0}
    for dtype in ("float32", "int8"):
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / dtype
            export(bundle, folder, CTRANSLATE2, dtype)
            for beam, results in ours.items():
                theirs = by_ctranslate2(str(folder), beam_size=beam, **options)(texts)
                equal = sum(a == b.strip() for a, b in zip(results, theirs, strict=True))
                print(f"{dtype:8} beam {beam}: {equal} of {len(texts)} equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
