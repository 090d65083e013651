"""Every verb that reads standard input treats its lines as those of a file."""

import re

import pytest
import torch

from headway.base.errors import DataError
from headway.bundle import EncoderBundle, TextBundle
from headway.data.formats.lines import LINE_LIMIT, read_lines
from headway.models import (
    GPT,
    Bert,
    BertClassifier,
    BertConfig,
    BertQuestionAnswering,
    BertTagger,
    GPTConfig,
    Translator,
    TranslatorConfig,
)
from headway.tasks.classification.model import ClassifierBundle
from headway.tasks.classification.reader import ClassReader
from headway.tasks.question_answering.model import AnswerReader, QuestionAnsweringBundle
from headway.tasks.tagging.model import TaggerBundle, TagReader
from headway.tasks.translation.bundle import TranslatorBundle
from headway.text import EncoderTokenizer, TextBPE, TokenizerPair
from tests.fixtures.command_line import headway, headway_process

SENTENCES = ["the red fox sings", "a café by the lake", "two dogs play", "[MASK] in the garden"]
SHAPE = {"model_dim": 16, "num_heads": 2, "ffn_dim": 24}

TEXTS = {
    "byte order mark": b"\xef\xbb\xbfred fox\nred fox\n",
    "byte order mark inside": b"red\xef\xbb\xbf fox\n\xef\xbb\xbfred fox\n",
    "CRLF": b"red fox\r\ntwo dogs\r\n",
    "lone CR": b"red\rfox\n",
    "NUL": b"red\0fox\n",
    "separators": "red\u2028fox\u2029two\x85dogs\x0b\x0cplay\n".encode(),
    "empty lines": b"\nred fox\n\n \ntwo dogs\n\n",
    "no final newline": b"red fox\ntwo dogs",
    "empty input": b"",
    "only a byte order mark": b"\xef\xbb\xbf",
}
FAULTS = {
    "UTF-16": ("red fox\n".encode("utf-16"), "UTF-16", 1),
    "UTF-16, big end first": (b"\xfe\xff" + "red fox\n".encode("utf-16-be"), "UTF-16", 1),
    "latin-1": (b"red fox\ncaf\xe9\n", "0xe9 at position 4 is not UTF-8", 2),
    "lone surrogate": (b"red \xed\xa0\x80 fox\n", "0xed at position 5 is not UTF-8", 1),
    "half a character at the end": (b"red fox\n\xc3", "0xc3 at position 1 is not UTF-8", 2),
    "a line without end": (b"a\n" + b"x" * (LINE_LIMIT + 1), "longer than 1,048,576 bytes", 2),
}
VERBS = {
    "translate": "translate translator --beam 2",
    "generate": "generate gpt --max-tokens 3 --temperature 0 --json",
    "classify": "classify classifier",
    "tag": "tag tagger",
    "fill": "fill encoder --top 2",
    "embed": "embed encoder --json",
    "similar": "similar encoder fox --top 9",
}


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("input")
    torch.manual_seed(0)
    pair = TokenizerPair.train(lambda: zip(SENTENCES, SENTENCES, strict=True), 300, True)
    sizes = {"source_vocabulary": pair.source.size, "target_vocabulary": pair.target.size}
    translator = TranslatorConfig(**SHAPE, **sizes, encoder_layers=1, decoder_layers=1)
    TranslatorBundle(Translator(translator), pair).save(folder / "translator")
    subwords = TextBPE.train(SENTENCES, 280)
    gpt = GPTConfig(**SHAPE, num_layers=1, max_length=64, vocabulary=subwords.size)
    TextBundle(GPT(gpt), subwords).save(folder / "gpt")
    tokenizer = EncoderTokenizer.train(SENTENCES, 120)
    config = BertConfig(**SHAPE, num_layers=1, max_length=32, vocabulary=tokenizer.size)
    EncoderBundle(Bert(config), tokenizer).save(folder / "encoder")
    reader = ClassReader(tokenizer, ("animal", "tool"), 16)
    ClassifierBundle(BertClassifier(Bert(config), 2), reader).save(folder / "classifier")
    tagger = BertTagger(Bert(config), 3)
    TaggerBundle(tagger, TagReader(tokenizer, ("B-a", "I-a", "O"), 16)).save(folder / "tagger")
    QuestionAnsweringBundle(
        BertQuestionAnswering(Bert(config)), AnswerReader(tokenizer, 24, 6)
    ).save(folder / "answerer")
    return folder


