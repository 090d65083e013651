"""`headway.load(folder)`: which family a folder holds, and its bundle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from headway import interop
from headway.bundle.answerer import AnswererBundle, AnswerReader
from headway.bundle.caption_reader import CaptionReader
from headway.bundle.captioner import CaptionerBundle
from headway.bundle.class_reader import ClassReader, Numbers
from headway.bundle.classifier import ClassifierBundle
from headway.bundle.contract import Bundle
from headway.bundle.encoder import EncoderBundle
from headway.bundle.files import CONFIG_FILE, check_finite, fill, read_facts, verify_files
from headway.bundle.tagger import TaggerBundle, TagReader
from headway.bundle.text import TextBundle
from headway.bundle.translator import TranslatorBundle
from headway.bundle.vision import ImageClasses, ImageClassifierBundle, ImageEncoderBundle
from headway.bundle.words import WordsBundle
from headway.data.image_reader import ImageReader
from headway.errors import DataError, UsageError
from headway.files import read_json
from headway.linear import lay_out
from headway.models import (
    GPT,
    Bert,
    BertAnswerer,
    BertAnswererConfig,
    BertClassifier,
    BertClassifierConfig,
    BertConfig,
    BertTagger,
    BertTaggerConfig,
    Captioner,
    CaptionerConfig,
    GPTConfig,
    TextClassifierConfig,
    Translator,
    TranslatorConfig,
    ViT,
    ViTClassifier,
    ViTClassifierConfig,
    ViTConfig,
    WordsConfig,
    bert_answerer,
    bert_classifier,
    bert_tagger,
    shapes_only,
    text_classifier,
    vit_classifier,
    words_model,
)
from headway.settings import flatten, override
from headway.text import ForeignTokenizer

FOREIGN = "model_type"
"""A key that config.json has in Hugging Face folders and not in ours."""

FOREIGN_KEYS = {
    *("architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path"),
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "n_embd", "n_layer", "n_head"),
    *("vocab_size", "id2label", "max_position_embeddings"),
}
"""Others that only they have: enough to recognise a folder whose `model_type` is missing."""

LONGEST_CAPTION = 64  # pieces, where a folder does not tell
WINDOW, STRIDE = 256, 96  # of an answerer whose folder does not tell what it was trained with


def _foreign_encoder(model: Bert, place: Path) -> EncoderBundle:
    """With how sentence-transformers makes its vectors, where the folder says so."""
    how = interop.read_sentence_folder(place)
    return EncoderBundle(model, interop.read_marked(place), how.pooling, how.length)


def _foreign_classifier(model: BertClassifier, place: Path) -> ClassifierBundle:
    """Its numbers, of a model of one output, are what it gives; it may read one text or two."""
    labels = interop.read_labels(place)
    numbers = Numbers(0.0, 1.0) if len(labels) == 1 else None
    tokenizer, length = interop.read_marked(place), model.config.bert.max_length
    named = () if numbers else labels
    return ClassifierBundle(model, ClassReader(tokenizer, named, length, numbers, pairs=None))


def _foreign_tagger(model: BertTagger, place: Path) -> TaggerBundle:
    tokenizer, length = interop.read_marked(place), model.config.bert.max_length
    return TaggerBundle(model, TagReader(tokenizer, interop.read_labels(place), length))


def _foreign_answerer(model: BertAnswerer, place: Path) -> AnswererBundle:
    window = min(WINDOW, model.config.bert.max_length)
    reader = AnswerReader(interop.read_marked(place), window, min(STRIDE, window // 2))
    return AnswererBundle(model, reader)


def _foreign_images(model: ViT, place: Path) -> ImageEncoderBundle:
    return ImageEncoderBundle(model, _image_reader(model.config, place))


def _foreign_image_classifier(model: ViTClassifier, place: Path) -> ImageClassifierBundle:
    reader = _image_reader(model.config.vit, place)
    return ImageClassifierBundle(model, ImageClasses(reader, interop.read_labels(place)))


def _foreign_captioner(model: Captioner, place: Path) -> CaptionerBundle:
    """It speaks one language: captions begin with the token that its folder names."""
    tokenizer = interop.read_tokenizer(place)
    told = read_json(place / CONFIG_FILE)
    start = told.get("decoder_start_token_id")
    if type(start) is int:
        tokenizer = ForeignTokenizer.of_json(
            tokenizer.engine_json, start, tokenizer.eos, str(place / CONFIG_FILE)
        )
    images = interop.read_captioner_images(place, model.config.vit)
    return CaptionerBundle(model, CaptionReader(images, tokenizer, (), LONGEST_CAPTION))


def _image_reader(config: ViTConfig, place: Path) -> ImageReader:
    return interop.read_image_reader(place, config, str(read_json(place / CONFIG_FILE)[FOREIGN]))


FOREIGN_BUNDLES: dict[type[nn.Module], Callable[[Any, Path], Bundle]] = {
    GPT: lambda model, place: TextBundle(model, interop.read_tokenizer(place)),
    Bert: _foreign_encoder,
    BertClassifier: _foreign_classifier,
    BertTagger: _foreign_tagger,
    BertAnswerer: _foreign_answerer,
    ViT: _foreign_images,
    ViTClassifier: _foreign_image_classifier,
    Captioner: _foreign_captioner,
}
"""What a Hugging Face folder holds -> it and what stands beside it there, with its verbs."""

B = TypeVar("B")


@dataclass(frozen=True)
class Family:
    """config: its settings. model: makes the model from them. bundle: the model and its verbs."""

    config: type[Any]
    model: Callable[[Any], nn.Module]
    bundle: type[Bundle]


FAMILIES: dict[str, Family] = {
    "translator": Family(TranslatorConfig, Translator, TranslatorBundle),
    "gpt": Family(GPTConfig, GPT, TextBundle),
    "gpt-classifier": Family(TextClassifierConfig, text_classifier, ClassifierBundle),
    "bert-classifier": Family(BertClassifierConfig, bert_classifier, ClassifierBundle),
    "bert": Family(BertConfig, Bert, EncoderBundle),
    "bert-tagger": Family(BertTaggerConfig, bert_tagger, TaggerBundle),
    "bert-answerer": Family(BertAnswererConfig, bert_answerer, AnswererBundle),
    "vit": Family(ViTConfig, ViT, ImageEncoderBundle),
    "vit-classifier": Family(ViTClassifierConfig, vit_classifier, ImageClassifierBundle),
    "captioner": Family(CaptionerConfig, Captioner, CaptionerBundle),
    "words": Family(WordsConfig, words_model, WordsBundle),
}
"""`family` in config.json -> what it needs."""


def load(folder: str | Path, device: str = "cpu", *, verify: bool = True) -> Bundle:
    """Open a bundle, the best model of a run folder, a Hugging Face folder of a language model, of
    an encoder of BERT's family or of pictures (ViT, DINO, DINOv2), of a captioner, or a llama2.c
    file (its tokenizer, tok*.bin, beside it).

    verify: compare the files of a Headway model with the hashes in its manifest; False saves about
    a second for each GB. DataError if a file is missing or damaged, if a weight is not finite, or
    if model and tokenizer do not belong together.
    """
    bundle = _open(folder, device, verify)
    check_finite(bundle.model, Path(folder))
    lay_out(bundle.model)
    return bundle


def _open(folder: str | Path, device: str, verify: bool) -> Bundle:
    place = Path(folder)
    if place.is_file():
        return _llama2c(place, device)
    if (place / "model" / CONFIG_FILE).is_file():
        place = place / "model"
    if not (place / CONFIG_FILE).is_file():
        place = interop.read_sentence_folder(place).encoder
    if not (place / CONFIG_FILE).is_file():
        raise UsageError(
            f"{folder} holds no model: there is no {CONFIG_FILE}",
            hint="name a run folder (headway runs ls) or the model folder inside it",
        )
    if verify:
        verify_files(place)
    values = read_json(place / CONFIG_FILE)
    if isinstance(values, dict) and values.get(FOREIGN) is not None:
        return _foreign(place, device)
    if isinstance(values, dict) and "format" not in values and _is_hugging_face(values):
        known = ", ".join(interop.FAMILIES)
        raise DataError(
            f"this looks like a Hugging Face folder, but {FOREIGN} is missing in its {CONFIG_FILE}",
            str(place / CONFIG_FILE),
            f'add the type of the model, such as "{FOREIGN}": "bert"; known: {known}',
        )
    facts = read_facts(place)
    family, config = _family(facts, place / CONFIG_FILE)
    with shapes_only():
        model: Any = family.model(config)
    fill(model, place)
    return family.bundle.open(model.to(device), place, facts)


def _is_hugging_face(values: dict[str, Any]) -> bool:
    """Whether config.json has keys that Hugging Face's configurations have and ours have not."""
    return not FOREIGN_KEYS.isdisjoint(values)


