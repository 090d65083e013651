"""How a terminal and an inference server show captions, and the scores of a captioner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headway.base.errors import UsageError, index_from_one
from headway.evaluation.scores import Scores
from headway.inspection.ablation import layers_of
from headway.inspection.image_attention import look
from headway.inspection.image_overlays import overlays
from headway.tasks.captioning.bundle import CaptionerBundle
from headway.tasks.captioning.prediction import CaptionedFile, CaptionOptions
from headway.tasks.task import Styled


def prediction_lines(
    bundle: CaptionerBundle, prediction: CaptionedFile, options: CaptionOptions
) -> list[Styled]:
    """Format one line per caption: file, language, score and text, separated by tabs.

    The language is shown if several languages were requested, the score if there are several
    captions.
    """
    several = len(prediction.captions) > len(options.languages)
    lines: list[Styled] = []
    for caption in prediction.captions:
        cells = [prediction.file]
        if len(options.languages) > 1:
            cells.append(str(caption.language))
        if several:
            cells.append(f"{caption.score:.4f}")
        # line breaks in a generated text become spaces, so that a caption is one line
        lines.append([("\t".join([*cells, " ".join(caption.text.split())]), "")])
    return lines


def pipeline_form(
    bundle: CaptionerBundle, prediction: CaptionedFile, options: CaptionOptions
) -> dict[str, Any]:
    """Return the best caption."""
    return {"generated_text": prediction.captions[0].text}


def draw_words(
    bundle: CaptionerBundle, prediction: CaptionedFile, options: CaptionOptions, path: Path
) -> None:
    """Plot where in the image the model attends for each word of the first caption.

    Raises UsageError if several languages were requested.
    """
    if len(options.languages) > 1:
        raise UsageError(
            f"--plot takes one language, and --language names {len(options.languages)}",
            hint=f"--language {options.languages[0]}",
        )
    (language,), text = options.languages, prediction.captions[0].text
    layer = options.layer
    if layer is not None:
        layer = index_from_one("--layer", layer, len(layers_of(bundle.model)["cross"]))
    maps = look(bundle, prediction.file, text, language=language, layer=layer)
    overlays(path, maps, title=text, one_scale=True)


def score_lines(scores: Scores) -> list[str]:
    """Format the scores of each language, and their means if there are several languages."""
    values = scores.as_dict()
    languages = values.get("languages") or [values]
    lines = [line for row in languages for line in _language_lines(row, values)]
    if len(languages) > 1:
        means = "   ".join(f"{title} {values[name]:.2f}" for name, title in TITLES.items())
        lines.append(f"mean of {len(languages)} languages: {means}   nats {values['nats']:.3f}")
    return lines


TITLES = {"cider": "CIDEr-D", "bleu": "BLEU", "chrf": "chrF"}


def _language_lines(row: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[str]:
    images = f"{row['images']:,} images ({values['split']})"
    yield f"{row['language']}: {images}, beam {values['beam']}"
    yield f"CIDEr-D {row['cider']:.2f}"
    yield f"BLEU {row['bleu']:.2f}   {row['bleu_signature']}"
    yield f"chrF {row['chrf']:.2f}   {row['chrf_signature']}"
    yield f"nats {row['nats']:.3f}   per token of the reference captions"
    for failure in row.get("worst", ()):
        yield f"{failure['cider']:.2f}  {failure['image']}"
        yield f"      output      {failure['output']}"
        yield f"      references  {' | '.join(failure['references'])}"