@pytest.fixture
def outcome(working_folder):
    """Run the command line in the folder of the models.

    The function returns the exit code, the standard output and the standard error.
    """

    def run(words, standard_input=b""):
        done = headway(*words, cwd=working_folder, text=standard_input, check=None)
        assert "unexpected" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return run


def lines_of(raw, folder):
    """Return the lines of a file with this content."""
    (folder / "input.txt").write_bytes(raw)
    return list(read_lines(folder / "input.txt"))


def error_of(raw, folder):
    """Return the message of the error that a file with this content gives."""
    with pytest.raises(DataError) as error:
        lines_of(raw, folder)
    return error.value.what


@pytest.mark.turns(3)
@pytest.mark.parametrize("case", TEXTS)
@pytest.mark.parametrize("verb", VERBS)
def test_lines_of_standard_input_are_those_of_a_file(verb, case, working_folder, outcome):
    words, raw = VERBS[verb].split(), TEXTS[case]
    if verb == "fill":
        raw = raw.replace(b"fox", b"[MASK]").replace(b"dogs", b"[MASK]")
    lines = lines_of(raw, working_folder)
    result = outcome(words, raw)
    if verb in ("embed", "similar"):  # these verbs accept a file as an argument
        _, out, err = outcome([*words, "input.txt"])
        assert result[1] == out
        if not any(map(str.strip, lines)):
            assert result[0] == 3 and "no text found" in result[2] and "no text found" in err
    elif not lines:
        assert result[:2] == (0, "")
    else:
        assert result == outcome([*words, *lines])
        assert result[0] == (2 if verb == "fill" and "" in lines else 0)


@pytest.mark.parametrize("case", FAULTS)
@pytest.mark.parametrize("verb", [*VERBS, "answer"])
def test_input_that_is_no_text_is_refused_as_in_a_file_with_its_line(
    verb, case, working_folder, outcome
):
    raw, message, line = FAULTS[case]
    if verb == "fill":
        raw = raw.replace(b"red", b"[MASK]")
        message = re.sub(r"position \d+", "position", message)
    words = "answer answerer --context fox" if verb == "answer" else VERBS[verb]
    code, _, err = outcome(words.split(), raw)
    assert code == 3
    assert error_of(raw, working_folder) in err and f"standard input, line {line}" in err
    assert message in (re.sub(r"position \d+", "position", err) if verb == "fill" else err)


@pytest.mark.parametrize(
    "case", [name for name, raw in TEXTS.items() if b"fox" in raw and b"\n\n" not in raw]
)
def test_questions_of_standard_input_are_those_of_a_file(case, working_folder, outcome):
    lines = lines_of(TEXTS[case], working_folder)
    words = ["answer", "answerer", "--context", "the red fox sings by the lake"]
    result = outcome(words, TEXTS[case])
    single = [outcome([*words, line]) for line in lines]
    assert result == (0, "".join(out for _, out, _ in single), "")


@pytest.mark.parametrize("case", ["byte order mark", "CRLF", "NUL", "separators"])
def test_turns_of_a_conversation_are_the_lines_of_a_file(case, working_folder, outcome):
    words = ["chat", "gpt", "--max-tokens", "3", "--temperature", "0"]
    lines = lines_of(TEXTS[case], working_folder)
    plain = "".join(f"{line}\n" for line in lines).encode()
    assert outcome(words, TEXTS[case]) == outcome(words, plain)
    assert outcome(words, b"fine\ncaf\xe9\n")[0] == 3


