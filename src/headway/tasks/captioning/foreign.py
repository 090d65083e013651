"""Conversion of captioners from and to Hugging Face folders (`VisionEncoderDecoderModel`)."""

from __future__ import annotations

from pathlib import Path

from headway import interop
from headway.base.files import read_json
from headway.bundle import folder_max_tokens
from headway.bundle.files import CONFIG_FILE
from headway.interop import Exported
from headway.models import Captioner
from headway.tasks.captioning.bundle import CaptionerBundle
from headway.tasks.captioning.reader import CaptionReader
from headway.text import MissingTokenizer, PretrainedTokenizer

LONGEST = 64
"""Maximum number of tokens of a caption, if the folder does not specify it."""


def from_hugging_face(model: Captioner, folder: Path, model_type: str) -> CaptionerBundle:
    """Make a bundle of the model with the tokenizer and the image reader of the folder.

    It has one language; captions start with the token `decoder_start_token_id` of config.json.
    """
    tokenizer = interop.read_tokenizer(folder)
    start = read_json(folder / CONFIG_FILE).get("decoder_start_token_id")
    if isinstance(tokenizer, MissingTokenizer):
        tokenizer.size = model.config.gpt.vocabulary
    elif type(start) is int:
        tokenizer = PretrainedTokenizer.of_json(
            tokenizer.engine_json, start, tokenizer.eos, str(folder / CONFIG_FILE), tokenizer.ends
        )
    images = interop.read_captioner_images(folder, model.config.vit)
    settings = interop.read_folder_settings(folder, "captioner")
    longest = LONGEST
    if settings.generation is not None:
        longest = folder_max_tokens(settings.generation) or LONGEST
    reader = CaptionReader(images, tokenizer, (), longest)
    return CaptionerBundle(model, reader, settings)


def to_hugging_face(bundle: CaptionerBundle, folder: Path, family: str | None) -> Exported:
    """Write a Hugging Face folder with the captioner, its tokenizer and its image reader."""
    parts = (bundle.reader.images, bundle.reader.tokenizer)
    return interop.export_captioner(
        bundle.model, *parts, folder, bundle.languages, family, bundle.settings
    )
