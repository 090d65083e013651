"""Models of the world outside: their names and tensors <-> ours. Nothing of theirs is ever run.

`read(folder)` and `write(model, folder)` for Hugging Face folders (config.json, safetensors).
"""

from headway.interop.folders import FAMILIES, build, read, write
from headway.interop.llama2c import read_llama2c, read_pieces

__all__ = ["FAMILIES", "build", "read", "read_llama2c", "read_pieces", "write"]
