"""Numbers that were changed deliberately since the records were made, and why."""

_ONE_EVALUATION = (
    "training and `headway eval` evaluate taggers by one function: it sums the loss over all words "
    "at once and not batch by batch (the eighth digit), and gives precision and recall in both"
)
_NOT_NEGATED = "metrics are not negated any more: a metric says itself that lower is better"

CHANGES: dict[str, str] = {
    "*tag* validation.*.loss": _ONE_EVALUATION,
    "*tag* validation.*.precision": _ONE_EVALUATION,
    "*tag* validation.*.recall": _ONE_EVALUATION,
    "*tag* eval.output.0.loss": _ONE_EVALUATION,
    "embed-scored validation.*.pearson": (
        "validation reads 32 texts at once, as `headway eval` does, and not training.rows (the "
        "seventh digit)"
    ),
    "words* validation.*.negative_loss": _NOT_NEGATED,
}
"""Pattern of "case path", as in "tag validation.*.f1" -> the reason. `*` matches anything."""
