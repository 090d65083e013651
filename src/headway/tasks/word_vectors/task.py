"""The task of word vectors."""

from __future__ import annotations

from headway.tasks.task import BundleSpec, NoOptions, Task
from headway.tasks.word_vectors.bundle import WordsBundle
from headway.tasks.word_vectors.config import WordsRunConfig, words
from headway.tasks.word_vectors.data import check
from headway.tasks.word_vectors.evaluation import evaluate, held_out_examples, read_examples
from headway.tasks.word_vectors.job import prepare
from headway.tasks.word_vectors.show import score_lines

WORD_VECTORS = Task(
    name="word_vectors",
    config=WordsRunConfig,
    recipes={"words": words},
    check=check,
    prepare=prepare,
    evaluation=NoOptions,
    evaluate=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    show_scores=score_lines,
    bundles={"words": BundleSpec(bundle=WordsBundle)},
    next_commands=(
        "words nearest {run} WORD",
        "words analogy {run} A B C",
        "words scatter {run} -o words.svg",
        "eval {run}",
    ),
)
