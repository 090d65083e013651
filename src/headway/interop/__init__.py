"""Models of the world outside: their names and tensors <-> ours. Nothing of theirs is ever run.

`read(folder)` and `write(model, folder)` for Hugging Face folders (config.json, safetensors);
`export(model, tokenizer, folder)` writes both and looks whether it went well.
"""

from headway.interop.exported import Exported, export
from headway.interop.folders import FAMILIES, build, read, write
from headway.interop.llama2c import read_llama2c, read_llama2c_tokenizer, read_pieces
from headway.interop.tokenizers import read_tokenizer

__all__ = [
    "FAMILIES",
    "Exported",
    "build",
    "export",
    "read",
    "read_llama2c",
    "read_llama2c_tokenizer",
    "read_pieces",
    "read_tokenizer",
    "write",
]
