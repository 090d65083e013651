"""`headway chat`: a conversation with a language model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from headway.base.errors import UsageError
from headway.base.settings import setting
from headway.bundle import TextGenerating
from headway.cli.flags import as_flags, takes
from headway.cli.generate import SETTINGS, opened, show_live
from headway.cli.inputs import standard_input
from headway.cli.machine import MachineFlags
from headway.interop import ChatTemplate
from headway.tasks.opening import template_of
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


@dataclass
class Turn:
    """A message of the user, and the answer of the model once it is complete."""

    message: str
    answer: str | None = None


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
    the text.

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
    rendering: AbstractContextManager[Render]
    if template is not None and template.default is not None:
        say("template  the chat template of the model (--template TEXT selects another)")
        rendering = rendering_by_template(bundle, template, flags.system)
    else:
        plain = TEMPLATE.replace("\\n", "\n") if given is None else given
        rendering = nullcontext(partial(as_one_text, bundle, plain, flags.system))
        before = plain.split("{user}")[0].rstrip()
        config = replace(config, stop=(*config.stop, f"\n{before}" if before.strip() else "\n"))
    longest = bundle.config.max_length
    room = longest - min(config.max_tokens, longest // 2)
    turns: list[Turn] = []
    with rendering as render:
        for line in standard_input("turn"):
            turns.append(Turn(line))
            while len(prompt := render(turns)) > room and len(turns) > 1:
                del turns[0]
            with loader.precision():
                turns[-1].answer = show_live(bundle, "", prompt, config)


def as_one_text(
    bundle: TextGenerating, template: str, system: str, turns: Sequence[Turn]
) -> list[int]:
    """Return the tokens of a conversation whose turns follow each other in one text.

    template: that of one turn, with the place {user} of the message.
    """
    parts = [system]
    for turn in turns:
        parts.append(template.replace("{user}", turn.message))
        if turn.answer is not None:
            parts.append(turn.answer.rstrip("\n") + "\n")
    return bundle.tokenizer.begin("".join(parts))


@contextmanager
def rendering_by_template(
    bundle: TextGenerating, template: ChatTemplate, system: str
) -> Iterator[Render]:
    """Render conversations in the chat template of the model, as the server does.

    The end-of-text tokens of the model end an answer.
    """
    try:
        from headway.serving.http.chat_templates import Conversation, Templates
        from headway.serving.http.replies import ApiError
    except ImportError as error:
        raise UsageError(
            f"the chat template of the model needs the package extra 'serve': {error}",
            hint=f"pip install 'headway[serve]', or --template {TEMPLATE!r}",
        ) from error
    templates = Templates()

    def render(turns: Sequence[Turn]) -> list[int]:
        messages = [{"role": "system", "content": system}] if system else []
        for turn in turns:
            messages.append({"role": "user", "content": turn.message})
            if turn.answer is not None:
                messages.append({"role": "assistant", "content": turn.answer})
        tokens = templates.tokens(template, Conversation(messages=messages), bundle.tokenizer)
        try:
            return loop.run(tokens)
        except ApiError as error:
            raise UsageError(error.message, hint=f"--template {TEMPLATE!r}") from error

    with asyncio.Runner() as loop:
        try:
            yield render
        finally:
            loop.run(templates.close())
