"""What is applied to a finished model from outside: each changes it in place and returns it.

    model = fast(recompute(lora(freeze(model, 4), rank=8)))

| transform   | what it does                                                       |
|-------------|--------------------------------------------------------------------|
| `freeze`    | excludes the first layers from training                            |
| `lora`      | adds low-rank adapters, which alone are trained; `merge_lora`      |
| `fast`      | replaces plain classes by their fast twins (`fast/table.py`)               |
| `float8`    | trains the linear layers of blocks in float8; `not_in_float8`      |
| `quantize`  | stores matrices as int8, int4 or bfloat16; `dequantize`             |
| `recompute` | activation checkpointing: computes a block again for its gradient  |
| `compile`   | torch.compile of each block                                        |
| `replay_steps` | decoding by CUDA graphs                                         |

Parameters keep their names; LoRA adds `lora_a` and `lora_b` beside them, and a quantised matrix
`weight` becomes `weight_int8` and `weight_scale` (`quantize/`). A model's own file
mentions none of these.
"""

from headway.transforms.compile import compile
from headway.transforms.fast.table import fast, is_fast
from headway.transforms.float8 import float8, not_in_float8
from headway.transforms.freeze import freeze
from headway.transforms.graphs import replay_steps
from headway.transforms.lora import LoRALinear, lora, lora_state, merge_lora
from headway.transforms.quantize import dequantize, is_quantized, quantize
from headway.transforms.recompute import Recomputed, recompute

__all__ = [
    "LoRALinear",
    "Recomputed",
    "compile",
    "dequantize",
    "fast",
    "float8",
    "freeze",
    "is_fast",
    "is_quantized",
    "lora",
    "lora_state",
    "merge_lora",
    "not_in_float8",
    "quantize",
    "recompute",
    "replay_steps",
]
