"""Splits and encodes source texts as a translator reads them, joins translations of parts, and
prepares the forward pass over a sentence and a translation.

A text may begin with a language tag. Each of its lines is translated alone, and so is each sentence
of a line that is too long.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from headway.base.errors import UsageError
from headway.bundle import ForwardPass
from headway.decoding import Hypothesis
from headway.models import Translator
from headway.tasks.translation.batches import collate_sources, max_source_tokens
from headway.tasks.translation.target_languages import TargetLanguages, check_chosen
from headway.text import TokenizerPair, positions_of_words, split_sentences


@dataclass(frozen=True)
class Line:
    """A line of a text. parts: what is translated of it: the line, its sentences if it is too long,
    or nothing of a blank line. start, end: the white space around them, with the line break."""

    parts: Sequence[str]
    start: str = ""
    end: str = ""


@dataclass(frozen=True)
class SourceTexts:
    """Splits and encodes texts for a model, and checks their lengths."""

    model: Translator
    tokenizer: TokenizerPair
    languages: TargetLanguages

    @property
    def _num_tags(self) -> int:
        return 1 if self.languages.names else 0

    @property
    def longest(self) -> int:
        """The maximum number of tokens of a text, without a language tag."""
        return max_source_tokens(self.model) - self._num_tags

    def encoded(
        self, texts: Sequence[str], first: int = 1, name: str = "text {}"
    ) -> list[list[int]]:
        """Return the ids of the texts. first: the number of the first one. name: that of a text in
        errors, with {} in place of its number.

        Raises UsageError for a text that is too long, and if the languages of a pretrained
        multilingual model are not chosen.
        """
        check_chosen(self.tokenizer)
        ids = self.tokenizer.source.encode_batch([self.languages.tagged(text) for text in texts])
        for number, row in enumerate(ids, start=first):
            self._check_length(len(row) - self._num_tags, name.format(number))
        return ids

    def lines(self, text: str, name: str, *, by_line: bool) -> list[Line]:
        """Return the lines of a text, each of which is translated alone.

        A text with words on one line only is one line, without the white space around it. The
        language tag at the start of a text holds for all of its lines. name: that of the text in
        errors. by_line: whether texts are split at all. Raises UsageError for a sentence that is
        too long.
        """
        if not by_line or len(text.strip().splitlines()) <= 1:
            return [Line(self._parts(text, name))]
        tag, rest = self.languages.split_tag(text)
        lines = []
        for number, line in enumerate(rest.splitlines(keepends=True), start=1):
            content = line.strip()
            if not content:
                lines.append(Line((), line))
                continue
            start, _, end = line.partition(content)
            parts = self._parts(tag + content, f"{name}, line {number},")
            lines.append(Line(parts, start, end))
        return lines

    def _parts(self, text: str, name: str) -> list[str]:
        """Return a text, or its sentences if it is too long."""
        encode = self.tokenizer.source.encode
        if len(encode(text.strip())) <= self.longest:
            return [text]
        tag, text = self.languages.split_tag(text)
        sentences = split_sentences(text)
        for number, sentence in enumerate(sentences, start=1):
            of_text = name if len(sentences) == 1 else f"{name}, sentence {number},"
            self._check_length(len(encode(sentence)), of_text)
        return [tag + sentence for sentence in sentences]

    def _check_length(self, length: int, name: str) -> None:
        """Raise UsageError if a text has too many tokens."""
        check_positions(length + self._num_tags, self.model.max_source, name)
        if length > self.longest:
            raise UsageError(
                f"{name} has {length:,} tokens, but the maximum length of a sentence is "
                f"{self.longest:,} tokens",
                hint="split it into sentences, one on each line",
            )


def check_positions(length: int, limit: int | None, name: str) -> None:
    """Raise UsageError if a text has more tokens than the model has learned positions."""
    if limit is not None and length >= limit:
        raise UsageError(
            f"{name} has {length} tokens, but the model has learned positions for at most "
            f"{limit - 1}",
            hint="split it into sentences, or train with --model.positions sinusoidal",
        )


def _joined(parts: Sequence[Hypothesis], text: str) -> Hypothesis:
    """Return the translation of a text that was split. Its score is the mean of its parts'."""
    return Hypothesis(
        tuple(token for part in parts for token in part.tokens),
        sum(part.log_probability for part in parts),
        sum(part.score for part in parts) / len(parts),
        all(part.finished for part in parts),
        text,
    )


def ranked_line(line: Line, lists: Iterator[list[Hypothesis]]) -> tuple[Hypothesis, ...]:
    """Return the translations of a line, best first; one for a line that was split, none for a
    blank one."""
    of_parts = [next(lists) for _ in line.parts]
    if len(of_parts) == 1:
        return tuple(of_parts[0])
    best = [translations[0] for translations in of_parts]
    return (_joined(best, " ".join(part.text for part in best)),) if best else ()


def text_of_lines(
    lines: Sequence[Line], of_lines: Sequence[tuple[Hypothesis, ...]]
) -> tuple[Hypothesis, ...]:
    """Return the translations of a text from those of its lines.

    The n-th one has the n-th translation of each line, or its last one.
    """
    if len(lines) == 1:
        return of_lines[0]
    outputs = []
    for rank in range(max(map(len, of_lines))):
        chosen = [ranked[min(rank, len(ranked) - 1)] if ranked else None for ranked in of_lines]
        written = [
            line.start + ("" if best is None else best.text) + line.end
            for line, best in zip(lines, chosen, strict=True)
        ]
        best_of_lines = [best for best in chosen if best is not None]
        outputs.append(_joined(best_of_lines, "".join(written)))
    return tuple(outputs)


def forward_pass(
    model: Translator,
    tokenizer: TokenizerPair,
    source_ids: Sequence[int],
    target_ids: Sequence[int],
) -> ForwardPass:
    """Prepare the forward pass. The ids are those of the texts, without special tokens."""
    device = next(model.parameters()).device
    first, second = tokenizer.source, tokenizer.target
    tokens, keys = collate_sources([[*source_ids]], first)
    tokens, keys = tokens.to(device), None if keys is None else keys.to(device)
    ids = {
        "source": [*source_ids, first.eos],
        "read": [second.bos, *target_ids],
        "target": [*target_ids, second.eos],
    }
    read = torch.tensor([ids["read"]], device=device)
    sides = {"source": first, "read": second, "target": second}
    return ForwardPass(
        model=model,
        run=lambda: model(tokens, read, keys),
        tokens={name: side.token_strings(ids[name]) for name, side in sides.items()},
        axes={
            "encoder": ("source", "source"),
            "decoder": ("read", "read"),
            "cross": ("target", "source"),
        },
        embeddings={"source": "source_embedding", "read": "target_embedding"},
        ids=ids,
        words={name: positions_of_words(side, ids[name]) for name, side in sides.items()},
    )
