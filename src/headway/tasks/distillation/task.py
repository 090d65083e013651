"""The task of distillation, whose students are models of the teacher's task."""

from __future__ import annotations

from headway.tasks.distillation.config import (
    DistilRunConfig,
    distil,
    for_teacher,
    kinds_of_students,
    next_commands,
)
from headway.tasks.distillation.evaluation import evaluate, held_out_examples, read_examples
from headway.tasks.distillation.job import check, prepare
from headway.tasks.task import Derives, NoOptions, Task

DISTILLATION = Task(
    name="distillation",
    config=DistilRunConfig,
    recipes={"distil": distil},
    check=check,
    prepare=prepare,
    evaluation=NoOptions,
    evaluate=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    derives=Derives(configure=for_teacher, variants=kinds_of_students, next_commands=next_commands),
    next_commands=("eval {run}",),
)
