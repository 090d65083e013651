"""Decoding speed in float32 and int8, compared with transformers and CTranslate2.

- GPT-2 of 124 M parameters: 48 tokens after a prompt of 16, greedy, batch sizes 1 and 8.
- The `base` translator (6+6 layers, width 512, vocabulary 8,000): 32 sentences of 24 tokens, 24
  decoder steps, greedy and beam 4 without length penalty.

The weights are untrained; the speed is the same. The end token has a zero vector, so that its logit
is always 0 and never among the largest: every output has the maximum length with the ordinary
options of each library. In float32 all libraries must write the same tokens before anything is
timed. In int8 each library rounds differently, and after the first different token the outputs of
an untrained model have nothing in common: the agreement is printed only. The time
includes the prompt or the encoder.

With one sequence a step reads every weight once, so the memory limits the speed: two rows compare
the bytes read per second with a plain read of as many bytes in the same process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from bench.marian import Specials, to_marian
from bench.report import Row, row
from bench.sides import Answer, Settings, Side, Worker, interleave
from bench.word_tokenizer import write_word_tokenizer
from headway.decoding import (
    BeamSettings,
    Limits,
    MostProbable,
    Sampling,
    fast_beam_search,
    fast_greedy_search,
    run,
    sample,
)
from headway.interop import write
from headway.models import GPT, GPTConfig, Translator, TranslatorConfig
from headway.transforms import quantize
from headway.transforms.fast.table import prepare_for_inference

PEERS = ("transformers", "ctranslate2_float32", "ctranslate2_int8")
REQUIRES = {
    "transformers": ("transformers",),
    "ctranslate2_float32": ("ctranslate2", "transformers"),
    "ctranslate2_int8": ("ctranslate2", "transformers"),
}
NAMES = {
    "transformers": "transformers generate",
    "ctranslate2_float32": "CTranslate2 float32",
    "ctranslate2_int8": "CTranslate2 int8",
}
MODELS: dict[str, dict[str, Any]] = {
    "gpt": GPTConfig.sizes["gpt2-small"],
    "translator": TranslatorConfig.sizes["base"],
}
PROMPT, WRITTEN = 16, 48
SENTENCES, LENGTH = 32, 24
ENLARGED = 4


@dataclass(frozen=True)
class Case:
    """A model, the number of sequences and the beam width. goals: the ratio to each of `PEERS`."""

    model: str
    batch: int
    width: int
    goals: tuple[float, float, float]


CASES = {
    "GPT-2 124 M, batch 1": Case("gpt", 1, 1, (1.5, 1.0, 1.0)),
    "GPT-2 124 M, batch 8": Case("gpt", 8, 1, (1.5, 1.3, 1.0)),
    "translator 6+6 x 512, greedy": Case("translator", SENTENCES, 1, (1.5, 1.4, 1.0)),
    "translator 6+6 x 512, beam 4": Case("translator", SENTENCES, 4, (1.5, 1.3, 1.0)),
}
BANDWIDTH_CASE = "GPT-2 124 M, batch 1"
BANDWIDTH_PEERS = {"transformers", "ctranslate2_int8"}
"""The peers beside which the bandwidth is measured: one for each dtype."""

Decode = Callable[[Case, int], Callable[[], list[list[int]]]]
"""Returns a function that decodes the inputs of a case in a number of decoder steps."""


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure each case. AssertionError if the tokens differ in float32."""
    name = peer.name.rpartition(", ")[2]
    dtype = "int8" if name.endswith("int8") else "float32"
    for title, case in CASES.items():
        question = {"case": title, "dtype": dtype}
        last = 2 if case.model == "translator" else 1  # Headway ends a sentence in a further step
        tokens = ours.ask(**question, tokens=last)["tokens"]
        peer_tokens = peer.ask(**question, tokens=1)["tokens"]
        equal = _agreement(tokens, peer_tokens)
        assert dtype != "float32" or equal == 1, (
            f"{title}: only {equal:.1%} of the tokens are those of {NAMES[name]}"
        )
        pairs = interleave(ours, peer, rounds, **question)
        distinct = len({token for written in tokens for token in written})
        first = _agreement([t[:1] for t in tokens], [t[:1] for t in peer_tokens])
        note = (
            f"{equal:.1%} of the tokens are equal ({first:.1%} of the first ones), "
            f"{distinct:,} different ones"
        )
        goal = case.goals[PEERS.index(name)]
        full_title = f"{title}, {dtype}"
        yield row(full_title, pairs, "tokens/s", NAMES[name], device, goal=goal, note=note)
        if title == BANDWIDTH_CASE and name in BANDWIDTH_PEERS:
            yield _bandwidth(ours, question, rounds, device)


