"""A number for every word: how hard it is to read, how loud it is said, how much it matters."""

from headway.tasks.registry import Entry

ENTRY = Entry(
    path="word_regression.task:TASK",
    kind="word regressor",
    families=("word-regressor",),
    verb="rate",
    help="""Give every word of texts a number.

    Reads the arguments, or one text per line from standard input. Prints one line per text, with
    the number of each word: the/0.1 photosynthesis/4.7
    """,
)
