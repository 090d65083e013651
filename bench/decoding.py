"""`headway generate` and `headway.load` in float32 and int8, beside transformers and CTranslate2.

- GPT-2 of 124 M parameters: 48 tokens after a prompt of 16, greedy, 1 and 8 texts.
- The `base` translator (6+6 layers, width 512, vocabulary 8,000): 32 sentences of 24 tokens, at
  most 24 tokens each, greedy and beam 4.

Both are Hugging Face folders that all libraries load, with settings as a user leaves them; a token
is a word. The weights are untrained; the speed is the same. The end token has a zero vector, so
that its logit is always 0 and never among the largest: every output has the maximum length. In
float32 all libraries must write the same words before anything is timed. In int8 each library
rounds differently, and after the first different token the outputs of an untrained model have
nothing in common: the agreement is printed only. The time includes the prompt or the encoder.

With one text a step reads every weight once, so the memory limits the speed: two rows compare the
bytes read per second with a plain read of as many bytes by the same threads.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import headway
from bench.commands import HEADWAY, Ran, run
from bench.goals import goal
from bench.peers import torch_device
from bench.report import COMMANDS, INTERFACE, Row, row
from bench.sides import Answer, Settings, Side, Worker, interleave
from bench.word_tokenizer import write_word_tokenizer
from headway.base.files import write_file
from headway.base.folders import new_folder
from headway.interop import write
from headway.interop.hf_export_translator import with_halves
from headway.models import GPT, GPTConfig, Translator, TranslatorConfig

BY = INTERFACE
PEERS = {
    "transformers": "transformers generate",
    "ctranslate2_float32": "CTranslate2 float32",
    "ctranslate2_int8": "CTranslate2 int8",
}
REQUIRES: dict[str, tuple[str, ...]] = dict.fromkeys(PEERS, ("ctranslate2", "transformers"))
REQUIRES["transformers"] = ("transformers",)
MODELS: dict[str, dict[str, Any]] = {
    "gpt": GPTConfig.sizes["gpt2-small"],
    "translator": TranslatorConfig.sizes["base"],
}
PROMPT, WRITTEN = 16, 48
SENTENCES, LENGTH = 32, 24
ENLARGED = 4


@dataclass(frozen=True)
class Case:
    """A model, the number of texts and the beam width."""

    model: str
    batch: int
    width: int


CASES = {
    "GPT-2 124 M, one text": Case("gpt", 1, 1),
    "GPT-2 124 M, 8 texts": Case("gpt", 8, 1),
    "translator 6+6 x 512, greedy": Case("translator", SENTENCES, 1),
    "translator 6+6 x 512, beam 4": Case("translator", SENTENCES, 4),
}
ONE_TEXT = "GPT-2 124 M, one text"
BANDWIDTH_PEERS = {"transformers", "ctranslate2_int8"}
"""The peers beside which the bandwidth is measured: one for each dtype."""

Decode = Callable[[Case], list[list[str]]]
"""Decodes the inputs of a case, and returns the words of each output."""


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure each case. AssertionError if the words differ in float32."""
    name = peer.name.rpartition(", ")[2]
    dtype = "int8" if name.endswith("int8") else "float32"
    for title in CASES:
        question = {"case": title, "dtype": dtype}
        words, peer_words = (side.ask(**question)["words"] for side in (ours, peer))
        equal = _agreement(words, peer_words)
        assert dtype != "float32" or equal == 1, (
            f"{title}: only {equal:.1%} of the tokens are those of {PEERS[name]}"
        )
        pairs = interleave(ours, peer, rounds, **question)
        distinct = len({word for written in words for word in written})
        first = _agreement([t[:1] for t in words], [t[:1] for t in peer_words])
        note = (
            f"{equal:.1%} of the tokens are equal ({first:.1%} of the first ones), "
            f"{distinct:,} different ones"
        )
        needed = goal(f"{'one text' if title == ONE_TEXT else 'texts'}, {name}")
        full_title = f"{title}, {dtype}"
        yield row(full_title, pairs, "tokens/s", PEERS[name], device, goal=needed, note=note)
        if title == ONE_TEXT and name == "transformers":
            yield _by_command(ours, peer, rounds, device)
        if title == ONE_TEXT and name in BANDWIDTH_PEERS:
            yield _bandwidth(ours, question, rounds, device)


def _by_command(ours: Side, peer: Side, rounds: int, device: str) -> Row:
    """Compare `headway generate FOLDER PROMPT` with the script of a user of transformers."""
    pairs, needed = interleave(ours, peer, rounds, command=True), goal("one text, transformers")
    title, peer_name = "headway generate, GPT-2 124 M, one text", PEERS["transformers"]
    return replace(row(title, pairs, "tokens/s", peer_name, device, goal=needed), by=COMMANDS)


