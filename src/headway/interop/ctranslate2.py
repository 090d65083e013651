"""Folders of CTranslate2, a C++ library for decoding: model.bin, config.json, vocabularies.

The specification classes of the package `ctranslate2` write the file (`ctranslate2_spec`);
`exporting.ctranslate2` runs it in the package.
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import tokenizers
import torch

from headway.base.errors import HeadwayWarning, UsageError
from headway.interop.ctranslate2_spec import ACTIVATIONS, Spec, language_model_spec, translator_spec
from headway.interop.hf_export import TOKENIZER_FILE, write_tokenizer
from headway.interop.hf_export_translator import write_translator_tokenizers
from headway.interop.weight_names import needs
from headway.models import GPT, GPTConfig, Translator, TranslatorConfig
from headway.text import (
    PretrainedSentenceTokenizer,
    SentenceTokenizer,
    TextTokenizer,
    TokenizerPair,
)
from headway.text.tokenizer_pair import JOINT_FILE, SOURCE_FILE, TARGET_FILE
from headway.transforms.quantize import float32_copy

DTYPES = ("float32", "int8", "int16", "float16", "bfloat16")
"""Numbers in which CTranslate2 stores matrices; int8 and int16 have a scale for each row."""

MODEL_FILE = "model.bin"
TRANSLATOR, GENERATOR = "Translator", "Generator"
"""The classes of the package that load a folder."""

IMPOSSIBLE = -1e4
"""Added to the logits of <pad> and <s>, which no translation contains; float16 can hold it."""


def write_ctranslate2(
    model: GPT | Translator,
    tokenizer: TextTokenizer | TokenizerPair,
    folder: Path,
    dtype: str = "float32",
) -> str:
    """Write a model into a folder, with its tokenizer; return the class that loads it.

    dtype: one of `DTYPES`. A file of other numbers in the folder is replaced. The model is one of
    which `ctranslate2_lacks` nothing. Raises UsageError if the package is not installed.
    """
    specs, model = package().specs, float32_copy(model).eval()
    if isinstance(model, Translator):
        assert isinstance(tokenizer, TokenizerPair)
        spec, loader = _translator(specs, model, tokenizer, folder), TRANSLATOR
    else:
        assert not isinstance(tokenizer, TokenizerPair)
        spec, loader = _language_model(specs, model, tokenizer, folder), GENERATOR
    spec.validate()
    if dtype != "float32":
        spec.optimize(quantization=dtype)
    spec.save(str(folder))
    return loader


def _translator(specs: Spec, model: Translator, tokenizer: TokenizerPair, folder: Path) -> Spec:
    """Return the specification of a translator with its vocabularies; write the tokenizers."""
    spec, target = translator_spec(specs, model), tokenizer.target
    spec.decoder.projection.bias = _impossible(model, tokenizer)
    names, target_names = _written_tokens(model, tokenizer, folder)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(target_names)
    spec.config.add_source_eos = True
    spec.config.eos_token = target_names[target.eos]
    _warn_of_ends([target_names[end] for end in target.ends])
    spec.config.bos_token = spec.config.decoder_start_token = target_names[target.bos]
    spec.config.unk_token = target_names[_unknown(target)]
    return spec


def _language_model(specs: Spec, model: GPT, tokenizer: TextTokenizer, folder: Path) -> Spec:
    """Return the specification of a language model with its vocabulary; write the tokenizer."""
    spec = language_model_spec(specs, model)
    write_tokenizer(tokenizer, folder, model.config.max_length)
    names = _vocabulary(folder / TOKENIZER_FILE)
    names += [f"<unused {i}>" for i in range(len(names), model.config.vocabulary)]
    spec.register_vocabulary(names)
    spec.config.bos_token = names[tokenizer.bos]
    spec.config.eos_token = spec.config.unk_token = names[tokenizer.eos]
    _warn_of_ends([names[end] for end in tokenizer.ends])
    return spec


def ctranslate2_lacks(
    model: GPT | Translator, tokenizer: TextTokenizer | TokenizerPair
) -> list[str]:
    """Return what CTranslate2 cannot represent: settings and special tokens."""
    if isinstance(model, GPT):
        return language_model_lacks(model.config)
    assert isinstance(tokenizer, TokenizerPair)
    reasons = translator_lacks(model.config)
    if tokenizer.languages is not None:
        reasons.append("tokens of the source and the target language (must be none)")
    elif tokenizer.source.prefix or tokenizer.target.prefix:
        reasons.append("a special token before every text (must be none)")
    return reasons


def _warn_of_ends(names: Sequence[str]) -> None:
    """Warn if several tokens end an output: a folder of CTranslate2 names one of them."""
    if len(names) > 1:
        text = f"the folder names one token that ends an output; give all to CTranslate2: {names}"
        warnings.warn(f"{text} (end_token)", HeadwayWarning, stacklevel=3)


def translator_lacks(config: TranslatorConfig) -> list[str]:
    """Return the settings of a translator that CTranslate2 cannot represent."""
    return needs(
        config,
        {
            "encoder": ("transformer",),
            "decoder": ("transformer",),
            "attention": ("scaled-dot", "dot"),
            "positions": ("sinusoidal", "learned", "rotary", "relative"),
            "position_dim": (0,),
            "activation": tuple(ACTIVATIONS),
        },
    )


def language_model_lacks(config: GPTConfig) -> list[str]:
    """Return the settings of a language model that CTranslate2 cannot represent."""
    supported = {
        "attention": ("scaled-dot",),
        "positions": ("sinusoidal", "learned", "rotary", "alibi"),
        "activation": tuple(ACTIVATIONS),
    }
    return needs(config, supported) + config.options


def package() -> Any:
    """Return the package `ctranslate2`. Raises UsageError if it is not installed."""
    try:
        import_module("ctranslate2.specs")
        return import_module("ctranslate2")
    except ImportError as error:
        raise UsageError(
            "an export to CTranslate2 needs the package ctranslate2, which writes its files",
            hint="pip install 'headway[ctranslate2]'",
        ) from error


def _impossible(model: Translator, tokenizer: TokenizerPair) -> Any:
    """Return the bias of the logits, by which a translation contains neither <pad> nor <s>."""
    bias = torch.zeros(model.config.target_vocabulary)
    if model.output.bias is not None:
        bias += model.output.bias.detach().cpu()
    bias[list({tokenizer.target.pad, tokenizer.target.bos} - {tokenizer.target.eos})] = IMPOSSIBLE
    return bias.numpy()


def _written_tokens(
    model: Translator, tokenizer: TokenizerPair, folder: Path
) -> tuple[list[str], list[str]]:
    """Write the tokenizers, pretrained ones in the form of their library; return the strings of all
    tokens of both sides."""
    source, target = tokenizer.source, tokenizer.target
    if isinstance(source, PretrainedSentenceTokenizer):
        assert isinstance(target, PretrainedSentenceTokenizer)
        write_translator_tokenizers(tokenizer, folder, model.config.max_length)
        return [*source.tokens], [*target.tokens]
    tokenizer.save(folder)
    files = (JOINT_FILE, JOINT_FILE) if tokenizer.joint else (SOURCE_FILE, TARGET_FILE)
    names, target_names = (_vocabulary(folder / name) for name in files)
    return names, target_names


def _unknown(tokenizer: SentenceTokenizer) -> int:
    """Return the token of unknown words; <pad> where bytes are tokens, so that none is unknown."""
    unknown = None
    if isinstance(tokenizer, PretrainedSentenceTokenizer):
        unknown = tokenizer.roles.unknown
    return tokenizer.pad if unknown is None else unknown


def _vocabulary(path: Path) -> list[str]:
    """Return the strings of all tokens of a tokenizer that was written."""
    engine = tokenizers.Tokenizer.from_file(str(path))
    return [str(engine.id_to_token(i)) for i in range(engine.get_vocab_size())]
