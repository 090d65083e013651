"""The figures of the lectures, drawn from real tables and real models (lectures, section 4)."""

from collections.abc import Sequence
from pathlib import Path

import torch

from headway.attention import Mask, ScaledDot
from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.blocks import SinusoidalTable
from headway.bundle import Attention, Bundle
from headway.inspection.alignment import align
from headway.inspection.plots import Panel, drawable, page, plot_attention_maps, scatter
from headway.inspection.projection import principal_components

PANELS = 6  # heads of a figure


def plot_positions(path: Path, length: int = 50, width: int = 128) -> None:
    """Draw PE(t, i) of `length` positions and `width` dimensions, and a binary counter beside it.

    Each column of the counter turns half as often as the one before; each pair of columns of PE
    turns more slowly than the one before, by the factor 10000^(2/width). Vaswani et al. 2017,
    section 3.5.
    """
    table = SinusoidalTable(width)(torch.arange(length)[None])[0].numpy()
    bits = max(1, (length - 1).bit_length())
    counter = (torch.arange(length)[:, None] >> torch.arange(bits)) & 1
    with page(path, (10.5, 5.5)) as figure:
        counter_axes, table_axes = figure.subplots(1, 2, width_ratios=(1, 5))
        counter_axes.imshow(counter.numpy(), cmap="Greys", aspect="auto", interpolation="nearest")
        counter_axes.set_title("binary counter", loc="left", fontsize=11)
        counter_axes.set_xticks(range(bits), [str(2**bit) for bit in range(bits)])
        counter_axes.set_xlabel("value of the bit")
        image = table_axes.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
        table_axes.set_title(
            f"sinusoidal positions, {length} positions x {width} dimensions",
            loc="left",
            fontsize=11,
        )
        table_axes.set_xlabel("dimension i")
        for axes in (counter_axes, table_axes):
            axes.set_ylabel("position t")
            axes.grid(visible=False)
        figure.colorbar(image, ax=table_axes, shrink=0.6, label="PE(t, i)")


def plot_causal_mask(path: Path, words: Sequence[str], *, seed: int = 0) -> None:
    """Draw a causal mask, and attention weights without and with it.

    Queries and keys are random; the weights are those of `ScaledDot`.
    """
    count = len(words)
    chance = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 1, 1, count, 16, generator=chance).unbind(0)
    kernel, causal = ScaledDot(), Mask(causal=True)
    allowed = causal.dense(count, count, torch.device("cpu")).expand(1, 1, count, count)
    shown = {
        "causal mask: dark cells are allowed": allowed.float(),
        "weights without a mask": kernel.weights(q, k, Mask()),
        "weights with the mask": kernel.weights(q, k, causal),
    }
    panels = [
        Panel(title, words, words, weights[0, 0].tolist()) for title, weights in shown.items()
    ]
    plot_attention_maps(path, panels, title="A causal mask hides later positions")


def plot_sentence_attention(
    path: Path, attention: Attention, text: str, word: str, targets: Sequence[str]
) -> list[str]:
    """Draw heat maps of the heads in which `word` attends most to one of `targets`; return their
    titles.

    Example: "it" in "The monkey ate the banana because it": does any head attend to the monkey? The
    titles have layer, head, and the weight of each target. attention: self-attention weights of
    `text`. Raises UsageError if a word does not occur in the text.
    """
    tokens = [drawable(token.strip() or "␣") for token in attention.source]
    query = _positions(attention, word)[-1]
    keys = [_positions(attention, target)[-1] for target in targets]
    scored = []
    for layer, (name, maps) in enumerate(attention.maps.items(), start=1):
        if maps.shape[1:] != (len(tokens), len(tokens)):
            raise UsageError(f"{name} has no self-attention map of the text")
        shares = maps[:, query][:, keys]  # H targets
        scored += [(float(s.max()), layer, head, s, maps[head]) for head, s in enumerate(shares)]
    best = sorted(scored, key=lambda entry: -entry[0])[:PANELS]
    titles = [
        f"layer {layer}, head {head + 1}: "
        + ", ".join(f"{t} {x:.0%}" for t, x in zip(targets, shares.tolist(), strict=True))
        for _, layer, head, shares, _ in best
    ]
    panels = [
        Panel(title, tokens, tokens, weights.tolist())
        for title, (*_, weights) in zip(titles, best, strict=True)
    ]
    title = (
        f"{len(best)} of {len(scored)} heads, in which {word!r} attends most to one of the targets"
    )
    plot_attention_maps(path, panels, title=f"{text} · {title}")
    return titles


def plot_alignment(path: Path, bundle: Bundle, text: str) -> str:
    """Draw the cross-attention between the words of a sentence and of its translation by the model;
    return the translation. Bahdanau et al. 2015, figure 3."""
    target = bundle.probe(text).answer
    if not target:
        raise UsageError(f"the translation of {text!r} is empty, so that there is nothing to align")
    links = align(bundle, text, target)
    panel = Panel("", links.target, links.source, links.weights.clamp(0, 1).tolist())
    plot_attention_maps(path, [panel], title=f"{text} · {target}")
    return target


def plot_embeddings(path: Path, words: Sequence[str], vectors: Float[Tensor, "N D"]) -> None:
    """Draw words as points, along the first two principal components of their vectors."""
    points = [(x, y) for x, y in principal_components(vectors).tolist()]
    scatter(path, points, list(words), title=f"{len(words)} words, first two principal components")


def _positions(attention: Attention, word: str) -> list[int]:
    """Return the position of the last token of each occurrence of a word.

    Raises UsageError if the word does not occur.
    """
    ends, letters = [], ""
    tokens = [token.strip().removeprefix("##").lower() for token in attention.source]
    for start in range(len(tokens)):
        letters = ""
        for end in range(start, len(tokens)):
            letters += tokens[end]
            if letters == word.lower():
                ends.append(end)
            if not word.lower().startswith(letters):
                break
    if not ends:
        raise UsageError(
            f"the word {word!r} does not occur in the text",
            hint=f"its tokens are: {' '.join(tokens)}",
        )
    return ends
