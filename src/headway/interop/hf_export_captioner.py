"""A captioner with what it reads and writes by, as a Hugging Face folder that was checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tokenizers
import torch

from headway.data.image_reader import ImageReader
from headway.errors import HeadwayError, UsageError
from headway.files import read_json, write_file
from headway.folders import new_folder
from headway.interop import captioner
from headway.interop.hf_config import Facts
from headway.interop.hf_export import (
    LARGEST_DIFFERENCE,
    LONGEST,
    ROWS,
    TOKENIZER_FILE,
    Exported,
    same_ids,
    write_tokenizer,
)
from headway.interop.hf_folders import CONFIG_FILE, build, read, write
from headway.interop.preprocessor_config import read_image_reader, write_image_reader
from headway.models import Captioner, ViTConfig
from headway.text import TextTokenizer


def export_captioner(
    model: Captioner,
    images: ImageReader,
    tokenizer: TextTokenizer,
    folder: str | Path,
    languages: Sequence[str] = (),
    family: str | None = None,
) -> Exported:
    """Write a `VisionEncoderDecoderModel` with its image processor and tokenizer; on any fault
    there is none.

    All three are read again, as `export` and `export_images` do. languages: whose tokens follow the
    tokenizer's own; there they are special tokens <|en|>, and captions begin with that of the first
    unless `decoder_start_token_id` says otherwise. HeadwayError where something differs, UsageError
    for what has no form there and for a folder that exists.
    """
    folder = Path(folder)
    first = tokenizer.size if languages else tokenizer.bos
    if tokenizer.size + len(languages) != model.config.gpt.vocabulary:
        raise UsageError("tokenizer and languages do not make the model's vocabulary")
    ids = {
        "decoder_start_token_id": first,
        "bos_token_id": tokenizer.bos,
        "eos_token_id": tokenizer.eos,
        "pad_token_id": tokenizer.eos,
    }
    with new_folder(folder) as place:
        written = write(model, place, family, specials=ids)
        write_image_reader(images, place)
        difference = _difference(model, images, place)
        if not difference <= LARGEST_DIFFERENCE:  # NaN is no success
            raise HeadwayError(
                f"the folder's logits differ by {difference:.2g}, more than "
                f"{LARGEST_DIFFERENCE:g}, from the model's: it was removed",
                str(folder),
            )
        if read_captioner_images(place, model.config.vit) != images:
            raise HeadwayError("the folder would read pictures otherwise: it was removed")
        write_tokenizer(tokenizer, place, model.config.gpt.max_length)
        texts = same_ids(tokenizer, place, str(folder))
        _add_languages(tokenizer, languages, place)
    return Exported(folder=folder, architecture=written, difference=difference, texts=texts)


def read_captioner_images(place: Path, config: ViTConfig) -> ImageReader:
    """How the captioner in a folder reads pictures."""
    facts = Facts(read_json(place / CONFIG_FILE), str(place / CONFIG_FILE))
    return read_image_reader(place, config, captioner.encoder_kind(facts))


def _add_languages(tokenizer: TextTokenizer, languages: Sequence[str], place: Path) -> None:
    """The tokens that follow the tokenizer's own, in its file. UsageError where theirs would get
    other ids."""
    if not languages:
        return
    engine = tokenizers.Tokenizer.from_file(str(place / TOKENIZER_FILE))
    names = [f"<|{language}|>" for language in languages]
    engine.add_special_tokens(names)
    for number, name in enumerate(names):
        if engine.token_to_id(name) != tokenizer.size + number:
            raise UsageError(f"the tokenizer has no room for {name} after its own pieces")
    write_file(place / TOKENIZER_FILE, str(engine.to_str(pretty=True)).encode())


@torch.no_grad()
def _difference(model: Captioner, images: ImageReader, place: Path) -> float:
    """The largest between two outputs for the same random pixels and ids."""
    weight, config = next(model.parameters()), model.config.gpt
    again = build(*read(place), dtype=weight.dtype).to(weight.device)
    draw = torch.Generator().manual_seed(0)
    shape = (ROWS, images.channels, images.height, images.width)
    pixels = torch.randn(shape, generator=draw).to(weight.device, weight.dtype)
    length = min(LONGEST, config.max_length)
    ids = torch.randint(0, config.vocabulary, (ROWS, length), generator=draw).to(weight.device)
    training = model.training
    try:
        ours = model.eval()(pixels, ids)
    finally:
        model.train(training)
    return float((again(pixels, ids) - ours).abs().max())
