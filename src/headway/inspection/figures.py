"""The lectures' pictures, drawn from real tables and real models (lectures, section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from headway.attention import Mask, ScaledDot
from headway.blocks import SinusoidalTable
from headway.bundle import Attention, Bundle
from headway.errors import UsageError
from headway.inspection.alignment import align
from headway.inspection.plots import Panel, attention_pictures, drawable, page, scatter
from headway.inspection.projection import principal_components
from headway.shapes import Float, Tensor

PANELS = 6  # heads of a picture


def positions_picture(path: Path, length: int = 50, width: int = 128) -> None:
    """PE(t, i) of `length` places and `width` dimensions, and the binary counter beside it.

    Each column of the counter turns half as often as the one before; each pair of columns of PE
    turns more slowly than the one before, by the factor 10000^(2/width). Vaswani et al. 2017,
    section 3.5.
    """
    table = SinusoidalTable(width)(torch.arange(length)[None])[0].numpy()
    bits = max(1, (length - 1).bit_length())
    counter = (torch.arange(length)[:, None] >> torch.arange(bits)) & 1
    with page(path, (10.5, 5.5)) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1, 5))
        left.imshow(counter.numpy(), cmap="Greys", aspect="auto", interpolation="nearest")
        left.set_title("the binary counter", loc="left", fontsize=11)
        left.set_xticks(range(bits), [str(2**bit) for bit in range(bits)])
        left.set_xlabel("bit: worth")
        image = right.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
        right.set_title(f"sines and cosines, {length} places x {width}", loc="left", fontsize=11)
        right.set_xlabel("dimension i")
        for axes in (left, right):
            axes.set_ylabel("place t")
            axes.grid(visible=False)
        figure.colorbar(image, ax=right, shrink=0.6, label="PE(t, i)")


def mask_picture(path: Path, words: Sequence[str], *, seed: int = 0) -> None:
    """What a causal mask does: who may look at whom; weights without it; weights with it.

    Queries and keys are drawn at random; the weights are those of `ScaledDot` (the reference).
    """
    count = len(words)
    chance = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 1, count, 16, generator=chance).unbind(0)
    kernel, causal = ScaledDot(), Mask(causal=True)
    allowed = causal.dense(count, count, torch.device("cpu")).expand(1, 1, count, count)
    shown = {
        "the mask: dark may be seen": allowed.float(),
        "weights without a mask": kernel.weights(q, k, Mask()),
        "weights with it": kernel.weights(q, k, causal),
    }
    panels = [
        Panel(title, words, words, weights[0, 0].tolist()) for title, weights in shown.items()
    ]
    attention_pictures(path, panels, title="A causal mask hides what comes later")


def sentence_picture(
    path: Path, found: Attention, text: str, word: str, targets: Sequence[str]
) -> list[str]:
    """Heat maps of the heads in which `word` looks most at one of `targets`; what was drawn.
    found: the attention weights of `text` with itself.

    ("it" in "The monkey ate the banana because it": does any head look at the monkey?) The names
    say layer, head, and the share that falls on each target. UsageError for a text without them.
    """
    pieces = [drawable(piece.strip() or "␣") for piece in found.source]
    asked, wanted = _places(found, word)[-1], [_places(found, target)[-1] for target in targets]
    scored = []
    for layer, (name, maps) in enumerate(found.maps.items(), start=1):
        if maps.shape[1:] != (len(pieces), len(pieces)):
            raise UsageError(f"{name} has no map of the text with itself")
        shares = maps[:, asked][:, wanted]  # H targets
        scored += [(float(s.max()), layer, head, s, maps[head]) for head, s in enumerate(shares)]
    best = sorted(scored, key=lambda one: -one[0])[:PANELS]
    titles = [
        f"layer {layer}, head {head + 1}: "
        + ", ".join(f"{t} {x:.0%}" for t, x in zip(targets, shares.tolist(), strict=True))
        for _, layer, head, shares, _ in best
    ]
    panels = [
        Panel(title, pieces, pieces, weights.tolist())
        for title, (*_, weights) in zip(titles, best, strict=True)
    ]
    title = f"{len(best)} of {len(scored)} heads, where {word!r} looks most at one of these"
    attention_pictures(path, panels, title=f"{text} · {title}")
    return titles


def alignment_picture(path: Path, bundle: Bundle, text: str) -> str:
    """Cross-attention between the words of a sentence and of the model's translation, which is
    returned. Bahdanau et al. 2015, figure 3."""
    target = bundle.probe(text).answer
    if not target:
        raise UsageError(f"the model translates {text!r} with nothing at all")
    found = align(bundle, text, target)
    panel = Panel("", found.target, found.source, found.weights.clamp(0, 1).tolist())
    attention_pictures(path, [panel], title=f"{text} · {target}")
    return target


def embeddings_picture(path: Path, words: Sequence[str], vectors: Float[Tensor, "N D"]) -> None:
    """Words as points, along the two directions in which their vectors differ most."""
    points = [(x, y) for x, y in principal_components(vectors).tolist()]
    scatter(path, points, list(words), title=f"{len(words)} words, the two widest directions")


def _places(found: Attention, word: str) -> list[int]:
    """Where a word's last piece stands, each time it does. UsageError if it does not."""
    ends, letters = [], ""
    pieces = [piece.strip().removeprefix("##").lower() for piece in found.source]
    for start in range(len(pieces)):
        letters = ""
        for end in range(start, len(pieces)):
            letters += pieces[end]
            if letters == word.lower():
                ends.append(end)
            if not word.lower().startswith(letters):
                break
    if not ends:
        raise UsageError(f"{word!r} does not stand in the text", hint=" ".join(pieces))
    return ends
