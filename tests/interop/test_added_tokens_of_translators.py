"""Tokens that a folder adds to those of a SentencePiece model have their ids, also after export."""

import json

import pytest
import transformers

import headway
from headway.base.errors import DataError, HeadwayWarning
from headway.interop import read_translator_tokenizers
from headway.text import PretrainedSentenceTokenizer
from tests.fixtures.command_line import headway as run_headway
from tests.fixtures.encoder_decoders import marian
from tests.fixtures.sentencepiece import model, unigram_pieces, write_marian_tokenizer

TEXTS = ["the <tool> fox", "<tool>", "the fox<tool>  <tool>", "two dogs<keep>", "<end> a fox"]


def flags(content, **changed):
    usual = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized", "special"), False)
    return {"content": content, **usual, **changed}


def write(path, values):
    path.write_text(json.dumps(values), encoding="utf-8")


def marian_folder(folder, vocabulary=None, **files):
    """Write the tokenizers of a Marian, without a model; return the size of the vocabulary."""
    size = write_marian_tokenizer(folder)
    roles = {"eos_token_id": 0, "pad_token_id": size - 1, "decoder_start_token_id": size - 1}
    write(folder / "config.json", {"model_type": "marian", "vocab_size": size + 9, **roles})
    write(folder / "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer"})
    for name, values in files.items():
        write(folder / f"{name}.json", values)
    return size


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@pytest.mark.parametrize("is_older", [False, True])
def test_added_tokens_of_a_marian_have_the_ids_of_transformers(is_older, tmp_path):
    pytest.importorskip("sentencepiece")
    size = marian_folder(tmp_path)
    tokens = [flags("<tool>"), flags("<keep>", rstrip=True), flags("<end>", special=True)]
    if is_older:
        ids = {token["content"]: size + n for n, token in enumerate(tokens)}
        write(tmp_path / "added_tokens.json", ids)
        named = {"additional_special_tokens": ["<end>"]}
        write(tmp_path / "special_tokens_map.json", named)
    else:
        decoder = {str(size + n): token for n, token in enumerate(tokens)}
        settings = {"tokenizer_class": "MarianTokenizer", "added_tokens_decoder": decoder}
        write(tmp_path / "tokenizer_config.json", settings)
    ours = read_translator_tokenizers(tmp_path, size + 9).source
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS[:4]:
        assert [*ours.encode(text), 0] == theirs(text).input_ids, text
    assert size + 2 not in ours.encode("<end> a") and ours.decode([size + 2, size]) == "<tool>"
    ours.save(tmp_path / "kept.json")
    again = PretrainedSentenceTokenizer.load(tmp_path / "kept.json")
    assert again.fingerprint == ours.fingerprint
    assert [again.encode(text) for text in TEXTS] == [ours.encode(text) for text in TEXTS]


@pytest.mark.parametrize("extra", [None, 0, 7])
def test_added_tokens_of_a_t5_follow_its_sentinels(extra, tmp_path):
    pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), *unigram_pieces()[:1], *unigram_pieces()[3:]]
    (tmp_path / "spiece.model").write_bytes(model(pieces))
    size = len(pieces) + (100 if extra is None else extra)
    roles = {"eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 0}
    write(tmp_path / "config.json", {"model_type": "t5", "vocab_size": size + 9, **roles})
    decoder = {str(size): flags("<tool>"), str(size + 3): flags("<keep>")}
    settings = {} if extra is None else {"extra_ids": extra}
    write(tmp_path / "tokenizer_config.json", {**settings, "added_tokens_decoder": decoder})
    ours = read_translator_tokenizers(tmp_path, size + 9).source
    ids = ours.encode("the <tool> fox<keep>")
    assert (
        ids.count(size) == 1 and ids[-1] == size + 3 and max(ours.encode("the fox")) < len(pieces)
    )
    assert ours.token_strings([size - 1, size + 1])[1] == f"<unused {size + 1}>"
    write(tmp_path / "tokenizer_config.json", {"extra_ids": -1})
    with pytest.raises(DataError, match="extra_ids=-1"):
        read_translator_tokenizers(tmp_path, size + 9)


def test_added_tokens_that_do_not_fit_are_named(tmp_path):
    size = marian_folder(tmp_path, added_tokens={"<tool>": 10_000})
    with pytest.warns(HeadwayWarning, match=r"added_tokens.json: '<tool>': .* its id is 10,000"):
        read_translator_tokenizers(tmp_path, size)
    write(tmp_path / "added_tokens.json", {"<tool>": 5})
    with pytest.raises(DataError, match="'<tool>' has the id 5, but in the vocabulary"):
        read_translator_tokenizers(tmp_path, size)


def test_a_vocabulary_with_gaps_is_read(tmp_path):
    size = marian_folder(tmp_path)
    path = tmp_path / "vocab.json"
    ids = json.loads(path.read_text(encoding="utf-8"))
    write(path, {token: i + 4 * (i > 20) for token, i in ids.items()})
    ours = read_translator_tokenizers(tmp_path, size + 9).source
    assert max(ours.encode("two dogs play in the garden")) < size + 4
    assert ours.tokens[22] == "<unused 22>" and ours.tokens[size + 3] == "<pad>"
    assert ours.decode(ours.encode("the fox eats")) == "the fox eats"


def test_added_tokens_survive_export(tmp_path):
    theirs, folder = marian(tmp_path / "m")
    size = theirs.config.vocab_size
    ids = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    text = next(name for name, i in ids.items() if i == size - 3)
    changed = {name: i for name, i in ids.items() if name != text}
    write(folder / "vocab.json", changed)
    write(folder / "added_tokens.json", {"<tool>": size - 3})
    ours = headway.load(folder).tokenizer.source
    assert size - 3 in ours.encode("the <tool> fox")
    run_headway("export", "m", "--to", "hf", "--output", "again", cwd=tmp_path)
    again = headway.load(tmp_path / "again").tokenizer.source
    assert again.encode("the <tool> fox") == ours.encode("the <tool> fox")
