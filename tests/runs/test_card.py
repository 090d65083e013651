"""The model card of a saved or exported model says what its run recorded, and names no place."""

import hashlib
import re

import pytest

from tests.fixtures.command_line import headway


@pytest.fixture(scope="module")
def card(tmp_path_factory):
    folder = tmp_path_factory.mktemp("private-place")
    text = folder / "notes.txt"
    text.write_text("the old baker waves to the children. " * 60)
    words = ("--data.tokenizer", "characters", "--model.num-layers", "1", "--model.model-dim", "16")
    sizes = ("--training.length", "16", "--training.batch-size", "2", "--steps", "3")
    headway("train", "gpt", str(text), *words, *sizes, "--seed", "7", "--run", "notes", cwd=folder)
    done = headway("export", "runs/notes", "--to", "hf", cwd=folder)
    assert "add the licence" in done.stderr
    return (folder / "runs/notes/hf/README.md").read_text(), text


def test_it_has_scores_training_settings_and_the_hashes_of_the_data(card):
    written, text = card
    assert written.startswith("# notes\n\nA language model with ")
    assert re.search(r"\| nats \| [0-9.]+ \|", written)
    assert "| seed | 7 |" in written and "| `training.batch_size` | `2` |" in written
    digest = hashlib.sha256(text.read_bytes()).hexdigest()
    assert f"| `notes.txt` | {len(text.read_bytes())} | `{digest}` |" in written


def test_it_counts_the_held_out_examples_that_are_in_the_training_data(card):
    written, text = card
    counted = re.search(r"Of (\d+) different held-out examples, 0 are .* and (\d+) more", written)
    assert counted is not None and counted[1] == counted[2] != "0"  # one sentence again and again
    saved = (text.parent / "runs/notes/model/README.md").read_text()
    assert counted[0] in saved and "saved by Headway" in saved and "## Checked" not in saved


def test_it_says_what_is_not_known(card):
    written, _ = card
    assert "Add them here before you publish" in written and "one seed" in written


def test_it_names_no_folder_of_the_users_machine(card):
    written, text = card
    assert "private-place" not in written and str(text.parent) not in written


def test_a_model_without_a_run_has_a_card_without_scores(card):
    _, text = card
    folder = text.parent
    headway("export", "runs/notes/hf", "--to", "hf", "-o", "again", cwd=folder)
    written = (folder / "again/README.md").read_text()
    assert written.startswith("# hf\n") and "## Scores" not in written
    assert "licences" in written
