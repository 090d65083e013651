"""Write a text model and its tokenizer as a Hugging Face folder.

`exporting.hugging_face` runs what was written before anybody gets it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers
import torch
from tokenizers import decoders, models, processors

from headway.base.errors import HeadwayError, UsageError
from headway.interop.encoder_tokenizers import check_encoder_tokenizer, write_encoder_tokenizer
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.hf_folders import TextModel, write, write_generation_config
from headway.interop.sentence_transformers import SentenceFolder, write_sentence_folder
from headway.interop.tokenizer_engines import write_engine
from headway.models import BertConfig, GPTConfig
from headway.text import EncoderTokenizer, PretrainedTokenizer, SentenceTokenizer, TextTokenizer

TOKENIZER_FILE = "tokenizer.json"
DRAWN, DRAWN_LENGTH = 8, 40
TEXTS = (
    "The monkey ate the banana because it was hungry.",
    "  two spaces, a tab\tand a line\nbreak, then an end \n",
    "Grüße, naïve Σωκράτης: 12 × 3,5 € … 日本語 🙂",
    "it's 'quoted' <tag> & </s> <|endoftext|>",
    "",
)
"""Texts that both tokenizers must encode alike; one contains the texts of special tokens."""


def write_text_model(
    model: TextModel,
    tokenizer: TextTokenizer | EncoderTokenizer,
    folder: str | Path,
    family: str | None = None,
    labels: Sequence[str] | None = None,
    sentences: SentenceFolder | None = None,
    keys: Mapping[str, object] | None = None,
    settings: FolderSettings = NO_SETTINGS,
) -> str:
    """Write a model for transformers with its tokenizer; return the name of its class there.

    family: a key of `FAMILIES`; if None, the first that can represent the model. labels: names of
    the classes or tags. sentences: pooling and length for sentence-transformers (its `encoder` is
    not used). keys: keys of config.json that differ from those of the architecture. settings: those
    of the pretrained folder that the model is from. Raises UsageError for a model or tokenizer that
    cannot be represented and for a folder with a model; HeadwayError if the tokenizer in the folder
    gives texts other ids.
    """
    folder, shape = Path(folder), _shape(model)
    if tokenizer.size > shape.vocabulary:
        raise UsageError(
            f"the tokenizer has {tokenizer.size:,} tokens, but the model's vocabulary "
            f"{shape.vocabulary:,}",
            hint="export the model with the tokenizer that it was trained with",
        )
    written = write(model, folder, family, special_ids(tokenizer), labels, keys)
    if isinstance(tokenizer, EncoderTokenizer):
        types = getattr(shape, "token_types", 0)
        write_encoder_tokenizer(tokenizer, folder, shape.max_length, types)
        check_encoder_tokenizer(tokenizer, folder, verification_texts(tokenizer), str(folder))
    else:
        write_generation_config(special_ids(tokenizer), tokenizer.ends, settings, folder)
        has_template = settings.template is not None
        write_tokenizer(tokenizer, folder, shape.max_length, has_template=has_template)
        if settings.template is not None:
            settings.template.write(folder)
        check_tokenizer(tokenizer, folder, str(folder))
    if sentences is not None:
        write_sentence_folder(folder, shape.model_dim, sentences)
    return written


def _shape(model: TextModel) -> GPTConfig | BertConfig:
    """Return the configuration of the model, or of the encoder in it."""
    config = model.config
    return config if isinstance(config, GPTConfig | BertConfig) else config.bert


def special_ids(tokenizer: TextTokenizer | EncoderTokenizer) -> dict[str, int]:
    """Return the ids of the special tokens by the names in config.json."""
    if not isinstance(tokenizer, EncoderTokenizer):
        return {"bos_token_id": tokenizer.bos, "eos_token_id": tokenizer.eos}
    special = tokenizer.special_tokens
    return {"pad_token_id": special.pad, "bos_token_id": special.start, "eos_token_id": special.end}


def write_tokenizer(
    tokenizer: TextTokenizer, folder: Path, max_length: int, *, has_template: bool = False
) -> None:
    """Write tokenizer.json in Hugging Face's format, and tokenizer_config.json for transformers.

    has_template: whether a chat template writes special tokens into texts, where they must not be
    plain text.
    """
    engine = _engine(tokenizer, folder)
    prefix = prefix_ids(tokenizer)
    if prefix and not isinstance(tokenizer, PretrainedTokenizer):  # whose own file specifies it
        names = [engine.id_to_token(i) for i in prefix]
        engine.post_processor = processors.TemplateProcessing(
            single=[*names, "$A"],
            special_tokens=list(zip(names, prefix, strict=True)),
        )
    roles = {"bos_token": tokenizer.bos, "eos_token": tokenizer.eos}
    # without a template, the text of a special token in an input is plain text
    write_engine(engine, folder, roles, max_length, split_special_tokens=not has_template)


def prefix_ids(tokenizer: TextTokenizer) -> list[int]:
    """Return the ids that the tokenizer adds at the beginning of a text, mostly [bos]."""
    text = next((text for text in verification_texts(tokenizer) if text), "")
    whole, inner = tokenizer.begin(text), tokenizer.encode(text)
    return whole[: len(whole) - len(inner)]


def _engine(tokenizer: TextTokenizer, folder: Path) -> tokenizers.Tokenizer:
    """Return the tokenizer for Hugging Face's library: the file of `save` if the library can load
    it, else one of single characters."""
    if isinstance(tokenizer, PretrainedTokenizer):
        return PretrainedTokenizer.engine_of(tokenizer.engine_json, str(folder))
    tokenizer.save(folder)
    try:
        return tokenizers.Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    except Exception:  # the library raises bare Exception for a file that is not its own
        return _characters(tokenizer)


def _characters(tokenizer: TextTokenizer) -> tokenizers.Tokenizer:
    """Return the same tokens as a byte-pair encoding without merges.

    Raises UsageError if a token is longer than one character.
    """
    specials = {tokenizer.bos, tokenizer.eos}
    names = [
        tokenizer.token_strings([i])[0] if i in specials else tokenizer.decode([i])
        for i in range(tokenizer.size)
    ]
    for index, name in enumerate(names):
        if index not in specials and len(name) != 1:
            raise UsageError(
                f"token {index} of the tokenizer, {name!r}, is not a single character: this "
                "tokenizer cannot be represented in Hugging Face's format"
            )
    if len(set(names)) < len(names):
        raise UsageError(
            "two tokens of the tokenizer have the same text: this tokenizer cannot be "
            "represented in Hugging Face's format"
        )
    vocabulary = {name: index for index, name in enumerate(names)}
    engine = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    engine.decoder = decoders.Fuse()
    engine.add_special_tokens([names[index] for index in sorted(specials)])
    return engine


def verification_texts(
    tokenizer: TextTokenizer | EncoderTokenizer | SentenceTokenizer,
) -> list[str]:
    """Return the texts for the verification: fixed ones, and the texts of random ids."""
    generator = torch.Generator().manual_seed(0)
    random_ids = torch.randint(
        0, tokenizer.size, (DRAWN, DRAWN_LENGTH), generator=generator
    ).tolist()
    return [
        text for text in (*TEXTS, *map(tokenizer.decode, random_ids)) if _encodes(tokenizer, text)
    ]


def _encodes(tokenizer: TextTokenizer | EncoderTokenizer | SentenceTokenizer, text: str) -> bool:
    """Return whether the tokenizer can encode the text; one of characters rejects unknown ones."""
    try:
        tokenizer.encode(text)
    except HeadwayError:
        return False
    return True


def check_tokenizer(tokenizer: TextTokenizer, folder: Path, where: str) -> int:
    """Return the number of texts for which the file in `folder` gives the ids of `tokenizer`.

    Raises HeadwayError for a text with other ids.
    """
    engine = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    exported = PretrainedTokenizer(engine, tokenizer.bos, tokenizer.eos, tokenizer.ends)
    texts = verification_texts(tokenizer)
    for text in texts:
        check_same_ids(text, tokenizer.encode(text), exported.encode(text), where)
        if text:  # ours must begin with a token, theirs need not
            check_same_ids(text, tokenizer.begin(text), exported.begin(text), where)
    return len(texts)


def check_same_ids(text: str, ours: Sequence[int], theirs: Sequence[int], where: str) -> None:
    """Raise HeadwayError for a text that the written tokenizer encodes differently."""
    if list(ours) != list(theirs):
        raise HeadwayError(
            f"the written tokenizer encodes {text!r} as {_first_ids(theirs)}, not as "
            f"{_first_ids(ours)}; the folder was removed",
            where,
        )


def _first_ids(ids: Sequence[int]) -> str:
    return f"{list(ids[:8])}" + (" ..." if len(ids) > 8 else "")
