"""A GGUF file is evaluated by llama.cpp itself."""

import pytest

from headway.base.errors import HeadwayError
from headway.bundle import TextBundle
from headway.exporting.llama_cpp import running_server
from headway.exporting.opened import opened_export
from headway.interop import write_gguf
from headway.interop.gguf_reader import FILE
from headway.runs.evaluation import evaluate_model
from headway.tasks.opening import load_as
from tests.fixtures.encoder_tokenizers import a_thousand_texts
from tests.fixtures.gguf_models import LLAMA, TEXT, bpe, characters, model, sentencepiece

pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")


def test_llama_cpp_scores_a_text_as_the_model_does(tmp_path):
    tokenizer = bpe()
    text = tmp_path / "text.txt"
    text.write_text(TEXT[:150])  # with tokens that are parts of a character
    bundle = TextBundle(model(tokenizer, **LLAMA), tokenizer)
    expected = evaluate_model(bundle, None, [text], {"length": 47}).scores
    scores = {}
    for dtype, name in (("float32", "F32"), ("int8", "Q8_0")):
        folder = tmp_path / dtype
        write_gguf(bundle.model, tokenizer, folder, dtype)
        with opened_export(folder) as opened:
            assert opened.dtype == name and opened.runtime.startswith("xllamacpp")
            assert all(bool(p.isnan().all()) for p in opened.bundle.model.parameters())
            scores[dtype] = evaluate_model(opened.bundle, None, [text]).scores["nats"]
    assert scores["float32"] == pytest.approx(expected["nats"], abs=1e-5)
    assert 1e-6 < abs(scores["int8"] - expected["nats"]) < 0.1
    with opened_export(folder / "model.gguf", "headway") as opened:
        assert opened is None
    assert load_as(TextBundle, folder).tokenizer.size == tokenizer.size


@pytest.mark.slow
@pytest.mark.parametrize("train", [bpe, characters, sentencepiece])
def test_llama_cpp_gives_a_thousand_texts_the_same_ids(tmp_path, train):
    tokenizer = train()
    write_gguf(model(tokenizer, **LLAMA), tokenizer, tmp_path / "out")
    with running_server(tmp_path / "out" / FILE, 48) as server:
        texts = 0
        for text in a_thousand_texts():
            try:
                ids = tokenizer.encode(text)
            except HeadwayError:  # a tokenizer of characters has no other ones
                continue
            assert server.ids(text) == ids, text
            texts += 1
    assert texts == 1000 or (train is characters and texts > 50)
