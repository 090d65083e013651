"""A language model and its tokenizer as a Hugging Face folder, checked before it is there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
import torch
from tokenizers import decoders, models, processors

from headway.errors import HeadwayError, UsageError
from headway.files import new_folder, write_file
from headway.interop.folders import build, read, write
from headway.models import GPT
from headway.text import ForeignTokenizer, TextTokenizer

TOKENIZER_FILE = "tokenizer.json"
LARGEST_DIFFERENCE = 1e-4
ROWS, LONGEST = 2, 64
DRAWN, DRAWN_LENGTH = 8, 40
TEXTS = (
    "The monkey ate the banana because it was hungry.",
    "  two spaces, a tab\tand a line\nbreak, then an end \n",
    "Grüße, naïve Σωκράτης: 12 × 3,5 € … 日本語 🙂",
    "it's 'quoted' <tag> & </s> <|endoftext|>",
    "",
)
"""What both tokenizers must read alike; one spells special tokens."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, and how it was found to be the same.

    difference: the largest between two logits, of the model and of the folder read again.
    texts: how many have equal ids; those that the tokenizer refuses are not among them.
    """

    folder: Path
    architecture: str
    difference: float
    texts: int


def export(
    model: GPT, tokenizer: TextTokenizer, folder: str | Path, family: str | None = None
) -> Exported:
    """Write a folder that AutoModelForCausalLM and AutoTokenizer open; on any fault there is none.

    The weights are read again and must give the model's logits for random ids to 1e-4; the
    tokenizer must give the ids of `tokenizer` for texts with odd characters. HeadwayError where
    they do not, UsageError for what has no form there and for a folder that exists.
    """
    folder = Path(folder)
    if tokenizer.size > model.config.vocabulary:
        raise UsageError(
            f"the tokenizer has {tokenizer.size:,} pieces, the model {model.config.vocabulary:,}"
        )
    with new_folder(folder) as place:
        ids = {"bos_token_id": tokenizer.bos, "eos_token_id": tokenizer.eos}
        written = write(model, place, family, ids)
        _write_tokenizer(tokenizer, place, model.config.max_length)
        difference = _difference(model, place)
        if not difference <= LARGEST_DIFFERENCE:  # NaN is no success
            raise HeadwayError(
                f"the folder's logits differ by {difference:.2g}, more than "
                f"{LARGEST_DIFFERENCE:g}, from the model's: it was removed",
                str(folder),
            )
        texts = _same_ids(tokenizer, place, str(folder))
    return Exported(
        folder=folder, architecture=written.architecture, difference=difference, texts=texts
    )


@torch.no_grad()
def _difference(model: GPT, place: Path) -> float:
    """The largest between two logits for the same random ids."""
    weight = model.embedding.tokens.weight
    again = build(*read(place), dtype=weight.dtype).to(weight.device)
    length = min(LONGEST, model.config.max_length)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(0, model.config.vocabulary, (ROWS, length), generator=draw)
    training = model.training
    try:
        ours = model.eval()(ids.to(weight.device))
    finally:
        model.train(training)
    return float((again(ids.to(weight.device)) - ours).abs().max())


def _write_tokenizer(tokenizer: TextTokenizer, place: Path, max_length: int) -> None:
    """tokenizer.json in Hugging Face's form, and what transformers wants beside it."""
    engine = _engine(tokenizer, place)
    bos, eos = (engine.id_to_token(i) for i in (tokenizer.bos, tokenizer.eos))
    opening = _opening(tokenizer)
    if opening and not isinstance(tokenizer, ForeignTokenizer):  # whose file says it itself
        names = [engine.id_to_token(i) for i in opening]
        engine.post_processor = processors.TemplateProcessing(
            single=[*names, "$A"],
            special_tokens=list(zip(names, opening, strict=True)),
        )
    write_file(place / TOKENIZER_FILE, str(engine.to_str(pretty=True)).encode())
    facts = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": eos,
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,  # a text that spells a special token is still a text
    }
    text = json.dumps(facts, ensure_ascii=False, indent=2)
    write_file(place / "tokenizer_config.json", f"{text}\n".encode())


def _opening(tokenizer: TextTokenizer) -> list[int]:
    """What stands before the ids of a text where it begins; [bos] for most."""
    text = next((text for text in _texts(tokenizer) if text), "")
    whole, inner = tokenizer.begin(text), tokenizer.encode(text)
    return whole[: len(whole) - len(inner)]


def _engine(tokenizer: TextTokenizer, place: Path) -> tokenizers.Tokenizer:
    """What `save` writes, if Hugging Face's library knows it; else characters, a piece each."""
    if isinstance(tokenizer, ForeignTokenizer):
        return ForeignTokenizer.engine_of(tokenizer.engine_json, str(place))
    tokenizer.save(place)
    try:
        return tokenizers.Tokenizer.from_file(str(place / TOKENIZER_FILE))
    except Exception:  # the library raises bare Exception for a file that is not its own
        return _characters(tokenizer)


def _characters(tokenizer: TextTokenizer) -> tokenizers.Tokenizer:
    """The same ids by a byte-pair encoding that joins nothing. UsageError for longer pieces."""
    specials = {tokenizer.bos, tokenizer.eos}
    names = [
        tokenizer.pieces([i])[0] if i in specials else tokenizer.decode([i])
        for i in range(tokenizer.size)
    ]
    for index, name in enumerate(names):
        if index not in specials and len(name) != 1:
            raise UsageError(
                f"piece {index} of the tokenizer, {name!r}, is no single character: there is no "
                "form of this tokenizer for Hugging Face"
            )
    if len(set(names)) < len(names):
        raise UsageError("two pieces of the tokenizer stand for the same text: no form for it")
    vocabulary = {name: index for index, name in enumerate(names)}
    engine = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    engine.decoder = decoders.Fuse()
    engine.add_special_tokens([names[index] for index in sorted(specials)])
    return engine


def _texts(tokenizer: TextTokenizer) -> list[str]:
    """Texts that the tokenizer reads: the given ones, and what random ids of its own spell."""
    draw = torch.Generator().manual_seed(0)
    drawn = torch.randint(0, tokenizer.size, (DRAWN, DRAWN_LENGTH), generator=draw).tolist()
    return [text for text in (*TEXTS, *map(tokenizer.decode, drawn)) if _reads(tokenizer, text)]


def _reads(tokenizer: TextTokenizer, text: str) -> bool:
    """A tokenizer of characters refuses those that it has never seen."""
    try:
        tokenizer.encode(text)
    except HeadwayError:
        return False
    return True


def _same_ids(tokenizer: TextTokenizer, place: Path, where: str) -> int:
    """For how many texts the file in `place` gives the ids of `tokenizer`: all that it reads."""
    engine = tokenizers.Tokenizer.from_file(str(place / TOKENIZER_FILE))
    again = ForeignTokenizer(engine, tokenizer.bos, tokenizer.eos)
    texts = _texts(tokenizer)
    for text in texts:
        _check_same(text, tokenizer.encode(text), again.encode(text), where)
        if text:  # ours must begin with something, theirs need not
            _check_same(text, tokenizer.begin(text), again.begin(text), where)
    return len(texts)


def _check_same(text: str, ours: Sequence[int], theirs: Sequence[int], where: str) -> None:
    if list(ours) != list(theirs):
        raise HeadwayError(
            f"the written tokenizer reads {text!r} as {_start(theirs)}, not as {_start(ours)}: "
            "the folder was removed",
            where,
        )


def _start(ids: Sequence[int]) -> str:
    return f"{list(ids[:8])}" + (" ..." if len(ids) > 8 else "")
