"""Word regression: predicts a number for every word, such as its reading difficulty."""

from headway.tasks.registry import Entry

ENTRY = Entry(
    path="word_regression.task:WORD_REGRESSION",
    kind="word regressor",
    families=("word-regressor",),
    verb="rate",
    help="""Predict a number for every word of texts.

    Reads the arguments, or one text per line from standard input. Prints one line per text, with
    the number of every word: the/0.1 photosynthesis/4.7
    """,
)
