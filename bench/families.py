"""Every family of language models and text encoders beside transformers, with random weights.

    python -m bench.families                  # all families, one thread, five rounds
    python -m bench.families --only gemma3 --rounds 9
    python -m bench.families --width 240      # so small that a call costs as much as its numbers

Both sides compute the same tokens with the same weights, in one process, in turns: A B A B ... The
time is that of the CPU, so that a busy machine counts less. A model has four layers, as wide as
the smallest that is published of many families (576 to 1,024) unless --width says otherwise.
The decoders read a prompt, and decode token by token with their cache, one sequence and eight; the
encoders compute the vectors of eight texts. The outputs must agree before anything is timed.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
import transformers
from tests.fixtures import decoder_families, encoder_families

from headway import interop
from headway.base.shapes import Tensor
from headway.transforms.fast.table import prepare_for_inference

PROMPT, STEPS, TEXTS = 128, 24, 8
HEADS = 6
SKIPPED = ("phi3 longrope",)  # the number of its factors follows from the width of a head
CLOSE = 1e-3
Side = Callable[[], Tensor]


def main() -> None:
    """Print a table of ratios: above 1, Headway needs less time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="+", help="names of families, or parts of them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=768, help=f"a multiple of {2 * HEADS}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print("| family | prompt | decoding, 1 | decoding, 8 | encoding |\n|---|--:|--:|--:|--:|")
    for name, model in models(arguments.width):
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        ratios = dict(measured(model(), arguments.rounds))
        cells = (ratios.get(kind, "") for kind in ("prompt", "1", "8", "encoding"))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def models(width: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each family, and the function that makes its model of transformers."""
    sizes = _sizes(width)
    for name, (kind, settings) in decoder_families.FAMILIES.items():
        if name not in SKIPPED:
            larger = _larger(settings, sizes) | decoder_families.SPECIALS
            yield name, partial(_random, kind, larger, transformers.AutoModelForCausalLM)
    for name, (kind, _, settings, _) in encoder_families.FAMILIES.items():
        yield name, partial(_random, kind, _larger(settings, sizes), transformers.AutoModel)
    plain = {"vocab_size": 2000, "max_position_embeddings": 512, "num_attention_heads": HEADS}
    for kind in ("bert", "roberta"):
        names = ("num_hidden_layers", "hidden_size", "intermediate_size")
        own = {name: sizes[name] for name in names}
        yield kind, partial(_random, kind, plain | own, transformers.AutoModel)
    others = {"n_layers": "n_layer", "dim": "n_embd", "hidden_dim": "intermediate_size"}
    own = {name: sizes[key] for name, key in others.items()} | {"n_heads": HEADS}
    yield "distilbert", partial(_random, "distilbert", plain | own, transformers.AutoModel)


def _sizes(width: int) -> dict[str, int]:
    """Return keys of a tiny model and their values in the models that are measured."""
    return {
        **dict.fromkeys(("hidden_size", "n_embd", "d_model"), width),
        **dict.fromkeys(("intermediate_size", "ffn_hidden_size"), width * 8 // 3),
        **dict.fromkeys(
            ("moe_intermediate_size", "shared_expert_intermediate_size"), width * 4 // 3
        ),
        **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers"), 4),
        **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len"), 512),
        **dict.fromkeys(("sliding_window", "local_attention"), 64),
        "vocab_size": 2000,
        "head_dim": width // HEADS,
        "embedding_size": width // 2,
    }


def _larger(settings: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the settings of a tiny model with the sizes that are measured."""
    fixed = "num_hidden_layers" if "layer_types" in settings else ""  # one type for each
    if settings.get("embedding_size") == settings.get("hidden_size"):
        sizes = {**sizes, "embedding_size": sizes["hidden_size"]}
    return {
        key: value if value is None or key == fixed else sizes.get(key, value)
        for key, value in settings.items()
    }


def _random(kind: str, settings: Mapping[str, Any], model: Any) -> Any:
    """Return a model of transformers with random weights."""
    torch.manual_seed(0)
    return model.from_config(transformers.CONFIG_MAPPING[kind](**settings)).eval()


@torch.inference_mode()
def measured(theirs: Any, rounds: int) -> Iterator[tuple[str, str]]:
    """Yield the kind of work and the ratio of the seconds of transformers and of Headway."""
    with TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours: Any = prepare_for_inference(interop.build(*interop.read(Path(folder))))
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 2000, (TEXTS, PROMPT), generator=generator)
    if hasattr(ours, "encode"):
        keys = torch.ones_like(tokens, dtype=torch.bool)
        yield (
            "encoding",
            ratio(
                lambda: ours.encode(tokens, keys),
                lambda: theirs(tokens, attention_mask=keys.long()).last_hidden_state,
                rounds,
            ),
        )
        return
    one = tokens[:1]
    yield "prompt", ratio(lambda: ours(one), lambda: theirs(one, use_cache=False).logits, rounds)
    known = inspect.signature(theirs.forward).parameters
    cache = "cache" if "cache" in known else "past_key_values"
    for rows in (1, TEXTS):
        first = tokens[:rows, :16]

        def mine(first: Tensor = first) -> Tensor:
            state, new = ours.start(first[:, :-1]), first[:, -1:]
            for _ in range(STEPS):
                logits, state = ours.step(new, state)
                new = logits[:, -1:].argmax(-1)
            return logits[:, -1]

        def peers(first: Tensor = first) -> Tensor:
            held, new = None, first
            for _ in range(STEPS):
                output = theirs(new, use_cache=True, **{cache: held})
                held, new = output[cache], output.logits[:, -1:].argmax(-1)
            return output.logits[:, -1]

        yield str(rows), ratio(mine, peers, rounds)


def ratio(ours: Side, theirs: Side, rounds: int) -> str:
    """Return the median ratio of CPU seconds, with the lowest and the highest one.

    Raises RuntimeError if the outputs differ.
    """
    difference = float((ours() - theirs()).abs().max())
    if not difference <= CLOSE:
        raise RuntimeError(f"the outputs differ by {difference:.1e}")
    ratios = []
    for _ in range(rounds):
        mine = _seconds(ours)
        ratios.append(_seconds(theirs) / mine)
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _seconds(side: Side) -> float:
    begun = time.process_time()
    side()
    return time.process_time() - begun


if __name__ == "__main__":
    main()
