"""A translator of several directions, exported with the tags of its target languages."""

import pytest
import tokenizers
import torch

import headway
from headway.base.settings import override
from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.target import export
from headway.interop import write_translator
from headway.runs import recipe, train
from headway.text import PretrainedSentenceTokenizer
from tests.fixtures.command_line import sentences
from tests.fixtures.directions import TINY, write_corpora

transformers = pytest.importorskip("transformers")
TEXTS = [*[source for source, _ in sentences()][:12], "naïve 🦊 </s> bread", "a  b"]
LANGUAGES = ("de", "en", "xx")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("directions")
    data = {"data.train": write_corpora(folder), "training.steps": 200, "optimizer.lr": 3e-3}
    data |= {"schedule.warmup": 20, "evaluation.every": 200, "checkpoint.every": 200}
    config = override(recipe("translate", ("test", TINY)), data, "test")
    train(config, folder / "run")
    return headway.load(folder / "run")


def tagged():
    return [f"<2{language}> {text}" for language in LANGUAGES for text in TEXTS]


def test_transformers_translates_tagged_texts_alike(bundle, tmp_path):
    exported = export(bundle, tmp_path / "hf", HUGGING_FACE)
    theirs = getattr(transformers, exported.architecture).from_pretrained(exported.folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported.folder)
    source = bundle.tokenizer.source
    tags = [source.language_tags[language] for language in LANGUAGES]
    assert tokenizer.convert_tokens_to_ids([f"<2{name}>" for name in LANGUAGES]) == tags
    expected = bundle.search(tagged(), beam=1)
    assert len({best[0].tokens for best in expected}) > 10
    for text, (best,) in zip(tagged(), expected, strict=True):
        ids = tokenizer(text).input_ids
        assert ids == [*source.encode(text), source.eos] and ids[0] in tags
        output = theirs.generate(
            input_ids=torch.tensor([ids]),
            num_beams=1,
            forced_eos_token_id=None,
            max_new_tokens=2 * (len(ids) - 1) + 10,
        )
        tokens = output[0, 1:].tolist()
        tokens = tokens[: tokens.index(source.eos)] if source.eos in tokens else tokens
        assert tokens == list(best.tokens)


def test_an_exported_folder_is_used_with_the_tags_or_the_language(bundle, tmp_path):
    write_translator(bundle.model, bundle.tokenizer, tmp_path / "hf")
    again = headway.load(tmp_path / "hf")
    assert isinstance(again.tokenizer.source, PretrainedSentenceTokenizer)
    assert again.languages == bundle.languages == LANGUAGES
    assert _beginnings(again, bundle, tagged()) == _tokens(bundle, tagged())
    ours = bundle.into("xx")
    assert _beginnings(again.into("xx"), ours, TEXTS[:5]) == _tokens(ours, TEXTS[:5])


def _tokens(bundle, texts):
    return [best.tokens for (best,) in bundle.search(texts, beam=1)]


def _beginnings(exported, bundle, texts):
    """Return greedy outputs, cut to the lengths of ours: transformers has another maximum."""
    pairs = zip(_tokens(exported, texts), _tokens(bundle, texts), strict=True)
    return [theirs[: len(ours)] for theirs, ours in pairs]


def test_ctranslate2_translates_tagged_texts_alike(bundle, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    export(bundle, tmp_path / "ct2", CTRANSLATE2)
    translator = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    engine = tokenizers.Tokenizer.from_file(str(tmp_path / "ct2/tokenizer.json"))
    texts = [text for text in tagged() if "</s>" not in text]
    rows = [engine.encode(text, add_special_tokens=False).tokens for text in texts]
    expected = bundle.search(texts, beam=1)
    for text, row, (best,) in zip(texts, rows, expected, strict=True):
        assert row[0] == text[: text.index(">") + 1]
        (result,) = translator.translate_batch(
            [row], beam_size=1, max_decoding_length=2 * len(row) + 10, min_decoding_length=0
        )
        assert [engine.token_to_id(token) for token in result.hypotheses[0]] == list(best.tokens)
