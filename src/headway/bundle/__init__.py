"""Saved models (bundles): config.json, model.safetensors, and the tokenizer or image reader.

`headway.load(folder)` (`tasks/opening.py`) loads a bundle; its methods are the verbs of its task.
"""

from headway.bundle.class_prediction import (
    Classified,
    ClassOptions,
    check_outputs,
    label_cells,
    label_scores,
)
from headway.bundle.contract import (
    WRITTEN,
    BeamSearching,
    Bundle,
    InputSpec,
    Neighbour,
    ProbeRequest,
    TextEmbedding,
    TextGenerating,
    Translating,
    Truncating,
    WordEmbedding,
)
from headway.bundle.encoder import EncoderBundle, FilledText, FillInput, FillOptions, WordPrediction
from headway.bundle.folder_decoding import folder_max_tokens, folder_rules, with_normalisation
from headway.bundle.forward_pass import (
    Attending,
    Attention,
    ForwardPass,
    attention_of,
    encoder_pass,
    part_of,
    word_outputs,
)
from headway.bundle.image_encoder import ImageEncoderBundle, ImageEncoding
from headway.bundle.language_model import TextBundle
from headway.bundle.probe import (
    ImagePatches,
    Probe,
    Readout,
    SearchTrace,
    Unembedding,
    class_names,
    image_patches,
    next_token_readout,
    patches_of,
)
from headway.bundle.searching import SearchingBundle, best_outputs
from headway.bundle.with_reader import BundleWithReader, Preprocessing, StoredBundle, StoredReader

__all__ = [
    "WRITTEN",
    "Attending",
    "Attention",
    "BeamSearching",
    "Bundle",
    "BundleWithReader",
    "ClassOptions",
    "Classified",
    "EncoderBundle",
    "FillInput",
    "FillOptions",
    "FilledText",
    "ForwardPass",
    "ImageEncoderBundle",
    "ImageEncoding",
    "ImagePatches",
    "InputSpec",
    "Neighbour",
    "Preprocessing",
    "Probe",
    "ProbeRequest",
    "Readout",
    "SearchTrace",
    "SearchingBundle",
    "StoredBundle",
    "StoredReader",
    "TextBundle",
    "TextEmbedding",
    "TextGenerating",
    "Translating",
    "Truncating",
    "Unembedding",
    "WordEmbedding",
    "WordPrediction",
    "attention_of",
    "best_outputs",
    "check_outputs",
    "class_names",
    "encoder_pass",
    "folder_max_tokens",
    "folder_rules",
    "image_patches",
    "label_cells",
    "label_scores",
    "next_token_readout",
    "part_of",
    "patches_of",
    "with_normalisation",
    "word_outputs",
]
