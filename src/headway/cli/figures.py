"""`headway figures`: the figures of the lectures, drawn from trained models."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import torch
from cyclopts import Parameter

from headway.base.errors import UsageError
from headway.base.files import check_new, make_folder
from headway.base.settings import setting
from headway.bundle import Bundle, ImageEncoding, WordEmbedding, attention_of
from headway.cli.flags import OUTPUT, as_flags, check_name
from headway.cli.machine import MachineFlags
from headway.inspection.figures import (
    plot_alignment,
    plot_causal_mask,
    plot_embeddings,
    plot_positions,
    plot_sentence_attention,
)
from headway.inspection.image_attention import image_attention_of_heads, look
from headway.inspection.image_overlays import overlays
from headway.tasks.opening import check_kind, other_kind
from headway.terminal.console import say

Opened = Callable[[str], Bundle]
"""A function that loads models."""

MONKEY = "The monkey ate the banana because it"
PIZZA = "The pizza came out of the oven and it tasted good"
AGREEMENT = "The agreement on the European Economic Area was signed in August 1992"
SHOWN = 60  # words of the scatter plot


@as_flags
class FiguresFlags(MachineFlags):
    output: Annotated[Path, OUTPUT] = setting(
        Path("figures"), "Folder for the files, each called NAME.png."
    )
    ending: Annotated[Literal["png", "svg", "pdf"], Parameter(name="--format")] = setting(
        "png", "File format: png, svg or pdf."
    )
    encoder: str | None = setting(
        None, "Encoder (BERT) or language model (GPT), for monkey and pizza."
    )
    translator: str | None = setting(None, "Translation model from English, for agreement.")
    words: str | None = setting(None, "Word-vector model, for words.")
    captioner: str | None = setting(None, "Captioning model, for caption.")
    vision: str | None = setting(None, "Vision Transformer with a [CLS] token, for heads.")
    image: Path | None = setting(None, "Image file, for caption and heads.")


def figures(*names: str, flags: FiguresFlags = FiguresFlags()) -> None:
    """Draw the figures of the lectures from trained models.

    positions (sinusoidal positions and a binary counter), mask (the causal mask), monkey and pizza
    (attention of "it"), agreement (alignment of a translation), words (scatter plot of word
    vectors), caption and heads (attention over an image). Without names, every figure whose models
    are named by the flags.

    Parameters
    ----------
    names
        Names of the figures.
    """
    for name in names:
        check_name(name, FIGURES, "figure")
    chosen = dict.fromkeys(names) or FIGURES
    missing = {name: _missing(name, flags) for name in chosen}
    drawn = [name for name in chosen if not missing[name]]
    for name in names:
        if missing[name]:
            raise UsageError(
                f"figure {name} needs {missing[name]}",
                hint=f"headway figures {name} {missing[name].replace(' ', ' PATH ')} PATH",
            )
    if flags.image is not None and not flags.image.is_file():
        raise UsageError("no such file", str(flags.image), "check the path of --image")
    for name in drawn:
        check_new(flags.output / f"{name}.{flags.ending}")
    make_folder(flags.output)
    opened = cache(flags.prepare().load)  # each model once, even for several figures
    for name in drawn:
        path = flags.output / f"{name}.{flags.ending}"
        FIGURES[name].draw(path, flags, opened)
        say(f"drawn     {path}")
    for name in chosen:
        if missing[name]:
            say(f"not drawn {name}: needs {missing[name]}")


def _missing(name: str, flags: FiguresFlags) -> str:
    """The flags that a figure needs and that are not set."""
    return " ".join(f"--{need}" for need in FIGURES[name].needs if not getattr(flags, need))


def _positions(path: Path, flags: FiguresFlags, opened: Opened) -> None:
    plot_positions(path)


def _mask(path: Path, flags: FiguresFlags, opened: Opened) -> None:
    plot_causal_mask(path, ["The", "quick", "brown", "fox"])


def _sentence(text: str, word: str, *targets: str) -> Callable[[Path, FiguresFlags, Opened], None]:
    def draw(path: Path, flags: FiguresFlags, opened: Opened) -> None:
        assert flags.encoder is not None
        bundle = opened(flags.encoder)
        attention = attention_of(bundle.probe(text, written=0).reading)
        plot_sentence_attention(path, attention, text, word, targets)

    return draw


def _agreement(path: Path, flags: FiguresFlags, opened: Opened) -> None:
    assert flags.translator is not None
    bundle = opened(flags.translator)
    check_kind(bundle, flags.translator, "translator")
    plot_alignment(path, bundle, AGREEMENT)


def _words(path: Path, flags: FiguresFlags, opened: Opened) -> None:
    assert flags.words is not None
    bundle = opened(flags.words)
    if not isinstance(bundle, WordEmbedding):
        raise other_kind(bundle, flags.words, "word model")
    chosen = bundle.vocabulary.words[1 : 1 + SHOWN]
    plot_embeddings(path, chosen, torch.stack([bundle.vector(word) for word in chosen]).cpu())


def _caption(path: Path, flags: FiguresFlags, opened: Opened) -> None:
    assert flags.captioner is not None and flags.image is not None
    bundle = opened(flags.captioner)
    check_kind(bundle, flags.captioner, "captioner")
    attention = look(bundle, flags.image)
    overlays(path, attention, title=" ".join(attention.names[:-1]), one_scale=True)


def _heads(path: Path, flags: FiguresFlags, opened: Opened) -> None:
    assert flags.vision is not None and flags.image is not None
    bundle = opened(flags.vision)
    if not isinstance(bundle, ImageEncoding):
        raise UsageError(
            f"--vision {flags.vision} is a {bundle.kind}, not an image encoder or classifier"
        )
    overlays(path, image_attention_of_heads(bundle, flags.image), title=flags.image.name)


@dataclass(frozen=True)
class _Figure:
    """A function that draws a figure, and the flags that it needs."""

    draw: Callable[[Path, FiguresFlags, Opened], object]
    needs: tuple[str, ...] = ()


FIGURES = {
    "positions": _Figure(_positions),
    "mask": _Figure(_mask),
    "monkey": _Figure(_sentence(MONKEY, "it", "monkey", "banana"), ("encoder",)),
    "pizza": _Figure(_sentence(PIZZA, "it", "pizza", "oven"), ("encoder",)),
    "agreement": _Figure(_agreement, ("translator",)),
    "words": _Figure(_words, ("words",)),
    "caption": _Figure(_caption, ("captioner", "image")),
    "heads": _Figure(_heads, ("vision", "image")),
}
