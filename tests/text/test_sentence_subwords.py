import json
import random
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.base.errors import DataError, UsageError
from headway.text import EncoderTokenizer, TextBPE, Tokenizer, TokenizerPair, UnigramTokenizer
from headway.text.byte_level import _without_long_words
from tests.fixtures.cpu_time import within

TEXTS = ["The old baker waves.", "The baker bakes bread </s> <pad>", "Der alte Bäcker winkt."] * 9
TOKENIZER = Tokenizer.train(TEXTS, 330)
ANY_TEXT = st.text(max_size=40) | st.text(alphabet="a é\n\t\r\u2028\x85\u00a0🦊ก</s>", max_size=40)


@given(ANY_TEXT.filter(lambda text: not text.startswith(" ")))
def test_any_text_is_decoded_exactly(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert TOKENIZER.encode_batch([text, text]) == [ids, ids]
    assert not {TOKENIZER.pad, TOKENIZER.bos, TOKENIZER.eos} & set(ids)


@given(ANY_TEXT.filter(lambda text: not text.startswith(" ")))
def test_words_joined_by_spaces_are_the_text_and_have_every_token_once(text: str) -> None:
    ids = TOKENIZER.encode(text)
    words = TOKENIZER.words(ids)
    assert " ".join(word for word, _ in words) == text
    assert [position for _, positions in words for position in positions] == list(range(len(ids)))


@pytest.mark.parametrize("special", ["<pad>", "<s>", "</s>"])
def test_text_that_spells_a_special_token_is_not_encoded_as_one(
    special: str, tmp_path: Path
) -> None:
    TOKENIZER.save(tmp_path / "t.json")
    for tokenizer in (TOKENIZER, Tokenizer.load(tmp_path / "t.json")):
        ids = tokenizer.encode(f"a{special} {special}")
        assert not {0, 1, 2} & set(ids)
        assert tokenizer.decode(ids) == f"a{special} {special}"


def test_training_is_deterministic_and_a_file_preserves_the_tokenizer(tmp_path: Path) -> None:
    assert Tokenizer.train(iter(TEXTS), 330).fingerprint == TOKENIZER.fingerprint
    TOKENIZER.save(tmp_path / "t.json")
    loaded = Tokenizer.load(tmp_path / "t.json")
    assert loaded.fingerprint == TOKENIZER.fingerprint
    assert (loaded.size, loaded.pad, loaded.bos, loaded.eos) == (TOKENIZER.size, 0, 1, 2)
    assert Tokenizer.train(TEXTS[:1], 330).fingerprint != TOKENIZER.fingerprint


def test_tokens_are_readable_and_special_tokens_are_skipped_by_decode() -> None:
    ids = [TOKENIZER.bos, *TOKENIZER.encode("The 🦊"), TOKENIZER.eos]
    tokens = TOKENIZER.token_strings(ids)
    assert (tokens[0], tokens[1], tokens[-1]) == ("<s>", " The", "</s>")
    assert all(token == "\ufffd" for token in tokens[-5:-1])
    assert TOKENIZER.decode(ids) == "The 🦊"
    assert [word for word, _ in TOKENIZER.words(ids)] == ["<s>", "The", "🦊", "</s>"]


def test_ids_outside_the_vocabulary_and_lone_surrogates_are_errors() -> None:
    for invalid in (-1, TOKENIZER.size):
        with pytest.raises(DataError, match=f"token id {invalid} is outside"):
            TOKENIZER.decode([invalid])
    with pytest.raises(DataError, match="half of a character"):
        TOKENIZER.encode("ab\ud800")


def test_a_vocabulary_smaller_than_the_bytes_is_refused() -> None:
    with pytest.raises(UsageError, match=r"at least 259 .* but is 258"):
        Tokenizer.train(TEXTS, 258)


def test_an_error_in_the_stream_of_texts_reaches_the_caller() -> None:
    def texts():
        yield "one"
        raise DataError("bad line", "file:2")

    with pytest.raises(DataError, match="bad line"):
        Tokenizer.train(texts(), 300)


def test_wrong_files_are_refused_with_the_reason(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "good.json")
    good = json.loads((tmp_path / "good.json").read_text())
    lacking = json.loads(json.dumps(good))
    lacking["model"]["vocab"]["<other>"] = lacking["model"]["vocab"].pop("<s>")
    padding = {**good, "padding": {"strategy": "BatchLongest"}}
    unigram = {**good, "model": {"type": "Unigram"}}
    file = tmp_path / "wrong.json"
    for content, reason in [
        ("{", "not JSON"),
        ("[]", "must be a JSON object"),
        (json.dumps(lacking), "lacks the special tokens <s>"),
        (json.dumps(padding), "padding"),
        (json.dumps(unigram), "Unigram"),
    ]:
        file.write_text(content)
        with pytest.raises(DataError, match=reason) as caught:
            Tokenizer.load(file)
        assert caught.value.where == str(file)


@pytest.mark.parametrize("joint", [True, False])
def test_a_pair_of_tokenizers_is_loaded_from_its_folder(joint: bool, tmp_path: Path) -> None:
    def pairs():
        return iter([("the baker waves", "der Bäcker winkt")] * 5)

    pair = TokenizerPair.train(pairs, 290, joint)
    pair.save(tmp_path)
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint is joint
    assert loaded.fingerprint == pair.fingerprint
    assert (loaded.source is loaded.target) is joint
    assert loaded.target.decode(pair.target.encode("Bäcker")) == "Bäcker"


def test_a_folder_without_tokenizers_or_with_too_many_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the folder has no tokenizer.json"):
        TokenizerPair.load(tmp_path)
    TOKENIZER.save(tmp_path / "tokenizer.json")
    TOKENIZER.save(tmp_path / "tokenizer.source.json")
    with pytest.raises(DataError, match="but has both kinds"):
        TokenizerPair.load(tmp_path)


@pytest.mark.turns(4)
@pytest.mark.parametrize(
    "train", [Tokenizer.train, UnigramTokenizer.train, TextBPE.train, EncoderTokenizer.train]
)
def test_training_on_a_very_long_word_takes_seconds(train) -> None:
    generator = random.Random(0)
    word = "".join(generator.choices(string.ascii_lowercase, k=240_000))
    with within(20):  # without cutting the word it takes minutes
        tokenizer = train([*TEXTS, word, f"bread {word} bread"], 3000)
    assert tokenizer.size > 60
    with within(5):
        assert tokenizer.encode(word)


def test_texts_are_cut_for_training_only_inside_words_of_more_than_a_thousand_letters() -> None:
    long_word, long_signs = "ab" * 1200, "-" * 1001
    texts = ["a " * 5000, "x" * 1000, f"so {long_word}, {long_signs} end", "", "漢字。" * 400]
    groups = list(_without_long_words(texts))
    assert groups[:2] == texts[:2] and groups[-2:] == texts[-2:]
    parts = groups[2:-2]
    assert "".join(parts) == texts[2] and len(parts) == 4
    assert parts[0] == f"so {long_word[:1000]}" and parts[-1] == "- end"
