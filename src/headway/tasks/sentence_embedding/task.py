"""The task of sentence embedding: objectives, job, evaluation, output, and the record that names
them.

An encoder is fine-tuned on pairs by contrastive learning: texts of the same meaning get similar
vectors. The models are text encoders. Reimers and Gurevych 2019; Henderson et al. 2017.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from headway.base.devices import Machine
from headway.base.errors import DataError, UsageError
from headway.base.settings import override
from headway.base.shapes import Bool, Float, Tensor
from headway.base.sharing import Share
from headway.blocks import Pooling, pool_text
from headway.bundle import EmbedderBundle, EmbeddingBundle, EncoderBundle
from headway.data.formats.lines import ending
from headway.data.overlap import sides_of
from headway.data.rows import ENDINGS as TABLES
from headway.evaluation import correct_ranks, pearson, spearman
from headway.evaluation.scores import Metric, Scores
from headway.models import Bert
from headway.models.bert_heads import remove_heads
from headway.tasks.finetuning import batches_of, describe_shape, load_encoder, with_head
from headway.tasks.job import Emit, Example, Job, Summary, planned_steps, update_size
from headway.tasks.sections import RunSettings
from headway.tasks.sentence_embedding.config import (
    EmbedDataConfig,
    EmbedRunConfig,
    EmbedScoring,
    embed,
)
from headway.tasks.sentence_embedding.data import (
    FILE,
    PAIRS,
    PreparedPairs,
    SimilarBatch,
    SimilarPairs,
    encoded,
    prepare_pairs,
    read_texts,
    share_texts,
    similar_texts,
)
from headway.tasks.sentence_embedding.model import from_hugging_face, to_hugging_face
from headway.tasks.sentence_embedding.similar_files import SimilarTexts
from headway.tasks.task import BundleSpec, Task
from headway.training.objectives.contract import FramedTexts, Loss


def text_vectors(
    model: Bert, texts: FramedTexts, pooling: Pooling = "mean"
) -> Float[Tensor, "B D"]:
    """Return one vector of length 1 per text: the mean of its tokens' states, or that of [CLS].

    Reimers and Gurevych 2019, section 3.
    """
    hidden = model.encode(texts.tokens, texts.keys, texts.types)
    return F.normalize(pool_text(hidden, texts.keys, pooling).float(), dim=-1)


@dataclass(frozen=True)
class ContrastiveObjective:
    """In-batch negatives: -log exp(s cos(a_i, b_i)) / sum_j exp(s cos(a_i, b_j)).

    Multiple negatives ranking: among all second texts b_j of the batch, predict the one that is
    paired with the first text a_i. Pairs that share a text are no negatives of each other. scale:
    s, the inverse temperature. symmetric: the mean of this loss and of predicting a_i from b_i.
    Henderson et al. 2017, section 4.4, with s times the cosine instead of their dot product; van
    den Oord et al. 2018, equation 4 (InfoNCE). Negatives are from the same micro-batch: gradient
    accumulation does not add negatives.
    """

    scale: float = 20.0
    symmetric: bool = False
    pooling: Pooling = "mean"

    def __call__(self, model: Bert, batch: SimilarBatch) -> Loss:
        first = text_vectors(model, batch.first, self.pooling)
        second = text_vectors(model, batch.second, self.pooling)
        total = ranking_sum(self.scale * first @ second.T, batch.shared)
        if self.symmetric:
            total = (total + ranking_sum(self.scale * second @ first.T, batch.shared)) / 2
        return Loss(total, total.detach(), len(first))


def ranking_sum(scores: Float[Tensor, "B B"], left_out: Bool[Tensor, "B B"]) -> Float[Tensor, ""]:
    """Return -sum_i log softmax_j(scores_ij)_i, over the j that are not left out."""
    targets = torch.arange(len(scores), device=scores.device)
    return F.cross_entropy(scores.masked_fill(left_out, -torch.inf), targets, reduction="sum")


@dataclass(frozen=True)
class CosineObjective:
    """Regression of similarity: (cos(a_i, b_i) - score_i)^2, with scores from 0 to 1.

    Reimers and Gurevych 2019, section 3 (regression objective).
    """

    pooling: Pooling = "mean"

    def __call__(self, model: Bert, batch: SimilarBatch) -> Loss:
        if batch.scores is None:
            raise ValueError("the pairs of the batch have no scores, which this objective needs")
        first = text_vectors(model, batch.first, self.pooling)
        second = text_vectors(model, batch.second, self.pooling)
        total = ((first * second).sum(-1) - batch.scores).square().sum()
        return Loss(total, total.detach(), len(first))


MOST = 5000
"""Default maximum number of pairs without scores, for which all texts are compared."""


EmbedJob = Job[SimilarBatch, SimilarPairs, EmbedScoring]


def embedding_job(
    config: EmbedRunConfig,
    prepared: PreparedPairs,
    start: EncoderBundle,
    machine: Machine,
    is_new: bool = False,
) -> EmbedJob:
    """Return the job that fine-tunes an encoder on pairs of similar texts.

    is_new: whether the run has just been started, not resumed; the pre-trained encoder is then
    evaluated before training.
    """
    if start.dense:
        raise UsageError(
            "the model has dense layers after pooling, which this training does not have",
            hint="train its encoder alone: copy the folder without modules.json, name the copy",
        )
    train, training, pad = prepared.train, config.training, start.tokenizer.special_tokens.pad
    batches = batches_of(train, training, pad, machine)
    objective: CosineObjective | ContrastiveObjective = CosineObjective(start.pooling)
    if train.scores is None:
        objective = ContrastiveObjective(training.scale, training.symmetric, start.pooling)
    steps = planned_steps(training, batches.batches_per_epoch, least=500)
    metric = "reciprocal_rank" if prepared.held_out.scores is None else "spearman"
    config = override(config, {**steps, "evaluation.metric": metric}, "the pairs")
    evaluation = config.evaluation

    def bundle(model: Bert) -> EncoderBundle:
        return EncoderBundle(model, start.tokenizer, start.pooling, start.length)

    def baseline(progress: Callable[[int], None]) -> str:
        encoder = bundle(start.model.to(machine.device))
        with machine.precision():
            scores = evaluate(encoder, prepared.held_out, evaluation, Share(progress))
        metrics = ", ".join(f"{name} {value:.3f}" for name, value in scores.numbers().items())
        return f"before training: {metrics}"

    pooling = "mean of all tokens" if start.pooling == "mean" else "[CLS]"
    return Job(
        config=config,
        # heads would not be trained; the pooler stays, as an initialisation for other tasks
        build=with_head(start, config, lambda bert: remove_heads(bert, bert.config.pooler)),
        batches=batches,
        objective=objective,
        held_out=prepared.held_out,
        evaluation=evaluation,
        bundle=bundle,
        summary=Summary(
            model=f"{describe_shape(start)}, pooling: {pooling}",
            batches=f"{update_size(training, batches.examples_per_epoch):,} pairs",
            unit="pairs",
        ),
        baseline=baseline if is_new else None,
        example=Example(prepared.shown),
        is_divisible=train.scores is not None,  # else all pairs of a batch are compared
    )


def prepare(config: EmbedRunConfig, folder: Path, machine: Machine, emit: Emit) -> EmbedJob:
    """Load the pre-trained encoder, and encode the pairs."""
    start = load_encoder(config.training.start)
    is_new = not (folder / FILE).exists()
    room = start.config.max_length
    prepared = prepare_pairs(config, start.tokenizer, room, folder, emit)
    return embedding_job(config, prepared, start, machine, is_new)


def reads_pairs(path: Path) -> bool:
    """Return whether the file is a table of pairs."""
    return ending(path) in TABLES


def read_examples(
    bundle: EmbeddingBundle,
    paths: Sequence[Path],
    config: RunSettings | None,
    options: EmbedScoring,
) -> SimilarPairs:
    """Read and encode the pairs of tables."""
    data = config.data if isinstance(config, EmbedRunConfig) else EmbedDataConfig()
    return _encoded(bundle, read_texts(paths, data), data)


def held_out_examples(
    bundle: EmbeddingBundle, run: Path, config: RunSettings, options: EmbedScoring
) -> SimilarPairs:
    """Read and encode the held-out pairs of a run."""
    return _encoded(bundle, similar_texts(config.data)[1], config.data)


def _encoded(
    bundle: EmbeddingBundle, pairs: list[SimilarTexts], data: EmbedDataConfig
) -> SimilarPairs:
    return encoded(pairs, bundle.tokenizer, min(data.max_length, bundle.config.max_length))


def evaluate(
    bundle: EmbeddingBundle, pairs: SimilarPairs, options: EmbedScoring, share: Share
) -> Scores:
    """Evaluate an encoder on the first pairs, by `scores_of_vectors`.

    Raises DataError for fewer than two pairs.
    """
    if len(pairs) < 2:
        raise DataError(f"at least two pairs are needed for an evaluation, not {len(pairs)}")
    most = options.pairs or (MOST if pairs.scores is None else len(pairs))
    scores = None if pairs.scores is None else pairs.scores[:most]
    chosen = SimilarPairs(pairs.first[:most], pairs.second[:most], scores)
    share = share.in_examples(len(pairs), 2 * len(chosen))
    first = _vectors(bundle, chosen.first, share)
    second = _vectors(bundle, chosen.second, share.after(len(first)))
    return scores_of_vectors(first, second, chosen)


def _vectors(
    bundle: EmbeddingBundle, rows: Sequence[Sequence[int]], share: Share
) -> Float[Tensor, "N D"]:
    """Compute the vectors of texts, normalised to length 1."""
    return F.normalize(bundle.pooled(rows, bundle.pooling, share), dim=-1).cpu()


def scores_of_vectors(
    first: Float[Tensor, "N D"], second: Float[Tensor, "N D"], pairs: SimilarPairs
) -> Scores:
    """Compare the cosines of vectors of length 1 with pairs.

    If the pairs have scores, the metrics are spearman and pearson, of cosines and scores. Otherwise
    every first text retrieves its second text among all second texts: reciprocal_rank is the mean
    of 1 / rank, accuracy the fraction of ranks that are 1. Candidates of other pairs that have a
    text in common with the pair are left out.
    """
    if pairs.scores is not None:
        cosines, scores = (first * second).sum(-1), torch.tensor(pairs.scores)
        metrics = {"spearman": spearman(cosines, scores), "pearson": pearson(cosines, scores)}
    else:
        shared = share_texts(pairs.first, pairs.second)
        ranks = correct_ranks(first @ second.T, shared).double()
        metrics = {
            "reciprocal_rank": (1 / ranks).mean().item(),
            "accuracy": (ranks == 1).double().mean().item(),
        }
    numbers = tuple(Metric(name, value) for name, value in metrics.items())
    return Scores(numbers, {"pairs": len(pairs)})


def score_lines(scores: Scores) -> list[str]:
    """Format all metrics, and the number of pairs."""
    numbers = (f"{name} {value:.4f}" for name, value in scores.numbers().items())
    return ["   ".join([*numbers, f"{scores.counts['pairs']:,} pairs"])]


SENTENCE_EMBEDDING = Task(
    name="sentence_embedding",
    config=EmbedRunConfig,
    recipes={"embed": embed},
    check=PAIRS.check,
    prepare=prepare,
    evaluation=EmbedScoring,
    score=evaluate,
    read=read_examples,
    held_out=held_out_examples,
    sides=lambda data: sides_of(similar_texts(data), lambda pair: f"{pair.first}\n{pair.second}"),
    reads=reads_pairs,
    show_scores=score_lines,
    bundles={
        "gpt-embedder": BundleSpec(
            bundle=EmbedderBundle, foreign=from_hugging_face, export=to_hugging_face
        )
    },
    next_commands=(
        'similar {run} "..." TEXTS',
        "embed {run} TEXTS --output vectors.npz",
        "embed {run} TEXTS --plot texts.svg",
    ),
)
