"""Numbers that were changed deliberately since the records were made, and why."""

_ONE_EVALUATION = (
    "training and `headway eval` evaluate taggers by one function: it sums the loss over all words "
    "at once and not batch by batch (the eighth digit), and gives precision and recall in both"
)
_NOT_NEGATED = "a metric says whether lower is better, so no metric is negated any more"
_SAME_BATCHES = (
    "training and `headway eval` evaluate image models by one function: on the logits, in batches "
    "of one size (the last digits)"
)
_NATS_TOO = "`headway eval` of a translator gives the nats too, and says of which pairs"
_LOSS_TOO = "`headway eval` gives all that validation while training gives"
_ALL_TOGETHER = "`headway eval` of an encoder gives what validation gives, of all texts together"
_A_METRIC = "pseudo-perplexity is a metric, also of validation in runs that start from a model"
_ID_TOO = "`headway fill --json` names the token of a predicted word by its id too"
_LINEAR_TOO = "validation while training gives all that `headway eval` gives"
_ONE_OBJECT = (
    "`headway eval --json` prints one object for a captioner, as its help says: the means, and the "
    "scores of each language in it"
)
_LANGUAGE_OF_CAPTION = (
    "`headway caption --json` prints one object for each image, whatever languages are requested; "
    "each caption names its own"
)
_MERGED = "adapters are evaluated as they are saved: merged into the weights"

CHANGES: dict[str, str] = {
    "*tag* validation.*.loss": _ONE_EVALUATION,
    "*tag* validation.*.precision": _ONE_EVALUATION,
    "*tag* validation.*.recall": _ONE_EVALUATION,
    "*tag* eval.output.0.loss": _ONE_EVALUATION,
    "translate* validation.*.negative_nats": _NOT_NEGATED,
    "emoji-names validation.*.negative_nats": _NOT_NEGATED,
    "translate* eval.output.0.nats": _NATS_TOO,
    "emoji-names eval.output.0.nats": _NATS_TOO,
    "translate* eval.output.0.target_tokens": _NATS_TOO,
    "emoji-names eval.output.0.target_tokens": _NATS_TOO,
    "translate* eval.output.0.pairs": _NATS_TOO,
    "emoji-names eval.output.0.pairs": _NATS_TOO,
    "translate-multi30k validation.*.nats": (
        "validation computes in float32 and not in bfloat16, as it translates and as "
        "`headway eval` does: their scores are equal"
    ),
    "words* validation.*.negative_loss": _NOT_NEGATED,
    "*gpt* validation.*.negative_nats": _NOT_NEGATED,
    "*gpt* validation.*.perplexity": "validation logs the perplexity, as `headway eval` gives it",
    "gpt-lora validation.*.nats": _MERGED,
    "gpt-lora validation.*.bits_per_byte": _MERGED,
    "embed-scored validation.*.pearson": (
        "validation reads 32 texts at once, as `headway eval` does, and not "
        "training.batch_size (the seventh digit)"
    ),
    "classify* validation.*.negative_loss": _NOT_NEGATED,
    "pairs* validation.*.negative_loss": _NOT_NEGATED,
    "regress* validation.*.negative_mse": _NOT_NEGATED,
    "distil* validation.*.negative_loss": _NOT_NEGATED,
    "distil-encoder validation.*.negative_difference": _NOT_NEGATED,
    "classify* eval.output.0.loss": _LOSS_TOO,
    "pairs* eval.output.0.loss": _LOSS_TOO,
    "distil eval.output.0.loss": _LOSS_TOO,
    "* validation.*.negative_mlm_nats": _NOT_NEGATED,
    "* eval.output.0.mlm_*": _ALL_TOGETHER,
    "* eval.output.0.nsp_*": _ALL_TOGETHER,
    "* eval.output.0.below_unigram": _ALL_TOGETHER,
    "* *.pseudo_perplexity_per_*": _A_METRIC,
    "*bert* predict.output.*.predictions.*.token": _ID_TOO,
    "hf-encoder predict.output.*.predictions.*.token": _ID_TOO,
    "distil* predict.output.*.predictions.*.token": _ID_TOO,
    "vision* validation.*.negative_loss": _NOT_NEGATED,
    "sound validation.*.negative_loss": _NOT_NEGATED,
    "vision* eval.output.0.loss": _SAME_BATCHES,
    "dino validation.*.spread": _SAME_BATCHES,
    "dino validation.*.linear": _LINEAR_TOO,
    "dino checkpoint": "checkpoints hold the centre of DINO's teacher, without which runs differ",
    "caption* validation.*.negative_nats": _NOT_NEGATED,
    "caption* validation.*.nats": _SAME_BATCHES,
    "caption* eval.output.0.nats": _LOSS_TOO,
    "caption-emoji eval.output.*": _ONE_OBJECT,
    "caption-emoji predict.output.*": _LANGUAGE_OF_CAPTION,
}
"""Pattern of "case path", as in "tag validation.*.f1" -> the reason. `*` matches anything."""
