"""Folders of CTranslate2, a C++ library for decoding: model.bin, config.json, vocabularies.

The specification classes of the package `ctranslate2` write the file (`ctranslate2_spec`). The
package then loads it, and the log-probabilities that it gives to random sequences are compared with
those of the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import tokenizers
import torch

from headway.base.errors import HeadwayWarning, UsageError
from headway.base.folders import new_folder
from headway.base.shapes import Float, Tensor
from headway.interop.ctranslate2_spec import ACTIVATIONS, Spec, language_model_spec, translator_spec
from headway.interop.hf_export import TOKENIZER_FILE, check_difference, write_tokenizer
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

IMPOSSIBLE = -1e4
"""Added to the logits of <pad> and <s>, which no translation contains; float16 can hold it."""

SEQUENCES, LENGTH = 8, 24
"""Number and length of the random sequences that are compared."""

Scores = list[list[float]]
"""For each sequence the log-probability of each of its tokens."""


@dataclass(frozen=True)
class ExportedCTranslate2:
    """The result of an export.

    folder: where it is. loader: the class of CTranslate2 that loads it. dtype: the numbers of the
    matrices. difference: maximum absolute difference, in nats, between the log-probabilities of
    tokens by the model and by its float32 form in CTranslate2. rounding: the same for the numbers
    that were written. sequences: the number of sequences that were compared.
    """

    folder: Path
    loader: str
    dtype: str
    difference: float
    rounding: float
    sequences: int = SEQUENCES


def export_translator(
    model: Translator, tokenizer: TokenizerPair, folder: str | Path, dtype: str = "float32"
) -> ExportedCTranslate2:
    """Write a folder for `ctranslate2.Translator`, with the tokenizers; on any error no folder is
    left.

    dtype: one of `DTYPES`. Raises UsageError for a model that cannot be represented, with all
    reasons, for a folder that exists and if the package is not installed; HeadwayError if
    log-probabilities differ by more than 1e-4 in float32.
    """
    reasons = translator_lacks(model.config)
    if tokenizer.languages is not None:
        reasons.append("tokens of the source and the target language (must be none)")
    elif tokenizer.source.prefix or tokenizer.target.prefix:
        reasons.append("a special token before every text (must be none)")
    _check(reasons)
    package, folder = _package(dtype), Path(folder)
    model = float32_copy(model).eval()
    spec = translator_spec(package.specs, model)
    spec.decoder.projection.bias = _impossible(model, tokenizer)
    source, target = tokenizer.source, tokenizer.target
    with new_folder(folder) as temporary:
        names, target_names = _written_tokens(model, tokenizer, temporary)
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(target_names)
        spec.config.add_source_eos = True
        spec.config.eos_token = target_names[target.eos]
        _warn_of_ends([target_names[end] for end in target.ends])
        spec.config.bos_token = spec.config.decoder_start_token = target_names[target.bos]
        spec.config.unk_token = target_names[_unknown(target)]
        sources, targets = (
            _random_ids(sorted({*range(side.size)} - {*side.special_ids.values()}))
            for side in (source, target)
        )

        def score(written: Path) -> Scores:
            loaded = package.Translator(str(written), intra_threads=1)
            batch = [_strings(names, sources), _strings(target_names, targets)]
            return [result.log_probs for result in loaded.score_batch(*batch)]

        ours = [
            _log_p_of_translation(model, spec.decoder.projection.bias, tokenizer, *pair)
            for pair in zip(sources, targets, strict=True)
        ]
        differences = _write(spec, temporary, dtype, ours, score, folder)
    return ExportedCTranslate2(folder, "Translator", dtype, *differences)


def export_language_model(
    model: GPT, tokenizer: TextTokenizer, folder: str | Path, dtype: str = "float32"
) -> ExportedCTranslate2:
    """Write a folder for `ctranslate2.Generator`, with the tokenizer; on any error no folder is
    left.

    dtype: one of `DTYPES`. Raises what `export_translator` raises.
    """
    _check(language_model_lacks(model.config))
    package, folder = _package(dtype), Path(folder)
    model = float32_copy(model).eval()
    spec = language_model_spec(package.specs, model)
    with new_folder(folder) as temporary:
        write_tokenizer(tokenizer, temporary, model.config.max_length)
        names = _vocabulary(temporary / TOKENIZER_FILE)
        names += [f"<unused {i}>" for i in range(len(names), model.config.vocabulary)]
        spec.register_vocabulary(names)
        spec.config.bos_token = names[tokenizer.bos]
        spec.config.eos_token = spec.config.unk_token = names[tokenizer.eos]
        _warn_of_ends([names[end] for end in tokenizer.ends])
        length = min(LENGTH, model.config.max_length)
        rows = _random_ids(range(tokenizer.size), length)

        def score(written: Path) -> Scores:
            loaded = package.Generator(str(written), intra_threads=1)
            return [result.log_probs for result in loaded.score_batch(_strings(names, rows))]

        ours = [_log_p(model(torch.tensor([row]))[0, :-1], row[1:]) for row in rows]
        differences = _write(spec, temporary, dtype, ours, score, folder)
    return ExportedCTranslate2(folder, "Generator", dtype, *differences)


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


def _check(reasons: Sequence[str]) -> None:
    if reasons:
        raise UsageError(
            f"this model cannot be represented in CTranslate2's format: {', '.join(reasons)}",
            hint="keep it as a Headway model, or train one with these settings",
        )


def _package(dtype: str) -> Any:
    """Return the package `ctranslate2`. Raises UsageError if it is not installed, and for a dtype
    that it does not have."""
    if dtype not in DTYPES:
        raise UsageError(f"unknown dtype {dtype}", hint=f"one of: {', '.join(DTYPES)}")
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


def _strings(names: Sequence[str], rows: Sequence[Sequence[int]]) -> list[list[str]]:
    return [[names[i] for i in row] for row in rows]


def _random_ids(ids: Sequence[int], length: int = LENGTH) -> list[list[int]]:
    """Return random sequences of these ids; they have different lengths."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(len(ids), (SEQUENCES, length), generator=generator).tolist()
    return [[ids[i] for i in row[: max(2, length - n)]] for n, row in enumerate(rows)]


