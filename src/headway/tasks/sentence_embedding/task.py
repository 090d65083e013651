"""The task of sentence embedding, whose models are text encoders."""

from __future__ import annotations

from headway.tasks.sentence_embedding.config import EmbedRunConfig, EmbedScoring, embed
from headway.tasks.sentence_embedding.data import check_pairs
from headway.tasks.sentence_embedding.evaluation import (
    evaluate,
    held_out_examples,
    read_examples,
    reads_pairs,
)
from headway.tasks.sentence_embedding.job import prepare
from headway.tasks.sentence_embedding.show import score_lines
from headway.tasks.task import Task

SENTENCE_EMBEDDING = Task(
    name="sentence_embedding",
    config=EmbedRunConfig,
    recipes={"embed": embed},
    check=check_pairs,
    prepare=prepare,
    evaluation=EmbedScoring,
    evaluate=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    reads=reads_pairs,
    show_scores=score_lines,
    next_commands=(
        'similar {run} "..." TEXTS',
        "embed {run} TEXTS --output vectors.npz",
        "embed {run} TEXTS --plot texts.svg",
    ),
)
