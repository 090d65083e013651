"""Hugging Face folders, computed by transformers if it is installed, and by Headway's reader."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headway import interop
from headway.base.files import read_json
from headway.bundle import Bundle
from headway.bundle.files import CONFIG_FILE, WEIGHTS_FILE
from headway.exporting.families import computed_by
from headway.exporting.target import Progress, Running, Runtimes, Target
from headway.exporting.transformers_runtime import PACKAGE, load_network, quietly
from headway.exporting.verified import (
    check_special_tokens,
    compare_readers,
    real_texts,
    tokenizers_of,
)
from headway.interop.hf_export import TOKENIZER_FILE, check_same_ids, verification_texts
from headway.tasks.opening import spec_of, with_article
from headway.text import EncoderTokenizer, PretrainedTokenizer, TokenizerPair


def _lacks(bundle: Bundle, family: str | None) -> list[str]:
    """Return a reason if transformers has no such models; `write` has those of the settings."""
    spec = spec_of(bundle.config.family)
    has_none = spec is None or spec.export is None
    return [f"transformers has no such model as {with_article(bundle.kind)}"] if has_none else []


def _write(bundle: Bundle, folder: Path, family: str | None, progress: Progress) -> str:
    spec = spec_of(bundle.config.family)
    assert spec is not None and spec.export is not None
    return spec.export(bundle, folder, family)


def _run(bundle: Bundle, folder: Path) -> Runtimes:
    """Yield the folder as transformers computes it, and as Headway does."""
    own = interop.build(*interop.read(folder))
    if find_spec(PACKAGE) is not None:
        network = load_network(folder)
        computed = computed_by(own.config, lambda family: family.sessions(network))
        yield Running(f"{PACKAGE} {version(PACKAGE)}", read_back(folder, computed))
    yield Running(f"headway {version('headway')}", read_back(folder, own))


def read_back(folder: Path, model: Any) -> Bundle:
    """Return the bundle of a model with the files of a Hugging Face folder."""
    spec = spec_of(model.config.family)
    assert spec is not None and spec.foreign is not None
    contents = read_json(folder / CONFIG_FILE)
    assert isinstance(contents, dict)
    bundle: Bundle = spec.foreign(model, folder, str(contents["model_type"]))
    return bundle


def _compare_files(bundle: Bundle, reopened: Bundle, folder: Path, where: str) -> int:
    """Compare tokenizer, labels and preprocessing with the bundle; return the number of texts."""
    texts = compare_readers(bundle, reopened, where)
    if (folder / TOKENIZER_FILE).is_file():
        check_special_tokens(bundle, folder, where)
        if find_spec(PACKAGE) is not None:
            _compare_tokenizer(bundle, folder, where)
    return texts


def _compare_tokenizer(bundle: Bundle, folder: Path, where: str) -> None:
    """Raise HeadwayError for a text that the tokenizer of transformers encodes otherwise.

    In a text with the text of a special token, some of its tokenizers find that token.
    """
    with quietly():
        reader: Any = import_module(PACKAGE).AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )
        for tokenizer in tokenizers_of(bundle)[:1]:
            encode = _encoding(bundle, tokenizer)
            for text in verification_texts(tokenizer):
                if text and not any(token in text for token in reader.all_special_tokens):
                    check_same_ids(text, encode(text), reader(text).input_ids, where)


def _encoding(bundle: Any, tokenizer: Any) -> Callable[[str], list[int]]:
    """Return the function from a text to its ids with special tokens."""
    if isinstance(tokenizer, EncoderTokenizer):
        return lambda text: tokenizer.special_tokens.frame(tokenizer.encode(text))[0]
    if isinstance(getattr(bundle, "tokenizer", None), TokenizerPair):
        return lambda text: [*tokenizer.encode(text), tokenizer.eos]
    if isinstance(tokenizer, PretrainedTokenizer):  # `begin` leaves out what follows a text
        before, after = tokenizer.frame
        return lambda text: [*before, *tokenizer.encode(text), *after]
    return lambda text: list(tokenizer.begin(text))


HUGGING_FACE = Target(
    name="in Hugging Face's format",
    lacks=_lacks,
    write=_write,
    run=_run,
    compare_files=_compare_files,
    real_texts=real_texts,
    weights=lambda folder: [folder / WEIGHTS_FILE],
    call=lambda folder, name: f"transformers.{name}.from_pretrained({str(folder)!r})",
)
"""Folders for transformers."""
