"""Tiny language models and tokenizers, small enough to know everything that they can write."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from headway.decoding import Rule, Writing, apply_rules
from headway.models import GPT, GPTConfig

EOS = 2


def gpt(seed: int = 0, vocabulary: int = 11, sharp: float = 6.0, **changes) -> GPT:
    """Sharp enough that tokens differ clearly, flat enough that all of them come."""
    torch.manual_seed(seed)
    settings = {"model_dim": 24, "num_heads": 6, "ffn_dim": 40, "num_layers": 2, "max_length": 64}
    settings["tie_output"] = False
    model = GPT(GPTConfig(**(settings | changes), vocabulary=vocabulary)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        model.output.weight.mul_(sharp)
    return model


def some_prompts(count: int, vocabulary: int = 11, seed: int = 0) -> list[list[int]]:
    """Of different lengths, one of them a single token."""
    generator = torch.Generator().manual_seed(seed)
    lengths = [1, *torch.randint(2, 9, (count - 1,), generator=generator).tolist()]
    return [torch.randint(3, vocabulary, (n,), generator=generator).tolist() for n in lengths]


@torch.no_grad()
def every_output(
    model: GPT, prompt: Sequence[int], length: int, rules: Sequence[Rule] = ()
) -> dict[tuple[int, ...], float]:
    """The probability of each output of at most `length` tokens, one forward pass a beginning.

    An output that ended holds EOS as its last token.
    """
    found: dict[tuple[int, ...], float] = {}
    beginnings: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for words, so_far in beginnings.items():
            logits = model(torch.tensor([[*prompt, *words]]))[:, -1]
            ruled = apply_rules(rules, logits, [Writing(list(words), prompt)])
            for token, p in enumerate(ruled.double().softmax(-1)[0].tolist()):
                target = found if token == EOS else longer
                target[(*words, token)] = so_far * p
        beginnings = longer
    return {words: p for words, p in (found | beginnings).items() if p}


def surprise(counts: dict[tuple[int, ...], int], exact: dict[tuple[int, ...], float]) -> float:
    """How many standard deviations Pearson's chi-square lies above what chance makes of it.

    Outcomes expected fewer than five times are counted as one.
    """
    total = sum(counts.values())
    assert not counts.keys() - exact.keys(), "an output that cannot come"
    cells, rest = [], [0.0, 0.0]
    for words, p in exact.items():
        seen, expected = counts.get(words, 0), p * total
        if expected >= 5:
            cells.append((seen, expected))
        else:
            rest = [rest[0] + seen, rest[1] + expected]
    if rest[1] >= 5:
        cells.append((rest[0], rest[1]))
    chi = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    freedom = len(cells) - 1
    return (chi - freedom) / (2 * freedom) ** 0.5


class Bytes:
    """Bytes as tokens, after <s>, </s>; pairs of letters joined, so that tokens differ in length.

    A letter outside ASCII takes several tokens, and a token may end in the middle of one.
    """

    bos, eos = 0, 1
    fingerprint = "bytes"

    def __init__(self, joined: Sequence[bytes] = (b" t", b"he", b"n\xc3", b"\xa9e", b"\n\n")):
        self.vocabulary = [b"", b"", *(bytes([b]) for b in range(256)), *joined]
        self.ids = {piece: i for i, piece in enumerate(self.vocabulary) if piece}

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        raw, found, place = text.encode(), [], 0
        while place < len(raw):
            width = 2 if raw[place : place + 2] in self.ids else 1
            found.append(self.ids[raw[place : place + width]])
            place += width
        return found

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def begin(self, text: str) -> list[int]:
        return [self.bos, *self.encode(text)]

    def decode(self, ids: Iterable[int]) -> str:
        return b"".join(self.vocabulary[i] for i in ids).decode(errors="replace")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [repr(self.vocabulary[i])[2:-1] for i in ids]

    def save(self, folder: Path) -> None:
        raise NotImplementedError
