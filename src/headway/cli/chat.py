"""`headway chat`: a conversation with a language model."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from headway.base.errors import HeadwayError, UsageError
from headway.base.settings import setting
from headway.bundle import ImageReading, TextGenerating
from headway.cli.flags import as_flags, takes
from headway.cli.generate import SETTINGS, opened, show_live
from headway.cli.inputs import standard_input
from headway.cli.machine import MachineFlags
from headway.data.dialogues import ASSISTANT, SYSTEM, USER, Turn
from headway.tasks.opening import template_of
from headway.tasks.seeing.model import asked
from headway.tasks.target_mask import Renderer, renderer_of
from headway.terminal.console import say

TEMPLATE = "User: {user}\\nAssistant:"


@as_flags
class ChatFlags(MachineFlags):
    template: str | None = setting(
        None,
        "Template of one turn: {user} is replaced by the message, and the model generates what "
        f"follows; \\n is a line feed. If unset, the chat template of the model, or {TEMPLATE} for "
        "a model without one.",
    )
    system: str = setting("", "System prompt: text before the first turn.")
    image: list[Path] | None = setting(
        None, "Images that the first message is about, for a multimodal language model."
    )


Render = Callable[[Sequence[Turn]], list[int]]
"""Returns the tokens of a conversation, after which the model answers the last message."""


@takes(SETTINGS)
def chat(
    run: str,
    /,
    *,
    flags: ChatFlags = ChatFlags(),
    **settings: Any,
) -> None:
    """Chat with a language model: headway chat RUN [--SETTING VALUE ...].

    Messages are read from standard input. The prompt of each turn is the conversation so far, in
    the chat template of the model if its folder has one; the oldest turns are dropped when the
    context is full. Only a model that was trained on dialogues answers like one; others continue
    the text. With --image, the first message is about images: headway chat RUN --image photo.png

    Parameters
    ----------
    run
        A run folder, a model folder or a Hugging Face folder.
    """
    given = None if flags.template is None else flags.template.replace("\\n", "\n")
    if given is not None and given.count("{user}") != 1:
        raise UsageError("--template must contain {user} exactly once", hint=repr(TEMPLATE))
    bundle, config, loader = opened(run, settings, flags)
    template = template_of(run) if given is None else None
    shown = tuple(flags.image or ())
    _check_images(run, bundle, shown, given)
    patches = bundle.patches if isinstance(bundle, ImageReading) else 0
    with ExitStack() as stack:
        render: Render
        if template is not None and template.default is not None:
            say("template  the chat template of the model (--template TEXT selects another)")
            renderer = stack.enter_context(renderer_of(bundle.tokenizer, template, patches))
            render = partial(by_template, renderer, flags.system)
        else:
            plain = TEMPLATE.replace("\\n", "\n") if given is None else given
            render = partial(as_one_text, bundle, plain, flags.system)
            before = plain.split("{user}")[0].rstrip()
            config = replace(config, stop=(*config.stop, f"\n{before}" if before.strip() else "\n"))
        longest = bundle.config.max_length
        room = longest - min(config.max_tokens, longest // 2)
        turns: list[Turn] = []
        for line in standard_input("turn"):
            turns.append(asked(line, shown))
            shown = ()
            while len(prompt := render(turns)) > room and len(turns) > 1:
                del turns[:2]  # the oldest message and its answer
            with loader.precision():
                turns.append(Turn(ASSISTANT, show_live(_seeing(bundle, turns), "", prompt, config)))


def _check_images(
    run: str, bundle: TextGenerating, images: Sequence[Path], template: str | None
) -> None:
    """Raise UsageError for images that are missing or that the model cannot read."""
    if not images:
        return
    if not isinstance(bundle, ImageReading):
        raise UsageError(
            f"--image: {run} reads no images",
            hint="headway train see CONVERSATIONS trains a multimodal language model",
        )
    if template is not None:
        raise UsageError("--image excludes --template: images need the chat template of the model")
    for image in images:
        if not image.is_file():
            raise UsageError("no such file", str(image), "check the path")


def _seeing(bundle: TextGenerating, turns: Sequence[Turn]) -> TextGenerating:
    """Return the model with the images of the turns."""
    if not isinstance(bundle, ImageReading):
        return bundle
    images = [image for turn in turns for image in turn.images]
    seeing: TextGenerating = bundle.with_images(images)
    return seeing


def as_one_text(
    bundle: TextGenerating, template: str, system: str, turns: Sequence[Turn]
) -> list[int]:
    """Return the tokens of a conversation whose turns follow each other in one text.

    template: that of one turn, with the place {user} of the message.
    """
    parts = [system]
    for turn in turns:
        if turn.role == USER:
            parts.append(template.replace("{user}", turn.content))
        else:
            parts.append(turn.content.rstrip("\n") + "\n")
    return bundle.tokenizer.begin("".join(parts))


def by_template(renderer: Renderer, system: str, turns: Sequence[Turn]) -> list[int]:
    """Return the tokens of a conversation in the chat template of the model."""
    instructions = [Turn(SYSTEM, system)] if system else []
    try:
        return renderer.prompt([*instructions, *turns])
    except HeadwayError as error:
        raise UsageError(error.what, hint=f"--template {TEMPLATE!r}") from error
