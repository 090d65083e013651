"""Drawings of the chapters on blocks and properties. Numbers are computed by Headway."""

from __future__ import annotations

import torch

from drawings.kit import Sheet
from headway.blocks import LayerNorm, SinusoidalTable
from headway.models import GPT, GPTConfig


def feed_forward() -> Sheet:
    sheet = Sheet(274, "The same two matrices at every position")
    for number, word in enumerate(("the", "quick", "fox")):
        x = 6 + 132 * number
        sheet.text(x + 62, 264, word)
        sheet.arrow((x + 62, 248), (x + 62, 226))
        sheet.box(x + 32, 192, 60, 32, "D", "embedding")
        sheet.arrow((x + 62, 192), (x + 62, 170))
        sheet.box(x, 118, 124, 50, "relu(W1 x + b1)\n4 D", "feedforward")
        sheet.arrow((x + 62, 118), (x + 62, 96))
        sheet.box(x + 14, 62, 96, 32, "W2 h + b2", "feedforward")
        sheet.arrow((x + 62, 62), (x + 62, 36))
    sheet.text(200, 18, "shared weights, no exchange between positions", "small soft")
    return sheet


def layer_norm() -> Sheet:
    """Three vectors of eight features before and after LayerNorm."""
    chance = torch.Generator().manual_seed(4)
    spread = torch.tensor([[0.4], [1.0], [1.6]])
    x = spread * torch.randn(3, 8, generator=chance) + torch.tensor([[1.5], [-1.0], [0.5]])
    y = LayerNorm(8)(x).detach()
    sheet = Sheet(276, "Three vectors before and after layer norm")
    for row, (vectors, name) in enumerate(((x, "before"), (y, "after: mean 0, variance 1"))):
        base = 76 + 134 * row
        sheet.text(12, base - 56, name, "strong start")
        for column, vector in enumerate(vectors.tolist()):
            left = 14 + 130 * column
            for number, value in enumerate(vector):
                high = 12 * value
                top = base - max(0.0, high)
                kind = "more" if value > 0 else "less"
                sheet.bar(left + 14 * number, top, 11, max(1.0, abs(high)), kind)
            sheet.line((left - 2, base), (left + 112, base))
    sheet.text(200, 268, "eight features at each of three positions", "small soft")
    return sheet


def residual() -> Sheet:
    sheet = Sheet(300, "Pre-norm and post-norm residual connections")
    for x, name, order in (
        (104, "pre-norm", ("norm", "sublayer")),
        (296, "post-norm", ("sublayer", "norm")),
    ):
        sheet.text(x, 20, name, "strong")
        sheet.text(x, 294, "x")
        if name == "pre-norm":
            sheet.arrow((x, 278), (x, 224))
            sheet.line((x, 256), (x - 80, 256), (x - 80, 74))
            sheet.arrow((x - 80, 74), (x - 11, 74))
            ys = (186, 120)
            sheet.arrow((x, 186), (x, 158))
            sheet.arrow((x, 120), (x, 85))
            sheet.plus(x, 74)
            sheet.arrow((x, 63), (x, 36))
        else:
            sheet.arrow((x, 278), (x, 224))
            sheet.line((x, 256), (x - 80, 256), (x - 80, 148))
            sheet.arrow((x - 80, 148), (x - 11, 148))
            ys = (186, 82)
            sheet.arrow((x, 186), (x, 159))
            sheet.plus(x, 148)
            sheet.arrow((x, 137), (x, 122))
            sheet.arrow((x, 82), (x, 36))
        for part, y in zip(order, ys, strict=True):
            kind = "norm" if part == "norm" else "attention"
            sheet.box(x - 50, y, 100, 36, part, kind)
    return sheet


