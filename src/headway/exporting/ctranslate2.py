"""CTranslate2 folders, computed by the package `ctranslate2`.

It has no outputs for keys and values: at each step, its functions read all tokens again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import torch
from tokenizers import Tokenizer as Engine

from headway.base.errors import HeadwayError
from headway.base.files import read_json
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import Bundle, TextBundle
from headway.exporting.inputs import RealTexts
from headway.exporting.stand_in import Method, language_methods, without_weights
from headway.exporting.target import Exported, Progress, Running, Target, export
from headway.exporting.verified import check_special_tokens, real_texts, with_network
from headway.interop import write_ctranslate2
from headway.interop.ctranslate2 import (
    DTYPES,
    GENERATOR,
    MODEL_FILE,
    TRANSLATOR,
    ctranslate2_lacks,
    package,
)
from headway.interop.hf_export import (
    TOKENIZER_FILE,
    check_same_ids,
    check_tokenizer,
    verification_texts,
)
from headway.models import GPT, Translator
from headway.tasks.opening import with_article
from headway.text import PretrainedSentenceTokenizer, SentenceTokenizer, TokenizerPair
from headway.text.tokenizer_pair import JOINT_FILE, SOURCE_FILE, TARGET_FILE
from headway.training.objectives.cross_entropy import KnownLogits

ONLY, SHARED, SOURCE, TARGET = (
    f"{side}vocabulary.json" for side in ("", "shared_", "source_", "target_")
)
"""Files of a language model, of a translator with one vocabulary, and of one with two."""


def export_ctranslate2(
    bundle: Bundle, folder: str | Path, dtype: str = "float32", run: Path | None = None
) -> Exported:
    """Export a translator or language model for CTranslate2. Raises what `export` raises."""
    return export(bundle, folder, CTRANSLATE2, dtype, run=run)


def _lacks(bundle: Any, family: str | None) -> list[str]:
    if not isinstance(bundle.model, GPT | Translator):
        return [
            f"only translators and language models can be, and this is {with_article(bundle.kind)}"
        ]
    reasons = ctranslate2_lacks(bundle.model, bundle.tokenizer)
    if not reasons:
        package()  # names what to install
    return reasons


def _write(bundle: Any, folder: Path, family: str | None, progress: Progress) -> str:
    return write_ctranslate2(bundle.model, bundle.tokenizer, folder)


def _convert(bundle: Any, folder: Path, dtype: str) -> None:
    (folder / MODEL_FILE).unlink()
    write_ctranslate2(bundle.model, bundle.tokenizer, folder, dtype)


def _run(bundle: Any, folder: Path) -> Iterator[Running]:
    """Yield the folder as CTranslate2 computes it."""
    ctranslate2, config = package(), bundle.model.config
    loader = GENERATOR if isinstance(bundle, TextBundle) else TRANSLATOR
    loaded = getattr(ctranslate2, loader)(
        str(folder), intra_threads=torch.get_num_threads(), inter_threads=1
    )
    model = without_weights(config.family, config)
    methods = (
        _generator(model, loaded)
        if isinstance(bundle, TextBundle)
        else _translator(model, loaded, folder, bundle.tokenizer)
    )
    for name, method in methods.items():
        setattr(model, name, method)
    yield Running(f"ctranslate2 {version('ctranslate2')}", with_network(bundle, model))


@dataclass
class Reread:
    """The decode state of a runtime that reads all tokens again at each step.

    tokens: of each sequence. sources: the tokens of what each one translates.
    """

    tokens: list[list[int]]
    sources: list[list[int]] = field(default_factory=list)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each sequence."""
        return [len(row) for row in self.tokens]

    def after(self, new: Int[Tensor, "N T"]) -> Reread:
        """Return the state with new tokens."""
        rows = zip(self.tokens, new.tolist(), strict=True)
        return Reread([[*row, *more] for row, more in rows], self.sources)

    def reorder(self, rows: Sequence[int]) -> Reread:
        """Make sequence i the former sequence rows[i]."""
        self.tokens = [self.tokens[row] for row in rows]
        self.sources = [self.sources[row] for row in rows] if self.sources else []
        return self

    def rewind(self, lengths: Sequence[int]) -> Reread:
        """Take tokens back: sequence n keeps its first lengths[n]."""
        self.tokens = [row[:n] for row, n in zip(self.tokens, lengths, strict=True)]
        return self

    def join(self, other: Reread) -> Reread:
        """Append the sequences of another state."""
        self.tokens, self.sources = self.tokens + other.tokens, self.sources + other.sources
        return self


def _rows(tokens: Int[Tensor, "B S"], keys: Tensor | None) -> list[list[int]]:
    """Return the tokens of each sequence without padding."""
    real = torch.ones_like(tokens, dtype=torch.bool) if keys is None else keys
    return [row[mask].tolist() for row, mask in zip(tokens, real, strict=True)]