def _agreement(tokens: list[list[int]], peer_tokens: list[list[int]]) -> float:
    """Return the fraction of equal tokens at the same positions, up to the shorter length."""
    pairs = [
        pair
        for written, peer_written in zip(tokens, peer_tokens, strict=True)
        for pair in zip(written, peer_written, strict=False)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


def _bandwidth(ours: Side, question: dict[str, Any], rounds: int, device: str) -> Row:
    """Return the row of bytes read per second; both answers are from Headway's process."""
    ours.ask(**question, read=True)
    pairs = []
    for _ in range(rounds):
        decoding, reading = ours.ask(**question), ours.ask(**question, read=True)
        pairs.append(({**decoding, "work": decoding["gigabytes"]}, reading))
    title = f"{question['case']}, {question['dtype']}, weights read"
    return row(title, pairs, "GB/s", "a plain read in the same process", device, goal=None)


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


def inputs(case: Case) -> Tensor:
    """Return the prompts or the source sentences of a case, without special tokens."""
    vocabulary = (
        GPTConfig(**MODELS["gpt"]).vocabulary
        if case.model == "gpt"
        else TranslatorConfig(**MODELS["translator"]).source_vocabulary
    )
    torch.manual_seed(1)
    length = PROMPT if case.model == "gpt" else LENGTH
    return torch.randint(2, vocabulary - 1, (case.batch, length))


def ours(settings: Settings) -> Worker:
    """Headway: `sample` with `MostProbable`, `fast_greedy_search`, `fast_beam_search`."""

    def build(name: str, dtype: str) -> tuple[Decode, int]:
        model: Any = gpt() if name == "gpt" else translator()
        if dtype != "float32":
            quantize(model, dtype)
        size = _weight_bytes(model)
        prepare_for_inference(model)  # as `headway.load` does
        return (_continue(model) if name == "gpt" else _translate(model)), size

    return _worker(settings, build)


def _continue(model: GPT) -> Decode:
    end = model.config.vocabulary - 1

    def decode(case: Case, steps: int) -> Callable[[], list[list[int]]]:
        prompts = inputs(case).tolist()
        sampling = Sampling(eos=end, max_tokens=steps, rules=[MostProbable()])

        def continued() -> list[list[int]]:
            samples = sample(model, prompts, sampling, [[0]] * len(prompts))
            return [texts[0].tokens for texts in samples]

        return continued

    return decode


def _translate(model: Translator) -> Decode:
    """The last step ends the sentence, so one token less is written."""

    def decode(case: Case, steps: int) -> Callable[[], list[list[int]]]:
        sources = inputs(case), None
        start = model.config.target_vocabulary - 1
        limits = Limits(bos=start, eos=0, max_lengths=[steps - 1] * case.batch, cut=True)

        settings = BeamSettings(beam=case.width, length_penalty=0.0)

        def translated() -> list[list[int]]:
            if case.width == 1:
                greedy = run(model, fast_greedy_search(model, sources, limits))
                return [list(best.tokens) for best in greedy]
            beams = run(model, fast_beam_search(model, sources, limits, settings))
            return [list(hypotheses[0].tokens) for hypotheses in beams]

        return translated

    return decode


def _weight_bytes(model: Any) -> int:
    """Return the size of the weights that a step of a language model reads."""
    positions = model.embedding.positions if isinstance(model, GPT) else torch.nn.Module()
    tables = set(positions.parameters())
    return sum(p.numel() * p.element_size() for p in model.parameters() if p not in tables)


def transformers(settings: Settings) -> Worker:
    """transformers: `generate`."""
    from transformers import GPT2LMHeadModel

    def build(name: str, dtype: str) -> tuple[Decode, int]:
        if name == "gpt":
            with TemporaryDirectory() as folder:
                write_gpt(Path(folder))
                model: Any = GPT2LMHeadModel.from_pretrained(folder).eval()
            model.generation_config.eos_token_id = model.config.vocab_size - 1
            return _generate(model, PROMPT), 0
        model = marian()
        model.generation_config.forced_eos_token_id = None
        return _generate(model, 1), 0

    return _worker(settings, build)


def _generate(model: Any, skipped: int) -> Decode:
    """skipped: the number of tokens before the output."""

    def decode(case: Case, steps: int) -> Callable[[], list[list[int]]]:
        tokens = inputs(case)
        options = {"num_beams": case.width, "do_sample": False, "max_new_tokens": steps}
        penalty = {"length_penalty": 0.0} if case.width > 1 else {}

        @torch.inference_mode()
        def run() -> list[list[int]]:
            mask = torch.ones_like(tokens)
            output = model.generate(
                tokens, attention_mask=mask, pad_token_id=0, **options, **penalty
            )
            written: list[list[int]] = output[:, skipped:].tolist()
            return written

        return run

    return decode


def ctranslate2_float32(settings: Settings) -> Worker:
    return _ctranslate2(settings, "float32")


def ctranslate2_int8(settings: Settings) -> Worker:
    return _ctranslate2(settings, "int8")


def _ctranslate2(settings: Settings, dtype: str) -> Worker:
    """CTranslate2: `generate_batch` and `translate_batch`, from tokens as strings."""
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    threads = {"compute_type": dtype, "inter_threads": 1, "intra_threads": settings.threads}

    def build(name: str, _: str) -> tuple[Decode, int]:
        with TemporaryDirectory() as folder:
            source, target = Path(folder, "source"), str(Path(folder, "target"))
            if name == "gpt":
                write_gpt(source)
            else:
                marian().save_pretrained(source)
                write_word_tokenizer(source, _marian_tokens())
            TransformersConverter(str(source)).convert(target, quantization=dtype)
            if name == "gpt":
                return _generate_batch(ctranslate2.Generator(target, **threads)), 0
            return _translate_batch(ctranslate2.Translator(target, **threads)), 0

    return _worker(settings, build)


def _generate_batch(generator: Any) -> Decode:
    names = _gpt_tokens()

    def decode(case: Case, steps: int) -> Callable[[], list[list[int]]]:
        prompts = [[names[i] for i in tokens] for tokens in inputs(case).tolist()]

        def run() -> list[list[int]]:
            results = generator.generate_batch(
                prompts, max_length=steps, include_prompt_in_result=False
            )
            return [result.sequences_ids[0] for result in results]

        return run

    return decode


def _translate_batch(translator: Any) -> Decode:
    names = _marian_tokens()
    ids = {name: i for i, name in enumerate(names)}

    def decode(case: Case, steps: int) -> Callable[[], list[list[int]]]:
        sources = [[names[i] for i in tokens] for tokens in inputs(case).tolist()]

        def run() -> list[list[int]]:
            results = translator.translate_batch(
                sources, beam_size=case.width, max_decoding_length=steps, length_penalty=0.0
            )
            return [[ids[name] for name in result.hypotheses[0]] for result in results]

        return run

    return decode


def write_gpt(folder: Path) -> None:
    """Write the language model and a tokenizer as a Hugging Face folder."""
    model = gpt()
    write(model, folder, "gpt2")
    write_word_tokenizer(folder, _gpt_tokens())


def marian() -> Any:
    """Return the translator as transformers' Marian."""
    model = translator()
    last = model.config.target_vocabulary - 1
    return to_marian(model, Specials(pad=last, bos=last, eos=0))


def _gpt_tokens() -> list[str]:
    count = GPTConfig(**MODELS["gpt"]).vocabulary
    return [f"t{i}" for i in range(count - 1)] + ["</s>"]


def _marian_tokens() -> list[str]:
    count = TranslatorConfig(**MODELS["translator"]).target_vocabulary
    return ["</s>", *(f"t{i}" for i in range(1, count - 1)), "<pad>"]


def _worker(settings: Settings, build: Callable[[str, str], tuple[Decode, int]]) -> Worker:
    """build: returns for a name of `MODELS` and a dtype how to decode, and the size of the weights
    that a step reads."""
    built: dict[tuple[str, str], tuple[Decode, int]] = {}

    def work(question: dict[str, Any]) -> Answer:
        case, dtype = CASES[question["case"]], question["dtype"]
        if (case.model, dtype) not in built:
            built.clear()  # one model at a time
            built[case.model, dtype] = build(case.model, dtype)
        decode, size = built[case.model, dtype]
        if question.get("read"):
            return _read(size)
        steps = WRITTEN if case.model == "gpt" else LENGTH
        if question.get("tokens"):
            return {"tokens": decode(case, steps + question["tokens"] - 1)()}
        run = decode(case, steps)
        started = time.perf_counter()
        for _ in range(settings.work):
            run()
        seconds = time.perf_counter() - started
        steps *= settings.work
        return {"work": steps * case.batch, "seconds": seconds, "gigabytes": steps * size / 1e9}

    return work


def _read(size: int, times: int = 5) -> Answer:
    """Read `size` bytes of memory."""
    values = torch.ones(size // 4)
    values.dot(values)
    started = time.perf_counter()
    for _ in range(times):
        values.dot(values)
    return {"work": times * size / 1e9, "seconds": time.perf_counter() - started}
