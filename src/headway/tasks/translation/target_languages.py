"""The languages of a translator, and the tag of the language before each source text.

A model of several target languages reads the tag of the language it shall write before the source:
`<2de> a cat` (Johnson et al. 2017, section 3). The tag is one token.
"""

from dataclasses import dataclass

from headway.base.errors import UsageError
from headway.text import LANGUAGE_TAG, TokenizerPair

SHOWN = 8
"""Maximum number of languages that an error lists."""


def tag_of(language: str) -> str:
    """Return the tag of a target language: <2de>."""
    return f"<2{language}>"


@dataclass(frozen=True)
class TargetLanguages:
    """The target languages of a model, sorted; none for a model of one direction.

    chosen: the language of texts without a tag; None: such texts are errors.
    """

    names: tuple[str, ...]
    chosen: str | None = None

    def check(self, language: str) -> None:
        """Raise UsageError, with the known languages, unless the model has this target language."""
        if not self.names:
            raise UsageError(
                f"target language {language!r}: the model has one direction, so there is none to "
                "choose",
                hint="leave out --to; a model of several directions is trained on several corpora",
            )
        if language not in self.names:
            raise UsageError(
                f"the model does not translate into {language!r}; its target languages are "
                f"{', '.join(self.names)}",
                hint=f"--to {self.names[0]}",
            )

    def split_tag(self, text: str) -> tuple[str, str]:
        """Return the language tag that a text begins with, with a space, and the rest.

        The tag is empty for a model of one direction. For another, a text without a tag gets that
        of the chosen language. Raises UsageError if there is no tag, or an unknown one.
        """
        if not self.names:
            return "", text
        if tag := LANGUAGE_TAG.match(text):
            self.check(tag[1])
            return f"{tag[0]} ", text[tag.end() :].strip()
        if self.chosen is None:
            raise UsageError(
                "the model translates into several languages, and none is chosen: "
                f"{', '.join(self.names)}",
                hint=f"--to {self.names[0]}, or begin the text with {tag_of(self.names[0])}",
            )
        return f"{tag_of(self.chosen)} ", text

    def tagged(self, text: str) -> str:
        """Return a stripped text with the language tag that the model needs; "" for no text."""
        tag, rest = self.split_tag(text.strip()) if text.strip() else ("", "")
        return tag + rest if rest else ""


def check_chosen(pair: TokenizerPair) -> None:
    """Raise UsageError unless the languages of a pretrained multilingual model are chosen."""
    if pair.languages is None:
        return
    codes = sorted(pair.languages.ids)
    for tokenizer, flag in ((pair.source, "--from-language"), (pair.target, "--to")):
        if getattr(tokenizer, "language", None) is None:
            raise UsageError(
                f"the model translates {'into' if flag == '--to' else 'from'} {len(codes)} "
                f"languages, and none is chosen: {', '.join(codes[:SHOWN])} ...",
                hint=f"{flag} {codes[0]}",
            )