def _foreign(place: Path, device: str) -> Bundle:
    """A Hugging Face folder's model with the tokenizer there."""
    foreign: Any = interop.build(*interop.read(place))
    return FOREIGN_BUNDLES[type(foreign)](foreign.to(device), place)


def _llama2c(path: Path, device: str) -> TextBundle:
    beside = sorted(path.parent.glob("tok*.bin"))
    if len(beside) != 1:
        raise UsageError(
            f"{len(beside)} files tok*.bin stand beside it, and one must, its tokenizer",
            str(path),
            "name a folder if this is no llama2.c file",
        )
    model = interop.build(*interop.read_llama2c(path)).to(device)
    return TextBundle(model, interop.read_llama2c_tokenizer(beside[0]))


def load_as(wanted: type[B], folder: str | Path, device: str = "cpu", *, verify: bool = True) -> B:
    """The bundle in `folder`, which must be of this class: for verbs that only one kind has."""
    return expect(wanted, load(folder, device, verify=verify), folder)


def expect(wanted: type[B], bundle: Bundle, folder: str | Path) -> B:
    """The bundle, loaded from `folder`, as one of this class; UsageError if it is another."""
    kind = getattr(wanted, "kind", "model")
    if not isinstance(bundle, wanted):
        raise UsageError(
            f"{folder} holds {_one(bundle.kind)}, and this needs {_one(kind)}",
            hint="headway runs ls says which recipe a run came from",
        )
    return bundle


def _one(kind: str) -> str:
    """With its article."""
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


def _family(facts: dict[str, Any], path: Path) -> tuple[Family, Any]:
    """The family that config.json names, and its configuration."""
    if facts.get("family") not in FAMILIES or not isinstance(facts.get("model"), dict):
        known = ", ".join(FAMILIES)
        raise DataError(f"unknown family {facts.get('family')!r}; known: {known}", str(path))
    family = FAMILIES[facts["family"]]
    try:
        return family, override(family.config(), flatten(facts["model"]), str(path))
    except UsageError as error:
        raise DataError(error.what, str(path), error.hint) from error
