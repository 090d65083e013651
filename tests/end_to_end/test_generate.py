"""Generation and chat through the command line, on a model trained for a second."""

import json
import shlex

import pytest

from tests.fixtures.command_line import headway
from tests.fixtures.language_model_commands import LINES, train


@pytest.fixture(scope="module")
def working_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generate")
    text = "\n".join([*LINES, "User: hello\nAssistant: the fox\n"])
    (folder / "t.txt").write_text(text + "\n")
    (folder / "broken.txt").write_bytes(b"fine \xff")
    (folder / "examples.txt").write_text("the fox likes a drum.\n")
    headway(*train("a", "--steps", "60", "--optimizer.lr", "1e-2"), cwd=folder)
    headway(*train("b", "--steps", "3", "--data.tokenizer", "runs/a"), cwd=folder)
    headway(*train("c", "--steps", "3", "--data.tokenizer", "characters"), cwd=folder)
    return folder


@pytest.fixture
def run_headway(run_headway):
    """Run a command line that is written in one string, as a shell takes it."""

    def run(command, standard_input="", code=0):
        return run_headway(*shlex.split(command), standard_input=standard_input, code=code)

    return run


GREEDY = "--temperature 0 --max-tokens 8"


def test_a_streamed_text_equals_the_text_in_json(run_headway):
    streamed, _ = run_headway(f"generate runs/a 'the fox' {GREEDY}")
    row = json.loads(run_headway(f"generate runs/a 'the fox' {GREEDY} --json")[0])
    assert streamed == row["text"] + "\n"
    assert row["prompt"] == "the fox" and row["reason"] in ("length", "end")
    assert len(row["tokens"]) == len(row["log_probabilities"]) > 0
    assert all(value <= 0 for value in row["log_probabilities"])
    echoed, _ = run_headway(f"generate runs/a 'the fox' {GREEDY} --echo")
    assert echoed == "the fox" + streamed


def test_speculative_decoding_does_not_change_the_output(run_headway):
    plain, _ = run_headway(f"generate runs/a 'the fox' {GREEDY}")
    assert run_headway(f"generate runs/a 'the fox' {GREEDY} --lookup 3")[0] == plain
    assert (
        run_headway(f"generate runs/a 'the fox' {GREEDY} --draft runs/b --draft-tokens 2")[0]
        == plain
    )


def test_several_prompts_and_samples_are_labelled(run_headway):
    prompts = "the fox\n\nthe owl\n"
    out, _ = run_headway("generate runs/a --max-tokens 5 --samples 2 --seed 4 --json", prompts)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["prompt"], row["sample"], row["seed"]) for row in rows] == [
        (prompt, sample, seed)
        for prompt in ("the fox", "", "the owl")
        for sample, seed in ((1, 4), (2, 5))
    ]
    alone, _ = run_headway("generate runs/a 'the owl' --max-tokens 5 --samples 2 --seed 4 --json")
    texts = [json.loads(line)["text"] for line in alone.splitlines()]
    assert texts == [row["text"] for row in rows[4:]]
    text, _ = run_headway("generate runs/a --max-tokens 3 --samples 2", prompts)
    assert [f"[{i}.{j}]" in text.split("\n") for i in (1, 2, 3) for j in (1, 2)] == [True] * 6


def test_few_shot_examples_precede_every_prompt(run_headway, working_folder):
    examples = (working_folder / "examples.txt").read_text()
    joined, _ = run_headway(f"generate runs/a {shlex.quote(examples + 'the fox')} {GREEDY}")
    assert run_headway(f"generate runs/a 'the fox' {GREEDY} --few-shot examples.txt")[0] == joined


def test_stop_force_forbid_and_beam_take_effect(run_headway):
    out, _ = run_headway("generate runs/a 'the fox' --max-tokens 12 --stop '.' --temperature 0")
    assert "." not in out
    out, _ = run_headway(
        "generate runs/a 'the fox' --max-tokens 12 --force ' paints' --temperature 0"
    )
    assert out.startswith(" paints")
    first = run_headway(f"generate runs/a 'the fox' {GREEDY} --json")[0]
    token = json.loads(first)["tokens"][0]
    out, _ = run_headway(f"generate runs/a 'the fox' {GREEDY} --json --forbid {shlex.quote(token)}")
    assert json.loads(out)["tokens"][0] != token
    out, _ = run_headway("generate runs/a 'the fox' --beam 3 --samples 2 --max-tokens 6 --json")
    assert len(out.splitlines()) == 2


def test_a_chat_reply_does_not_continue_with_the_users_turn(run_headway):
    settings = "--max-tokens 6 --temperature 0"
    out, _ = run_headway(f"chat runs/a {settings}", "hello\nwho?\n")
    assert len(out.splitlines()) >= 2 and "User:" not in out
    out, _ = run_headway(
        f"chat runs/a {settings} --template 'the {{user}}' --system 'a drum. '", "fox\n"
    )
    assert out.endswith("\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("generate", 2, "RUN requires an argument"),
        ("generate runs/absent x", 2, "holds no model"),
        ("generate runs/a x --top-p 3", 2, "top-p=3"),
        ("generate runs/a x --top-q 3", 2, "Did you mean"),
        ("generate runs/a x --bias nothing", 2, "WORD=NUMBER"),
        ("generate runs/a x --bias zzzzqqq=2", 2, "a bias"),
        ("generate runs/a x --few-shot absent.txt", 3, "cannot be read"),
        ("generate runs/a x --few-shot broken.txt", 3, "not UTF-8"),
        ("generate runs/a x --force zzz --forbid zzz --bias", 2, "requires an argument"),
        ("generate runs/a x --seed 9223372036854775807 --max-tokens 2", 0, ""),
        ("generate runs/a x --seed 9223372036854775808 --max-tokens 2", 2, "63 bits"),
        ("generate runs/a x --draft runs/c", 2, "another tokenizer"),
        ("generate runs/a x --beam 2 --lookup 3", 2, "cannot be combined with a draft"),
        ("generate runs/c 'Q#'", 2, "is not in the model's vocabulary"),
        ("chat runs/a what", 2, "unexpected argument 'what'"),
        ("chat runs/a --template nothing", 2, "{user}"),
        ("translate runs/a x", 2, "needs a translator"),
    ],
)
def test_a_wrong_command_gives_an_error_with_the_remedy(run_headway, words, code, message):
    assert message in run_headway(words, code=code)[1]


def test_invalid_utf_8_on_standard_input_is_refused(run_headway):
    assert "standard input, line 2" in run_headway("generate runs/a", b"fine\n\xff\n", code=3)[1]
