"""How surprised an encoder is by text: what `headway eval` says of one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.console import data, data_json, talk
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.bundle import EncoderBundle
    from headway.machine import Machine
    from headway.recipes.encoder_config import EncoderRunConfig
    from headway.recipes.encoder_scores import RowScores


ROWS = 2000  # held-out rows of each text


def show_surprise(
    bundle: EncoderBundle,
    places: tuple[Path, Path | None],
    sentences: int,
    json: bool,
    machine: Machine,
) -> None:
    """How surprised the encoder is by sentences, taken evenly from a text; of a run's own held-out
    text also hidden words and next sentences, each text by itself. places: a run or model folder,
    and a text or None for what the run held out."""
    from headway.evaluation import pseudo_perplexity
    from headway.recipes import saved
    from headway.recipes.encoder_config import EncoderRunConfig
    from headway.recipes.encoder_data import sentences_to_judge

    run, path = places
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
    by_text: dict[str, RowScores] = {}
    if path is None and isinstance(config, EncoderRunConfig):
        with talk.status("guessing the hidden words of held-out rows"):
            by_text = _by_text(bundle, config, run, machine)
    if json:
        numbers = {"a_token": found.a_token, "a_word": found.a_word, "fertility": found.fertility}
        rows = {text: scores.numbers() for text, scores in by_text.items()}
        data_json(
            {
                "pseudo_perplexity": numbers,
                **asdict(found),
                "sentences": len(texts),
                "held_out_rows": rows,
            }
        )
        return
    data(
        f"pseudo-perplexity {found.a_token:.2f} a token, {found.a_word:.2f} a word   "
        f"{found.fertility:.3f} tokens a word, {len(texts):,} sentences"
    )
    for text, scores in by_text.items():
        data(_line(text, scores))


def _by_text(
    bundle: EncoderBundle, config: EncoderRunConfig, run: Path, machine: Machine
) -> dict[str, RowScores]:
    from headway.recipes.encoder_scores import held_out_folders, scores_by_text

    missing = [str(place) for place in held_out_folders(config, run).values() if not place.is_dir()]
    if missing or bundle.model.masked_words is None:
        talk.print(f"hidden words are not judged: {', '.join(missing) or 'no head for them'}")
        return {}
    return scores_by_text(bundle, config, run, ROWS, machine)


def _line(text: str, scores: RowScores) -> str:
    numbers = scores.numbers()
    words = f"{numbers['mlm_nats']:.3f} nats a hidden word, {numbers['mlm_accuracy']:.1%} guessed"
    pairs = ""
    if "nsp_accuracy" in numbers:
        pairs = f"; {numbers['nsp_accuracy']:.1%} of {scores.pairs:,} next sentences told"
    return f"{text}: {words}{pairs}"
