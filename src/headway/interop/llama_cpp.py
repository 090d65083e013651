"""A GGUF file as llama.cpp itself reads it: the ids of texts, and what the model predicts.

This file is run as a program of its own, by its path: a file that llama.cpp refuses ends the whole
process, and nothing else of Headway needs to be imported. It reads one JSON object from standard
input (`Question`) and writes one to the path in it (`Answer`). Or it gets a file and a number of
tokens as arguments, prints the address of its server, and runs until it is killed or its standard
input is closed. The package `xllamacpp` serves the model on an address of this machine only.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path
from typing import Any, TypedDict

LISTENING = "listening on "
"""What the line with the address begins with."""


class Question(TypedDict):
    """file: of the model. texts: to encode. prompts: ids that the model continues by `steps` tokens
    each, the most probable ones. top: how many of the most probable tokens to return at each step.
    context: number of tokens that are read at most. answer: path of the file to write."""

    file: str
    texts: list[str]
    prompts: list[list[int]]
    steps: int
    top: int
    context: int
    answer: str


class Answer(TypedDict):
    """ids: of each text. tokens: written after each prompt. log_p: for each prompt and step, the
    ids of the most probable tokens and their log-probabilities; empty where the server gives none.
    version: of the package."""

    ids: list[list[int]]
    tokens: list[list[int]]
    log_p: list[list[list[tuple[int, float]]]]
    version: str


def serve(file: str, context: int) -> Any:
    """Load a file in llama.cpp and return its server. context: number of tokens that it reads."""
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
    return xllamacpp.Server(options)


def ask(question: Question) -> Answer:
    """Load the file in llama.cpp, encode the texts and continue the prompts."""
    import xllamacpp

    server = serve(question["file"], question["context"])

    def post(path: str, body: dict[str, object]) -> Any:
        request = urllib.request.Request(
            server.listening_address + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(request) as response:
            return json.loads(response.read())

    ids = [
        post("/tokenize", {"content": text, "add_special": False, "parse_special": False})["tokens"]
        for text in question["texts"]
    ]

    def proceed(prompt: list[int], steps: int, top: int) -> Any:
        sampling = {"temperature": 0, "n_predict": steps, "n_probs": top, "return_tokens": True}
        return post("/completion", {"prompt": prompt, "cache_prompt": True, **sampling})

    def most_probable(prompt: list[int]) -> list[tuple[int, float]]:
        # none for a token that is a part of a character: the server waits for the rest of it
        steps = proceed(prompt, 1, question["top"]).get("completion_probabilities", [])
        return [(one["id"], one["logprob"]) for step in steps for one in step["top_logprobs"]]

    written = [proceed(prompt, question["steps"], 0)["tokens"] for prompt in question["prompts"]]
    return {
        "ids": ids,
        "tokens": written,
        "log_p": [
            [most_probable(prompt + tokens[:n]) for n in range(len(tokens))]
            for prompt, tokens in zip(question["prompts"], written, strict=True)
        ],
        "version": xllamacpp.__version__,
    }


if __name__ == "__main__" and len(sys.argv) > 1:
    server = serve(sys.argv[1], int(sys.argv[2]))
    print(LISTENING + server.listening_address, flush=True)
    sys.stdin.read()
elif __name__ == "__main__":
    asked = json.load(sys.stdin)
    Path(asked["answer"]).write_text(json.dumps(ask(asked)))
