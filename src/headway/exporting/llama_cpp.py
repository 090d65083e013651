"""GGUF files of language models, computed by llama.cpp's server.

The server gives the log-probabilities of the token after a text. So they are compared, and not the
logits; and each step reads all tokens again.
"""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch

from headway.base.errors import HeadwayError, UsageError
from headway.base.shapes import Float, Tensor
from headway.bundle import Bundle, TextBundle
from headway.exporting.methods_by_rereading import gpt_methods
from headway.exporting.target import Progress, Running, Runtimes, Target, evaluated
from headway.exporting.without_weights import Method, computed_model
from headway.interop import gguf_kind, llama_cpp, read_gguf, write_gguf
from headway.interop.gguf import FORMATS
from headway.interop.gguf_families import FAMILIES
from headway.interop.gguf_reader import FILE
from headway.interop.hf_export import check_same_ids, verification_texts
from headway.models import GPT, GPTConfig
from headway.tasks.opening import with_article
from headway.text import TextTokenizer
from headway.transforms.quantize import float32_copy

PACKAGE = "xllamacpp"


@dataclass(frozen=True)
class Server:
    """llama.cpp's server with a file, on an address of this machine only.

    reuses: whether the keys and values of the last text serve the next one, as far as it begins
    alike. Not those of layers with windows: the next text got wrong probabilities (xllamacpp
    2026.10).
    """

    address: str
    path: Path
    reuses: bool

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text without special tokens."""
        question = {"content": text, "add_special": False, "parse_special": False}
        found: list[int] = self.answer("tokenize", question)["tokens"]
        return found

    def log_p(self, ids: Sequence[int], whole: int, vocabulary: int) -> Float[Tensor, " V"]:
        """Return the log-probabilities of the token after `ids`.

        whole: a token whose bytes are whole characters. It is written, whatever is probable: after
        a part of a character the server waits for the rest before it answers.
        """
        question = {
            "prompt": list(ids),
            "n_predict": 1,
            "n_probs": vocabulary,
            "temperature": 0,
            "logit_bias": [[whole, 1e4]],  # the probabilities are those without it
            "cache_prompt": self.reuses,
        }
        steps = self.answer("completion", question).get("completion_probabilities", [])
        found = torch.full((vocabulary,), float("nan"))
        for one in steps[0]["top_logprobs"] if steps else ():
            found[one["id"]] = one["logprob"]
        if bool(found.isnan().any()):
            what = "llama.cpp did not give the probabilities of all tokens"
            raise HeadwayError(what, str(self.path))
        return found

    def answer(self, name: str, question: Mapping[str, object]) -> Any:
        """Return the answer to a request. Raises HeadwayError if the server refuses it."""
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(
            f"{self.address}/{name}", json.dumps(question).encode(), headers
        )
        try:
            with direct.open(request) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            reason = error.read().decode(errors="replace")[:300]
            raise HeadwayError(f"llama.cpp refuses a request: {reason}", str(self.path)) from error


@contextmanager
def opened_gguf(path: Path) -> Iterator[TextBundle]:
    """Yield the bundle of a GGUF file, whose network llama.cpp computes in a process of its own.

    Its outputs are log-probabilities. Its context is one token shorter than that of the model,
    since the server accepts no text that fills the context. Raises UsageError if the package is not
    installed, DataError for a file that Headway cannot read, HeadwayError for one that llama.cpp
    cannot run.
    """
    if find_spec(PACKAGE) is None:
        raise UsageError(
            f"llama.cpp runs by the package {PACKAGE}, which is not installed",
            hint="pip install 'headway[gguf]', or --runtime headway for Headway's own computation",
        )
    config, _, tokenizer, settings = read_gguf(path)
    assert isinstance(config, GPTConfig)
    reuses = not set(config.layers) & set("lL")
    with running_server(path, config.max_length, reuses) as server:
        config = replace(config, max_length=config.max_length - 1)
        model = computed_model(config, lambda model: _methods(model, server, tokenizer))
        yield TextBundle(model, tokenizer, settings)


def _methods(model: GPT, server: Server, tokenizer: TextTokenizer) -> dict[str, Method]:
    whole, vocabulary = _whole_text(tokenizer), model.config.vocabulary

    def read(rows: list[list[int]], count: int) -> Float[Tensor, "N T V"]:
        steps = [
            server.log_p(row[:end], whole, vocabulary)
            for row in rows
            for end in range(len(row) - count + 1, len(row) + 1)
        ]
        return torch.stack(steps).view(len(rows), count, vocabulary)

    return {**gpt_methods(model, read), "ids": server.ids}


@contextmanager
def running_server(path: Path, context: int, reuses: bool = False) -> Iterator[Server]:
    """Run llama.cpp's server with a file. context: number of tokens that it reads. reuses: as of
    `Server`."""
    program = [sys.executable, "-P", str(Path(llama_cpp.__file__)), str(path), str(context)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(program, stderr=errors, **pipes) as process,
    ):
        try:
            assert process.stdout is not None
            for line in process.stdout:  # the package itself may print, too
                if line.startswith(llama_cpp.LISTENING):
                    yield Server(line.removeprefix(llama_cpp.LISTENING).strip(), path, reuses)
                    break
            else:
                errors.seek(0)
                lines = errors.read().strip().splitlines()
                reasons = [line for line in lines if "error" in line.lower()] or lines[-1:] or [""]
                raise HeadwayError(f"llama.cpp cannot run the file: {reasons[0][:300]}", str(path))
        finally:
            process.kill()


def runtime() -> str:
    """Return the name and the version of the package that runs llama.cpp."""
    return f"{PACKAGE} {version(PACKAGE)}"


def _whole_text(tokenizer: TextTokenizer) -> int:
    """Return a token whose text is one letter."""
    special = {tokenizer.bos, *tokenizer.ends}
    for token in range(tokenizer.size):
        text = tokenizer.decode([token])
        if token not in special and len(text) == 1 and text.isascii() and text.isalpha():
            return token
    raise UsageError("the tokenizer has no token of one letter, which llama.cpp can write")


def dtype_of_gguf(path: Path) -> str:
    """Return the numbers of most matrices of a GGUF file, as llama.cpp names them."""
    tensors = import_module("gguf").GGUFReader(path).tensors
    largest = max(tensors, key=lambda tensor: int(tensor.n_elements))
    return str(largest.tensor_type.name)


def _lacks(bundle: Any, family: str | None) -> list[str]:
    if not isinstance(bundle, TextBundle):
        return [f"only language models can be, and this is {with_article(bundle.kind)}"]
    gguf_kind(bundle.model)  # names the settings in the way
    return []


def _write(
    bundle: Any,
    folder: Path,
    family: str | None,
    progress: Progress,
) -> str:
    return write_gguf(bundle.model, bundle.tokenizer, folder, settings=bundle.settings)


def _convert(bundle: Any, folder: Path, dtype: str) -> None:
    (folder / FILE).unlink()
    write_gguf(bundle.model, bundle.tokenizer, folder, dtype, bundle.settings)


def _run(bundle: Bundle, folder: Path) -> Runtimes:
    """Yield the file as llama.cpp computes it."""
    with opened_gguf(folder / FILE) as opened:
        yield Running(runtime(), opened)


def _network(bundle: Any) -> GPT:
    """Return the model with log-probabilities as its outputs."""
    model: GPT = copy(evaluated(float32_copy(bundle.model)))
    logits = model.logits

    def log_p(hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return logits(hidden).log_softmax(-1)

    setattr(model, "logits", log_p)  # noqa: B010
    return model


def _tolerance(bundle: Any) -> float:
    return FAMILIES[gguf_kind(bundle.model)].tolerance


def _compare_files(bundle: Any, reopened: Any, folder: Path, where: str) -> int:
    """Compare the ids of texts in llama.cpp with the bundle's; return the number of texts."""
    texts = verification_texts(bundle.tokenizer)
    for text in texts:
        check_same_ids(text, bundle.tokenizer.encode(text), reopened.model.ids(text), where)
    return len(texts)


GGUF = Target(
    name="in a GGUF file",
    dtypes=(*FORMATS,),
    lacks=_lacks,
    write=_write,
    run=_run,
    network=_network,
    compare_files=_compare_files,
    convert=_convert,
    weights=lambda folder: [folder / FILE],
    call=lambda folder, _: f"llama-cli -m {folder / FILE}",
    tolerance=_tolerance,
    has_scores=False,  # it computes one token at a time
)
"""Folders with `model.gguf`, for llama.cpp and the programs around it."""