@pytest.mark.turns(6)
@pytest.mark.parametrize("letters", ["x ", "x"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_line_of_a_megabyte_is_read_or_refused_with_its_number_of_tokens(verb, letters, outcome):
    size = 10**5 if verb == "tag" else 10**6  # which reads the whole line, in many windows
    line = (letters * size)[:size]
    code, out, err = outcome(VERBS[verb].split(), f"red [MASK]\n[MASK] {line}\n".encode())
    if verb in ("translate", "generate") or (verb, letters) == ("fill", "x "):
        assert code == 2 and out == "" and "tokens" in err
        assert re.search("(text|prompt) 2", err)
    elif letters == "x " and verb != "tag":
        assert code == 0 and "text 2 has 500,005 tokens and is truncated to the first " in err
    else:  # a word of more than a hundred letters is one token of this tokenizer
        assert (code, err) == (0, "") and out


def test_truncated_inputs_are_counted_on_one_line(outcome):
    long = b"two dogs play by the lake " * 9
    cases = {"classify": ("text", "classify classifier"), "embed": ("text", "embed encoder")}
    for unit, words in cases.values():
        code, out, err = outcome(words.split(), b"red\n" + long + b"\nfox\n")
        assert (
            code == 0 and out and re.search(rf"! {unit} 2 has \d+ tokens and is truncated to", err)
        )
        code, _, err = outcome(words.split(), b"red\n" + (long + b"\n") * 600)
        assert code == 0 and len(err.splitlines()) == 1
        assert re.search(rf"! 600 of 601 {unit}s have more than .* first is {unit} 2 with", err)
        assert outcome(words.split(), b"red\nfox\n")[2] == ""


def test_a_truncated_question_is_reported_and_one_that_fills_the_window_is_refused(outcome):
    words = ["answer", "answerer", "--context", "a red fox"]
    code, out, err = outcome(words, b"who is it\n" + b"dogs " * 20 + b"\n")
    assert code == 0 and len(out.splitlines()) == 2
    assert "! question 2 has 20 tokens and is truncated to the first 10" in err
    for questions in ([], ["dogs " * 3000]):
        code, out, err = outcome([*words, *questions], b"dogs " * 3000)
        assert code == 2 and out == ""
        assert "3,000 tokens, but the maximum length of question and context together is 24" in err


def test_a_too_long_line_is_named_by_its_number_in_any_batch(outcome):
    short = b"red [MASK]\n" * 600
    for verb, long in (("translate", b"x" * 5000), ("fill", b"[MASK] " * 40)):
        code, out, err = outcome(VERBS[verb].replace("--beam 2", "--beam 1").split(), short + long)
        assert code == 2 and len(out.splitlines()) >= 512 and "text 601" in err


@pytest.mark.parametrize("verb", [*VERBS, "answer", "chat", "train"])
def test_an_argument_that_is_no_text_is_refused_with_its_number(verb, outcome):
    start = {
        "answer": ["answer", "answerer", "--context", "x"],
        "chat": ["chat", "gpt", "--system"],
    }
    words = start.get(verb, VERBS.get(verb, "train classify").split())
    code, out, err = outcome([*words, "caf\udce9"])
    assert code == 2 and not out
    assert f"argument {len(words) + 1}" in err and "byte 0xe9 at character 4 is not UTF-8" in err


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.conll"])
@pytest.mark.parametrize("verb", ["translate", "generate", "classify", "tag", "fill", "answer"])
def test_the_path_of_a_file_is_no_input(verb, name, working_folder, outcome):
    (working_folder / name).write_text("[MASK] fox\n")
    words = {"answer": ["answer", "answerer", "--context", "x"]}.get(verb) or VERBS[verb].split()
    code, out, err = outcome([*words, "a fox [MASK]", name])
    assert code == 2 and not out
    assert f"the input is the path of a file, but inputs are texts\n  at   {name}\n" in err
    assert f"< {name}" in err or f"--file {name}" in err or f"-o a.new{name[1:]}" in err


def test_a_text_that_is_not_the_path_of_a_file_is_an_input(working_folder, outcome):
    (working_folder / "fox").write_text("a file without a suffix may have the name of a text")
    code, out, _ = outcome([*VERBS["classify"].split(), "fox", "no.txt", "x" * 5000])
    assert code == 0 and len(out.splitlines()) == 3


def test_standard_input_that_is_closed_is_refused(working_folder):
    done = headway_process("translate", "translator", cwd=working_folder, closed=[0], check=2)
    assert "standard input is closed" in done.stderr
