"""How surprised an encoder is by text: what `headway eval` says of one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json, talk
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.bundle import EncoderBundle


def show_surprise(
    bundle: EncoderBundle, run: Path, path: Path | None, sentences: int, json: bool
) -> None:
    """How surprised the encoder is by sentences, taken evenly from a text."""
    from headway.evaluation import pseudo_perplexity
    from headway.recipes import saved
    from headway.recipes.encoder_config import EncoderRunConfig
    from headway.recipes.encoder_data import sentences_to_judge

    config = saved(run) if (run / "run.yaml").is_file() else None
    known = config.data if isinstance(config, EncoderRunConfig) else None
    if path is None and known is None:
        raise UsageError(
            f"{run} does not say what it was trained on",
            hint="name a file of pairs (a table) or of text",
        )
    texts = sentences_to_judge(known, path, sentences)
    with talk.status(f"hiding every word of {len(texts):,} sentences"):
        found = pseudo_perplexity(bundle, texts)
    if json:
        numbers = {"a_token": found.a_token, "a_word": found.a_word, "fertility": found.fertility}
        data_json({"pseudo_perplexity": numbers, **asdict(found), "sentences": len(texts)})
        return
    data(
        f"pseudo-perplexity {found.a_token:.2f} a token, {found.a_word:.2f} a word   "
        f"{found.fertility:.3f} tokens a word, {len(texts):,} sentences"
    )
