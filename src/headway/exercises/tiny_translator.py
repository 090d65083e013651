"""A translator that trains in seconds, of which the learner's code becomes a part.

The data are sentences of a small grammar, made here: English, and French with its order of
adjectives and its genders. A tenth of them is held out.
"""

import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from headway.attention import record_attention
from headway.base.shapes import Float, Int, Tensor
from headway.exercises.contract import SECONDS, STEPS, Exercise, Function, Plug
from headway.inspection.render import heat_map
from headway.models import Translator, TranslatorConfig

PAD, BOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<s>", "</s>")
MAX_LENGTH = 12

# English noun: (French noun, feminine)
NOUNS = {
    **{"cat": ("chat", False), "dog": ("chien", False), "horse": ("cheval", False)},
    **{"house": ("maison", True), "apple": ("pomme", True), "car": ("voiture", True)},
}
ADJECTIVES = {
    **{"black": ("noir", "noire"), "green": ("vert", "verte"), "white": ("blanc", "blanche")},
    "": ("", ""),
}
VERBS = {"sees": "voit", "finds": "trouve", "likes": "aime"}

Pair = tuple[list[str], list[str]]
Report = Callable[[str], None]


def _phrase(noun: str, adjective: str) -> tuple[str, str]:
    french, is_feminine = NOUNS[noun]
    article = "la" if is_feminine else "le"
    return f"the {adjective} {noun}", f"{article} {french} {ADJECTIVES[adjective][is_feminine]}"


def sentence_pairs() -> list[Pair]:
    """All sentences of the grammar with their translations, in a fixed random order."""
    phrases = [_phrase(noun, adjective) for noun, adjective in product(NOUNS, ADJECTIVES)]
    pairs = [
        (f"{subject[0]} {verb} {thing[0]}".split(), f"{subject[1]} {tut} {thing[1]}".split())
        for subject, (verb, tut), thing in product(phrases, VERBS.items(), phrases)
    ]
    random.Random(0).shuffle(pairs)
    return pairs


PAIRS = sentence_pairs()
WORDS = [*SPECIAL, *sorted({word for pair in PAIRS for side in pair for word in side})]
IDS = {word: number for number, word in enumerate(WORDS)}


class TinyTranslator(Translator):
    """A Translator of the sentences above."""

    def ids(self, words: list[str]) -> Int[Tensor, "1 S"]:
        """The ids of a source sentence, with </s>."""
        return torch.tensor([[*(IDS[word] for word in words), EOS]])

    @torch.no_grad()
    def next_log_p(self, source: Int[Tensor, "1 S"]) -> Callable[[list[int]], Float[Tensor, " V"]]:
        """log P(next token | source, tokens) as a function of the tokens, which begin with <s>."""
        memory = self.encode(source)

        def log_p(tokens: list[int]) -> Tensor:
            with torch.no_grad():
                hidden = self.decode(torch.tensor([tokens]), memory)
                logits: Tensor = self.output(hidden[0, -1])
            return logits.log_softmax(-1)

        return log_p

    @torch.no_grad()
    def greedy(self, source: Int[Tensor, "1 S"]) -> list[int]:
        """The most probable token at each step, with the caches of the decoder."""
        state, tokens = self.start(source), [BOS]
        while len(tokens) <= MAX_LENGTH:
            logits, state = self.step(torch.tensor([tokens[-1:]]), state)
            token = int(logits[0, -1].argmax())
            if token == EOS:
                break
            tokens.append(token)
        return tokens[1:]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training showed.

    out_of_time: whether the limit of seconds ended the training, which says nothing about the
    learner's code. correct: fraction of held-out sentences translated without a fault. samples:
    source, reference and output. attention: a map for the terminal.
    """

    steps: int
    out_of_time: bool
    seconds: float
    loss: float
    correct: float
    samples: list[tuple[str, str, str]]
    attention: str


def make_model(plug: Plug, learner: Function) -> TinyTranslator:
    """Make the translator with the learner's function in its place."""
    torch.manual_seed(0)
    with nullcontext() if plug.register is None else plug.register(learner):
        settings: dict[str, Any] = {
            **{"model_dim": 48, "num_heads": 3, "ffn_dim": 96, "dropout": 0.0},
            **{"encoder_layers": 1, "decoder_layers": 1},
            **{"source_vocabulary": len(WORDS), "target_vocabulary": len(WORDS)},
            **plug.config,
        }
        model = TinyTranslator(TranslatorConfig(**settings))
    if plug.transform is not None:
        plug.transform(model, learner)
    return model


