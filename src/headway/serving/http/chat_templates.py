"""Chat templates: from a conversation to the tokens of a prompt.

A template is a program (Jinja) from a model's folder, so it runs in a child process with limits on
time, memory and output, in a sandbox. It gets the variables that transformers passes to it. What a
user wrote never becomes a special token: `ControlTokens` marks such texts before the template runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from headway.base.errors import UsageError
from headway.interop import ChatTemplate
from headway.serving.http.control_tokens import ControlTokens, strings_in
from headway.serving.http.replies import ApiError
from headway.serving.http.text_sizes import beside_others
from headway.text import TextTokenizer

CHILD = Path(__file__).with_name("template_child.py")
SECONDS = 60.0
"""Time for a reply of the child, with its start; the child limits the CPU time of a template."""
LONGEST_PROMPT = 2**20
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


class Templates:
    """Renders templates in a child process, which is started when it is first needed."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    async def tokens(
        self, template: ChatTemplate, conversation: Conversation, tokenizer: TextTokenizer
    ) -> list[int]:
        """Return the tokens of a conversation. ApiError 400 if the template refuses it or fails."""
        has_tools = conversation.tools is not None
        try:
            source = template.selected(conversation.template_name, has_tools=has_tools)
        except UsageError as error:
            raise ApiError(400, error.what) from error
        special = template.special_tokens
        if special is None:
            bos, eos = tokenizer.token_strings([tokenizer.bos, tokenizer.eos])
            special = {"bos_token": bos, "eos_token": eos}
        values = {**special, **_variables(conversation)}
        size = sum(map(len, strings_in(values)))
        prompt = await beside_others(size, _Prompt, source, values, conversation, tokenizer)
        text = await self._rendered({"template": source, "variables": prompt.variables})
        return await beside_others(len(text) + size, prompt.tokens, text)

    async def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()
            self._child = None

    async def _rendered(self, task: dict[str, object]) -> str:
        line = json.dumps(task).encode() + b"\n"
        async with self._one_at_a_time:
            if self._child is None or self._child.returncode is not None:
                self._child = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-I",
                    str(CHILD),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    # the time zone of strftime_now
                    env={name: os.environ[name] for name in ("TZ",) if name in os.environ},
                    limit=8 * LONGEST_PROMPT,
                )
            assert self._child.stdin is not None and self._child.stdout is not None
            try:
                self._child.stdin.write(line)
                async with asyncio.timeout(SECONDS):
                    await self._child.stdin.drain()
                    reply = await self._child.stdout.readline()
            except (TimeoutError, ConnectionError, ValueError):
                reply = b""
            if not reply:
                await self.close()
                raise ApiError(400, "the chat template took too much time or memory")
        result: dict[str, str] = json.loads(reply)
        if "text" not in result:
            message = f"the chat template refused the messages: {result.get('error', '')}"
            raise ApiError(400, message, param="messages")
        return result["text"]


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


class _Prompt:
    """A prompt that is being made: the variables with their marks, and its end if it is cut."""

    def __init__(
        self,
        source: str,
        variables: Mapping[str, object],
        conversation: Conversation,
        tokenizer: TextTokenizer,
    ) -> None:
        special = getattr(tokenizer, "special_texts", ())
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

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a rendered text."""
        if self._continued is not None:
            text = self._cut(text)
        plain_text, spans = self._control.unmarked(text)
        encode = getattr(self._tokenizer, "encode_with_special_tokens", None)
        ids = encode(plain_text, spans) if encode else self._tokenizer.encode(plain_text)
        return list(ids) or [self._tokenizer.bos]

    def _cut(self, text: str) -> str:
        """Return the text up to the end of the message that the model continues."""
        end = self._control.end_mark
        before, mark, after = text.rpartition(end)
        before = before.replace(f"{end} ", "").replace(end, "")  # the reasoning is written twice
        if not mark or self._final.strip() not in text:
            raise _cannot_continue("the chat template does not write its text unchanged")
        # a template that trims the message would also have trimmed the spaces at its end
        return before if after.startswith(" ") else before.rstrip()


def _cannot_continue(reason: str) -> ApiError:
    return ApiError(
        400, f"the last message cannot be continued: {reason}", param="continue_final_message"
    )
