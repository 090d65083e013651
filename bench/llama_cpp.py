"""One text beside llama.cpp: tokens per second of a Llama of 201 M parameters on a CPU.

Both read the same weights: Headway a Hugging Face folder by `headway.load(FOLDER, dtype=...)`,
llama.cpp a GGUF file that is written here, by its server's own handler without HTTP. F32 is
compared with float32, Q8_0 with int8, Q4_0 with int4: 48 tokens after a prompt of 16, and the first
token after a prompt of 400. In float32 both must write the same tokens before anything is timed.
Other rows are the share of a plain read's bandwidth that Headway's 48 tokens reach.

    python -m bench.llama_cpp --threads 2 --rounds 3

Needs `pip install xllamacpp gguf`. The weights are untrained; the speed is the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.decoding import read_memory
from bench.report import Row, row, table
from bench.sides import Answer, Settings, Side, Worker, interleave
from bench.word_tokenizer import write_word_tokenizer
from headway.decoding import MostProbable, Sampling, sample
from headway.interop import write
from headway.models import GPT, GPTConfig

VOCABULARY = 21_000
SHAPE: dict[str, Any] = {
    **GPTConfig.sizes["modern-mini"],
    "vocabulary": VOCABULARY,
    "max_length": 1024,
    "model_dim": 1024,
    "num_layers": 14,
    "num_heads": 16,
    "num_kv_heads": 16,
    "head_dim": 64,
    "ffn_dim": 2816,
    "qk_norm": False,
    "tie_output": True,
}
PROMPT, LONG, WRITTEN = 16, 400, 48
PARTS = {
    "attn_norm": "around_attention.norm.gain",
    "attn_q": "attention.query.weight",
    "attn_k": "attention.key.weight",
    "attn_v": "attention.value.weight",
    "attn_output": "attention.output.weight",
    "ffn_norm": "around_feedforward.norm.gain",
    "ffn_gate": "feedforward.gate.weight",
    "ffn_up": "feedforward.expand.weight",
    "ffn_down": "feedforward.contract.weight",
}
"""GGUF's name of each weight of a block -> Headway's."""
FORMATS = {"float32": "F32", "int8": "Q8_0", "int4": "Q4_0"}
GOALS = {"float32": 1.0, "int8": 0.9, "int4": 0.9}
SHARES = {"float32": 0.8, "int8": 0.7, "int4": None}


def model() -> GPT:
    """Return the untrained model; the zero vector of the last token is never the most probable."""
    torch.manual_seed(0)
    made = GPT(GPTConfig(**SHAPE)).eval()
    with torch.no_grad():
        made.embedding.tokens.weight[-1] = 0
        for parameter in made.decoder.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)  # as initialised, it would repeat its last token
    return made


def prepare(folder: Path) -> None:
    """Write the model as a Hugging Face folder and as one GGUF file for each format."""
    made = model()
    write(made, folder / "hf", "llama")
    write_word_tokenizer(folder / "hf", _tokens())
    for kind in FORMATS.values():
        write_gguf(made, folder / f"{kind}.gguf", kind)


def write_gguf(made: GPT, path: Path, kind: str) -> None:
    """Write a Llama as GGUF; its matrices in `kind`, norms in F32."""
    from gguf import GGMLQuantizationType, GGUFWriter, TokenType
    from gguf.quants import quantize

    config = made.config
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(config.num_layers)
    writer.add_context_length(config.max_length)
    writer.add_embedding_length(config.model_dim)
    writer.add_feed_forward_length(config.ffn_dim)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads or config.num_heads)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_dimension_count(config.head_width)
    writer.add_rope_freq_base(config.rotary_base)
    writer.add_vocab_size(config.vocabulary)
    names = _tokens()
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *names[3:-1], "<end>"])
    writer.add_token_scores([0.0] * len(names))
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    writer.add_token_types([*kinds, *[TokenType.NORMAL] * (len(names) - 3)])
    number = GGMLQuantizationType[kind]
    for name, tensor in _named(made).items():
        matrix = tensor.detach().numpy()
        if matrix.ndim == 1:
            writer.add_tensor(name, matrix)
        else:
            writer.add_tensor(name, quantize(matrix, number), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _named(made: GPT) -> dict[str, torch.Tensor]:
    """Return the weights by GGUF's names; rows of queries and keys in the order of its rotation."""
    ours = made.state_dict()
    found = {
        "token_embd.weight": ours["embedding.tokens.weight"],
        "output_norm.weight": ours["decoder.norm.gain"],
    }
    for i in range(made.config.num_layers):
        for name, own in PARTS.items():
            weight = ours[f"decoder.blocks.{i}.{own}"]
            if name in ("attn_q", "attn_k"):
                weight = _interleaved(weight, made.config.num_heads)
            found[f"blk.{i}.{name}.weight"] = weight
    return found