def _agreement(words: list[list[str]], peer_words: list[list[str]]) -> float:
    """Return the fraction of equal words at the same positions, up to the shorter length."""
    pairs = [
        pair
        for written, peer_written in zip(words, peer_words, strict=True)
        for pair in zip(written, peer_written, strict=False)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


def _bandwidth(ours: Side, question: dict[str, Any], rounds: int, device: str) -> Row:
    """Return the row of bytes read per second; both answers are from Headway's process."""
    ours.ask(**question, read=True)
    pairs = []
    for _ in range(rounds):
        decoding, reading = ours.ask(**question), ours.ask(**question, read=True)
        gigabytes = decoding["work"] * reading["size"] / 1e9
        pairs.append(({**decoding, "work": gigabytes}, reading))
    title = f"{question['case']}, {question['dtype']}, weights read"
    needed = goal(f"part of a plain read, {question['dtype']}")
    return row(title, pairs, "GB/s", "a plain read in the same process", device, goal=needed)


def gpt() -> GPT:
    """Return the untrained language model. The last token ends a text."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(**MODELS["gpt"])).eval()
    with torch.no_grad():
        model.embedding.tokens.weight[-1] = 0
        _enlarge(model.decoder)
    return model


def translator() -> Translator:
    """Return the untrained translator, with Marian's special tokens.

    Token 0 ends a sentence, the last one is padding and the decoder's first input.
    """
    torch.manual_seed(0)
    model = Translator(TranslatorConfig(**MODELS["translator"], share_embeddings=True)).eval()
    with torch.no_grad():
        model.source_embedding.tokens.weight[[0, -1]] = 0
        _enlarge(model.decoder)
    return model


def _enlarge(blocks: torch.nn.Module) -> None:
    """Multiply the matrices: as initialised, a model would repeat its last token."""
    for parameter in blocks.parameters():
        if parameter.ndim > 1:
            parameter.mul_(ENLARGED)


def inputs(case: Case) -> list[str]:
    """Return the prompts or the source sentences of a case."""
    vocabulary = len(_tokens(case.model))
    torch.manual_seed(1)
    length = PROMPT if case.model == "gpt" else LENGTH
    rows = torch.randint(2, vocabulary - 1, (case.batch, length)).tolist()
    return [" ".join(f"t{i}" for i in row) for row in rows]


def _tokens(model: str) -> list[str]:
    """Return the words of a model's vocabulary, in the order of their ids."""
    if model == "gpt":
        return [f"t{i}" for i in range(GPTConfig(**MODELS["gpt"]).vocabulary - 1)] + ["</s>"]
    count = TranslatorConfig(**MODELS["translator"]).target_vocabulary
    return ["</s>", *(f"t{i}" for i in range(1, count - 1)), "<pad>"]


def write_models(folder: Path) -> None:
    """Write the models that are not there yet as Hugging Face folders."""
    if not (folder / "gpt").exists():
        last = GPTConfig(**MODELS["gpt"]).vocabulary - 1
        with new_folder(folder / "gpt") as made:
            write(gpt(), made, "gpt2", {"bos_token_id": last, "eos_token_id": last})
            write_word_tokenizer(made, _tokens("gpt"))
    if not (folder / "translator").exists():
        model = translator()
        last = model.config.target_vocabulary - 1
        start = {"pad_token_id": last, "bos_token_id": last, "decoder_start_token_id": last}
        ids = {**start, "eos_token_id": 0}
        with new_folder(folder / "translator") as made:
            write(with_halves(model), made, "marian", ids)
            settings = {**ids, "max_length": LENGTH + 1}  # with the start token
            write_file(made / "generation_config.json", json.dumps(settings).encode())
            write_word_tokenizer(made, _tokens("translator"), ends=True)


def ours(settings: Settings) -> Worker:
    """Headway: `headway.load(folder)`, then `generate` and `translate`; or the command."""
    folder = Path(settings.folder)
    write_models(folder)

    def build(name: str, dtype: str) -> Decode:
        bundle: Any = headway.load(folder / name, dtype=None if dtype == "float32" else dtype)

        def decode(case: Case) -> list[list[str]]:
            texts = inputs(case)
            if name == "translator":
                return [text.split() for text in bundle.translate(texts, beam=case.width)]
            outputs = bundle.generate(texts, max_tokens=WRITTEN, temperature=0.0)
            return [output[0].text.split() for output in outputs]

        return decode

    words = [*HEADWAY, "generate", str(folder / "gpt"), "PROMPT"]
    command = [*words, "--max-tokens", str(WRITTEN), "--temperature", "0"]
    work = _worker(settings, build, command)

    def work_or_read(question: dict[str, Any]) -> Answer:
        if not question.get("read"):
            return work(question)
        size = (folder / "gpt" / "model.safetensors").stat().st_size
        size //= 1 if question["dtype"] == "float32" else 4
        return {**read_memory(size), "size": size}

    return work_or_read


def transformers(settings: Settings) -> Worker:
    """transformers: `generate`; or the script of `bench.peers`."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    folder = Path(settings.folder)

    def build(name: str, _: str) -> Decode:
        kind: Any = AutoModelForCausalLM if name == "gpt" else AutoModelForSeq2SeqLM
        tokenizer: Any = AutoTokenizer.from_pretrained(folder / name)
        model = kind.from_pretrained(folder / name).to(torch_device())
        limit = {"max_new_tokens": WRITTEN} if name == "gpt" else {}

        def decode(case: Case) -> list[list[str]]:
            read = tokenizer(inputs(case), return_tensors="pt", return_token_type_ids=False)
            options = {"num_beams": case.width, "do_sample": False, **limit}
            tokens = model.generate(**read.to(model.device), **options)
            written = tokens[:, PROMPT if name == "gpt" else 1 :]
            texts = tokenizer.batch_decode(written, skip_special_tokens=True)
            return [text.split() for text in texts]

        return decode

    script = [sys.executable, "-m", "bench.peers", "generate", str(folder / "gpt"), "PROMPT"]
    return _worker(settings, build, [*script, str(WRITTEN)])


def ctranslate2_float32(settings: Settings) -> Worker:
    return _ctranslate2(settings, "float32")


def ctranslate2_int8(settings: Settings) -> Worker:
    return _ctranslate2(settings, "int8")


def _ctranslate2(settings: Settings, dtype: str) -> Worker:
    """CTranslate2: `generate_batch` and `translate_batch`, from tokens as strings."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    folder = Path(settings.folder)

    def build(name: str, _: str) -> Decode:
        with TemporaryDirectory() as temporary:
            target = str(Path(temporary, "target"))
            TransformersConverter(str(folder / name)).convert(target, quantization=dtype)
            kind = ctranslate2.Generator if name == "gpt" else ctranslate2.Translator
            model = kind(target, compute_type=dtype)

        def decode(case: Case) -> list[list[str]]:
            texts = [text.split() for text in inputs(case)]
            if name == "gpt":
                found = model.generate_batch(
                    texts, max_length=WRITTEN, include_prompt_in_result=False
                )
                return [result.sequences[0] for result in found]
            texts = [[*text, "</s>"] for text in texts]
            found = model.translate_batch(texts, beam_size=case.width, max_decoding_length=LENGTH)
            return [result.hypotheses[0] for result in found]

        return decode

    return _worker(settings, build)


def _worker(
    settings: Settings, build: Callable[[str, str], Decode], command: list[str] | None = None
) -> Worker:
    """build: returns for a name of `MODELS` and a dtype how to decode. command: writes one text
    after "PROMPT", for which the prompt stands."""
    built: dict[tuple[str, str], Decode] = {}

    def work(question: dict[str, Any]) -> Answer:
        if question.get("command"):
            assert command is not None
            (prompt,) = inputs(CASES[ONE_TEXT])
            words = [prompt if word == "PROMPT" else word for word in command]
            return _answer(run(words, Path(settings.folder)))
        case, dtype = CASES[question["case"]], question["dtype"]
        if (case.model, dtype) not in built:
            built.clear()  # one model at a time
            built[case.model, dtype] = build(case.model, dtype)
        decode = built[case.model, dtype]
        started = time.perf_counter()
        for _ in range(settings.work):
            written = decode(case)
        seconds = time.perf_counter() - started
        count = settings.work * sum(len(words) for words in written)
        return {"work": count, "seconds": seconds, "words": written}

    return work


def _answer(ran: Ran) -> Answer:
    """The speed is that of the words after those of the first part that was printed."""
    (began, _), *parts = [(second, part) for second, part in ran.parts if part.strip()]
    written = "".join(part for _, part in parts).split()
    return ran.answer(len(written), parts[-1][0] - began)


def read_memory(size: int, times: int = 5) -> Answer:
    """Read `size` bytes of memory."""
    values = torch.ones(size // 4)
    values.sum()
    started = time.perf_counter()
    for _ in range(times):
        values.sum()
    return {"work": times * size / 1e9, "seconds": time.perf_counter() - started}
