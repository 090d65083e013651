"""Drawings of the chapter on systems: what is connected to what."""

from __future__ import annotations

from collections.abc import Sequence

from drawings.kit import Sheet
from headway.training.schedules import ScheduleConfig, learning_rate


def word_vectors() -> Sheet:
    sheet = Sheet(236, "A network of two matrices predicts the next word")
    sheet.text(62, 24, "context", "small soft")
    sheet.text(338, 24, "next word", "small soft")
    for number, word in enumerate(("Pizza", "is")):
        sheet.box(10, 36 + 64 * number, 104, 44, f"{word}\none-hot, V")
        sheet.arrow((114, 58 + 64 * number), (148, 84))
    sheet.box(150, 62, 88, 52, "E, V x D\nlinear", "embedding")
    sheet.arrow((238, 88), (260, 88))
    sheet.box(262, 62, 50, 52, "C\nD x V", "output")
    sheet.arrow((312, 88), (330, 88))
    for number, (word, chance) in enumerate((("great", 0.5), ("awesome", 0.5), ("is", 0.0))):
        y = 52 + 32 * number
        sheet.bar(334, y - 6, max(1, 50 * chance), 10)
        sheet.text(334, y + 16, word, "small start")
    sheet.text(200, 192, "great and awesome follow the same words,", "small soft")
    sheet.text(200, 210, "so their rows of E become nearly equal", "small soft")
    return sheet


def _chain(
    sheet: Sheet, y: float, words: Sequence[str], names: Sequence[str], left: float, step: float
) -> None:
    """Recurrent states in a row, each with its input word below."""
    for number, (word, name) in enumerate(zip(words, names, strict=True)):
        x = left + step * number
        sheet.box(x, y, 44, 34, name, "state")
        sheet.text(x + 22, y + 76, word, "small")
        sheet.arrow((x + 22, y + 60), (x + 22, y + 36))
        if number:
            sheet.arrow((x - step + 44, y + 17), (x, y + 17))


def rnn() -> Sheet:
    sheet = Sheet(226, "The last state of the encoder is all that the decoder gets")
    _chain(sheet, 90, ("red", "hair", "</s>"), ("h1", "h2", "h3"), 8, 60)
    sheet.arrow((172, 107), (206, 107), kind="accent")
    sheet.text(190, 94, "c", "strong")
    _chain(sheet, 90, ("<s>", "cheveux", "roux"), ("s1", "s2", "s3"), 208, 66)
    for number, word in enumerate(("cheveux", "roux", "</s>")):
        x = 230 + 66 * number
        sheet.arrow((x, 90), (x, 62))
        sheet.text(x, 52, word, "small")
    sheet.text(90, 208, "encoder", "soft")
    sheet.text(296, 208, "decoder", "soft")
    sheet.text(190, 22, "bottleneck: one vector c for the whole sentence", "small soft")
    return sheet


def rnn_attention() -> Sheet:
    sheet = Sheet(330, "The state of the decoder is a query to all states of the encoder")
    _chain(sheet, 210, ("red", "hair", "</s>"), ("h1", "h2", "h3"), 8, 66)
    _chain(sheet, 210, ("<s>", "cheveux"), ("s1", "s2"), 258, 82)
    sheet.arrow((184, 227), (258, 227))
    for number, weight in enumerate((0.85, 0.12, 0.03)):
        x = 30 + 66 * number
        sheet.arrow((x, 210), (94, 162), kind="accent" if number == 0 else "")
        sheet.text(x + (-2 if number < 2 else 12), 196, f"{weight:.2f}", "small end")
    sheet.box(30, 126, 128, 34, "weighted sum", "attention")
    sheet.arrow((362, 210), (362, 184), (160, 150), kind="accent")
    sheet.text(268, 160, "query s2", "small")
    sheet.arrow((94, 126), (94, 86), (188, 86))
    sheet.arrow((374, 210), (374, 86), (342, 86))
    sheet.box(190, 68, 150, 36, "concatenate, linear", "output")
    sheet.arrow((265, 68), (265, 40))
    sheet.text(265, 28, "roux")
    sheet.text(90, 316, "encoder", "soft")
    sheet.text(322, 316, "decoder", "soft")
    return sheet


def teacher_forcing() -> Sheet:
    sheet = Sheet(236, "Training gives the decoder the true previous words")
    words = ("<s>", "cheveux", "roux", "</s>")
    sheet.box(12, 92, 376, 42, "decoder with a causal mask: all positions at once", "attention")
    for number in range(3):
        x = 76 + 124 * number
        sheet.text(x, 186, words[number])
        sheet.arrow((x, 170), (x, 136))
        sheet.arrow((x, 92), (x, 62))
        sheet.text(x, 50, words[number + 1], "strong")
    sheet.text(200, 22, "targets: the same words, shifted by one", "small soft")
    sheet.text(200, 212, "inputs: true words, not those the model predicts", "small soft")
    return sheet


