"""Export image models and captioners with their preprocessing as verified Hugging Face folders."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import tokenizers
import torch

from headway.base.errors import HeadwayError, UsageError
from headway.base.files import read_json, write_file
from headway.base.folders import new_folder
from headway.base.shapes import Tensor
from headway.data.image_reader import ImageReader
from headway.interop import captioner
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.hf_config import HFConfig
from headway.interop.hf_export import (
    ROWS,
    TOKENIZER_FILE,
    Exported,
    check_tokenizer,
    compare,
    random_ids,
    write_tokenizer,
)
from headway.interop.hf_folders import CONFIG_FILE, ImageModel, write, write_generation_config
from headway.interop.preprocessor_config import read_image_reader, write_image_reader
from headway.models import Captioner, ViT, ViTConfig
from headway.text import TextTokenizer
from headway.transforms.quantize import float32_copy


def export_images(
    model: ImageModel,
    reader: ImageReader,
    folder: str | Path,
    family: str | None = None,
    labels: Sequence[str] | None = None,
) -> Exported:
    """Write a folder for transformers, with preprocessor_config.json.

    The export is verified: the weights are loaded again and must reproduce the model's outputs for
    random pixels to 1e-4, and the image preprocessing must equal `reader`; on any error
    no folder is left. labels: names of a classifier's classes. Raises HeadwayError if the
    verification fails, UsageError for a model that cannot be represented and for a folder that
    exists.
    """
    folder, model = Path(folder), float32_copy(model)
    with new_folder(folder) as temporary:
        written = write(model, temporary, family, labels=labels)
        write_image_reader(reader, temporary)
        difference = compare(model, temporary, folder, partial(_outputs, reader))
        vit = model.config if isinstance(model, ViT) else model.config.vit
        kind = str(read_json(temporary / CONFIG_FILE)["model_type"])
        _check_images(read_image_reader(temporary, vit, kind), reader, folder)
    return Exported(folder=folder, architecture=written, difference=difference, texts=0)


def export_captioner(
    model: Captioner,
    images: ImageReader,
    tokenizer: TextTokenizer,
    folder: str | Path,
    languages: Sequence[str] = (),
    family: str | None = None,
    settings: FolderSettings = NO_SETTINGS,
) -> Exported:
    """Write a `VisionEncoderDecoderModel` with image processor and tokenizer.

    All three are verified as in `export` and `export_images`; on any error no folder is left.
    settings: those of the pretrained folder that the model is from. languages: the languages of the
    captions, whose tokens follow those of the tokenizer. In the folder they are the special tokens
    <|en|> ..., and captions begin with the first one unless `decoder_start_token_id` is changed.
    Raises HeadwayError if the verification fails, UsageError for a model or tokenizer that cannot
    be represented and for a folder that exists.
    """
    folder, model = Path(folder), float32_copy(model)
    start_id = tokenizer.size if languages else tokenizer.bos
    if tokenizer.size + len(languages) != model.config.gpt.vocabulary:
        raise UsageError(
            f"the tokenizer has {tokenizer.size:,} tokens and there are {len(languages)} languages,"
            f" but the model's vocabulary {model.config.gpt.vocabulary:,}"
        )
    ids = {
        "decoder_start_token_id": start_id,
        "bos_token_id": tokenizer.bos,
        "eos_token_id": tokenizer.eos,
        "pad_token_id": tokenizer.eos,
    }
    with new_folder(folder) as temporary:
        written = write(model, temporary, family, specials=ids)
        write_generation_config(ids, tokenizer.ends, settings, temporary)
        write_image_reader(images, temporary)
        difference = compare(model, temporary, folder, partial(_captioner_outputs, images))
        _check_images(read_captioner_images(temporary, model.config.vit), images, folder)
        write_tokenizer(tokenizer, temporary, model.config.gpt.max_length)
        texts = check_tokenizer(tokenizer, temporary, str(folder))
        _add_languages(tokenizer, languages, temporary)
    return Exported(folder=folder, architecture=written, difference=difference, texts=texts)


def read_captioner_images(folder: Path, config: ViTConfig) -> ImageReader:
    """Return the image preprocessing of the captioner in a folder."""
    hf_config = HFConfig(read_json(folder / CONFIG_FILE), str(folder / CONFIG_FILE))
    return read_image_reader(folder, config, captioner.encoder_kind(hf_config))


def _check_images(written: ImageReader, reader: ImageReader, folder: Path) -> None:
    if written != reader:
        raise HeadwayError(
            "the image preprocessing cannot be represented in Hugging Face's format; the "
            "folder was removed",
            str(folder),
        )


def _add_languages(tokenizer: TextTokenizer, languages: Sequence[str], folder: Path) -> None:
    """Add the tokens of the languages to tokenizer.json. Raises UsageError if they would get other
    ids than in the model."""
    if not languages:
        return
    engine = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    names = [f"<|{language}|>" for language in languages]
    engine.add_special_tokens(names)
    for number, name in enumerate(names):
        if engine.token_to_id(name) != tokenizer.size + number:
            raise UsageError(
                f"{name} cannot be added to the tokenizer with id {tokenizer.size + number}"
            )
    write_file(folder / TOKENIZER_FILE, str(engine.to_str(pretty=True)).encode())


def _pixels(
    reader: ImageReader, model: ImageModel | Captioner, generator: torch.Generator
) -> Tensor:
    weight = next(model.parameters())
    shape = (ROWS, reader.channels, reader.height, reader.width)
    return torch.randn(shape, generator=generator).to(weight.device, weight.dtype)


def _outputs(reader: ImageReader, model: ImageModel, generator: torch.Generator) -> list[Tensor]:
    return [model(_pixels(reader, model, generator))]


def _captioner_outputs(
    reader: ImageReader, model: Captioner, generator: torch.Generator
) -> list[Tensor]:
    pixels, gpt = _pixels(reader, model, generator), model.config.gpt
    return [model(pixels, random_ids(model, generator, gpt.vocabulary, gpt.max_length))]