def train(
    exercise: Exercise,
    learner: Function,
    report: Report,
    *,
    steps: int = STEPS,
    limit: float = SECONDS,
) -> Trained:
    """Train the translator with the learner's function, and translate held-out sentences.

    report: called with each line of progress. limit: seconds after which training stops.
    """
    plug = exercise.plug
    if plug is None:
        raise ValueError(f"{exercise.name} is no part of a translator")
    model, started = make_model(plug, learner), time.monotonic()
    pairs = plug.pairs(learner) if plug.pairs else _pairs
    loss_of = plug.loss(learner) if plug.loss else torch.nn.functional.cross_entropy
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    chooser, held_out, step, loss = random.Random(1), len(PAIRS) // 10, 0, torch.zeros(())
    for step in range(1, steps + 1):
        chosen = chooser.sample(PAIRS[held_out:], 32)
        loss = _loss(model, chosen, pairs, loss_of)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        is_late = time.monotonic() - started > limit
        if step % 50 == 0 or is_late:
            report(f"step {step:>3}  loss {float(loss.detach()):.3f}")
        if is_late:
            break
    outputs = [_translate(model, plug, learner, source) for source, _ in PAIRS[:20]]
    correct = sum(o == t for o, (_, t) in zip(outputs, PAIRS[:20], strict=True)) / 20
    samples = [
        (" ".join(s), " ".join(t), " ".join(outputs[i])) for i, (s, t) in enumerate(PAIRS[:3])
    ]
    if plug.show is not None:
        drawing = plug.show(model, learner, PAIRS[0][0])
    else:
        drawing = _attention(model, *PAIRS[0])
    seconds = time.monotonic() - started
    return Trained(
        steps=step,
        out_of_time=step < steps,
        seconds=seconds,
        loss=float(loss.detach()),
        correct=correct,
        samples=samples,
        attention=drawing,
    )


def _pairs(
    targets: list[list[int]], bos: int, eos: int, pad: int
) -> tuple[list[list[int]], list[list[int]]]:
    length = max(map(len, targets))
    ends = [[pad] * (length - len(target)) for target in targets]
    inputs = [[bos, *target, *end] for target, end in zip(targets, ends, strict=True)]
    return inputs, [[*target, eos, *end] for target, end in zip(targets, ends, strict=True)]


def _loss(model: TinyTranslator, chosen: list[Pair], pairs: Function, loss_of: Function) -> Tensor:
    sources = [[*(IDS[word] for word in source), EOS] for source, _ in chosen]
    width = max(map(len, sources))
    source = torch.tensor([[*ids, *[PAD] * (width - len(ids))] for ids in sources])
    targets = [[IDS[word] for word in target] for _, target in chosen]
    inputs, labels = (torch.tensor(part) for part in pairs(targets, BOS, EOS, PAD))
    logits = model(source, inputs, source != PAD)
    real = labels != PAD
    loss: Tensor = loss_of(logits[real], labels[real])
    return loss


def _translate(model: TinyTranslator, plug: Plug, learner: Function, words: list[str]) -> list[str]:
    source = model.eval().ids(words)
    if plug.decode is None:
        tokens = model.greedy(source)
    else:
        tokens = plug.decode(model.next_log_p(source), learner, [BOS, EOS, MAX_LENGTH])
    return [WORDS[token] for token in tokens]


@torch.no_grad()
def _attention(model: TinyTranslator, source: list[str], target: list[str]) -> str:
    """Cross-attention from each word of the true translation to the source words."""
    tokens = torch.tensor([[BOS, *(IDS[word] for word in target)]])
    with record_attention(model) as maps:
        model(model.ids(source), tokens)
    (weights,) = (m[0][0].mean(0) for name, m in maps.items() if ".cross" in name)
    return heat_map([*target, "</s>"], [*source, "</s>"], weights.tolist())
