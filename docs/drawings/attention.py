"""Drawings of the chapter on attention. Weights and masks are computed by Headway."""

from __future__ import annotations

import contextlib
import io
import runpy
from collections.abc import Sequence
from pathlib import Path

import torch

from drawings.kit import Sheet
from headway.attention import Additive, Bilinear, Dot, LinearDot, Mask, ScaledDot

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WORDS = ("the", "quick", "brown", "fox")


def soft_lookup() -> Sheet:
    """The weights are those of examples/soft_lookup.py."""
    with contextlib.redirect_stdout(io.StringIO()):
        example = runpy.run_path(str(EXAMPLES / "soft_lookup.py"))
    french, embedding, plane = (example[name] for name in ("french", "embedding", "plane"))
    keys = [embedding[word] for word in french]
    values = [plane[word] for word in french.values()]
    weights = example["look_up"](embedding["orange"], keys, values)[0].tolist()
    sheet = Sheet(238, "The query orange, compared with three keys")
    sheet.box(10, 84, 84, 34, "orange", "query")
    sheet.text(52, 74, "query", "small soft")
    sheet.text(170, 24, "keys", "small soft")
    sheet.text(262, 24, "weights", "small soft")
    sheet.text(352, 24, "values", "small soft")
    for number, ((key, value), weight) in enumerate(zip(french.items(), weights, strict=True)):
        y = 34 + 50 * number
        sheet.arrow((94, 101), (126, y + 17))
        sheet.box(128, y, 84, 34, key, "key")
        sheet.bar(222, y + 6, 58 * weight, 22)
        sheet.text(226 + 58 * weight, y + 22, f"{weight:.2f}", "small start")
        sheet.box(312, y, 80, 34, value, "value")
    mix = " + ".join(f"{w:.2f} {v}" for w, v in zip(weights, french.values(), strict=True))
    sheet.text(200, 208, f"answer = {mix}", "small mono")
    sheet.text(200, 230, "a dictionary would raise KeyError", "small soft")
    return sheet


def attention_layer() -> Sheet:
    sheet = Sheet(424, "The attention layer: projections, scores, softmax, weighted sum")
    for x, name, source, kind in (
        (20, "queries Q", "Nq x d", "query"),
        (146, "keys K", "Nx x d", "key"),
        (272, "values V", "Nx x Dv", "value"),
    ):
        sheet.box(x, 330, 108, 36, name, kind)
        sheet.text(x + 54, 384, source, "small soft")
    sheet.text(74, 412, "given", "small soft")
    sheet.text(200, 412, "K = X W_K", "small mono key")
    sheet.text(326, 412, "V = X W_V", "small mono value")
    sheet.box(60, 244, 154, 40, "E = Q K^T / sqrt(d)")
    sheet.text(258, 268, "scores Nq x Nx", "small soft start")
    sheet.arrow((74, 330), (100, 286), kind="query")
    sheet.arrow((200, 330), (174, 286), kind="key")
    sheet.box(60, 168, 154, 40, "A = softmax(E)")
    sheet.text(258, 184, "each row", "small soft start")
    sheet.text(258, 200, "sums to 1", "small soft start")
    sheet.arrow((137, 244), (137, 210))
    sheet.box(114, 88, 172, 40, "Y = A V")
    sheet.arrow((137, 168), (160, 130))
    sheet.arrow((360, 330), (360, 108), (288, 108), kind="value")
    sheet.arrow((200, 88), (200, 50))
    sheet.box(146, 12, 108, 36, "outputs Y", "embedding")
    sheet.text(266, 35, "Nq x Dv", "small soft start")
    return sheet