@torch.no_grad()
def _log_p(logits: Float[Tensor, "T V"], tokens: Sequence[int]) -> list[float]:
    log_p: list[float] = logits.log_softmax(-1)[range(len(tokens)), list(tokens)].tolist()
    return log_p


@torch.no_grad()
def _log_p_of_translation(
    model: Translator,
    bias: object,
    tokenizer: TokenizerPair,
    source: Sequence[int],
    target: Sequence[int],
) -> list[float]:
    inputs = torch.tensor([[*source, tokenizer.source.eos]])
    read = torch.tensor([[tokenizer.target.bos, *target]])
    hidden = model.decode(read, model.encode(inputs))[0]
    logits = hidden @ model.output.weight.T + torch.from_numpy(bias)
    return _log_p(logits, [*target, tokenizer.target.eos])


def _write(
    spec: Spec,
    temporary: Path,
    dtype: str,
    ours: Scores,
    score: Callable[[Path], Scores],
    folder: Path,
) -> tuple[float, float]:
    """Write the model in float32 and compare it with ours, then in `dtype`; return both maximum
    differences.

    score: loads what was written and returns the log-probabilities.
    """
    spec.validate()
    spec.save(str(temporary))
    difference = _difference(ours, score(temporary))
    check_difference(difference, "log-probabilities", folder)
    if dtype == "float32":
        return difference, difference
    spec.optimize(quantization=dtype)
    spec.save(str(temporary))
    return difference, _difference(ours, score(temporary))


def _difference(ours: Scores, theirs: Scores) -> float:
    pairs = zip(ours, theirs, strict=True)
    return float(torch.cat([(torch.tensor(a) - torch.tensor(b)).abs() for a, b in pairs]).max())
