"""`headway chat`: a conversation with a language model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Protocol

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


class Dialogue(Protocol):
    """The turns of a conversation so far. stop: strings that end an answer."""

    stop: Sequence[str]

    def ask(self, message: str) -> None:
        """Add a message of the user."""
        ...

    def reply(self, answer: str) -> None:
        """Add the answer of the model to it."""
        ...

    def prompt(self, room: int) -> str | list[int]:
        """Return the prompt of the next answer, of at most `room` tokens if possible: the oldest
        turns are dropped, but never the last one."""
        ...

    def close(self) -> None:
        """End what renders the prompts."""
        ...


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
    dialogue: Dialogue
    if template is not None and template.default is not None:
        say("template  the chat template of the model (--template TEXT selects another)")
        dialogue = TemplateDialogue(bundle, template, flags.system)
    else:
        plain = TEMPLATE.replace("\\n", "\n") if given is None else given
        dialogue = TextDialogue(bundle, plain, flags.system)
    config = replace(config, stop=(*config.stop, *dialogue.stop))
    longest = bundle.config.max_length
    room = longest - min(config.max_tokens, longest // 2)
    with closing(dialogue):
        for line in standard_input("turn"):
            dialogue.ask(line)
            prompt = dialogue.prompt(room)
            with loader.precision():
                dialogue.reply(show_live(bundle, "", prompt, config))


class TextDialogue:
    """A conversation as one text. template: of one turn, with the place {user} of the message."""

    def __init__(self, bundle: TextGenerating, template: str, system: str) -> None:
        self._bundle, self._template, self._system = bundle, template, system
        before = template.split("{user}")[0].rstrip()
        self.stop: Sequence[str] = [f"\n{before}"] if before.strip() else ["\n"]
        self._turns: list[str] = []

    def ask(self, message: str) -> None:
        self._turns.append(self._template.replace("{user}", message))

    def reply(self, answer: str) -> None:
        self._turns[-1] += answer.rstrip("\n") + "\n"

    def prompt(self, room: int) -> str:
        def texts() -> Iterator[str]:
            yield self._system
            yield from self._turns

        while len(self._turns) > 1 and len(self._bundle.tokenizer.begin("".join(texts()))) > room:
            del self._turns[0]
        return "".join(texts())

    def close(self) -> None:
        pass


class TemplateDialogue:
    """A conversation in the chat template of the model, which the server renders in the same way:
    the end-of-text tokens of the model end an answer."""

    stop: Sequence[str] = ()

    def __init__(self, bundle: TextGenerating, template: ChatTemplate, system: str) -> None:
        try:
            from headway.serving.http.chat_templates import Templates
        except ImportError as error:
            raise UsageError(
                f"the chat template of the model needs the package extra 'serve': {error}",
                hint=f"pip install 'headway[serve]', or --template {TEMPLATE!r}",
            ) from error
        self._bundle, self._template = bundle, template
        self._system = [{"role": "system", "content": system}] if system else []
        self._turns: list[dict[str, str]] = []
        self._templates, self._loop = Templates(), asyncio.Runner()

    def ask(self, message: str) -> None:
        self._turns.append({"role": "user", "content": message})

    def reply(self, answer: str) -> None:
        self._turns.append({"role": "assistant", "content": answer})

    def prompt(self, room: int) -> list[int]:
        while len(ids := self._rendered()) > room and len(self._turns) > 1:
            del self._turns[:2]
        return ids

    def close(self) -> None:
        self._loop.run(self._templates.close())
        self._loop.close()

    def _rendered(self) -> list[int]:
        from headway.serving.http.chat_templates import Conversation
        from headway.serving.http.replies import ApiError

        conversation = Conversation(messages=[*self._system, *self._turns])
        tokens = self._templates.tokens(self._template, conversation, self._bundle.tokenizer)
        try:
            return self._loop.run(tokens)
        except ApiError as error:
            raise UsageError(error.message, hint=f"--template {TEMPLATE!r}") from error
