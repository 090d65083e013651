"""Chat templates: from a conversation to the tokens of a prompt.

A template is a program (Jinja) from a model's folder, so it runs in a child process with limits on
time, memory and output, in a sandbox. What a user wrote never becomes a special token: it is
replaced by marks before the template runs wherever it has the text of one, and put back behind the
tokenizer's search for special tokens.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.interop import read_chat_template
from headway.serving.http.replies import ApiError
from headway.serving.http.text_sizes import beside_others
from headway.text import TextTokenizer

CHILD = Path(__file__).with_name("template_child.py")
SECONDS = 2.0
LONGEST_PROMPT = 2**20
_MARK = re.compile("\ue000(\\d+)\ue001")


def read_template(folder: Path) -> str | None:
    """Return the chat template of a model folder, or of the model of a run; None if there is none.

    Raises DataError if it is damaged.
    """
    template = read_chat_template(folder)
    return read_chat_template(folder / "model") if template is None else template


class Templates:
    """Renders templates in a child process, which is started when it is first needed."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    async def tokens(
        self, template: str, messages: Sequence[tuple[str, str]], tokenizer: TextTokenizer
    ) -> list[int]:
        """Return the tokens of a conversation. ApiError 400 if the template refuses it or fails."""
        kept: list[str] = []
        size = sum(len(text) for _, text in messages)
        marked = await beside_others(size, _all_marked, messages, _special_texts(tokenizer), kept)
        bos, eos = tokenizer.token_strings([tokenizer.bos, tokenizer.eos])
        text = await self._rendered(
            {"template": template, "messages": marked, "bos_token": bos, "eos_token": eos}
        )
        return await beside_others(len(text) + size, _encoded, text, kept, tokenizer)

    async def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()
            self._child = None

    async def _rendered(self, task: dict[str, Any]) -> str:
        line = json.dumps(task).encode() + b"\n"
        async with self._one_at_a_time:
            if self._child is None or self._child.returncode is not None:
                self._child = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", str(CHILD)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    env={},
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


def _special_texts(tokenizer: Any) -> Sequence[str]:
    return getattr(tokenizer, "special_texts", ())


def _encoded(text: str, kept: Sequence[str], tokenizer: TextTokenizer) -> list[int]:
    """Return the tokens of a rendered text, whose marks are the texts in `kept`."""
    encode = getattr(tokenizer, "encode_with_special_tokens", tokenizer.encode)
    ids: list[int] = []
    for n, part in enumerate(_MARK.split(text)):
        if n % 2 == 0:
            ids += encode(part)
        elif int(part) < len(kept):
            ids += tokenizer.encode(kept[int(part)])
    return ids or [tokenizer.bos]


def _all_marked(
    messages: Sequence[tuple[str, str]], special: Sequence[str], kept: list[str]
) -> list[dict[str, str]]:
    return [{"role": role, "content": _marked(text, special, kept)} for role, text in messages]


def _marked(text: str, special: Sequence[str], kept: list[str]) -> str:
    """Replace what looks like a special token, or like a mark, by a mark."""
    words = [*map(re.escape, sorted(special, key=len, reverse=True)), "[\ue000\ue001]"]

    def keep(match: re.Match[str]) -> str:
        kept.append(match.group())
        return f"\ue000{len(kept) - 1}\ue001"

    return re.sub("|".join(words), keep, text)
