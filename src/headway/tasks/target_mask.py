"""The target mask of a conversation: which tokens the model learns to write.

These are the tokens that the turns of the assistant add when the conversation is rendered, the
token that ends a turn included. So the first token of an answer is a target, and no string is
searched for. There are three ways to know them:

- The template of models that are trained here (`TEMPLATE`) is also code (`OwnRenderer`), which
  writes the tokens of one turn after the other.
- A template of another model may mark what the model writes by {% generation %}.
- Other templates are rendered up to each turn: the tokens of an answer are those that rendering
  with it has more than the prompt before it. If these do not begin with the prompt, the template
  changes earlier turns, or a token spans the border; such a row is refused.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import tokenizers
from tokenizers import processors

from headway.base.errors import DataError, UsageError
from headway.data.dialogues import ASSISTANT, IMAGE, ROLES, Dialogue, Turn
from headway.interop import ChatTemplate
from headway.interop.chat_prompts import AmbiguousTokens, Conversation, Prompt, TemplateProcess
from headway.text import CharacterTokenizer, PretrainedTokenizer, TextTokenizer

ROLE_TOKENS = {role: f"<|{role}|>" for role in ROLES}
"""Role -> the special token before its turns, for models that are trained here."""

IMAGE_TOKEN = "<|image|>"
"""The special token at whose places the patches of an image stand in a prompt."""

TEMPLATE = (
    "{{- bos_token -}}{%- for message in messages -%}"
    "{%- if message['role'] not in ['system', 'user', 'assistant'] -%}"
    "{{- raise_exception('the roles are system, user and assistant, not ' ~ message['role']) -}}"
    "{%- endif -%}{{- '<|' ~ message['role'] ~ '|>' -}}"
    "{%- if message['role'] == 'assistant' -%}"
    "{%- generation -%}{{- message['content'] ~ eos_token -}}{%- endgeneration -%}"
    "{%- else -%}{{- message['content'] -}}{%- endif -%}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
"""The chat template of models that are trained here: `OwnRenderer` in the language of Hugging Face.

The token that ends a text also ends an answer, so every way of generating stops there.
"""

_GENERATION = re.compile(r"\{%[-+]?\s*generation\b")


@dataclass(frozen=True)
class RenderedDialogue:
    """The tokens of a conversation, and for each whether it is a target."""

    tokens: list[int]
    is_target: list[bool]
    dialogue: Dialogue = field(default=Dialogue(()), compare=False)


class Renderer(Protocol):
    """Converts conversations to tokens.

    fingerprint: sha256 of everything that the tokens depend on.
    """

    @property
    def fingerprint(self) -> str: ...

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        """Return the tokens of the turns and of the beginning of the assistant's next turn."""
        ...

    def render(self, dialogue: Dialogue) -> RenderedDialogue:
        """Return a conversation with its target mask. Raises DataError, with its location, if it
        cannot be rendered, or if the mask is ambiguous."""
        ...


class OwnRenderer:
    """The conversations of models that are trained here.

    <bos> and then, for each turn, the token of its role and the content; an answer ends in <eos>.
    patches: the number of places of an image, each of which has the `IMAGE_TOKEN`; 0 for a model
    that reads no images.
    """

    def __init__(self, tokenizer: TextTokenizer, patches: int = 0) -> None:
        """Raise UsageError for a tokenizer without the `ROLE_TOKENS`."""
        if not isinstance(tokenizer, PretrainedTokenizer) or not set(ROLE_TOKENS.values()).issubset(
            tokenizer.special_texts
        ):
            raise UsageError("the tokenizer of the model has no special tokens for roles")
        self._tokenizer = tokenizer
        self._roles = {
            role: tokenizer.encode_with_special_tokens(text)[0]
            for role, text in ROLE_TOKENS.items()
        }
        self._image = patches * tokenizer.encode_with_special_tokens(IMAGE_TOKEN)[:1]

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self._tokenizer, f"{TEMPLATE}{len(self._image) or ''}")

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        tokens = self.render(Dialogue(tuple(turns))).tokens
        return [*tokens, self._roles[ASSISTANT]]

    def render(self, dialogue: Dialogue) -> RenderedDialogue:
        tokens, is_target = [self._tokenizer.bos], [False]
        for turn in dialogue.turns:
            if turn.role not in self._roles:
                raise DataError(
                    f"the model has no role {turn.role!r}; roles: {', '.join(self._roles)}",
                    dialogue.where,
                )
            written = self._written(turn, dialogue.where)
            if turn.role == ASSISTANT:
                written = [*written, self._tokenizer.eos]
            tokens += [self._roles[turn.role], *written]
            is_target += [False, *[turn.is_learned] * len(written)]
        return RenderedDialogue(tokens, is_target, dialogue)

    def _written(self, turn: Turn, where: str) -> list[int]:
        """Return the tokens of the content of a turn, with the places of its images."""
        if not turn.images:
            return self._tokenizer.encode(turn.content)
        if not self._image:
            raise _reads_no_images(where)
        before, *after = map(self._tokenizer.encode, turn.content.split(IMAGE))
        return [*before, *(token for text in after for token in (*self._image, *text))]

    def is_cut(self, rendered: RenderedDialogue) -> bool:
        """Return whether a conversation that was truncated has lost places of its images."""
        images = rendered.dialogue.images
        places = len(images) * len(self._image)
        return places > 0 and rendered.tokens.count(self._image[0]) < places


