"""A hundred prompts are continued by the same 32 tokens in every runtime, or a tie is named."""

import pytest
import torch
from bench.export_agreement import LONGEST, PROMPTS, RUNTIMES, TIE, Agreement, agreements

from headway.base.errors import UsageError
from headway.bundle import TextBundle
from headway.exporting.web.packages import find_packages
from tests.fixtures.gguf_models import LLAMA, TEXT, bpe, model

WORDS = TEXT.split()

PACKAGES = {
    "hf": ["transformers"],
    "onnx": ["onnxruntime", "onnxscript"],
    "gguf": ["gguf", "xllamacpp"],
    "ctranslate2": ["ctranslate2"],
    "node": ["onnxruntime", "onnxscript"],
    "chromium": ["playwright", "onnxruntime", "onnxscript"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNTIMES)
def test_a_hundred_prompts_are_continued_by_the_same_tokens(name):
    for package in PACKAGES.get(name, ()):
        pytest.importorskip(package)
    if name in ("node", "chromium"):
        try:
            find_packages(None)
        except UsageError as error:
            pytest.skip(str(error))
    tokenizer = bpe()
    bundle = TextBundle(model(tokenizer, **LLAMA, max_length=96), tokenizer)
    generator = torch.Generator().manual_seed(0)
    texts = []
    while len(texts) < PROMPTS:
        count = int(torch.randint(1, LONGEST, (), generator=generator))
        words = torch.randint(len(WORDS), (count,), generator=generator).tolist()
        texts.append(" ".join(WORDS[i] for i in words))
    found = [*agreements(bundle, texts, names=[name])]
    assert found
    for one in found:
        assert isinstance(one, Agreement), one
        print(f"\nMATRIX {name}: {one}")
        assert one.equal == PROMPTS or (one.divergence and one.divergence.margin < TIE), one
