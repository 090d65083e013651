"""Conversion between Headway models and the files of other libraries. No code of a file is run.

`read(folder)` and `write(model, folder)` are for Hugging Face folders (config.json, safetensors);
`write_text_model(model, tokenizer, folder)` writes a model with its tokenizer; `write_ctranslate2`
does so for CTranslate2, `write_gguf` for llama.cpp. `headway.exporting` runs what was written.

In this package "theirs" are the names and tensors of the other library, "ours" those of Headway.
"""

from headway.interop.adapters import find_adapter
from headway.interop.chat_templates import ChatTemplate, read_chat_template
from headway.interop.ctranslate2 import write_ctranslate2
from headway.interop.embedders import written_keys
from headway.interop.encoder_tokenizers import read_encoder_tokenizer
from headway.interop.folder_settings import (
    NO_SETTINGS,
    FolderSettings,
    read_folder_settings,
    read_saved_settings,
)
from headway.interop.generation_config import GenerationDefaults, Kind
from headway.interop.gguf import encoder_alone, gguf_kind, write_gguf
from headway.interop.gguf_reader import read_gguf, read_gguf_pooling, read_gguf_template
from headway.interop.hf_export import write_text_model
from headway.interop.hf_export_images import (
    read_captioner_images,
    read_start_token,
    write_captioner,
    write_image_model,
)
from headway.interop.hf_export_translator import write_translator
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
    read_speech_tokens,
    write_transcriber,
)
from headway.interop.translator_tokenizers import read_translator_tokenizers

__all__ = [
    "AS_THEY_ARE",
    "FAMILIES",
    "NO_SETTINGS",
    "ChatTemplate",
    "EmbeddedTexts",
    "FolderSettings",
    "GenerationDefaults",
    "Kind",
    "Model",
    "SentenceFolder",
    "SpeechTokens",
    "build",
    "check_speech_processor",
    "dense_of",
    "encoder_alone",
    "find_adapter",
    "fitting",
    "gguf_kind",
    "read",
    "read_captioner_images",
    "read_chat_template",
    "read_embedded_texts",
    "read_encoder_tokenizer",
    "read_folder_settings",
    "read_gguf",
    "read_gguf_pooling",
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
    "read_start_token",
    "read_tokenizer",
    "read_translator_tokenizers",
    "write",
    "write_captioner",
    "write_ctranslate2",
    "write_gguf",
    "write_image_model",
    "write_text_model",
    "write_transcriber",
    "write_translator",
    "written_keys",
]
