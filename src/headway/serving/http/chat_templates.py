"""Chat templates of a server: rendered in a child process beside all other requests."""

import asyncio
from contextlib import suppress

from headway.base.errors import UsageError
from headway.interop import ChatTemplate
from headway.interop.chat_prompts import (
    CannotContinue,
    Conversation,
    Prompt,
    child_arguments,
    child_environment,
    text_of_reply,
)
from headway.interop.control_tokens import strings_in
from headway.serving.http.replies import ApiError
from headway.serving.http.text_sizes import beside_others
from headway.text import TextTokenizer

SECONDS = 60.0
"""Time for a reply of the child, with its start; the child limits the CPU time of a template."""
LONGEST_PROMPT = 2**20


class Templates:
    """Renders templates in a child process, which is started when it is first needed."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    async def tokens(
        self, template: ChatTemplate, conversation: Conversation, tokenizer: TextTokenizer
    ) -> list[int]:
        """Return the tokens of a conversation. ApiError 400 if the template refuses it or fails."""
        size = sum(map(len, strings_in(vars(conversation))))
        try:
            prompt = await beside_others(size, Prompt, template, conversation, tokenizer)
            text = await self._rendered(prompt)
            return await beside_others(len(text) + size, prompt.tokens, text)
        except CannotContinue as error:
            raise ApiError(400, error.what, param="continue_final_message") from error
        except UsageError as error:
            raise ApiError(400, error.what) from error

    async def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.kill()
            await self._child.wait()
            self._child = None

    async def _rendered(self, prompt: Prompt) -> str:
        async with self._one_at_a_time:
            if self._child is None or self._child.returncode is not None:
                self._child = await asyncio.create_subprocess_exec(
                    *child_arguments(),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    env=child_environment(),
                    limit=8 * LONGEST_PROMPT,
                )
            assert self._child.stdin is not None and self._child.stdout is not None
            try:
                self._child.stdin.write(prompt.request().encode() + b"\n")
                async with asyncio.timeout(SECONDS):
                    await self._child.stdin.drain()
                    reply = await self._child.stdout.readline()
            except (TimeoutError, ConnectionError, ValueError):
                reply = b""
            if not reply:
                await self.close()
        try:
            return text_of_reply(reply)
        except UsageError as error:
            raise ApiError(400, error.what, param="messages" if reply else None) from error
