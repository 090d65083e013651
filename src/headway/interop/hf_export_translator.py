"""Write a translator and its tokenizers as a Hugging Face folder."""

import json
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer as Engine
from tokenizers import processors

from headway.base.errors import HeadwayError, UsageError
from headway.base.files import json_bytes, read_json, write_file
from headway.base.shapes import Int, Tensor
from headway.interop.added_tokens import declared_in_config
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.generation_config import GenerationDefaults
from headway.interop.hf_export import TEXTS, check_same_ids
from headway.interop.hf_folders import fitting, write, write_generation_config
from headway.interop.language_model_tokenizers import VOCABULARY_FILE
from headway.interop.named_tokens import NAMES_FILES
from headway.interop.tokenizer_engines import write_engine
from headway.interop.translator_languages import code_of
from headway.interop.translator_tokenizers import (
    FAIRSEQ_MODEL,
    SOURCE_MODEL,
    T5_MODEL,
    TARGET_MODEL,
    UNKNOWN,
    read_translator_tokenizers,
)
from headway.models import Translator, TranslatorConfig
from headway.models.contracts import set_parameters, shapes_only
from headway.text import LANGUAGE_TAG, LanguageTokens, PretrainedSentenceTokenizer, TokenizerPair
from headway.text.hf_tokenizer import FILE, FILE_LIMIT
from headway.transforms.quantize import float32_copy

READS = ("query", "key", "value", "expand")
"""Layers whose inputs are the vectors between layers; all others write them."""


def write_translator(
    model: Translator,
    tokenizer: TokenizerPair,
    folder: str | Path,
    family: str | None = None,
    settings: FolderSettings = NO_SETTINGS,
) -> str:
    """Write a translator for transformers, with the tokenizers; return its class there.

    A post-norm translator with sinusoidal positions becomes a MarianMT, a pre-norm one a Pegasus.
    family: a key of `FAMILIES`; if None, the first that can represent the model. settings: those of
    the pretrained folder that the model is from; without, a search by four beams. Raises UsageError
    for a model or tokenizer that cannot be represented and for a folder with a model; HeadwayError
    if the tokenizers in the folder give texts other ids.
    """
    folder, model = Path(folder), float32_copy(model).eval()
    fitting(config_with_halves(model.config), family)
    _check_tokenizers(tokenizer)
    side = tokenizer.target
    ids = {
        "pad_token_id": side.pad,
        "bos_token_id": side.bos,
        "eos_token_id": side.eos,
        "decoder_start_token_id": side.bos,
        "forced_eos_token_id": side.eos,
    }
    if settings.generation is not None and not settings.generation.forced_end:
        del ids["forced_eos_token_id"]
    if side.prefix:
        ids["forced_bos_token_id"] = side.prefix[0]
    written = write(with_halves(model), folder, family, ids)
    if settings.generation is None:
        never = sorted({side.pad, side.bos} - {side.eos})
        searching = {
            "bad_words_ids": [[token] for token in never],
            "num_beams": 4,
            "max_length": model.config.max_length,
        }
        settings = FolderSettings(generation=GenerationDefaults(values=searching))
    write_generation_config(ids, side.ends, settings, folder)
    write_translator_tokenizers(tokenizer, folder, model.config.max_length)
    _check_written(tokenizer, folder, str(folder))
    return written


def with_halves(model: Translator) -> Translator:
    """Return a translator that computes the same, with all sines before all cosines in its
    positions and with a bias of the logits; the model itself if it has no sinusoids in pairs.

    Feature i of its vectors between layers is feature 2i of ours, and feature D/2 + i is feature
    2i + 1: the columns of all matrices that read these vectors and the rows of all that write them
    are reordered.
    """
    config = config_with_halves(model.config)
    if config == model.config:
        return model
    order = order_of_halves(config.model_dim)
    with shapes_only():
        twin = Translator(config)
    values = {
        name: _reordered(name, parameter.detach(), order)
        for name, parameter in model.named_parameters()
    }
    bias = torch.zeros(config.target_vocabulary, device=model.output.weight.device)
    values.setdefault("output.bias", bias)
    set_parameters(twin, {name: value.clone() for name, value in values.items()})
    return twin.eval()


def order_of_halves(model_dim: int) -> Int[Tensor, " D"]:
    """Return, for each feature of a model with halves, the feature of one with pairs."""
    features = torch.arange(model_dim)
    return torch.cat((features[::2], features[1::2]))


def config_with_halves(config: TranslatorConfig) -> TranslatorConfig:
    """Return the configuration of `with_halves`: the same for a model without pairs."""
    if config.positions != "sinusoidal" or config.sinusoids != "pairs":
        return config
    return replace(config, sinusoids="halves", output_bias=True)


def _reordered(name: str, values: Tensor, order: Tensor) -> Tensor:
    """Return a parameter whose axes along the vectors between layers are in this order."""
    layer, kind = name.split(".")[-2:]
    if name == "output.bias":
        return values
    if kind == "weight" and (layer in (*READS, "tokens") or name == "output.weight"):
        return values[:, order]
    return values if layer in READS else values[order]


def _check_tokenizers(tokenizer: TokenizerPair) -> None:
    pretrained = isinstance(tokenizer.source, PretrainedSentenceTokenizer)
    if not tokenizer.joint and not pretrained:
        raise UsageError(
            "the model has a tokenizer for each language, and a Hugging Face folder has one",
            hint="train with --data.joint true",
        )