def _interleaved(weight: torch.Tensor, heads: int) -> torch.Tensor:
    halves = weight.unflatten(0, (heads, 2, -1))  # llama.cpp rotates neighbours, Headway halves
    return halves.transpose(1, 2).flatten(0, 2).contiguous()


def _tokens() -> list[str]:
    return [f"t{i}" for i in range(VOCABULARY - 1)] + ["</s>"]


def _prompt(length: int) -> list[int]:
    torch.manual_seed(1)
    return torch.randint(3, VOCABULARY - 1, (length,)).tolist()


Continue = Callable[[int, int], list[int]]
"""Returns a number of tokens after a prompt of a number of tokens."""


def ours(settings: Settings) -> Worker:
    """Headway: `headway.load(FOLDER, dtype=...)`, and `sample` as its `generate` calls it."""
    import headway

    def build(dtype: str) -> Continue:
        bundle: Any = headway.load(Path(settings.folder, "hf"), dtype=dtype)

        def proceed(length: int, written: int) -> list[int]:
            sampling = Sampling(eos=VOCABULARY - 1, max_tokens=written, rules=[MostProbable()])
            return sample(bundle.model, [_prompt(length)], sampling, [[0]])[0][0].tokens

        return proceed

    return _worker(build)


def llama_cpp(settings: Settings) -> Worker:
    """llama.cpp: its server's handler of completions."""
    import xllamacpp

    def build(dtype: str) -> Continue:
        options = xllamacpp.CommonParams()
        options.model.path = str(Path(settings.folder, f"{FORMATS[dtype]}.gguf"))
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = settings.threads
        options.n_ctx, options.n_parallel, options.warmup = 1024, 1, True
        options.cache_prompt = False
        server = xllamacpp.Server(options)

        def proceed(length: int, written: int) -> list[int]:
            answer = server.handle_completions(
                {
                    "prompt": _prompt(length),
                    "n_predict": written,
                    "temperature": 0,
                    "cache_prompt": False,
                    "ignore_eos": True,
                }
            )
            return [int(word) for word in answer["choices"][0]["text"].split("t") if word]

        return proceed

    return _worker(build)


def _worker(build: Callable[[str], Continue]) -> Worker:
    built: dict[str, Continue] = {}

    def work(question: dict[str, Any]) -> Answer:
        dtype = question["dtype"]
        if question.get("read"):
            return read_memory(question["read"])
        if dtype not in built:
            built.clear()  # one model at a time
            built[dtype] = build(dtype)
        written = question["written"]
        started = time.perf_counter()
        tokens = built[dtype](question["prompt"], written)
        seconds = time.perf_counter() - started
        work = written if written > 1 else question["prompt"]
        return {"work": work, "seconds": seconds, "tokens": tokens}

    return work


def measure(mine: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure each format. AssertionError if the tokens differ in float32."""
    for dtype, kind in FORMATS.items():
        for prompt, written in ((PROMPT, WRITTEN), (LONG, 1)):
            question = {"dtype": dtype, "prompt": prompt, "written": written}
            tokens, expected = (side.ask(**question)["tokens"] for side in (mine, peer))
            equal = sum(a == b for a, b in zip(tokens, expected, strict=False)) / written
            assert dtype != "float32" or equal == 1, f"{equal:.0%} of the tokens are llama.cpp's"
            pairs = interleave(mine, peer, rounds, **question)
            name = f"Llama 201 M, {dtype}, " + (
                f"{written} tokens" if written > 1 else f"prompt of {prompt}"
            )
            goal = GOALS[dtype] if written > 1 else 1.0
            yield row(name, pairs, "tokens/s", f"llama.cpp {kind}", device, goal=goal)
            if written > 1:
                yield _share(mine, dtype, [own for own, _ in pairs], device)


def _share(mine: Side, dtype: str, answers: list[Answer], device: str) -> Row:
    """Return the bandwidth at which the weights were read, relative to that of a plain read."""
    bits = {"float32": 32, "int8": 8.5, "int4": 5}[dtype]
    size = sum(p.numel() for p in model().parameters()) * bits / 8
    pairs = []
    for answer in answers:
        read = mine.ask(dtype=dtype, read=int(size))
        pairs.append(({**answer, "work": answer["work"] * size / 1e9}, read))
    name = f"Llama 201 M, {dtype}, weights read"
    return row(name, pairs, "GB/s", "a plain read in the same process", device, goal=SHARES[dtype])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        sides = [
            Settings(
                claim="llama_cpp",
                side=side,
                folder=name,
                threads=options.threads,
                allocator=side == "ours",
                work=1,
            )
            for side in ("ours", "llama_cpp")
        ]
        with Side(sides[0]) as mine, Side(sides[1]) as peer:
            rows = []
            for one in measure(mine, peer, options.rounds, f"cpu, {options.threads} threads"):
                print(f"{one.name}: {one.ratio:.2f}", flush=True)
                rows.append(one)
    print(table(rows))


if __name__ == "__main__":
    main()
