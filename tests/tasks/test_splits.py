"""Holding out examples by the hash of their content."""

from headway.tasks.splits import hold_out, is_held_out

TEXTS = [f"text {i}" for i in range(200)]
HELD_OUT = [text for text in TEXTS if is_held_out(text, 0.2)]
COMMON = dict.fromkeys(TEXTS, "common")


def held_out(texts, labels):
    notes = []
    train, valid = hold_out(
        texts,
        lambda text: text,
        0.2,
        labels=lambda text: labels[text].split(),
        emit=notes.append,
        unit="texts",
    )
    return train, valid, [note["text"] for note in notes]


def test_the_hash_alone_decides_if_every_label_occurs_in_training_too():
    train, valid, notes = held_out(TEXTS, COMMON)
    assert valid == HELD_OUT and 20 <= len(HELD_OUT) <= 60 and not notes
    assert train == [text for text in TEXTS if text not in HELD_OUT]


def test_the_first_example_with_a_label_that_no_training_example_has_is_kept_and_reported():
    labels = {**COMMON, HELD_OUT[3]: "common rare", HELD_OUT[7]: "rare", HELD_OUT[9]: "other"}
    train, valid, notes = held_out(TEXTS, labels)
    moved = {HELD_OUT[3], HELD_OUT[9]}  # the second "rare" one is held out
    assert valid == [text for text in HELD_OUT if text not in moved]
    assert train == [text for text in TEXTS if text not in HELD_OUT or text in moved]
    assert notes == [
        f"2 of the {len(HELD_OUT)} texts to hold out stay in training: some of their labels "
        "occur in no other training example"
    ]


def test_examples_of_one_content_stay_in_one_split():
    examples = [(text, "common") for text in TEXTS] + [(HELD_OUT[3], "rare")]
    train, valid = hold_out(examples, lambda e: e[0], 0.2, labels=lambda e: e[1:])
    assert examples[-1] in train and (HELD_OUT[3], "common") in train
    assert not {text for text, _ in train} & {text for text, _ in valid}
    assert [text for text, _ in valid] == [text for text in HELD_OUT if text != HELD_OUT[3]]


def test_without_labels_no_example_is_moved():
    assert hold_out(TEXTS, lambda text: text, 0.2)[1] == HELD_OUT
    assert hold_out([], lambda text: text, 0.2) == ([], [])
