"""Runs llama.cpp's server with a GGUF file, on an address of this machine only.

This file is run as a program of its own, by its path: a file that llama.cpp refuses ends the whole
process, and nothing else of Headway needs to be imported. It gets a file, a number of tokens and
what it computes (tokens, vectors or texts) as arguments, prints the address of the server, and runs
until it is killed or its standard input is closed.
"""

import sys
from typing import Any

LISTENING = "listening on "
"""What the line with the address begins with."""
TOKENS, VECTORS, TEXTS = "tokens", "vectors", "texts"
"""What the server computes: the probabilities of the next token; the vectors of all tokens of a
text; one vector of a text, by the pooling of the file."""


def serve(file: str, context: int, computes: str) -> Any:
    """Load a file in llama.cpp and return its server.

    context: number of tokens that it reads. computes: `TOKENS`, `VECTORS` or `TEXTS`.
    """
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path = file
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    options.n_ctx, options.n_parallel, options.warmup = context, 1, False
    options.hostnames, options.port, options.ui = ["127.0.0.1"], 0, False  # any free port
    float32 = xllamacpp.ggml_type.GGML_TYPE_F32
    options.cache_type_k = options.cache_type_v = float32  # its default is float16
    # its fast attention rounds to float16
    options.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if computes != TOKENS:  # each text is computed at once
        options.embedding, options.n_batch, options.n_ubatch = True, context, context
    if computes == VECTORS:
        options.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_NONE
    return xllamacpp.Server(options)


if __name__ == "__main__":
    server = serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    print(LISTENING + server.listening_address, flush=True)
    sys.stdin.read()