def write_translator_tokenizers(tokenizer: TokenizerPair, folder: Path, max_length: int) -> None:
    """Write the files of the tokenizers: tokenizer.json, or the two models of MarianMT."""
    source, target = tokenizer.source, tokenizer.target
    if tokenizer.languages is not None:
        _write_multilingual(tokenizer, tokenizer.languages, folder)
        return
    if isinstance(source, PretrainedSentenceTokenizer) and source.sentencepiece is not None:
        assert isinstance(target, PretrainedSentenceTokenizer)
        if tokenizer.joint:
            write_file(folder / T5_MODEL, source.sentencepiece)
            if source.added:
                values = {"tokenizer_class": "T5Tokenizer", **declared_in_config(source)}
                write_file(folder / NAMES_FILES[0], json_bytes(values))
            return
        for file, side in ((SOURCE_MODEL, source), (TARGET_MODEL, target)):
            write_file(folder / file, side.sentencepiece or b"")
        ids = {token: index for index, token in enumerate(source.tokens)}
        write_file(folder / VOCABULARY_FILE, json_bytes(ids))
        tokenizer_config = {
            "tokenizer_class": "MarianTokenizer",
            "pad_token": source.tokens[source.pad],
            "eos_token": source.tokens[source.eos],
            "unk_token": UNKNOWN,
            "model_max_length": max_length,
            **declared_in_config(source),
        }
        write_file(folder / NAMES_FILES[0], json_bytes(tokenizer_config))
        return
    roles = {"pad_token": source.pad, "eos_token": source.eos, "bos_token": source.bos}
    # the text of a special token in an input is plain text
    engine = _engine(tokenizer, folder)
    write_engine(engine, folder, roles, max_length, split_special_tokens=True)


def _write_multilingual(pair: TokenizerPair, languages: LanguageTokens, folder: Path) -> None:
    """Write tokenizer.json, or the SentencePiece model with its vocabulary, and the chosen
    languages as `src_lang` and `tgt_lang`.

    The class of the tokenizer follows from the tokens and their positions.
    """
    source, target = pair.source, pair.target
    assert isinstance(source, PretrainedSentenceTokenizer)
    assert isinstance(target, PretrainedSentenceTokenizer)
    names = sorted(languages.ids.values())
    tokens = [source.tokens[index] for index in names]
    values: dict[str, object] = {
        "tokenizer_class": _class_of(languages, tokens[0]),
        "src_lang": source.language,
        "tgt_lang": target.language,
        "legacy_behaviour": languages.after_source,
        "split_special_tokens": True,  # the text of a special token in an input is plain text
    }
    if source.sentencepiece is None:
        content = json.dumps(source.engine_json, ensure_ascii=False)
        write_file(folder / FILE, content.encode())
    else:
        write_file(folder / FAIRSEQ_MODEL, source.sentencepiece)
        values["additional_special_tokens"] = tokens
        values |= declared_in_config(source)
        if values["tokenizer_class"] == "M2M100Tokenizer":
            ids = {token: index for index, token in enumerate(source.tokens[: names[0]])}
            write_file(folder / VOCABULARY_FILE, json.dumps(ids, ensure_ascii=False).encode())
    write_file(folder / NAMES_FILES[0], json_bytes(values))


def _class_of(languages: LanguageTokens, token: str) -> str:
    """Return the class of transformers. token: that of one of the languages."""
    if languages.starts_target:
        return "MBartTokenizer"
    if token.startswith("__"):
        return "M2M100Tokenizer"
    return "MBart50Tokenizer" if str(code_of(token))[-2:].isupper() else "NllbTokenizer"


def _engine(tokenizer: TokenizerPair, folder: Path) -> Engine:
    """Return the tokenizer for Hugging Face's library, which adds </s> after a text.

    The tags of target languages, such as <2de>, are ordinary tokens there.
    """
    source = tokenizer.source
    if isinstance(source, PretrainedSentenceTokenizer):
        return Engine.from_str(json.dumps(source.engine_json))
    source.save(folder / FILE)
    content = read_json(folder / FILE, FILE_LIMIT)
    for token in content["added_tokens"]:
        # `split_special_tokens` leaves ordinary tokens as they are
        token["special"] = LANGUAGE_TAG.fullmatch(token["content"]) is None
    engine = Engine.from_str(json.dumps(content))
    end = str(engine.id_to_token(source.eos))
    engine.post_processor = processors.TemplateProcessing(
        single=["$A", end], special_tokens=[(end, source.eos)]
    )
    return engine


def _check_written(tokenizer: TokenizerPair, folder: Path, where: str) -> int:
    """Return the number of texts that the written tokenizers encode as ours.

    Raises HeadwayError for a text with other ids.
    """
    written = read_translator_tokenizers(folder, tokenizer.target.size)
    sides = [(tokenizer.source, written.source), (tokenizer.target, written.target)]
    ends = [(pair.source.eos, pair.target.bos, pair.target.eos) for pair in (tokenizer, written)]
    if ends[0] != ends[1]:
        raise HeadwayError(
            f"the first and last tokens of the written tokenizer are {ends[1]}, not {ends[0]}; the "
            "folder was removed",
            where,
        )
    tags = [f"<2{language}> " for language in tokenizer.source.language_tags]
    for text in [*TEXTS, *(tag + text.strip() for tag in tags for text in TEXTS if text)]:
        encodings = [(ours.encode(text), theirs.encode(text)) for ours, theirs in sides]
        if tags and (folder / FILE).exists():  # their library has to find the tag by itself
            engine = Engine.from_file(str(folder / FILE))
            engine.encode_special_tokens = True
            ids = engine.encode(text).ids
            encodings.append(([*tokenizer.source.encode(text), tokenizer.source.eos], ids))
        for ours, theirs in encodings:
            check_same_ids(text, ours, theirs, where)
    return len(TEXTS)
