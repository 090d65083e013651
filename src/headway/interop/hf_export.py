"""A model and its tokenizer as a Hugging Face folder, checked before it is there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
import torch
from tokenizers import decoders, models, processors

from headway.errors import HeadwayError, UsageError
from headway.files import write_file
from headway.folders import new_folder
from headway.interop.encoder_tokenizers import same_marked_ids, write_marked
from headway.interop.hf_folders import TextModel, build, read, write
from headway.interop.sentence_transformers import SentenceFolder, write_sentence_folder
from headway.models import GPT, Bert, BertConfig, GPTConfig
from headway.shapes import Int, Tensor
from headway.text import ForeignTokenizer, MarkedTokenizer, TextTokenizer

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

    difference: the largest between two outputs (logits, an encoder's vectors too), of the model
    and of the folder read again. texts: how many have equal ids; those that the tokenizer refuses,
    or reads as marks there, are not among them.
    """

    folder: Path
    architecture: str
    difference: float
    texts: int


def export(
    model: TextModel,
    tokenizer: TextTokenizer | MarkedTokenizer,
    folder: str | Path,
    family: str | None = None,
    labels: Sequence[str] | None = None,
    sentences: SentenceFolder | None = None,
) -> Exported:
    """Write a folder that transformers opens, with its tokenizer; on any fault there is none.

    The weights are read again and must give the model's outputs for random ids to 1e-4; the
    tokenizer must give the ids of `tokenizer` for texts with odd characters. labels: names of a
    classifier's classes. sentences: how an encoder makes a text's vector, for sentence-transformers
    (its `encoder` is not looked at). HeadwayError where they do not, UsageError for what has no
    form there and for a folder that exists.
    """
    folder = Path(folder)
    shape = _shape(model)
    if tokenizer.size > shape.vocabulary:
        raise UsageError(
            f"the tokenizer has {tokenizer.size:,} tokens, but the model's vocabulary "
            f"{shape.vocabulary:,}",
            hint="export the model with the tokenizer that it was trained with",
        )
    with new_folder(folder) as place:
        written = write(model, place, family, _special_ids(tokenizer), labels)
        difference = _difference(model, place)
        if not difference <= LARGEST_DIFFERENCE:  # NaN is no success
            raise HeadwayError(
                f"the folder's logits differ by {difference:.2g}, more than "
                f"{LARGEST_DIFFERENCE:g}, from the model's: it was removed",
                str(folder),
            )
        if isinstance(tokenizer, MarkedTokenizer):
            write_marked(tokenizer, place, shape.max_length, getattr(shape, "token_types", 0))
            texts = same_marked_ids(tokenizer, place, _texts(tokenizer), str(folder))
        else:
            write_tokenizer(tokenizer, place, shape.max_length)
            texts = same_ids(tokenizer, place, str(folder))
        if sentences is not None:
            write_sentence_folder(place, shape.model_dim, sentences)
    return Exported(folder=folder, architecture=written, difference=difference, texts=texts)


def _shape(model: TextModel) -> GPTConfig | BertConfig:
    """The sizes of the model, or of the encoder in it."""
    config = model.config
    return config if isinstance(config, GPTConfig | BertConfig) else config.bert


def _special_ids(tokenizer: TextTokenizer | MarkedTokenizer) -> dict[str, int]:
    if not isinstance(tokenizer, MarkedTokenizer):
        return {"bos_token_id": tokenizer.bos, "eos_token_id": tokenizer.eos}
    marks = tokenizer.marks
    return {"pad_token_id": marks.pad, "bos_token_id": marks.start, "eos_token_id": marks.end}


@torch.no_grad()
def _difference(model: TextModel, place: Path) -> float:
    """The largest between two outputs for the same random ids."""
    weight, shape = next(model.parameters()), _shape(model)
    again = build(*read(place), dtype=weight.dtype).to(weight.device)
    length = min(LONGEST, shape.max_length)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(0, shape.vocabulary, (ROWS, length), generator=draw).to(weight.device)
    training = model.training
    try:
        ours = _outputs(model.eval(), ids)
    finally:
        model.train(training)
    pairs = zip(_outputs(again, ids), ours, strict=True)
    return float(torch.stack([(a - b).abs().max() for a, b in pairs]).max())  # NaN stays NaN


def _outputs(model: TextModel, ids: Int[Tensor, "B T"]) -> list[Tensor]:
    """All that the model says of these ids; an encoder reads the second half as a second text."""
    if isinstance(model, GPT):
        return [model(ids)]
    keys = torch.ones_like(ids, dtype=torch.bool)
    types = (torch.arange(ids.shape[1], device=ids.device) >= ids.shape[1] // 2).long()
    types = types.expand_as(ids)
    if not isinstance(model, Bert):
        return [model(ids, keys, types)]
    hidden = model.encode(ids, keys, types)
    heads = {
        model.pool: model.pooler,
        model.words: model.masked_words,
        model.follows: model.next_sentence,
    }
    return [hidden, *(head(hidden) for head, part in heads.items() if part is not None)]


def write_tokenizer(tokenizer: TextTokenizer, place: Path, max_length: int) -> None:
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


def _texts(tokenizer: TextTokenizer | MarkedTokenizer) -> list[str]:
    """Texts that the tokenizer reads: the given ones, and what random ids of its own spell."""
    draw = torch.Generator().manual_seed(0)
    drawn = torch.randint(0, tokenizer.size, (DRAWN, DRAWN_LENGTH), generator=draw).tolist()
    return [text for text in (*TEXTS, *map(tokenizer.decode, drawn)) if _reads(tokenizer, text)]


def _reads(tokenizer: TextTokenizer | MarkedTokenizer, text: str) -> bool:
    """A tokenizer of characters refuses those that it has never seen."""
    try:
        tokenizer.encode(text)
    except HeadwayError:
        return False
    return True


def same_ids(tokenizer: TextTokenizer, place: Path, where: str) -> int:
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
