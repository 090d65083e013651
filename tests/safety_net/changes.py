"""Numbers that were changed deliberately since the records were made, and why."""

_ONE_EVALUATION = (
    "training and `headway eval` evaluate taggers by one function: it sums the loss over all words "
    "at once and not batch by batch (the eighth digit), and gives precision and recall in both"
)
_MERGED = "adapters are evaluated as they are saved: merged into the weights"
_NOT_NEGATED = "metrics are not negated any more: a metric says itself that lower is better"

CHANGES: dict[str, str] = {
    "*tag* validation.*.loss": _ONE_EVALUATION,
    "*tag* validation.*.precision": _ONE_EVALUATION,
    "*tag* validation.*.recall": _ONE_EVALUATION,
    "*tag* eval.output.0.loss": _ONE_EVALUATION,
    "words* validation.*.negative_loss": _NOT_NEGATED,
    "*gpt* validation.*.negative_nats": _NOT_NEGATED,
    "*gpt* validation.*.perplexity": "validation logs the perplexity, as `headway eval` gives it",
    "gpt-lora validation.*.nats": _MERGED,
    "gpt-lora validation.*.bits_per_byte": _MERGED,
    "embed-scored validation.*.pearson": (
        "validation reads 32 texts at once, as `headway eval` does, and not training.rows (the "
        "seventh digit)"
    ),
}
"""Pattern of "case path", as in "tag validation.*.f1" -> the reason. `*` matches anything."""
