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

from headway.transforms.compile import compile as compile
from headway.transforms.fast.table import fast as fast
from headway.transforms.fast.table import is_fast as is_fast
from headway.transforms.float8 import float8 as float8
from headway.transforms.float8 import not_in_float8 as not_in_float8
from headway.transforms.freeze import freeze as freeze
from headway.transforms.graphs import replay_steps as replay_steps
from headway.transforms.lora import LoRALinear as LoRALinear
from headway.transforms.lora import lora as lora
from headway.transforms.lora import merge_lora as merge_lora
from headway.transforms.quantize import dequantize as dequantize
from headway.transforms.quantize import is_quantized as is_quantized
from headway.transforms.quantize import quantize as quantize
from headway.transforms.recompute import Recomputed as Recomputed
from headway.transforms.recompute import recompute as recompute
