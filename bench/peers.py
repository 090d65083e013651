"""What users of other libraries write: a few lines of their documentation, as scripts.

    python -m bench.peers generate FOLDER PROMPT TOKENS
    python -m bench.peers translate-transformers FOLDER CHUNK [sdpa|eager] < sentences.txt
    python -m bench.peers translate-ctranslate2 FOLDER CHUNK < sentences.txt

Nothing of Headway is imported, so that a script starts as fast as its library. Translations are of
`CHUNK` sentences at a time, sorted by length, in batches of 64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

BEAM, BATCH = 4, 64
Translate = Callable[[list[str]], list[str]]


def generate(folder: str, prompt: str, tokens: str) -> None:
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder).to(torch_device())
    inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
    streamer = transformers.TextStreamer(tokenizer, skip_prompt=True)
    model.generate(**inputs, max_new_tokens=int(tokens), do_sample=False, streamer=streamer)


def by_transformers(folder: str, attention: str = "sdpa") -> Translate:
    import transformers

    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        folder, attn_implementation=attention
    ).to(torch_device())

    def translate(texts: list[str]) -> list[str]:
        inputs = tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
        longest = 2 * inputs["input_ids"].shape[1] + 10
        outputs = model.generate(**inputs.to(model.device), num_beams=BEAM, max_new_tokens=longest)
        decoded: list[str] = tokenizer.batch_decode(outputs, skip_special_tokens=True)
        return decoded

    return translate


def by_ctranslate2(folder: str, **options: Any) -> Translate:
    import ctranslate2
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    translator = ctranslate2.Translator(folder)

    def translate(texts: list[str]) -> list[str]:
        tokens = [tokenizer.encode(text, add_special_tokens=False).tokens for text in texts]
        results = translator.translate_batch(tokens, **{"beam_size": BEAM, **options})
        ids = [[tokenizer.token_to_id(t) for t in result.hypotheses[0]] for result in results]
        return tokenizer.decode_batch(ids)

    return translate


def torch_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def translate_lines(translate: Translate, chunk: int) -> None:
    """Translate standard input, and print the translations of each chunk."""
    while lines := [line.strip() for line in islice(sys.stdin, chunk)]:
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        outputs = [""] * len(lines)
        for start in range(0, len(lines), BATCH):
            rows = order[start : start + BATCH]
            for i, text in zip(rows, translate([lines[i] for i in rows]), strict=True):
                outputs[i] = text.strip()
        print("\n".join(outputs), flush=True)


def main(what: str, folder: str, *rest: str) -> None:
    if what == "generate":
        generate(folder, *rest)
        return
    chunk, *options = rest
    is_transformers = what == "translate-transformers"
    build = by_transformers(folder, *options) if is_transformers else by_ctranslate2(folder)
    translate_lines(build, int(chunk))


if __name__ == "__main__":
    main(*sys.argv[1:])
