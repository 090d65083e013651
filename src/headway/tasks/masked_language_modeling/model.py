"""What a text encoder computes in pre-training, its loss, and its Hugging Face folders."""

from dataclasses import dataclass
from pathlib import Path

import torch.nn.functional as F

from headway import interop
from headway.base.shapes import Float, Int, Tensor
from headway.base.transfers import positions_where
from headway.bundle import EncoderBundle
from headway.data.padding import IGNORED
from headway.models import Bert
from headway.tasks.masked_language_modeling.masked_batches import MaskedBatch
from headway.training.objectives.contract import Loss


@dataclass(frozen=True)
class MaskedLanguageModelingObjective:
    """-sum_i log P(w_i | masked sequence) - c sum_b log P(next sentence or not | sequence b).

    i runs over the masked positions, which are the targets that are counted. c is the mean number
    of masked tokens per sequence: the loop divides by the number of masked tokens, so that both
    terms become means of weight 1. c is a constant and not the ratio of each batch, so that
    micro-batches of any size add up to the gradient of the full batch. `nats` is that of the masked
    tokens alone. Devlin et al. 2019, section 3.1 and appendix A.2.
    """

    predictions_per_sequence: float = 1.0

    def __call__(self, model: Bert, batch: MaskedBatch) -> Loss:
        judged = judge(model, batch)
        words = F.cross_entropy(judged.words, judged.targets, reduction="sum")
        total = words
        if judged.follows is not None and batch.elsewhere is not None:
            pairs = F.cross_entropy(judged.follows, batch.elsewhere, reduction="sum")
            total = words + self.predictions_per_sequence * pairs
        return Loss(total, words.detach(), len(judged.targets))


@dataclass(frozen=True)
class PretrainingLogits:
    """The logits of a model for a batch.

    words: logits of the masked tokens, whose true ids are `targets`. follows: logits of next
    sentence (0) or other sentence (1); None if the sequences are no pairs.
    """

    words: Float[Tensor, "N V"]
    targets: Int[Tensor, " N"]
    follows: Float[Tensor, "B 2"] | None


def judge(model: Bert, batch: MaskedBatch) -> PretrainingLogits:
    """Compute the logits of a batch at its masked positions, and those of its pairs."""
    framed = batch.framed
    hidden = model.encode(framed.tokens, framed.keys, framed.types)
    masked = positions_where(batch.targets != IGNORED, batch.count)
    follows = None if batch.elsewhere is None else model.follows(hidden).float()
    words = model.words(hidden.flatten(0, 1).index_select(0, masked)).float()
    return PretrainingLogits(words, batch.targets.flatten()[masked], follows)


def from_hugging_face(model: Bert, folder: Path, model_type: str) -> EncoderBundle:
    """Make a bundle of the model with the tokenizer of the folder.

    Pooling, maximum length and prompts are those of sentence-transformers if the folder specifies
    them.
    """
    settings = interop.read_sentence_folder(folder)
    tokenizer = interop.read_encoder_tokenizer(folder, model_type)
    return EncoderBundle(
        model, tokenizer, settings.pooling, settings.length, settings.texts, settings.dense
    )


def to_hugging_face(bundle: EncoderBundle, folder: Path, family: str | None) -> str:
    """Write a Hugging Face folder with the encoder, its tokenizer and its pooling."""
    sentences = interop.SentenceFolder(
        folder, bundle.pooling, bundle.length, bundle.texts, bundle.dense
    )
    return interop.write_text_model(
        bundle.model, bundle.tokenizer, folder, family, sentences=sentences
    )
