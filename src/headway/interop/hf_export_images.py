"""Write image models and captioners with their preprocessing as Hugging Face folders."""

from collections.abc import Sequence
from pathlib import Path

import tokenizers

from headway.base.errors import HeadwayError, UsageError
from headway.base.files import read_json, write_file
from headway.data.image_reader import ImageReader
from headway.interop import captioner
from headway.interop.folder_settings import NO_SETTINGS, FolderSettings
from headway.interop.hf_config import HFConfig
from headway.interop.hf_export import TOKENIZER_FILE, check_tokenizer, write_tokenizer
from headway.interop.hf_folders import CONFIG_FILE, ImageModel, write, write_generation_config
from headway.interop.language_model_tokenizers import IDS_FILES, role_ids
from headway.interop.named_tokens import read_json_object
from headway.interop.preprocessor_config import read_image_reader, write_image_reader
from headway.models import Captioner, ViT, ViTConfig
from headway.text import TextTokenizer


def write_image_model(
    model: ImageModel,
    reader: ImageReader,
    folder: str | Path,
    family: str | None = None,
    labels: Sequence[str] | None = None,
) -> str:
    """Write a model for transformers, with preprocessor_config.json; return its class there.

    labels: names of a classifier's classes. Raises UsageError for a model that cannot be
    represented and for a folder with a model; HeadwayError if the folder has another preprocessing
    than `reader`.
    """
    folder = Path(folder)
    written = write(model, folder, family, labels=labels)
    write_image_reader(reader, folder)
    vit = model.config if isinstance(model, ViT) else model.config.vit
    kind = str(read_json(folder / CONFIG_FILE)["model_type"])
    _check_images(read_image_reader(folder, vit, kind), reader, folder)
    return written


def write_captioner(
    model: Captioner,
    images: ImageReader,
    tokenizer: TextTokenizer,
    folder: str | Path,
    languages: Sequence[str] = (),
    family: str | None = None,
    settings: FolderSettings = NO_SETTINGS,
) -> str:
    """Write a `VisionEncoderDecoderModel` with image processor and tokenizer; return its class.

    settings: those of the pretrained folder that the model is from. languages: the languages of the
    captions, whose tokens follow those of the tokenizer. In the folder they are the special tokens
    <|en|> ..., and captions begin with the first one unless `decoder_start_token_id` is changed.
    Raises UsageError for a model or tokenizer that cannot be represented and for a folder with a
    model; HeadwayError if the folder has another preprocessing or gives texts other ids.
    """
    folder = Path(folder)
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
    written = write(model, folder, family, specials=ids)
    write_generation_config(ids, tokenizer.ends, settings, folder)
    write_image_reader(images, folder)
    _check_images(read_captioner_images(folder, model.config.vit), images, folder)
    write_tokenizer(tokenizer, folder, model.config.gpt.max_length)
    check_tokenizer(tokenizer, folder, str(folder))
    _add_languages(tokenizer, languages, folder)
    return written


def read_captioner_images(folder: Path, config: ViTConfig) -> ImageReader:
    """Return the image preprocessing of the captioner in a folder."""
    hf_config = HFConfig(read_json(folder / CONFIG_FILE), str(folder / CONFIG_FILE))
    return read_image_reader(folder, config, captioner.encoder_kind(hf_config))


def read_start_token(folder: Path) -> int | None:
    """Return the token with which a captioner in a folder begins; None if no file names it.

    That of generation_config.json precedes that of config.json and of the decoder in it.
    """
    key = "decoder_start_token_id"
    named = [token for file in IDS_FILES for token in role_ids(folder / file, key)]
    decoder = read_json_object(folder / CONFIG_FILE).get("decoder")
    if isinstance(decoder, dict) and type(decoder.get(key)) is int:
        named.append(decoder[key])
    return next(iter(named), None)


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