def scale() -> Sheet:
    """Softmax of scores of random vectors, of three widths."""
    sheet = Sheet(252, "Weights of eight keys without and with the scale")
    for column, d in enumerate((4, 64, 1024)):
        chance = torch.Generator().manual_seed(3)
        q = torch.randn(1, 1, 1, d, generator=chance)
        k = torch.randn(1, 1, 8, d, generator=chance)
        sheet.text(86 + 128 * column, 22, f"d = {d:,}", "strong")
        for row, kernel in enumerate((Dot(), ScaledDot())):
            weights = kernel.weights(q, k, Mask()).flatten().tolist()
            base = 118 + 110 * row
            for number, weight in enumerate(weights):
                high = max(1.0, round(76 * weight, 1))
                kind = "less" if row == 0 else "more"
                sheet.bar(34 + 128 * column + 13 * number, base - high, 10, high, kind)
            sheet.line((30 + 128 * column, base), (140 + 128 * column, base))
    sheet.text(30, 136, "softmax(q k): one key gets everything as d grows", "small soft start")
    sheet.text(30, 246, "softmax(q k / sqrt(d)): stays an average", "small soft start")
    return sheet


def permutation() -> Sheet:
    """Self-attention of four words, and of the same words in another order."""
    chance = torch.Generator().manual_seed(5)
    x = 1.6 * torch.randn(1, 1, 4, 8, generator=chance)
    order = [3, 0, 2, 1]
    sheet = Sheet(214, "Permuting the inputs permutes the weights, and changes none")
    for left, words, inputs in ((56, WORDS, x), (252, [WORDS[i] for i in order], x[:, :, order])):
        weights = ScaledDot().weights(inputs, inputs, Mask())[0, 0].tolist()
        _map(sheet, (left, 70), words, words, weights, 32)
    sheet.arrow((196, 128), (216, 128), kind="accent")
    return sheet


def _map(
    sheet: Sheet,
    corner: tuple[float, float],
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    cell: float,
) -> None:
    """A heat map with the names of its rows, and those of its columns above, one line each."""
    x, y = corner
    for number, name in enumerate(rows):
        sheet.text(x - 5, y + cell * (number + 0.5) + 4, name, "small end")
    for number, name in enumerate(columns):
        rise = 6 + 15 * (number % 2)
        sheet.text(x + cell * (number + 0.5), y - rise, name, "small")
    sheet.heat(x, y, values, cell, cell)