def bert() -> Sheet:
    sheet = Sheet(328, "BERT: masked words and next sentences")
    words = ("[CLS]", "the", "[MASK]", "fox", "[SEP]", "it", "runs")
    sheet.box(8, 132, 384, 46, "encoder blocks: all positions attend to all", "attention")
    for number, word in enumerate(words):
        x = 34 + 55 * number
        sheet.text(x, 264, word, "small" + (" strong" if word == "[MASK]" else ""))
        sheet.arrow((x, 248), (x, 222))
        sheet.arrow((x, 196), (x, 180))
        sheet.text(x, 213, "A" if number < 5 else "B", "small")
    sheet.box(8, 196, 384, 26, kind="frame")
    sheet.text(200, 290, "token + position + segment A or B", "small soft")
    sheet.arrow((34, 132), (34, 102))
    sheet.box(8, 52, 126, 48, "does B follow A?\nyes / no", "output")
    sheet.arrow((144, 132), (166, 102))
    sheet.box(148, 52, 118, 48, "masked word:\nquick 0.7 ...", "output")
    sheet.text(200, 20, "fine-tuning puts another layer on the same encoder", "small soft")
    sheet.text(326, 80, "not masked:", "small soft")
    sheet.text(326, 96, "no loss", "small soft")
    return sheet


def gpt() -> Sheet:
    sheet = Sheet(276, "GPT: every position predicts the next word")
    words = ("A", "robot", "must", "obey", "the")
    sheet.box(8, 112, 384, 54, "L blocks of masked self-attention\nand feed-forward", "attention")
    for number in range(4):
        x = 62 + 92 * number
        sheet.text(x, 224, words[number])
        sheet.arrow((x, 206), (x, 168))
        sheet.arrow((x, 112), (x, 84))
        sheet.text(x, 74, words[number + 1], "strong")
    sheet.line((62, 242), (62, 250), (246, 250), (246, 242))
    sheet.text(154, 268, "what must attends to", "small soft")
    sheet.text(200, 24, "labels are the text itself, shifted by one;", "small soft")
    sheet.text(200, 42, "at the end, append the prediction and repeat", "small soft")
    return sheet


def training() -> Sheet:
    """From raw text to a step, and the learning rates of four schedules."""
    sheet = Sheet(306, "Training a language model, and its learning rates")
    for number, name in enumerate(
        ("raw\ntext", "tokens,\npacked", "shift\nby one", "cross-\nentropy")
    ):
        x = 8 + 100 * number
        sheet.box(x, 14, 84, 46, name, "embedding" if number < 2 else "output")
        if number:
            sheet.arrow((x - 16, 37), (x, 37))
    total, warmup, base = 1000, 100, 244.0
    sheet.line((44, 100), (44, base), (384, base))
    sheet.text(38, 114, "max", "small soft end")
    sheet.text(38, base, "0", "small soft end")
    sheet.text(44, base + 18, "step 0", "small soft start")
    sheet.text(384, base + 18, "1,000", "small soft end")
    kinds = {
        **{"inverse-sqrt": "soft", "cosine": "more"},
        **{"linear": "less", "warmup-stable-decay": "ink"},
    }
    for number, (kind, colour) in enumerate(kinds.items()):
        config = ScheduleConfig(kind=kind, warmup=float(warmup), final=0.0)  # type: ignore[arg-type]
        points = [
            (44 + 0.34 * step, base - 132 * learning_rate(config, 1.0, step, total))
            for step in range(1, total + 1, 9)
        ]
        sheet.line(*points, kind=colour)
        x, y = (44, 284) if number < 2 else (190, 284)
        y += 18 * (number % 2)
        sheet.line((x, y - 4), (x + 20, y - 4), kind=colour)
        sheet.text(x + 26, y, kind, "small start")
    return sheet


def vit() -> Sheet:
    sheet = Sheet(322, "Vision Transformer: patches as tokens")
    sheet.box(30, 118, 340, 44, "encoder blocks", "attention")
    sheet.box(30, 196, 52, 32, "[CLS]", "output")
    for number in range(4):
        x = 102 + 68 * number
        sheet.box(x, 196, 56, 32, f"E p{number + 1}", "embedding")
        sheet.arrow((x + 28, 196), (x + 28, 164))
        strength = (0.2, 0.7, 0.5, 0.3)[number]
        sheet.heat(x + 10, 250, [[strength]], 36, 36)
        sheet.arrow((x + 28, 250), (x + 28, 230))
    sheet.arrow((56, 196), (56, 164))
    sheet.text(200, 310, "patches p1 ... pP, and their positions", "small soft")
    sheet.arrow((56, 118), (56, 88))
    sheet.box(14, 50, 130, 36, "linear, softmax", "output")
    sheet.arrow((144, 68), (166, 68))
    sheet.text(174, 73, "four: 0.98", "start strong")
    sheet.text(370, 106, "outputs of patches: not used", "small soft end")
    sheet.text(200, 24, "the class is read from the output of [CLS]", "small soft")
    return sheet