def _reads_no_images(where: str) -> DataError:
    return DataError(
        "the model reads no images, but the conversation has some",
        where,
        "headway train see CONVERSATIONS trains a model that reads images",
    )


class TemplateRenderer:
    """The conversations of a model with a chat template, which a child process renders."""

    def __init__(
        self, process: TemplateProcess, template: ChatTemplate, tokenizer: TextTokenizer
    ) -> None:
        self._process, self._template, self._tokenizer = process, template, tokenizer
        self._has_marks = _GENERATION.search(template.default or "") is not None

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self._tokenizer, json.dumps(dict(self._template.by_name)))

    def prompt(self, turns: Sequence[Turn]) -> list[int]:
        return self._tokens(turns, is_prompt=True)

    def render(self, dialogue: Dialogue) -> RenderedDialogue:
        if dialogue.images:
            raise _reads_no_images(dialogue.where)
        try:
            if self._has_marks:
                return self._by_marks(dialogue.turns)
            return self._by_prefixes(dialogue.turns)
        except UsageError as error:
            raise DataError(error.what, dialogue.where, error.hint) from error

    def _by_marks(self, turns: Sequence[Turn]) -> RenderedDialogue:
        """Take the target mask from {% generation %}: one span for each turn of the assistant."""
        prompt = self._prompt(turns, is_prompt=False)
        text = self._process.rendered(prompt, marks_generation=True)
        tokens, spans = prompt.tokens(text), prompt.generated(text)
        answers = [turn for turn in turns if turn.role == ASSISTANT]
        if len(spans) != len(answers):
            raise AmbiguousTokens(
                f"the chat template has {len(spans)} texts in {{% generation %}}, but the "
                f"conversation has {len(answers)} turns of the assistant"
            )
        is_target = [False] * len(tokens)
        for (start, end), turn in zip(spans, answers, strict=True):
            is_target[start:end] = [turn.is_learned] * (end - start)
        return RenderedDialogue(tokens, is_target)

    def _by_prefixes(self, turns: Sequence[Turn]) -> RenderedDialogue:
        """Take the target mask from what each turn of the assistant adds to its prompt."""
        tokens = self._tokens(turns, is_prompt=False)
        is_target = [False] * len(tokens)
        for number, turn in enumerate(turns):
            if not turn.is_learned:
                continue
            prompt = self._tokens(turns[:number], is_prompt=True)
            answered = self._tokens(turns[: number + 1], is_prompt=False)
            for shorter, longer in ((prompt, answered), (answered, tokens)):
                if longer[: len(shorter)] != shorter:
                    raise AmbiguousTokens(
                        f"turn {number + 1}: which tokens the assistant writes is ambiguous: with "
                        "the next turn, the chat template renders other tokens for the turns "
                        "before it",
                        hint="enclose what the model writes in {% generation %} in the template",
                    )
            ends = [
                n for n in range(len(prompt), len(answered)) if answered[n] in self._tokenizer.ends
            ]
            # generation stops at this token: what the template writes after it is never generated
            end = ends[-1] + 1 if ends else len(answered)
            is_target[len(prompt) : end] = [True] * (end - len(prompt))
        return RenderedDialogue(tokens, is_target)

    def _tokens(self, turns: Sequence[Turn], *, is_prompt: bool) -> list[int]:
        prompt = self._prompt(turns, is_prompt=is_prompt)
        return prompt.tokens(self._process.rendered(prompt))

    def _prompt(self, turns: Sequence[Turn], *, is_prompt: bool) -> Prompt:
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        conversation = Conversation(messages=messages, add_generation_prompt=is_prompt)
        return Prompt(self._template, conversation, self._tokenizer)


@contextmanager
def renderer_of(
    tokenizer: TextTokenizer, template: ChatTemplate, patches: int = 0
) -> Iterator[Renderer]:
    """Open the renderer of a model with a chat template. patches: as of `OwnRenderer`."""
    if template.default == TEMPLATE:
        yield OwnRenderer(tokenizer, patches)
        return
    with TemplateProcess() as process:
        yield TemplateRenderer(process, template, tokenizer)


def with_role_tokens(tokenizer: TextTokenizer, more: Sequence[str] = ()) -> PretrainedTokenizer:
    """Return the tokenizer with the special tokens of roles, whose ids follow the existing ones.

    more: further special tokens. Raises UsageError for a tokenizer of characters.
    """
    if isinstance(tokenizer, CharacterTokenizer):
        raise UsageError(
            "a character-level model cannot have special tokens for roles",
            hint="start from a model with sub-words: headway train gpt-tiny TEXT",
        )
    content = getattr(tokenizer, "engine_json", None)
    if content is None:
        raise UsageError("the model has no tokenizer, so that no conversation can be encoded")
    engine = tokenizers.Tokenizer.from_str(json.dumps(content))
    before = tokenizer.begin("a")
    before = before[: len(before) - len(tokenizer.encode("a"))]
    if before and not isinstance(tokenizer, PretrainedTokenizer):  # whose engine specifies it
        names = [engine.id_to_token(token) for token in before]
        engine.post_processor = processors.TemplateProcessing(
            single=[*names, "$A"], special_tokens=list(zip(names, before, strict=True))
        )
    engine.add_special_tokens([*ROLE_TOKENS.values(), *more])
    return PretrainedTokenizer(engine, tokenizer.bos, tokenizer.eos, tokenizer.ends)


def _fingerprint(tokenizer: TextTokenizer, template: str) -> str:
    return hashlib.sha256(f"{tokenizer.fingerprint}\n{template}".encode()).hexdigest()