def positions() -> Sheet:
    """The table of `SinusoidalTable`, 50 positions x 128 features, and a binary counter."""
    count, width = 50, 128
    table = SinusoidalTable(width)(torch.arange(count)[None])[0]
    bits = (torch.arange(count)[:, None] >> torch.arange(6)) & 1
    sheet = Sheet(366, "Sinusoidal positions beside a binary counter")
    sheet.text(46, 22, "binary")
    sheet.text(244, 22, "sinusoidal, D = 128")
    sheet.heat(22, 34, (0.8 * bits).tolist(), 8, 6)
    sheet.heat(104, 34, table.tolist(), 2.2, 6)
    for t in (0, 25, 49):
        sheet.text(18, 44 + 6 * t, str(t), "small end")
        sheet.text(100, 44 + 6 * t, str(t), "small end")
    sheet.text(46, 352, "1 to 32", "small")
    sheet.text(112, 352, "feature 0", "small start")
    sheet.text(386, 352, "127", "small end")
    return sheet


def _blocks(
    sheet: Sheet, x: float, bottom: float, parts: list[tuple[str, str]]
) -> list[tuple[float, float]]:
    """Sublayers from bottom to top, each with its residual sum and norm; where each begins."""
    starts = []
    y = bottom
    for name, kind in parts:
        starts.append((x, y))
        sheet.arrow((x, y), (x, y - 20))
        high = 40 if "\n" in name else 30
        sheet.box(x - 62, y - 20 - high, 124, high, name, kind)
        top = y - 20 - high
        sheet.arrow((x, top), (x, top - 14))
        sheet.box(x - 62, top - 36, 124, 22, "add and norm", "norm")
        sheet.line((x, y - 5), (x - 76, y - 5), (x - 76, top - 25))
        sheet.arrow((x - 76, top - 25), (x - 63, top - 25))
        y = top - 36
    sheet.arrow((x, y), (x, y - 20))
    return starts


def encoder_decoder() -> Sheet:
    """Figure 1 of Vaswani et al. 2017."""
    sheet = Sheet(560, "Encoder and decoder of the Transformer")
    sheet.frame(8, 258, 172, 214)
    sheet.frame(206, 160, 186, 312)
    sheet.text(162, 272, "x L", "small soft")
    sheet.text(378, 174, "x L", "small soft")
    _blocks(sheet, 100, 464, [("self-\nattention", "attention"), ("feed-forward", "feedforward")])
    _blocks(
        sheet,
        304,
        464,
        [
            ("masked self-\nattention", "attention"),
            ("cross-\nattention", "attention"),
            ("feed-forward", "feedforward"),
        ],
    )
    for x, name in ((100, "source"), (304, "target so far")):
        sheet.arrow((x, 528), (x, 516))
        sheet.box(x - 62, 482, 124, 34, "embedding\n+ positions", "embedding")
        sheet.arrow((x, 482), (x, 464))
        sheet.text(x, 546, name)
    sheet.line((100, 262), (100, 244), (192, 244), (192, 328))
    sheet.arrow((192, 328), (240, 328), kind="accent")
    sheet.text(104, 236, "keys, values", "small soft")
    sheet.box(242, 100, 124, 30, "linear", "output")
    sheet.arrow((304, 152), (304, 132))
    sheet.box(242, 48, 124, 30, "softmax", "output")
    sheet.arrow((304, 100), (304, 80))
    sheet.arrow((304, 48), (304, 28))
    sheet.text(304, 18, "next word")
    return sheet


def output() -> Sheet:
    sheet = Sheet(230, "A vector, scores of all words, their probabilities")
    sheet.box(8, 82, 64, 40, "vector\nD", "embedding")
    sheet.arrow((72, 102), (94, 102))
    sheet.box(96, 82, 74, 40, "linear\nD x V", "output")
    sheet.arrow((170, 102), (196, 102))
    logits = torch.tensor([2.6, 1.4, 0.2, -0.6, -1.3])
    chances = logits.softmax(0)
    words = ("fox", "dog", "cat", "house", "is")
    rows = zip(words, logits.tolist(), chances.tolist(), strict=True)
    for number, (word, logit, chance) in enumerate(rows):
        y = 40 + 32 * number
        sheet.text(250, y, word, "small end")
        sheet.text(290, y, f"{logit:.1f}", "small end")
        sheet.bar(304, y - 12, 60 * chance, 14)
        sheet.text(308 + 60 * chance, y, f"{chance:.2f}", "small start")
    sheet.text(278, 16, "score", "small soft")
    sheet.text(344, 16, "softmax", "small soft")
    sheet.text(300, 208, "... all V words; the sum is 1", "small soft")
    return sheet


