"""Conversion between Headway models and the files of other libraries. No code of a file is run.

`read(folder)` and `write(model, folder)` are for Hugging Face folders (config.json, safetensors);
`export(model, tokenizer, folder)` writes model and tokenizer and verifies the result.
`export_translator` and `export_language_model` do so for CTranslate2, `export_gguf` for llama.cpp.

In this package "theirs" are the names and tensors of the other library, "ours" those of Headway.
"""

from headway.interop.adapters import find_adapter
from headway.interop.chat_templates import ChatTemplate, read_chat_template
from headway.interop.ctranslate2 import (
    ExportedCTranslate2,
    export_language_model,
    export_translator,
)
from headway.interop.encoder_tokenizers import read_encoder_tokenizer
from headway.interop.folder_settings import (
    NO_SETTINGS,
    FolderSettings,
    read_folder_settings,
    read_saved_settings,
)
from headway.interop.generation_config import GenerationDefaults, Kind
from headway.interop.gguf import ExportedGGUF, export_gguf
from headway.interop.gguf_reader import read_gguf, read_gguf_template
from headway.interop.hf_export import Exported, export
from headway.interop.hf_export_images import (
    export_captioner,
    export_images,
    read_captioner_images,
)
from headway.interop.hf_export_translator import export_translator_to_hf
from headway.interop.hf_folders import FAMILIES, Model, build, fitting, read, read_labels, write
from headway.interop.image_text_tokenizers import read_paired_texts
from headway.interop.language_model_tokenizers import read_tokenizer
from headway.interop.llama2c import read_llama2c, read_llama2c_tokenizer, read_llama2c_tokens
from headway.interop.preprocessor_config import read_image_reader
from headway.interop.sentence_transformers import (
    AS_THEY_ARE,
    EmbeddedTexts,
    SentenceFolder,
    dense_of,
    read_embedded_texts,
    read_sentence_folder,
)
from headway.interop.speech_folders import (
    SpeechTokens,
    check_speech_processor,
    export_transcriber,
    read_speech_tokens,
)
from headway.interop.translator_tokenizers import read_translator_tokenizers

__all__ = [
    "AS_THEY_ARE",
    "FAMILIES",
    "NO_SETTINGS",
    "ChatTemplate",
    "EmbeddedTexts",
    "Exported",
    "ExportedCTranslate2",
    "ExportedGGUF",
    "FolderSettings",
    "GenerationDefaults",
    "Kind",
    "Model",
    "SentenceFolder",
    "SpeechTokens",
    "build",
    "check_speech_processor",
    "dense_of",
    "export",
    "export_captioner",
    "export_gguf",
    "export_images",
    "export_language_model",
    "export_transcriber",
    "export_translator",
    "export_translator_to_hf",
    "find_adapter",
    "fitting",
    "read",
    "read_captioner_images",
    "read_chat_template",
    "read_embedded_texts",
    "read_encoder_tokenizer",
    "read_folder_settings",
    "read_gguf",
    "read_gguf_template",
    "read_image_reader",
    "read_labels",
    "read_llama2c",
    "read_llama2c_tokenizer",
    "read_llama2c_tokens",
    "read_paired_texts",
    "read_saved_settings",
    "read_sentence_folder",
    "read_speech_tokens",
    "read_tokenizer",
    "read_translator_tokenizers",
    "write",
]