def masks() -> Sheet:
    """Masks as `Mask.dense` makes them: filled cells may attend."""
    keys = torch.tensor([[True, True, True, True, False]])
    shown = {
        "no mask": Mask(),
        "causal": Mask(causal=True),
        "padding": Mask(keys=keys),
        "causal window of 3": Mask(causal=True, window=3),
    }
    sheet = Sheet(360, "Four masks; filled cells may attend")
    for number, (name, mask) in enumerate(shown.items()):
        x, y = 52 + 190 * (number % 2), 44 + 168 * (number // 2)
        allowed = mask.dense(5, 5)[0, 0].expand(5, 5).float()
        sheet.text(x + 60, y - 12, name, "strong")
        sheet.heat(x, y, (0.7 * allowed).tolist(), 24, 24)
        for step in range(1, 5):
            sheet.line((x + 24 * step, y), (x + 24 * step, y + 120))
            sheet.line((x, y + 24 * step), (x + 120, y + 24 * step))
        sheet.text(x - 8, y + 16, "1", "small soft end")
        sheet.text(x - 8, y + 112, "5", "small soft end")
    sheet.text(200, 350, "rows: queries; columns: keys", "small soft")
    return sheet


def heads() -> Sheet:
    sheet = Sheet(372, "Four heads side by side, joined and projected")
    sheet.box(146, 330, 108, 34, "inputs  N x D", "embedding")
    for head in range(4):
        x = 16 + 96 * head
        sheet.arrow((200, 330), (x + 40, 302))
        sheet.box(x, 262, 80, 38, f"W_Q W_K\nW_V of {head + 1}")
        sheet.arrow((x + 40, 262), (x + 40, 234))
        sheet.box(x, 186, 80, 46, f"attention\nhead {head + 1}", "attention")
        sheet.arrow((x + 40, 186), (x + 40, 148))
    sheet.box(16, 112, 368, 34, "concatenate: N x D")
    sheet.text(104, 172, "d = D / H", "small soft")
    sheet.text(296, 172, "each N x d", "small soft")
    sheet.arrow((200, 112), (200, 88))
    sheet.box(146, 52, 108, 34, "W_O")
    sheet.arrow((200, 52), (200, 34))
    sheet.text(200, 24, "outputs  N x D")
    return sheet


def cross() -> Sheet:
    sheet = Sheet(300, "Queries of the decoder, keys and values of the encoder")
    sheet.frame(10, 120, 168, 168)
    sheet.frame(222, 120, 168, 168)
    sheet.text(94, 278, "encoder, S words", "small soft")
    sheet.text(306, 278, "decoder, T words", "small soft")
    sheet.box(24, 206, 140, 48, "output of the\nlast layer", "embedding")
    sheet.box(236, 206, 140, 48, "state after\nself-attention", "embedding")
    sheet.box(24, 138, 62, 34, "keys", "key")
    sheet.box(102, 138, 62, 34, "values", "value")
    sheet.box(265, 138, 82, 34, "queries", "query")
    sheet.arrow((55, 206), (55, 174))
    sheet.arrow((133, 206), (133, 174))
    sheet.arrow((306, 206), (306, 174))
    sheet.box(100, 52, 200, 38, "softmax(Q K^T / sqrt(d)) V")
    sheet.arrow((55, 138), (110, 92), kind="key")
    sheet.arrow((133, 138), (170, 92), kind="value")
    sheet.arrow((306, 138), (270, 92), kind="query")
    sheet.arrow((200, 52), (200, 30))
    sheet.text(200, 20, "T x D: one output for each query")
    return sheet


def scores() -> Sheet:
    """Weights of the same query and keys with five score functions, freshly initialised."""
    chance = torch.Generator().manual_seed(2)
    q = torch.randn(1, 1, 1, 16, generator=chance)
    k = torch.randn(1, 1, 8, 16, generator=chance)
    torch.manual_seed(1)
    kernels = {
        "dot product: q k": Dot(),
        "scaled: q k / sqrt(d)": ScaledDot(),
        "bilinear: q W k": Bilinear(1, 16, 16),
        "additive: v tanh(W1 k + W2 q)": Additive(1, 16, 16, 16),
        "linear: q k, no softmax": LinearDot(),
    }
    sheet = Sheet(330, "The weights that five score functions give to the same eight keys")
    for row, (name, kernel) in enumerate(kernels.items()):
        y = 14 + 62 * row
        with torch.no_grad():
            weights = kernel.weights(q, k, Mask()).flatten()
        most = float(weights.abs().max())
        sheet.text(10, y + 14, name, "start")
        sheet.heat(10, y + 24, [(weights / most).tolist()], 27, 22)
        total = float(weights.sum())
        sheet.text(234, y + 40, f"sum {total:.2f}, largest {most:.2f}", "small soft start")
    sheet.text(10, 324, "orange: negative weights, which no average has", "small soft start")
    return sheet


def paths() -> Sheet:
    sheet = Sheet(240, "From the last word to the first: five steps, or one")
    for row, y in ((0, 40), (1, 150)):
        for number in range(6):
            x = 12 + 64 * number
            sheet.box(x, y, 50, 32, f"h{number + 1}", "state" if row == 0 else "attention")
            if row == 0 and number:
                sheet.arrow((x, y + 16), (x - 12, y + 16), kind="accent")
    sheet.text(12, 24, "recurrent network", "strong start")
    sheet.text(12, 98, "the gradient is multiplied at each word", "small soft start")
    sheet.text(12, 134, "attention", "strong start")
    for number in range(5):
        kind = "accent" if number == 0 else ""
        sheet.arc(357, 37 + 64 * number, 184, 42 - 7 * number, kind=kind)
    return sheet


DRAWINGS = {
    "soft-lookup": soft_lookup,
    "attention-layer": attention_layer,
    "scale": scale,
    "permutation": permutation,
    "masks": masks,
    "heads": heads,
    "cross-attention": cross,
    "scores": scores,
    "paths": paths,
}