def embeddings() -> Sheet:
    """A one-hot row times a matrix."""
    chance = torch.Generator().manual_seed(7)
    table = (0.5 * torch.randn(5, 4, generator=chance)).clamp(-1, 1)
    one_hot = torch.eye(5)[2:3]
    sheet = Sheet(214, "A one-hot vector times a matrix is a row of the matrix")
    sheet.heat(10, 84, one_hot.tolist(), 24, 24)
    sheet.text(70, 74, "one-hot of", "small soft")
    sheet.text(70, 130, "great, 1 x V", "small soft")
    sheet.text(147, 102, "x")
    sheet.heat(206, 36, table.tolist(), 24, 24)
    for number, word in enumerate(("is", "awesome", "great", "cold", "soup")):
        sheet.text(202, 53 + 24 * number, word, "small end" + (" strong" if number == 2 else ""))
    sheet.text(254, 24, "E, V x D", "small soft")
    sheet.text(314, 102, "=")
    sheet.heat(328, 84, table[2:3].tolist(), 16, 24)
    sheet.text(360, 130, "1 x D", "small soft")
    sheet.text(200, 196, "so an embedding is a look-up", "small soft")
    return sheet


def patches() -> Sheet:
    sheet = Sheet(212, "An image of 100 x 100 pixels in patches of 20 x 20 is 25 tokens")
    y, x = torch.meshgrid(torch.arange(5.0), torch.arange(5.0), indexing="ij")
    grey = (0.9 - 0.2 * ((x - 2) ** 2 + (y - 2) ** 2).sqrt()).clamp(0, 1)
    sheet.heat(14, 36, grey.tolist(), 26, 26)
    for step in range(1, 5):
        sheet.line((14 + 26 * step, 36), (14 + 26 * step, 166))
        sheet.line((14, 36 + 26 * step), (144, 36 + 26 * step))
    sheet.text(79, 24, "100 x 100", "small soft")
    sheet.arrow((150, 100), (176, 100))
    for number, name in enumerate(("1", "2", "25")):
        at = 22 + 58 * number
        sheet.box(180, at, 76, 30, "in R^400", "plain")
        sheet.text(218, at + 45, f"patch {name}", "small soft")
        sheet.arrow((256, at + 15), (280, at + 15))
        sheet.box(282, at, 40, 30, "W", "embedding")
        sheet.arrow((322, at + 15), (344, at + 15))
        sheet.box(346, at, 46, 30, "D", "embedding")
    sheet.text(200, 204, "cut, flatten, project: tokens as those of words", "small soft")
    return sheet


def causality() -> Sheet:
    """Which outputs of a GPT change with each token: the experiment of the chapter, eight times."""
    torch.manual_seed(0)
    config = GPTConfig(model_dim=16, num_heads=2, ffn_dim=32, num_layers=2, vocabulary=20)
    model = GPT(config).eval()
    tokens = torch.randint(20, (1, 8))
    rows = []
    with torch.no_grad():
        before = model(tokens)
        for position in range(8):
            changed = tokens.clone()
            changed[0, position] = (changed[0, position] + 1) % 20
            rows.append((before != model(changed)).any(-1)[0].float().tolist())
    sheet = Sheet(282, "Which outputs of a GPT change when one token changes")
    sheet.text(218, 20, "output that changes", "small soft")
    sheet.text(12, 20, "changed token", "small soft start")
    sheet.heat(114, 46, [[0.7 * value for value in row] for row in rows], 26, 26)
    for number in range(8):
        sheet.text(127 + 26 * number, 40, str(number + 1), "small")
        sheet.text(106, 64 + 26 * number, str(number + 1), "small end")
    sheet.text(200, 276, "empty cells are equal to the last bit", "small soft")
    return sheet


DRAWINGS = {
    "feed-forward": feed_forward,
    "layer-norm": layer_norm,
    "residual": residual,
    "positions": positions,
    "encoder-decoder": encoder_decoder,
    "output": output,
    "embeddings": embeddings,
    "patches": patches,
    "causality": causality,
}
