"""`headway figures`: the figures of the lectures, drawn from trained models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.base.errors import UsageError, did_you_mean
from headway.base.files import check_new, make_folder
from headway.cli.console import talk
from headway.cli.flags import ON_THIS_MACHINE, OUTPUT, Loader, MachineFlags

if TYPE_CHECKING:
    from headway.bundle import Bundle

    Opened = Callable[[str], Bundle]

MONKEY = "The monkey ate the banana because it"
PIZZA = "The pizza came out of the oven and it tasted good"
AGREEMENT = "The agreement on the European Economic Area was signed in August 1992"
SHOWN = 60  # words of the scatter plot


@Parameter(name="*")
@dataclass(frozen=True)
class ModelFlags:
    """The models that figures are drawn from: each a run folder or a model folder."""

    encoder: Annotated[
        str | None, Parameter(help="Encoder (BERT) or language model (GPT), for monkey and pizza.")
    ] = None
    translator: Annotated[
        str | None, Parameter(help="Translation model from English, for agreement.")
    ] = None
    words: Annotated[str | None, Parameter(help="Word-vector model, for words.")] = None
    captioner: Annotated[str | None, Parameter(help="Captioning model, for caption.")] = None
    vision: Annotated[
        str | None, Parameter(help="Vision Transformer with a [CLS] token, for heads.")
    ] = None
    image: Annotated[Path | None, Parameter(help="Image file, for caption and heads.")] = None


NO_MODELS = ModelFlags()


def figures(
    *names: str,
    output: Annotated[Path, OUTPUT] = Path("figures"),
    ending: Annotated[Literal["png", "svg", "pdf"], Parameter(name="--format")] = "png",
    models: ModelFlags = NO_MODELS,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Draw the figures of the lectures from trained models.

    positions (sinusoidal positions and a binary counter), mask (the causal mask), monkey and pizza
    (attention of "it"), agreement (alignment of a translation), words (scatter plot of word
    vectors), caption and heads (attention over an image). Without names, every figure whose models
    are named by the flags.

    Parameters
    ----------
    names
        Names of the figures.
    output
        Folder for the files, each called NAME.png.
    ending
        File format: png, svg or pdf.
    """
    for name in names:
        if name not in FIGURES:
            raise UsageError(
                f"unknown figure {name!r}" + did_you_mean(name, FIGURES),
                hint="one of: " + ", ".join(FIGURES),
            )
    chosen = dict.fromkeys(names) or FIGURES
    missing = {name: _missing(name, models) for name in chosen}
    drawn = [name for name in chosen if not missing[name]]
    for name in names:
        if missing[name]:
            raise UsageError(
                f"figure {name} needs {missing[name]}",
                hint=f"headway figures {name} {missing[name].replace(' ', ' PATH ')} PATH",
            )
    if models.image is not None and not models.image.is_file():
        raise UsageError("no such file", str(models.image), "check the path of --image")
    for name in drawn:
        check_new(output / f"{name}.{ending}")
    make_folder(output)
    opened = _opener(machine.prepare())
    for name in drawn:
        path = output / f"{name}.{ending}"
        FIGURES[name].draw(path, models, opened)
        talk.print(f"drawn     {path}", markup=False)
    for name in chosen:
        if missing[name]:
            talk.print(f"not drawn {name}: needs {missing[name]}", markup=False)


def _opener(machine: Loader) -> Opened:
    """A function that loads models; each is loaded once, even for several figures."""

    @cache
    def opened(folder: str) -> Bundle:
        return machine.load(folder)

    return opened


def _missing(name: str, models: ModelFlags) -> str:
    """The flags that a figure needs and that are not set."""
    return " ".join(f"--{need}" for need in FIGURES[name].needs if not getattr(models, need))


def _positions(path: Path, models: ModelFlags, opened: Opened) -> None:
    from headway.inspection.figures import plot_positions

    plot_positions(path)


def _mask(path: Path, models: ModelFlags, opened: Opened) -> None:
    from headway.inspection.figures import plot_causal_mask

    plot_causal_mask(path, ["The", "quick", "brown", "fox"])


def _sentence(text: str, word: str, *targets: str) -> Callable[[Path, ModelFlags, Opened], None]:
    def draw(path: Path, models: ModelFlags, opened: Opened) -> None:
        from headway.bundle import attention_of
        from headway.inspection.figures import plot_sentence_attention

        assert models.encoder is not None
        bundle = opened(models.encoder)
        attention = attention_of(bundle.probe(text, written=0).reading)
        plot_sentence_attention(path, attention, text, word, targets)

    return draw


def _agreement(path: Path, models: ModelFlags, opened: Opened) -> None:
    from headway.inspection.figures import plot_alignment
    from headway.tasks.opening import check_kind

    assert models.translator is not None
    bundle = opened(models.translator)
    check_kind(bundle, models.translator, "translator")
    plot_alignment(path, bundle, AGREEMENT)


def _words(path: Path, models: ModelFlags, opened: Opened) -> None:
    import torch

    from headway.bundle import WordEmbedding
    from headway.inspection.figures import plot_embeddings
    from headway.tasks.opening import other_kind

    assert models.words is not None
    bundle = opened(models.words)
    if not isinstance(bundle, WordEmbedding):
        raise other_kind(bundle, models.words, "word model")
    chosen = bundle.vocabulary.words[1 : 1 + SHOWN]
    plot_embeddings(path, chosen, torch.stack([bundle.vector(word) for word in chosen]).cpu())


def _caption(path: Path, models: ModelFlags, opened: Opened) -> None:
    from headway.inspection.image_attention import look
    from headway.inspection.image_overlays import overlays
    from headway.tasks.opening import check_kind

    assert models.captioner is not None and models.image is not None
    bundle = opened(models.captioner)
    check_kind(bundle, models.captioner, "captioner")
    attention = look(bundle, models.image)
    overlays(path, attention, title=" ".join(attention.names[:-1]), one_scale=True)


def _heads(path: Path, models: ModelFlags, opened: Opened) -> None:
    from headway.bundle import ImageEncoding
    from headway.inspection.image_attention import image_attention_of_heads
    from headway.inspection.image_overlays import overlays

    assert models.vision is not None and models.image is not None
    bundle = opened(models.vision)
    if not isinstance(bundle, ImageEncoding):
        raise UsageError(
            f"--vision {models.vision} is a {bundle.kind}, not an image encoder or classifier"
        )
    overlays(path, image_attention_of_heads(bundle, models.image), title=models.image.name)


@dataclass(frozen=True)
class _Figure:
    """A function that draws a figure, and the flags that it needs."""

    draw: Callable[[Path, ModelFlags, Opened], Any]
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
