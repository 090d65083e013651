"""Checks of the settings of a translation run, before any file is read."""

from __future__ import annotations

from headway.base.errors import UsageError
from headway.tasks.translation.config import TranslationRunConfig
from headway.tasks.translation.random_splits import check_random_splits
from headway.tasks.translation.span_corruption import SENTINELS


def check_settings(config: TranslationRunConfig) -> None:
    """Raise UsageError for settings that cannot work together."""
    _check_guided_alignment(config)
    if config.data.corruption:
        _check_corruption(config)
    is_pretrained = config.training.start is not None
    check_random_splits(config.data, pretrained=is_pretrained)
    model, longest = config.model, config.data.max_length
    if not is_pretrained and model.positions == "learned" and model.max_length <= longest:
        raise UsageError(
            f"model.max_length={model.max_length} is too small: sentences have up to "
            f"data.max_length={longest} tokens and </s>",
            hint=f"--model.max-length {longest + 1} or --data.max-length {model.max_length - 1}",
        )


def _check_guided_alignment(config: TranslationRunConfig) -> None:
    """Raise UsageError for settings of guided alignment that cannot work."""
    data, training, model = config.data, config.training, config.model
    if not training.guided_alignment:
        if data.alignments:
            raise UsageError(
                "data.alignments is set, but training.guided_alignment is 0",
                hint="--training.guided-alignment 0.05, or leave out --data.alignments",
            )
        return
    if len(data.alignments) != len(data.train):
        raise UsageError(
            f"training.guided_alignment needs a file of word alignments for each corpus, but there "
            f"are {len(data.alignments)} files for {len(data.train)} corpora",
            hint="--data.alignments FILE, in the order of the corpora",
        )
    if not model.cross_attention_layers or model.attention == "linear":
        raise UsageError(
            f"training.guided_alignment needs attention weights that sum to 1, but the model has "
            f"model.attention={model.attention}",
            hint="a score with softmax, such as --model.attention scaled-dot",
        )
    for name, value in (("drop", data.noise_drop), ("shuffle", data.noise_shuffle)):
        if value:
            raise UsageError(
                f"data.noise_{name}={value} removes or moves the words that data.alignments counts",
                hint=f"--data.noise-{name} 0 with --training.guided-alignment; noise_mask moves "
                "no word",
            )
    for key, is_set in (
        ("training.recompute", training.recompute),
        ("machine.compile", config.machine.compile),
    ):
        if is_set:
            raise UsageError(
                f"{key}=true does not keep the attention weights that training.guided_alignment "
                "needs",
                hint=f"--{key} false",
            )


def _check_corruption(config: TranslationRunConfig) -> None:
    """Raise UsageError for settings that are not for span corruption."""
    data = config.data
    names = "source target directions weights test bpe_dropout unigram_alpha"
    names += " noise_drop noise_mask noise_shuffle"
    conflicts = [f"data.{name}" for name in (*names.split(), "alignments") if getattr(data, name)]
    conflicts += [] if data.joint else ["data.joint=false"]
    if conflicts:
        raise UsageError(
            f"{conflicts[0]}: span corruption trains one vocabulary on plain text, without pairs, "
            "noise or random segmentations",
            hint="leave it out",
        )
    if config.evaluation.metric != "nats":
        raise UsageError(
            f"evaluation.metric={config.evaluation.metric}: span corruption is evaluated by nats",
            hint="--evaluation.metric nats",
        )
    least = 256 + 3 + SENTINELS
    if config.training.start is None and data.vocabulary < least:
        raise UsageError(
            f"data.vocabulary={data.vocabulary}: span corruption needs at least {least} (256 "
            f"bytes, {SENTINELS} sentinels and 3 other special tokens)",
            hint=f"--data.vocabulary {least} or more",
        )
