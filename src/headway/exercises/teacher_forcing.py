"""Exercise: teacher forcing, the inputs and the labels of a decoder."""

from headway.exercises.contract import Case, Exercise, Mistake, Plug
from headway.exercises.inputs import integers

Sequences = list[list[int]]


def _random(seed: int) -> tuple[Sequences, int, int, int]:
    lengths = [4, *integers(seed, 3, 1, 4)]
    return [integers(seed + i, length, 3, 20) for i, length in enumerate(lengths)], 1, 2, 0


EXERCISE = Exercise(
    name="teacher-forcing",
    equation="""
The decoder reads <s> y1 ... yn and predicts y1 ... yn </s>: at each position the next token,
after the true tokens before it. Short sequences are padded at the right.""",
    shapes=(
        "targets: B lists of token ids\nbos, eos, pad: ids of <s>, </s> and padding\n"
        "result: (inputs, labels), each B lists of length 1 + the longest target"
    ),
    signature=(
        "def teacher_forcing(targets: list[list[int]], bos: int, eos: int, pad: int)"
        " -> tuple[list[list[int]], list[list[int]]]:"
    ),
    body="""
length = max(len(target) for target in targets)
inputs, labels = [], []
for target in targets:
    end = [pad] * (length - len(target))
    inputs.append([bos] + target + end)
    labels.append(target + [eos] + end)
return inputs, labels""",
    imports="",
    hints=(
        "Inputs begin with bos; labels end with eos.",
        "Both have the same length: labels are the inputs shifted by one position.",
        "Padding follows eos: all sequences become as long as the longest.",
    ),
    cases=(
        Case(
            rung="worked example",
            arguments=([[7, 8, 9]], 1, 2, 0),
            expected=([[1, 7, 8, 9]], [[7, 8, 9, 2]]),
            why="inputs <s> 7 8 9, labels 7 8 9 </s>, with <s> = 1 and </s> = 2",
        ),
        Case(
            rung="padding",
            arguments=([[7, 8, 9], [5]], 1, 2, 0),
            expected=([[1, 7, 8, 9], [1, 5, 0, 0]], [[7, 8, 9, 2], [5, 2, 0, 0]]),
            why="the short sequence is padded at the right, after </s>",
        ),
    ),
    random=_random,
    mistakes=(
        Mistake(
            "labels are not shifted: the model would learn to copy its input. The label of a "
            "position is the next token",
            {"labels.append(target + [eos] + end)": "labels.append([bos] + target + end)"},
        ),
        Mistake(
            "inputs are not shifted: they must begin with <s>",
            {"inputs.append([bos] + target + end)": "inputs.append(target + [eos] + end)"},
        ),
        Mistake(
            "</s> is missing in the labels: the model would never learn to stop", {"[eos]": "[pad]"}
        ),
        Mistake(
            "inputs and labels are swapped", {"return inputs, labels": "return labels, inputs"}
        ),
        Mistake(
            "</s> is after the padding; it follows the last token directly",
            {"target + [eos] + end": "target + end + [eos]"},
        ),
        Mistake(
            "the padding is missing: all lists must have the same length",
            {"[pad] * (length - len(target))": "[]"},
        ),
        Mistake(
            "the padding is at the left; it must be at the right",
            {
                "[bos] + target + end": "end + [bos] + target",
                "target + [eos] + end": "end + target + [eos]",
            },
        ),
        Mistake(
            "</s> is among the inputs: nothing follows it, so they end with the last token",
            {
                "[bos] + target": "[bos] + target + [eos]",
                "(target + [eos] + end": "(target + [eos] + end + [pad]",
            },
        ),
    ),
    plug=Plug(part="the decoder inputs and labels of every batch", pairs=lambda learner: learner),
)