def _generator(model: GPT, loaded: Any) -> dict[str, Method]:
    def read(tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        logits = loaded.forward_batch(tokens.tolist(), return_log_probs=False)
        return torch.from_numpy(numpy.array(logits))

    def step(new: Int[Tensor, "N T"], state: Reread) -> tuple[Float[Tensor, "N T V"], Reread]:
        after = state.after(new)
        longest = max(after.lengths)
        padded = torch.tensor([row + [0] * (longest - len(row)) for row in after.tokens])
        logits, count = read(padded), new.shape[1]
        parts = [row[n - count : n] for row, n in zip(logits, after.lengths, strict=True)]
        return torch.stack(parts), after

    return {
        **language_methods(model, read),
        "start": lambda tokens, keys=None: Reread(_rows(tokens, keys)),
        "step": step,
    }


def _translator(
    model: Translator, loaded: Any, folder: Path, tokenizer: TokenizerPair
) -> dict[str, Method]:
    source_names, target_names = (
        read_json(folder / (SHARED if (folder / SHARED).is_file() else name))
        for name in (SOURCE, TARGET)
    )

    def start(source: Int[Tensor, "B S"], keys: Tensor | None = None) -> Reread:
        # CTranslate2 itself adds the token that ends a source
        rows = [row[:-1] for row in _rows(source, keys)]
        return Reread([[] for _ in rows], rows)

    def step(new: Int[Tensor, "N T"], state: Reread) -> tuple[Float[Tensor, "N T V"], Reread]:
        after, count = state.after(new), new.shape[1]
        prefixes = [[target_names[i] for i in row[1:]] for row in after.tokens]
        results = loaded.translate_batch(
            [[source_names[i] for i in row] for row in after.sources],
            target_prefix=prefixes,
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=max(after.lengths),
            max_input_length=0,
            return_logits_vocab=True,
        )
        rows = [
            numpy.array([numpy.array(x) for x in result.logits[0][n - count : n]])
            for result, n in zip(results, after.lengths, strict=True)
        ]
        return torch.from_numpy(numpy.stack(rows)), after

    def decode(
        target_in: Int[Tensor, "B T"], memory: Float[Tensor, "B S 1"], keys: Tensor | None = None
    ) -> Float[Tensor, "B T V"]:
        return step(target_in, start(memory[..., 0].long(), keys))[0]

    model.output = KnownLogits(model.config.target_vocabulary)  # type: ignore[assignment]
    return {
        # the memory is the source: CTranslate2 encodes it with each step
        "encode": lambda source, keys=None: source[..., None].double(),
        "start": start,
        "step": step,
        "decode": decode,
        "forward": lambda source, target_in, keys=None: step(target_in, start(source, keys))[0],
    }


def _real_texts(bundle: Any) -> RealTexts | None:
    if isinstance(bundle, TextBundle):
        return None
    target = bundle.tokenizer.target
    return real_texts(bundle, never={target.pad, target.bos} - {target.eos})


def _compare_files(bundle: Any, reopened: Bundle, folder: Path, where: str) -> int:
    """Compare vocabularies and tokenizers with those of the bundle; return the number of texts."""
    if isinstance(bundle, TextBundle):
        files = {ONLY: TOKENIZER_FILE}
        texts = check_tokenizer(bundle.tokenizer, folder, where)
    else:
        pair = bundle.tokenizer
        sides = (SHARED,) if (folder / SHARED).is_file() else (SOURCE, TARGET)
        names = (JOINT_FILE,) if len(sides) == 1 else (SOURCE_FILE, TARGET_FILE)
        files, texts = dict(zip(sides, names, strict=True)), 0
        for side, name in zip((pair.source, pair.target), names, strict=False):
            if not isinstance(side, PretrainedSentenceTokenizer):
                texts += _compare_texts(side, folder / name, where)
    for vocabulary, name in files.items():
        if (folder / name).is_file():
            _compare_vocabulary(folder / vocabulary, folder / name, where)
    if TOKENIZER_FILE in files.values():
        check_special_tokens(bundle, folder, where)
    return texts


def _compare_vocabulary(vocabulary: Path, tokenizer: Path, where: str) -> None:
    """Raise HeadwayError if a token has other ids in the two files."""
    engine, names = Engine.from_file(str(tokenizer)), read_json(vocabulary)
    assert isinstance(names, list)
    for index in range(engine.get_vocab_size()):
        if engine.id_to_token(index) != names[index]:
            raise HeadwayError(
                f"token {index} is {names[index]!r} in {vocabulary.name}, and "
                f"{engine.id_to_token(index)!r} in {tokenizer.name}; the folder was removed",
                where,
            )


def _compare_texts(tokenizer: SentenceTokenizer, file: Path, where: str) -> int:
    """Return the number of texts for which a file gives the ids of a tokenizer."""
    engine, texts = Engine.from_file(str(file)), verification_texts(tokenizer)
    engine.encode_special_tokens = True
    for text in texts:
        ids = engine.encode(text, add_special_tokens=False).ids
        check_same_ids(text, tokenizer.encode(text), ids, where)
    return len(texts)


CTRANSLATE2 = Target(
    name="in CTranslate2's format",
    dtypes=DTYPES,
    lacks=_lacks,
    write=_write,
    run=_run,
    compare_files=_compare_files,
    convert=_convert,
    weights=lambda folder: [folder / MODEL_FILE],
    call=lambda folder, loader: f"ctranslate2.{loader}({str(folder)!r})",
    real_texts=_real_texts,
)
"""Folders for `ctranslate2.Translator` and `ctranslate2.Generator`."""
