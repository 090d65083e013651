"""CTranslate2 folders, computed by the package `ctranslate2`.

It has no outputs for keys and values: at each step, its functions read all tokens again.
"""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import torch
from tokenizers import Tokenizer as Engine
from torch import nn

from headway.base.errors import DataError, HeadwayError
from headway.base.files import read_json
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import Bundle, TextBundle
from headway.exporting.described import describe_here, open_described
from headway.exporting.inputs import RealTexts
from headway.exporting.methods_by_rereading import Reread, gpt_methods, real_tokens
from headway.exporting.target import Progress, Running, Runtimes, Target
from headway.exporting.verified import check_special_tokens, real_texts
from headway.exporting.without_weights import Method, computed_model
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
from headway.text import PretrainedSentenceTokenizer, SentenceTokenizer
from headway.text.tokenizer_pair import JOINT_FILE, SOURCE_FILE, TARGET_FILE
from headway.training.objectives.cross_entropy import KnownLogits

ONLY, SHARED, SOURCE, TARGET = (
    f"{side}vocabulary.json" for side in ("", "shared_", "source_", "target_")
)
"""Files of a language model, of a translator with one vocabulary, and of one with two."""


def _lacks(bundle: Any, family: str | None) -> list[str]:
    if type(bundle.model) not in KINDS:
        return [
            f"only translators and language models can be, and this is {with_article(bundle.kind)}"
        ]
    reasons = ctranslate2_lacks(bundle.model, bundle.tokenizer)
    if not reasons:
        package()  # names what to install
    return reasons


def _write(bundle: Any, folder: Path, family: str | None, progress: Progress) -> str:
    describe_here(bundle, folder)
    return write_ctranslate2(bundle.model, bundle.tokenizer, folder)


def _convert(bundle: Any, folder: Path, dtype: str) -> None:
    (folder / MODEL_FILE).unlink()
    write_ctranslate2(bundle.model, bundle.tokenizer, folder, dtype)


def _run(bundle: Any, folder: Path) -> Runtimes:
    """Yield the folder as CTranslate2 computes it."""
    yield Running(runtime(), open_ctranslate2(folder))


def runtime() -> str:
    """Return the name and the version of the package."""
    return f"ctranslate2 {version('ctranslate2')}"


def open_ctranslate2(folder: Path) -> Bundle:
    """Return the bundle of an exported folder, whose network CTranslate2 computes. Raises
    UsageError if the package is not installed, DataError for a file that it refuses."""
    ctranslate2 = package()

    def methods(model: nn.Module) -> dict[str, Method]:
        loader, methods = KINDS[type(model)]
        try:
            loaded = getattr(ctranslate2, loader)(
                str(folder), intra_threads=torch.get_num_threads(), inter_threads=1
            )
        except RuntimeError as error:
            raise DataError(f"CTranslate2 cannot load the model: {error}", str(folder)) from error
        return {**methods(model, loaded, folder), "dtype": lambda: str(loaded.compute_type)}

    return open_described(folder, lambda family, config: computed_model(config, methods))


def _generator(model: GPT, loaded: Any, folder: Path) -> dict[str, Method]:
    def read(rows: list[list[int]], count: int) -> Float[Tensor, "N T V"]:
        longest = max(map(len, rows))
        padded = [row + [0] * (longest - len(row)) for row in rows]
        logits = numpy.array(loaded.forward_batch(padded, return_log_probs=False))
        ends = zip(torch.from_numpy(logits), map(len, rows), strict=True)
        return torch.stack([row[end - count : end] for row, end in ends])

    return gpt_methods(model, read)


def _translator(model: Translator, loaded: Any, folder: Path) -> dict[str, Method]:
    source_names, target_names = (
        read_json(folder / (SHARED if (folder / SHARED).is_file() else name))
        for name in (SOURCE, TARGET)
    )

    def start(source: Int[Tensor, "B S"], keys: Tensor | None = None) -> Reread:
        # CTranslate2 itself adds the token that ends a source
        rows = [row[:-1] for row in real_tokens(source, keys)]
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


KINDS: dict[type[nn.Module], tuple[str, Callable[..., dict[str, Method]]]] = {
    GPT: (GENERATOR, _generator),
    Translator: (TRANSLATOR, _translator),
}
"""Class of a model -> its class in CTranslate2, and the function that makes its methods."""


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
