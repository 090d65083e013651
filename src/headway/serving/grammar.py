"""Outputs of a given form: a logit rule that allows only tokens which keep the output valid.

The grammar of a JSON schema, of a regular expression or of a choice, and the tokens that fit it,
are computed by llguidance (extra `grammar`) under limits. A form that cannot be enforced as a whole
is refused: no output is less strict than its form.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from headway.base.errors import UsageError
from headway.base.shapes import Float, Tensor
from headway.base.transfers import upload
from headway.decoding import PartialOutput
from headway.decoding.writing import BROKEN
from headway.text import TextTokenizer
from headway.text.engine import EngineTokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher

MOST_BYTES = 2**16
DEEPEST = 32
ANY_OBJECT: dict[str, object] = {"type": "object"}


class TokenBytes:
    """The bytes of every token of a vocabulary, as llguidance needs them.

    A special token has none, and is never allowed.
    """

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: TextTokenizer) -> None:
        anchor = tokenizer.encode("a")[-1:]  # spaces at the start of a text may be dropped
        before = len(tokenizer.decode(anchor))
        self._encode = tokenizer.encode
        self.tokens: list[bytes] = []
        self.special_token_ids: list[int] = []
        for token in range(tokenizer.size):
            text = tokenizer.decode([*anchor, token])[before:]
            raw = text.encode()
            if BROKEN in text and isinstance(tokenizer, EngineTokenizer):
                raw = tokenizer.partial_character(token) or b""
            if not raw:
                self.special_token_ids.append(token)
                raw = f"<|{token}|>".encode()
            self.tokens.append(raw)
        self.bos_token_id, self.eos_token_id = tokenizer.bos, tokenizer.eos

    def __call__(self, text: bytes | str) -> list[int]:
        return self._encode(text.decode() if isinstance(text, bytes) else text)


class Grammar:
    """The grammars of one vocabulary. UsageError if llguidance is not installed."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        try:
            from llguidance import LLTokenizer
        except ImportError:
            raise UsageError(
                "a form of outputs needs the package extra 'grammar' on the server",
                hint="pip install 'headway[grammar]'",
            ) from None
        self._tokenizer = LLTokenizer(TokenBytes(tokenizer))  # type: ignore[arg-type]
        self._eos, self._size = tokenizer.eos, tokenizer.size

    def of_schema(self, schema: object) -> FormatRule:
        """Return the rule for a JSON schema. UsageError for one that cannot be enforced."""
        from llguidance import LLMatcher

        text = json.dumps(schema)
        if not isinstance(schema, dict) or len(text) > MOST_BYTES or _depth(schema) > DEEPEST:
            raise UsageError(
                f"a schema must be a JSON object of at most {MOST_BYTES:,} bytes and {DEEPEST} "
                "levels"
            )
        try:
            grammar = LLMatcher.grammar_from_json_schema(
                text, overrides={"whitespace_flexible": False, "lenient": False}
            )
        except ValueError as error:
            raise UsageError(f"the schema is not valid: {error}") from None
        return self._rule(grammar, "the schema")

    def of_regex(self, pattern: str) -> FormatRule:
        """Return the rule for a regular expression, which an output matches as a whole. UsageError
        for one that cannot be enforced."""
        from llguidance import LLMatcher

        self._check_size(pattern, "the regular expression")
        return self._rule(LLMatcher.grammar_from_regex(pattern), "the regular expression")

    def of_choice(self, texts: Sequence[str]) -> FormatRule:
        """Return the rule for outputs that are one of the texts."""
        from llguidance import LLMatcher

        alternatives = " | ".join(json.dumps(text, ensure_ascii=False) for text in texts)
        self._check_size(alternatives, "the choice")
        return self._rule(LLMatcher.grammar_from_lark(f"start: {alternatives}"), "the choice")

    def of_call(self, functions: Mapping[str, object], begin: str, end: str) -> FormatRule:
        """Return the rule for a call of one of these functions, between two texts. UsageError for a
        schema that cannot be enforced.

        functions: name -> JSON schema of the arguments.
        """
        from llguidance import LLMatcher

        calls = [
            {
                "type": "object",
                "properties": {"name": {"const": name}, "arguments": arguments},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for name, arguments in functions.items()
        ]
        options = {"whitespace_flexible": False, "lenient": False}
        call = json.dumps({"x-guidance": options, "anyOf": calls})
        self._check_size(call, "the tools")
        if any(_depth(one) > DEEPEST + 2 for one in calls):
            raise UsageError(f"the tools must have at most {DEEPEST} levels")
        lark = f"start: {json.dumps(begin)} call {json.dumps(end)}\ncall: %json {call}"
        return self._rule(LLMatcher.grammar_from_lark(lark), "the schema of a tool")

    @staticmethod
    def _check_size(text: str, name: str) -> None:
        if len(text) > MOST_BYTES:
            raise UsageError(f"{name} must have at most {MOST_BYTES:,} characters")

    def _rule(self, grammar: str, name: str) -> FormatRule:
        from llguidance import LLMatcher, LLParserLimits

        limits = LLParserLimits(  # below llguidance's own: a schema takes less than a second
            max_items_in_row=1000,
            initial_lexer_fuel=500_000,
            step_lexer_fuel=100_000,
            step_max_items=25_000,
            max_lexer_states=50_000,
            max_grammar_size=100_000,
        )
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0, limits=limits)
        if matcher.is_error() or matcher.get_grammar_warnings():
            first = (matcher.get_error() or str(matcher.get_grammar_warnings())).split("\n")[0]
            raise UsageError(f"{name} cannot be enforced: {first[:300]}")
        return FormatRule(matcher, self._eos, self._size)


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


class FormatRule:
    """A logit rule for the outputs of one request; every output has its own state of the grammar.

    UsageError if the limits are exceeded in the middle of an output, which then ends.
    """

    def __init__(self, matcher: LLMatcher, eos: int, size: int) -> None:
        self._matcher, self._eos, self._size = matcher, eos, size
        self._states: dict[int, tuple[LLMatcher, weakref.ref[PartialOutput], int]] = {}
        """By id of the output: its matcher, the output, and the number of tokens read. Python gives
        the id of an output that has ended to a later one."""

    def __call__(
        self, logits: Float[Tensor, "N V"], written: Sequence[PartialOutput]
    ) -> Float[Tensor, "N V"]:
        allowed = torch.zeros(logits.shape, dtype=torch.bool)
        for row, output in enumerate(written):
            allowed[row, : self._size] = torch.from_numpy(self._allowed(output))
        return logits.masked_fill(~upload(allowed, logits.device), -torch.inf)

    def _allowed(self, output: PartialOutput) -> NDArray[np.bool_]:
        matcher, count = self._state_of(output)
        if count < len(output.tokens):
            matcher.consume_tokens(output.tokens[count:])
        self._states[id(output)] = matcher, weakref.ref(output), len(output.tokens)
        if matcher.is_stopped() and not matcher.is_error():
            only = np.zeros(self._size, dtype=bool)
            only[self._eos] = True
            return only
        mask = matcher.compute_bitmask()
        if matcher.is_error():
            raise UsageError(
                f"the form of the output became too complex: {matcher.get_error()[:200]}"
            )
        bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")
        return bits[: self._size].astype(bool)

    def _state_of(self, output: PartialOutput) -> tuple[LLMatcher, int]:
        """Return the matcher of an output, and the number of its tokens that it has read."""
        known = self._states.get(id(output))
        if known is None or known[1]() is not output:
            return self._matcher.deep_copy(), 0
        return known[0], known[2]