def dino() -> Sheet:
    sheet = Sheet(346, "DINO: a student predicts what its own average outputs")
    sheet.text(200, 336, "two crops of one image, without a label", "small soft")
    for x, name, kind in ((100, "student", "attention"), (300, "teacher", "state")):
        sheet.heat(x - 24, 264, [[0.6, 0.3], [0.2, 0.5]], 24, 24)
        sheet.arrow((x, 264), (x, 240))
        sheet.box(x - 60, 190, 120, 48, f"{name}\nViT and head", kind)
        sheet.arrow((x, 190), (x, 166))
    sheet.arrow((162, 214), (238, 214), kind="accent")
    sheet.text(200, 204, "average", "small")
    sheet.text(200, 234, "of weights", "small soft")
    sheet.box(30, 130, 140, 34, "softmax", "output")
    sheet.box(230, 130, 140, 34, "centre, sharpen", "output")
    sheet.arrow((100, 130), (160, 92))
    sheet.arrow((300, 130), (240, 92))
    sheet.box(130, 54, 140, 36, "cross-entropy")
    sheet.line((130, 72), (20, 72), (20, 212))
    sheet.arrow((20, 212), (38, 212))
    sheet.text(24, 60, "gradient", "small soft start")
    sheet.text(384, 184, "no gradient", "small soft end")
    sheet.text(200, 24, "afterwards [CLS] attends to the object", "small soft")
    return sheet


def captioner() -> Sheet:
    sheet = Sheet(352, "A captioner: an encoder of images, a decoder of words")
    sheet.heat(26, 246, [[0.1, 0.6, 0.1], [0.3, 0.9, 0.2], [0.1, 0.2, 0.6]], 26, 26)
    sheet.text(65, 344, "image or sound", "small soft")
    sheet.arrow((65, 246), (65, 220))
    sheet.box(10, 170, 112, 48, "encoder (ViT)", "embedding")
    sheet.arrow((122, 194), (186, 194), kind="accent")
    sheet.text(154, 184, "keys,", "small")
    sheet.text(154, 214, "values", "small")
    sheet.box(188, 240, 200, 34, "masked self-attention", "attention")
    sheet.box(188, 178, 200, 34, "cross-attention", "attention")
    sheet.box(188, 118, 200, 34, "feed-forward, softmax", "output")
    sheet.arrow((288, 240), (288, 214))
    sheet.arrow((288, 178), (288, 154))
    for number, (word, following) in enumerate((("<s>", "a"), ("a", "red"), ("red", "circle"))):
        x = 222 + 66 * number
        sheet.text(x, 322, word)
        sheet.arrow((x, 306), (x, 276))
        sheet.arrow((x, 118), (x, 88))
        sheet.text(x, 76, following, "strong")
    sheet.text(200, 22, "each word has its own weights over the patches:", "small soft")
    sheet.text(200, 40, "red is written while its pixels are attended to", "small soft")
    return sheet


def residual_stream() -> Sheet:
    sheet = Sheet(346, "What inspection reads and changes in a stack of blocks")
    sheet.text(66, 338, "token + position")
    sheet.arrow((66, 322), (66, 30))
    for number in range(3):
        y = 254 - 88 * number
        sheet.box(100, y, 92, 32, f"block {number + 1}", "attention")
        sheet.arrow((66, y + 44), (146, y + 44), (146, y + 34))
        sheet.line((146, y), (146, y - 12), (77, y - 12))
        sheet.plus(66, y - 12)
        sheet.arrow((192, y + 16), (222, y + 16), kind="accent")
        sheet.text(228, y + 21, "attention map, ablation", "small start")
        sheet.arrow((76, y - 26), (222, y - 26), kind="accent")
        sheet.text(
            228,
            y - 22,
            ("logit lens, patching", "logit lens, patching", "the prediction")[number],
            "small start",
        )
    sheet.text(66, 20, "unembedding", "small")
    return sheet


DRAWINGS = {
    "word-vectors": word_vectors,
    "rnn": rnn,
    "rnn-attention": rnn_attention,
    "teacher-forcing": teacher_forcing,
    "bert": bert,
    "gpt": gpt,
    "training": training,
    "vit": vit,
    "dino": dino,
    "captioner": captioner,
    "residual-stream": residual_stream,
}
