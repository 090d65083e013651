"""How many translations by CTranslate2 of an exported model are those of Headway.

    python -m bench.ctranslate2_agreement RUN FILE.tsv

RUN is a run of `headway train translate`, FILE.tsv has its source language in the first column,
with a header. Both libraries translate the first 200 texts, greedily and with beam 4, without
length penalty and with the same maximum lengths.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import headway
from headway.interop import export_translator
from headway.tasks.opening import load_as
from headway.tasks.translation.bundle import TranslatorBundle
from headway.text.tokenizer_pair import JOINT_FILE, SOURCE_FILE, TARGET_FILE

TEXTS = 200


def main(run: str, file: str) -> None:
    import ctranslate2
    import tokenizers

    lines = Path(file).read_text(encoding="utf-8").splitlines()[1 : TEXTS + 1]
    texts = [line.split("\t")[0] for line in lines]
    bundle = load_as(TranslatorBundle, run)
    ours = {beam: bundle.search(texts, beam=beam, length_penalty=0) for beam in (1, 4)}
    print(
        f"{len(texts)} texts, headway {headway.__version__}, ctranslate2 {ctranslate2.__version__}"
    )
    for dtype in ("float32", "int8"):
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / dtype
            export_translator(bundle.model, bundle.tokenizer, folder, dtype)
            joint = bundle.tokenizer.joint
            source, target = (
                tokenizers.Tokenizer.from_file(str(folder / (JOINT_FILE if joint else name)))
                for name in (SOURCE_FILE, TARGET_FILE)
            )
            loaded = ctranslate2.Translator(str(folder), intra_threads=1)
        tokens = [source.encode(text, add_special_tokens=False).tokens for text in texts]
        for beam, results in ours.items():
            equal = 0
            for row, (best,) in zip(tokens, results, strict=True):
                (answer,) = loaded.translate_batch(
                    [row],
                    beam_size=beam,
                    length_penalty=0,
                    max_decoding_length=2 * len(row) + 10,
                    min_decoding_length=0,
                )
                ids = tuple(target.token_to_id(token) for token in answer.hypotheses[0])
                equal += ids == best.tokens
            print(f"{dtype:8} beam {beam}: {equal} of {len(texts)} equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
