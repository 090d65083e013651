"""What the page must know of a model besides its graphs: tokenizers, special tokens, names."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from headway.bundle import Bundle, EncoderBundle, TextBundle, part_of
from headway.bundle.image_encoder import names_of
from headway.data.image_reader import ImageReader
from headway.exporting.graphs import Graph
from headway.inspection.ablation import layers_of
from headway.interop.hf_export import verification_texts
from headway.models import TextClassifier, ViT
from headway.models.contracts import parameter_count
from headway.tasks.captioning.model import CaptionerBundle
from headway.tasks.classification.model import ClassifierBundle
from headway.tasks.image_classification.model import ImageClassifierBundle
from headway.tasks.translation.bundle import TranslatorBundle
from headway.text import CharacterTokenizer, SentenceSubwords, TextTokenizer, positions_of_words

ROOM = 1024
"""Tokens that the page lets a model without a limit of its own read."""
CAPTION = 64
LENGTH = 24
"""Tokens that a language model writes unless the user of the page chooses another number."""

Description = dict[str, Any]
Axes = dict[str, tuple[str, str]]
"""Part of a model -> the sides of the queries and the keys of its attention."""


def describe(
    bundle: Bundle, graphs: Sequence[Graph], title: str, examples: Sequence[str]
) -> Description:
    """Return the description of a model for its page, as `browser/answers.js` reads it.

    The page must be able to run it (`lacks`).
    """
    specific, axes = KINDS[type(bundle)](bundle)
    model: Any = bundle.model
    mask = specific.get("mask", {}).get("text", "")
    return {
        "title": title,
        "examples": [text for text in examples if mask in text],
        "modality": bundle.inputs.modality,
        "facts": {"kind": bundle.kind, "parameters": parameter_count(model)},
        "graphs": [graph.name for graph in graphs],
        "maps": _maps(model, graphs, axes),
        "begin": [],
        "finish": [],
        "forbidden": [],
        "tokens": {},
        "tokenizers": {},
        **specific,
    }


def lacks(bundle: Any) -> list[str]:
    """Return why a model has no page; empty if it may have one."""
    if type(bundle) not in KINDS:
        return [f"{bundle.kind}: the page has no form for it"]
    reasons = []
    if isinstance(bundle, EncoderBundle) and bundle.model.masked_lm_head is None:
        reasons.append("text encoder without a head for masked words: the page has no form for it")
    if isinstance(bundle, ClassifierBundle):
        if bundle.reader.numbers is not None:
            reasons.append("regression: the page shows classes only")
        if bundle.reader.pairs:
            reasons.append("pairs of texts: the page has one text field")
    if isinstance(bundle, TranslatorBundle) and _has_languages(bundle):
        reasons.append("several target languages: the page has no choice of a language")
    reader = _image_reader(bundle)
    if reader is not None and reader.padded:
        reasons.append("sounds: the page reads images only")
    if reader is not None and reader.resampling == "nearest":
        reasons.append("resampling=nearest: the page has filters with antialiasing only")
    for side, tokenizer in tokenizers_of(bundle).items():
        if not isinstance(tokenizer, CharacterTokenizer) and not hasattr(tokenizer, "engine_json"):
            reasons.append(f"{side} tokenizer of {type(tokenizer).__name__}")
    return reasons


def _has_languages(bundle: TranslatorBundle) -> bool:
    pair = bundle.tokenizer
    return pair.languages is not None or bool(getattr(pair.source, "language_tags", None))


def _image_reader(bundle: Any) -> ImageReader | None:
    if isinstance(bundle, CaptionerBundle):
        return bundle.reader.images
    return bundle.reader if isinstance(bundle, ImageClassifierBundle) else None


def tokenizers_of(bundle: Any) -> dict[str, Any]:
    """Return the tokenizers by name: "source" of inputs, and "target" of outputs if it differs."""
    if isinstance(bundle, TranslatorBundle):
        pair = bundle.tokenizer
        return {"source": pair.source} | ({} if pair.joint else {"target": pair.target})
    if isinstance(bundle, CaptionerBundle):
        return {"target": bundle.reader.tokenizer}
    if isinstance(bundle, ClassifierBundle):
        return {"source": bundle.reader.tokenizer}
    return {"source": bundle.tokenizer} if hasattr(bundle, "tokenizer") else {}


def _language_model(bundle: TextBundle) -> tuple[Description, Axes]:
    tokenizer, config = bundle.tokenizer, bundle.model.config
    specific = {
        "kind": "write",
        "predicts": "text",
        "sides": ["text"],
        "tokens": {"text": _tokens(tokenizer, tokenizer.size)},
        "tokenizers": _tokenizers(bundle),
        "begin": _begin(tokenizer),
        "ends": [*tokenizer.ends],
        "size": tokenizer.size,
        "room": bundle.model.max_length or ROOM,
        "length": LENGTH,
        "cache": _cache(["key", "value"], config.num_layers, config.kv_heads, config.head_width),
    }
    return specific, {"decoder": ("text", "text")}


def _begin(tokenizer: TextTokenizer) -> list[int]:
    """Return the tokens before those of a text at its start; pretrained models may have none."""
    text = next(filter(None, verification_texts(tokenizer)))
    whole = tokenizer.begin(text)
    return whole[: len(whole) - len(tokenizer.encode(text))]


def _translator(bundle: TranslatorBundle) -> tuple[Description, Axes]:
    source, target = bundle.tokenizer.source, bundle.tokenizer.target
    model, config = bundle.model, bundle.model.config
    kinds = ["decoder.key", "decoder.value", "encoder.key", "encoder.value"]
    of_target = _tokens(target, target.size)
    specific = {
        "kind": "translate",
        "predicts": "target",
        "sides": ["source", "read", "target"],
        "tokens": {
            "source": _tokens(source, source.size),
            "read": of_target,
            "target": of_target,
        },
        "tokenizers": _tokenizers(bundle),
        "finish": [source.eos],
        "start": target.bos,
        "ends": [target.eos],
        "size": target.size,
        "room": model.max_source or ROOM,
        "target_room": model.max_target or ROOM,
        "cache": _cache(kinds, config.decoder_layers, config.num_heads, config.head_width),
    }
    axes = {"decoder": ("read", "read"), "cross": ("target", "source")}
    return specific, {"encoder": ("source", "source"), **axes}


def _captioner(bundle: CaptionerBundle) -> tuple[Description, Axes]:
    reader, config = bundle.reader, bundle.model.config.gpt
    tokens = _tokens(reader.tokenizer, reader.size, reader.token_strings)
    specific = {
        "kind": "caption",
        "predicts": "target",
        "sides": ["image", "read", "target"],
        "tokens": {"read": tokens, "target": tokens},
        "tokenizers": _tokenizers(bundle),
        "start": reader.first(None),
        "ends": [*reader.tokenizer.ends],
        "forbidden": [i for i in reader.specials if i not in reader.tokenizer.ends],
        "size": reader.size,
        "target_room": min(reader.longest, bundle.model.max_length or CAPTION) + 1,
        "cache": _cache(["key", "value"], config.num_layers, config.kv_heads, config.head_width),
        "image": _image(reader.images, bundle.model.vit),
    }
    axes = {"decoder": ("read", "read"), "cross": ("target", "image")}
    return specific, {"encoder": ("image", "image"), **axes}


def _masked_words(bundle: EncoderBundle) -> tuple[Description, Axes]:
    tokenizer = bundle.tokenizer
    special = tokenizer.special_tokens
    (mask,) = tokenizer.token_strings([special.mask])
    tokens = _tokens(tokenizer, tokenizer.size)
    specific = {
        "kind": "fill",
        "predicts": "text",
        "sides": ["text"],
        "tokens": {"text": {**tokens, "words": tokenizer.words(range(tokenizer.size))}},
        "tokenizers": _tokenizers(bundle),
        "begin": [special.start],
        "finish": [special.end],
        "mask": {"id": special.mask, "text": mask},
        "size": tokenizer.size,
        "room": bundle.model.config.max_length,
    }
    return specific, {"encoder": ("text", "text")}


def _text_classifier(bundle: ClassifierBundle) -> tuple[Description, Axes]:
    reader = bundle.reader
    ((start, end),), _ = reader.encode([""])  # <bos> <eos>, or [CLS] [SEP]
    is_language_model = isinstance(bundle.model, TextClassifier)
    specific = {
        "kind": "classify",
        "predicts": "text",
        "sides": ["text"],
        "labels": [*bundle.labels],
        "tokens": {"text": _tokens(reader.tokenizer, reader.tokenizer.size)},
        "tokenizers": _tokenizers(bundle),
        "begin": [start],
        "finish": [end],
        "readAtEnd": is_language_model,
        "truncates": True,
        "room": reader.max_length,
    }
    return specific, {"decoder" if is_language_model else "encoder": ("text", "text")}


def _image_classifier(bundle: ImageClassifierBundle) -> tuple[Description, Axes]:
    specific = {
        "kind": "classify image",
        "predicts": "image",
        "sides": ["image"],
        "labels": [*bundle.labels],
        "image": _image(bundle.reader, bundle.vit),
    }
    return specific, {"encoder": ("image", "image")}


KINDS: dict[type[Any], Callable[[Any], tuple[Description, Axes]]] = {
    TextBundle: _language_model,
    TranslatorBundle: _translator,
    EncoderBundle: _masked_words,
    ClassifierBundle: _text_classifier,
    ImageClassifierBundle: _image_classifier,
    CaptionerBundle: _captioner,
}
"""Class of a bundle -> the function that describes it for the page."""


def _cache(kinds: Sequence[str], layers: int, heads: int, width: int) -> Description:
    return {"kinds": [*kinds], "layers": layers, "heads": heads, "width": width}


def _maps(model: Any, graphs: Sequence[Graph], axes: Axes) -> list[Description]:
    """Return the attention maps in the order of `axes`, with the names of their outputs."""
    outputs = [name for graph in graphs for name in graph.outputs if "_attentions." in name]
    layers = layers_of(model)
    return [
        {
            "name": part,
            "queries": queries,
            "keys": keys,
            "causal": part == "decoder",
            "outputs": [name for name in outputs if name.startswith(f"{part}_")],
            "layers": [name for name in layers[part] if part_of(name) == part],
        }
        for part, (queries, keys) in axes.items()
    ]


def _image(reader: ImageReader, vit: ViT) -> Description:
    height, width = vit.config.image
    rows, columns = vit.config.grid
    patches = vit.embedding.patches
    return {
        "reader": asdict(reader),
        "bright": sum(reader.mean) / len(reader.mean) > 0.5,
        "side": {
            "tokens": names_of(vit, height, width),
            "size": [height, width],
            "grid": [rows, columns],
            "reach": [rows * patches.height, columns * patches.width],
            "num_prefix_tokens": vit.embedding.num_prefix_tokens,
        },
    }


def _tokenizers(bundle: Any) -> Description:
    return {name: described_tokenizer(one) for name, one in tokenizers_of(bundle).items()}


def described_tokenizer(tokenizer: Any) -> Description:
    """Return a tokenizer as `browser/tokenizing.js` reads it.

    Special tokens are left out of the engine, so that no text is encoded as one of them.
    """
    if isinstance(tokenizer, CharacterTokenizer):
        return {"characters": tokenizer.characters, "special": [tokenizer.eos]}
    engine = tokenizer.engine_json
    added = engine["added_tokens"]
    return {
        "engine": {
            **engine,
            "added_tokens": [token for token in added if not token["special"]],
            "post_processor": None,
            "padding": None,
            "truncation": None,
        },
        "leading": isinstance(tokenizer, SentenceSubwords),
        "special": [token["id"] for token in added if token["special"]],
    }


def _tokens(
    tokenizer: Any, size: int, names: Callable[[Sequence[int]], list[str]] | None = None
) -> Description:
    """Return the text of each token, and where words begin: "1" for a token that begins one."""
    known = range(tokenizer.size)
    strings = (names or tokenizer.token_strings)(range(size))
    special = described_tokenizer(tokenizer)["special"]
    anchor = next((i for i in known if i not in special and strings[i].strip().isalpha()), None)
    begins = ["1"] * size
    if anchor is not None:
        pairs = [i for token in known for i in (anchor, token)]
        first = {positions[0] for positions in positions_of_words(tokenizer, pairs)}
        for token in known:
            begins[token] = "1" if 2 * token + 1 in first else "0"
    return {
        "strings": strings,
        "words": strings,
        "begins": "".join(begins),
        "special": [*special, *range(tokenizer.size, size)],
    }
