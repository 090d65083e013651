"""The tool calls in generated text, for models whose form of calls is known.

Chat templates in the form of Hermes, such as Qwen's, ask for
<tool_call>{"name": "weather", "arguments": {"place": "Paris"}}</tool_call>. What another template
asks for, and what is no such call, stays text. A call that `tool_choice` demands is bound to the
schema of its tool.
"""

import json
import uuid

BEGIN, END = "<tool_call>", "</tool_call>"


def has_known_calls(template: str) -> bool:
    """Return whether the text of a chat template asks for calls in the known form."""
    return BEGIN in template and END in template


class CallReader:
    """Separates the calls from the text of one output, which may come in parts."""

    def __init__(self) -> None:
        self._held, self._follows_call = "", False
        self.calls: list[dict[str, object]] = []

    def feed(self, part: str, *, ends: bool) -> tuple[str, list[dict[str, object]]]:
        """Return the new text, and the new calls in OpenAI's form.

        What may become a call is held back until its end, or until the output ends. White space
        after a call is no text.
        """
        known, texts = len(self.calls), []
        rest = self._held + part
        while True:
            before, begin, inside = rest.partition(BEGIN)
            written, end, after = inside.partition(END)
            if not begin or not end:
                break
            call = _parsed(written)
            texts.append(self._plain(before if call else rest[: -len(after)] if after else rest))
            if call is not None:
                self.calls.append(call)
                self._follows_call = True
            rest = after
        start = len(rest) if ends else rest.index(BEGIN) if begin else _beginning(rest)
        self._held = rest[start:]
        texts.append(self._plain(rest[:start]))
        return "".join(texts), self.calls[known:]

    def _plain(self, text: str) -> str:
        text = text.lstrip() if self._follows_call else text
        self._follows_call = self._follows_call and not text
        return text


def _beginning(text: str) -> int:
    """Return where the end of a text may be the beginning of `BEGIN`; its length if it is not."""
    sizes = range(min(len(BEGIN), len(text)), 0, -1)
    return len(text) - next((size for size in sizes if BEGIN.startswith(text[-size:])), 0)


def _parsed(written: str) -> dict[str, object] | None:
    """Return a call in OpenAI's form; None if the text is none."""
    try:
        call = json.loads(written)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", {})
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {"name": call["name"], "arguments": arguments}
    return {"id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
