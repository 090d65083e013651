"""From a conversation to the tokens of a prompt, by the chat template of a model.

A template is a program (Jinja) from a model's folder, so it runs in a child process with limits on
time, memory and output, in a sandbox. It gets the variables that transformers passes to it. What a
user wrote never becomes a special token: `ControlTokens` marks such texts before the template runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from headway.base.errors import UsageError
from headway.interop.chat_templates import ChatTemplate
from headway.interop.control_tokens import ControlTokens, strings_in
from headway.text import TextTokenizer

CHILD = Path(__file__).with_name("template_child.py")
REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names by which clients send the reasoning of a message; a template finds it by the first two."""


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What a chat template writes as a prompt.

    messages: the turns, each with a role and content, and further fields such as tool_calls. tools:
    JSON schemas of functions; None for none. documents: texts to answer from; None for none.
    variables: further variables of the template, by name. add_generation_prompt: whether the prompt
    ends with the beginning of the next turn. continued_field: the field of the last message that
    the model continues, such as "content"; None if it begins a new turn. template_name: one of
    several templates; None for the usual one.
    """

    messages: Sequence[Mapping[str, object]]
    tools: Sequence[Mapping[str, object]] | None = None
    documents: Sequence[Mapping[str, object]] | None = None
    variables: Mapping[str, object] = field(default_factory=dict)
    add_generation_prompt: bool = True
    continued_field: str | None = None
    template_name: str | None = None


class CannotContinue(UsageError):
    """The last message cannot be continued."""


class AmbiguousTokens(UsageError):
    """A token spans the border of what the model writes, so it has no target mask."""


def _variables(conversation: Conversation) -> dict[str, object]:
    """Return the variables of a template that a conversation sets, as transformers does."""
    messages = []
    for message in conversation.messages:
        values = {name: value for name, value in message.items() if value is not None}
        reasoning = next((values[name] for name in REASONING if name in values), None)
        if reasoning is not None:
            values = {"thinking": reasoning, **values, "reasoning_content": reasoning}
        messages.append(values)
    return {
        **conversation.variables,
        "messages": messages,
        "tools": conversation.tools,
        "documents": conversation.documents,
        "add_generation_prompt": conversation.add_generation_prompt,
    }


def child_arguments() -> list[str]:
    """Return the command of the process that renders templates."""
    return [sys.executable, "-I", str(CHILD)]


def child_environment() -> dict[str, str]:
    """Return the environment of that process: the time zone of strftime_now."""
    return {name: os.environ[name] for name in ("TZ",) if name in os.environ}


def text_of_reply(line: bytes | str) -> str:
    """Return the text that the process rendered. Raises UsageError if the template refused or
    failed."""
    if not line:
        raise UsageError("the chat template took too much time or memory")
    result: dict[str, str] = json.loads(line)
    if "text" not in result:
        raise UsageError(f"the chat template refused the messages: {result.get('error', '')}")
    return result["text"]


class TemplateProcess:
    """A child process that renders templates, started when it is first needed.

    The process limits its own time and memory, and ends when it exceeds them.
    """

    def __init__(self) -> None:
        """Raise UsageError if the library of templates is not installed."""
        if find_spec("jinja2") is None:
            raise UsageError(
                "the chat template of the model needs the package jinja2, which is not installed",
                hint="pip install 'headway[serve]'",
            )
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> TemplateProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def rendered(self, prompt: Prompt, *, marks_generation: bool = False) -> str:
        """Return the text of a prompt (`Prompt.request`). Raises UsageError if the template refuses
        it or fails."""
        if self._child is None:
            self._child = subprocess.Popen(
                child_arguments(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(),
                text=True,
                encoding="utf-8",
            )
        assert self._child.stdin is not None and self._child.stdout is not None
        try:
            self._child.stdin.write(prompt.request(marks_generation=marks_generation) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except (ConnectionError, ValueError):
            line = ""
        if not line:
            self.close()
        return text_of_reply(line)


class Prompt:
    """A prompt that is being made: the variables with their marks, and its end if it is cut.

    Raises UsageError if there is no such template, and for messages that cannot be marked;
    CannotContinue if the last one cannot be continued.
    """

    def __init__(
        self, template: ChatTemplate, conversation: Conversation, tokenizer: TextTokenizer
    ) -> None:
        has_tools = conversation.tools is not None
        source = template.selected(conversation.template_name, has_tools=has_tools)
        named_tokens = template.special_tokens
        if named_tokens is None:
            bos, eos = tokenizer.token_strings([tokenizer.bos, tokenizer.eos])
            named_tokens = {"bos_token": bos, "eos_token": eos}
        variables = {**named_tokens, **_variables(conversation)}
        special = getattr(tokenizer, "special_texts", ())
        self._source = source
        self._control = ControlTokens(special, [source, *strings_in(variables)])
        self._tokenizer, self._continued = tokenizer, conversation.continued_field
        named = {name: variables[name] for name in variables if name.endswith("_token")}
        written = {name: named[name] for name in named if name not in conversation.variables}
        self.variables = {**self._control.marked(variables), **written}
        if self._continued is not None:
            self._final = self._mark_end(source, self._continued)

    def _mark_end(self, source: str, name: str) -> str:
        """Append the end mark to the text that is continued; return this text."""
        message = cast("list[dict[str, object]]", self.variables["messages"])[-1]
        names = [name]
        if name in REASONING:
            names = [other for other in REASONING if message.get(other) == message.get(name)]
        holders: list[tuple[dict[str, object], str]] = [(message, other) for other in names]
        content = message.get(name)
        if isinstance(content, list):
            parts = [part for part in content if isinstance(part, dict) and "text" in part]
            holders = [(part, "text") for part in parts[-1:]]
        if not holders or not isinstance(holders[0][0].get(holders[0][1]), str):
            raise _cannot_continue(f"the last message has no text in {name!r}")
        if not any(other in source for other in names):
            raise _cannot_continue(f"the chat template does not use {name!r}")
        text = str(holders[0][0][holders[0][1]])
        for holder, key in holders:
            holder[key] = f"{text}{self._control.end_mark} "
        return text

    def request(self, *, marks_generation: bool = False) -> str:
        """Return the request to the process that renders the prompt, one line of JSON.

        marks_generation: whether the text has marks around {% generation %}, for `generated`.
        """
        marks = self._control.generation_marks if marks_generation else ("", "")
        return json.dumps({"template": self._source, "variables": self.variables, "marks": marks})

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a rendered text."""
        text = re.sub(f"[{''.join(self._control.generation_marks)}]", "", text)
        if self._continued is not None:
            text = self._cut(text)
        return self._encoded(text) or [self._tokenizer.bos]

    def generated(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of tokens, [start, end), that {% generation %} encloses in a text.

        Raises AmbiguousTokens if a token is partly inside.
        """
        ids, before, borders = self.tokens(text), "", []
        for piece in re.split(f"[{''.join(self._control.generation_marks)}]", text)[:-1]:
            before += piece
            prefix = self._encoded(before)
            if ids[: len(prefix)] != prefix:
                raise AmbiguousTokens(
                    "{% generation %} of the chat template begins or ends inside a token: encoded "
                    "alone, the text up to there has other tokens"
                )
            borders.append(len(prefix))
        return list(zip(borders[::2], borders[1::2], strict=True))

    def _encoded(self, text: str) -> list[int]:
        plain_text, spans = self._control.unmarked(text)
        encode = getattr(self._tokenizer, "encode_with_special_tokens", None)
        return list(encode(plain_text, spans) if encode else self._tokenizer.encode(plain_text))

    def _cut(self, text: str) -> str:
        """Return the text up to the end of the message that the model continues."""
        end = self._control.end_mark
        before, mark, after = text.rpartition(end)
        before = before.replace(f"{end} ", "").replace(end, "")  # the reasoning is written twice
        if not mark or self._final.strip() not in text:
            raise _cannot_continue("the chat template does not write its text unchanged")
        # a template that trims the message would also have trimmed the spaces at its end
        return before if after.startswith(" ") else before.rstrip()


def _cannot_continue(reason: str) -> CannotContinue:
    return CannotContinue(f"the last message cannot be continued: {reason}")
