"""Language models in GGUF files, computed by llama.cpp for the evaluations of their task."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from headway.base.errors import HeadwayError, UsageError
from headway.base.shapes import Float, Int, Tensor
from headway.bundle import TextBundle
from headway.exporting.stand_in import language_methods, without_weights
from headway.interop import llama_cpp, read_gguf
from headway.models import GPTConfig
from headway.text import TextTokenizer

PACKAGE = "xllamacpp"


@contextmanager
def opened_gguf(path: Path) -> Iterator[TextBundle]:
    """Yield the bundle of a GGUF file, whose network llama.cpp computes in a process of its own.

    It scores texts; it does not write. Its context is one token shorter than that of the model,
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
    with _server(path, config.max_length) as address:
        config = replace(config, max_length=config.max_length - 1)
        model = without_weights(config.family, config)
        whole = _whole_text(tokenizer)

        def read(tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
            rows = [
                torch.stack(
                    [
                        _log_p(address, row[: n + 1], whole, config.vocabulary, path)
                        for n in range(len(row))
                    ]
                )
                for row in tokens.tolist()
            ]
            return torch.stack(rows)

        for name, method in language_methods(model, read).items():
            setattr(model, name, method)
        yield TextBundle(model, tokenizer, settings)


def runtime() -> str:
    """Return the name and the version of the package that runs llama.cpp."""
    return f"{PACKAGE} {version(PACKAGE)}"


@contextmanager
def _server(path: Path, context: int) -> Iterator[str]:
    """Run llama.cpp's server with a file, on an address of this machine only; yield the address."""
    program = [sys.executable, "-P", str(Path(llama_cpp.__file__)), str(path), str(context)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(program, stderr=subprocess.DEVNULL, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:  # the package itself may print, too
                if line.startswith(llama_cpp.LISTENING):
                    yield line.removeprefix(llama_cpp.LISTENING).strip()
                    break
            else:
                raise HeadwayError("llama.cpp cannot run the file", str(path))
        finally:
            process.kill()


def _log_p(
    address: str, ids: Sequence[int], whole: int, vocabulary: int, path: Path
) -> Float[Tensor, " V"]:
    """Return the log-probabilities of the token after `ids`.

    whole: a token whose bytes are whole characters. It is written, whatever is probable: after a
    part of a character the server waits for the rest before it answers.
    """
    question = {
        "prompt": list(ids),
        "n_predict": 1,
        "n_probs": vocabulary,
        "temperature": 0,
        "logit_bias": [[whole, 1e4]],  # the probabilities are those without it
        "cache_prompt": True,
    }
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(
        f"{address}/completion", json.dumps(question).encode(), headers
    )
    try:
        with direct.open(request) as response:
            answer = json.loads(response.read())
    except urllib.error.HTTPError as error:
        reason = error.read().decode(errors="replace")[:300]
        raise HeadwayError(f"llama.cpp refuses a request: {reason}", str(path)) from error
    steps = answer.get("completion_probabilities", [])
    found = torch.full((vocabulary,), float("nan"))
    for one in steps[0]["top_logprobs"] if steps else ():
        found[one["id"]] = one["logprob"]
    if bool(found.isnan().any()):
        raise HeadwayError("llama.cpp did not give the probabilities of all tokens", str(path))
    return found


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
