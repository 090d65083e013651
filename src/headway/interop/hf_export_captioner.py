"""Export a captioner with image preprocessing and tokenizer as a verified Hugging Face folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tokenizers
import torch

from headway.base.errors import HeadwayError, UsageError
from headway.base.files import read_json, write_file
from headway.base.folders import new_folder
from headway.data.image_reader import ImageReader
from headway.interop import captioner
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.hf_config import HFConfig
from headway.interop.hf_export import (
    LARGEST_DIFFERENCE,
    LONGEST,
    ROWS,
    TOKENIZER_FILE,
    Exported,
    check_tokenizer,
    write_tokenizer,
)
from headway.interop.hf_folders import (
    CONFIG_FILE,
    build,
    read,
    write,
    write_generation_config,
)
from headway.interop.preprocessor_config import read_image_reader, write_image_reader
from headway.models import Captioner, ViTConfig
from headway.text import TextTokenizer
from headway.transforms.quantize import float32_copy


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
        difference = _difference(model, images, temporary)
        if not difference <= LARGEST_DIFFERENCE:  # NaN is no success
            raise HeadwayError(
                f"the logits differ by {difference:.2g} between the model and the exported folder, "
                f"more than {LARGEST_DIFFERENCE:g}; the folder was removed",
                str(folder),
            )
        if read_captioner_images(temporary, model.config.vit) != images:
            raise HeadwayError(
                "the image preprocessing cannot be represented in Hugging Face's format; the "
                "folder was removed"
            )
        write_tokenizer(tokenizer, temporary, model.config.gpt.max_length)
        texts = check_tokenizer(tokenizer, temporary, str(folder))
        _add_languages(tokenizer, languages, temporary)
    return Exported(folder=folder, architecture=written, difference=difference, texts=texts)


def read_captioner_images(folder: Path, config: ViTConfig) -> ImageReader:
    """Return the image preprocessing of the captioner in a folder."""
    hf_config = HFConfig(read_json(folder / CONFIG_FILE), str(folder / CONFIG_FILE))
    return read_image_reader(folder, config, captioner.encoder_kind(hf_config))


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


@torch.no_grad()
def _difference(model: Captioner, images: ImageReader, folder: Path) -> float:
    """Return the maximum absolute difference between the logits of both models for random input."""
    weight, config = next(model.parameters()), model.config.gpt
    exported = build(*read(folder), dtype=weight.dtype).to(weight.device)
    generator = torch.Generator().manual_seed(0)
    shape = (ROWS, images.channels, images.height, images.width)
    pixels = torch.randn(shape, generator=generator).to(weight.device, weight.dtype)
    length = min(LONGEST, config.max_length)
    ids = torch.randint(0, config.vocabulary, (ROWS, length), generator=generator).to(weight.device)
    training = model.training
    try:
        ours = model.eval()(pixels, ids)
    finally:
        model.train(training)
    return float((exported(pixels, ids) - ours).abs().max())
