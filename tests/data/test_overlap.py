"""Held-out examples that are in the training data: word for word, nearly, or not."""

from headway.data.overlap import Overlap, Sides, overlap, passages


def test_equal_and_near_examples_are_counted_once_each():
    long = "one two three four five six seven eight nine ten eleven twelve thirteen"
    train = ["a red fox", f"And then: {long.upper()}, and no more.", "a red fox", "blue", ""]
    held_out = ["a red fox", "a red fox", long + " otherwise", "A red fox!", "fox red", "new", "!"]
    counted = overlap(Sides(train=iter(train), held_out=iter(held_out)))
    assert counted == Overlap(examples=6, equal=1, near=2)


def test_few_words_in_a_row_are_shared_by_chance():
    train = [
        "a bird in the hand",
        "Hot air balloon!",
        "one two three four five six seven eight nine",
    ]
    held_out = ["bird", "in the hand", "hot air balloon", "two three four five six seven eight"]
    counted = overlap(Sides(train=train, held_out=held_out))
    assert counted == Overlap(examples=4, equal=0, near=1)
    longer = Sides(train=train, held_out=[f"{held_out[-1]} nine"])
    assert overlap(longer) == Overlap(examples=1, equal=0, near=1)


def test_nothing_is_near_where_nothing_is_shared():
    assert overlap(Sides(train=[], held_out=["a"])) == Overlap(examples=1, equal=0, near=0)


def test_only_equal_hashes_of_images_are_counted():
    counted = overlap(Sides(train=["a", "b"], held_out=["b", "c"], are_texts=False))
    assert counted == Overlap(examples=2, equal=1, near=None)


def test_a_text_is_its_passages_and_the_last_one_is_the_longest():
    words = " ".join(map(str, range(60)))
    assert [len(part.split()) for part in passages(words)] == [26, 34]
    assert " ".join(passages(words)) == words and [*passages("a b")] == ["a b"]
