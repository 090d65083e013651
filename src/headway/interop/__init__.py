"""Models of the world outside: their names and tensors <-> ours. Nothing of theirs is ever run.

`read(folder)` and `write(model, folder)` for Hugging Face folders (config.json, safetensors);
`export(model, tokenizer, folder)` writes both and looks whether it went well.
"""

from headway.interop.exported import Exported, export
from headway.interop.exported_captioner import export_captioner, read_captioner_images
from headway.interop.exported_images import export_images
from headway.interop.folders import FAMILIES, Model, build, read, read_labels, write
from headway.interop.llama2c import read_llama2c, read_llama2c_tokenizer, read_pieces
from headway.interop.marked import read_marked
from headway.interop.preprocessor import read_image_reader
from headway.interop.sentence_folders import SentenceFolder, read_sentence_folder
from headway.interop.tokenizers import read_tokenizer

__all__ = [
    "FAMILIES",
    "Exported",
    "Model",
    "SentenceFolder",
    "build",
    "export",
    "export_captioner",
    "export_images",
    "read",
    "read_captioner_images",
    "read_image_reader",
    "read_labels",
    "read_llama2c",
    "read_llama2c_tokenizer",
    "read_marked",
    "read_pieces",
    "read_sentence_folder",
    "read_tokenizer",
    "write",
]
