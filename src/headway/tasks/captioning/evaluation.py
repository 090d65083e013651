"""The evaluation of a captioner: CIDEr-D, BLEU, chrF and nats per token, in each language."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from headway.base.chunks import chunks
from headway.base.errors import DataError
from headway.base.sharing import Share
from headway.evaluation import CorpusScores, score_against_several
from headway.evaluation.perplexity import Nats
from headway.evaluation.scores import Metric, Scores
from headway.tasks.captioning.cider import cider_d
from headway.tasks.captioning.config import CaptionEvaluation
from headway.tasks.captioning.data import CaptionExamples, caption_tokens, collate_captions
from headway.tasks.captioning.model import CaptionerBundle
from headway.training.objectives.cross_entropy import cross_entropy_of

BATCH = 32  # images


def evaluate(
    bundle: CaptionerBundle, examples: CaptionExamples, options: CaptionEvaluation, share: Share
) -> Scores:
    """Evaluate a captioner.

    CIDEr-D, BLEU and chrF of the generated captions are means over the languages. nats is the mean
    of -log P(token) over all tokens of the reference captions; references above the model's maximum
    length are left out. Languages in which fewer than two images have captions are left out; raises
    DataError if no language is left.
    """
    passes = 1 + len(examples.columns)
    share = share.in_examples(len(examples), passes * len(examples))
    nats, done = _nats(bundle, examples, share), len(examples)
    languages = []
    for language in examples.columns:
        chosen = examples.chosen(language, options.images)
        if len(chosen) > 1 and nats[language].count:
            outputs = _captions(bundle, examples, language, chosen, options, share.after(done))
            done += len(chosen)
            references = [examples.captions[i][language] for i in chosen]
            ciders = cider_d(outputs, references)
            corpus = score_against_several(outputs, references)
            languages.append(_Language(language, nats[language], chosen, outputs, ciders, corpus))
    if not languages:
        raise DataError(
            "expected at least two images with captions in one language, not longer than "
            f"{bundle.longest} tokens, and there are fewer"
        )
    return _scores(bundle, examples, options, languages)


@dataclass(frozen=True)
class _Language:
    """The scores of one language. chosen: the indices of the images; outputs: their captions."""

    name: str
    nats: Nats
    chosen: list[int]
    outputs: list[str]
    ciders: list[float]
    corpus: CorpusScores

    @property
    def metrics(self) -> dict[str, float]:
        cider = sum(self.ciders) / len(self.ciders)
        corpus = self.corpus
        return {"cider": cider, "bleu": corpus.bleu, "chrf": corpus.chrf, "nats": self.nats.mean}


@torch.inference_mode()
def _nats(bundle: CaptionerBundle, examples: CaptionExamples, share: Share) -> dict[str, Nats]:
    """Compute the nats of each language. An image is encoded once for all its captions."""
    model, reader, device = bundle.model, bundle.reader, bundle.device
    firsts = {
        language: reader.first(language if reader.languages else None)
        for language in examples.columns
    }
    captions, _ = caption_tokens(examples.captions, examples.columns, reader, bundle.longest)
    images = sorted(captions)

    def compute(chosen: Sequence[int]) -> list[tuple[float, int]]:
        sums = [(0.0, 0) for _ in firsts]
        pixels = examples.images.batch(chosen, reader.images)
        batch = collate_captions(pixels, [captions[i] for i in chosen], chosen).to(str(device))
        hidden = model.decode(batch.read, model.encode(batch.images)[batch.of])
        for language, first in enumerate(firsts.values()):
            real = batch.real & (batch.read[:, :1] == first)
            targets = batch.targets[real]
            if len(targets):
                _, nats = cross_entropy_of(model)(hidden[real], model.output.weight, targets)
                sums[language] = (nats.item(), len(targets))
        return sums

    nats = dict.fromkeys(firsts, Nats())
    for sums in share.each(chunks(images, BATCH), compute, len):
        for language, (total, count) in zip(firsts, sums, strict=True):
            nats[language] += Nats(total, count)
    return nats


def _captions(
    bundle: CaptionerBundle,
    examples: CaptionExamples,
    language: str,
    chosen: Sequence[int],
    options: CaptionEvaluation,
    share: Share,
) -> list[str]:
    """Generate the best caption of each of the chosen images."""
    name = language if bundle.languages else None

    def compute(batch: Sequence[int]) -> list[str]:
        pixels = examples.images.batch(batch, bundle.reader.images)
        return [best[0].text for best in bundle.search_tensors(pixels, name, options)]

    captions = share.each(chunks(chosen, BATCH), compute, len)
    return [text for texts in captions for text in texts]


def _scores(
    bundle: CaptionerBundle,
    examples: CaptionExamples,
    options: CaptionEvaluation,
    languages: Sequence[_Language],
) -> Scores:
    """Return the means over the languages, with the details of each language.

    The details of a single language are not nested under "languages".
    """
    sums = [language.nats for language in languages]
    overall = sum(nats.total for nats in sums) / sum(nats.count for nats in sums)
    means = {
        name: sum(language.metrics[name] for language in languages) / len(languages)
        for name in ("cider", "bleu", "chrf")
    }
    details: dict[str, object] = {"split": examples.split}
    details |= options.as_details
    rows = [_details(language, examples, options.worst) for language in languages]
    if len(examples.columns) == 1:
        details |= {name: value for name, value in rows[0].items() if name not in means}
        del details["nats"], details["images"]
    else:
        details["languages"] = rows
    captioned = {i for language in languages for i in language.chosen}
    return Scores(
        (
            *(Metric(name, value) for name, value in means.items()),
            Metric("nats", overall, higher_is_better=False),
        ),
        {"images": len(captioned)},
        [
            sample
            for language in languages
            for sample in _samples(bundle, examples, language, options.samples)
        ],
        details=details,
    )


def _details(language: _Language, examples: CaptionExamples, worst: int) -> dict[str, object]:
    """Return the scores of a language and its worst captions, for JSON."""
    row: dict[str, object] = {
        "language": language.name,
        **language.metrics,
        "bleu_signature": language.corpus.bleu_signature,
        "chrf_signature": language.corpus.chrf_signature,
        "images": len(language.chosen),
    }
    if not worst:
        return row
    order = sorted(range(len(language.chosen)), key=lambda i: language.ciders[i])[:worst]
    row["worst"] = [
        {
            "image": examples.images.where(language.chosen[i]),
            "cider": language.ciders[i],
            "output": language.outputs[i],
            "references": list(examples.captions[language.chosen[i]][language.name]),
        }
        for i in order
    ]
    return row


def _samples(
    bundle: CaptionerBundle,
    examples: CaptionExamples,
    language: _Language,
    count: int,
) -> list[dict[str, str]]:
    """Return `count` captions, evenly spaced, each with a reference caption."""
    samples = []
    name = {"language": language.name} if bundle.languages else {}
    for i in range(count):
        index = (2 * i + 1) * len(language.chosen) // (2 * count)
        reference = examples.captions[language.chosen[index]][language.name][0]
        samples.append({**name, "reference": reference, "output": language.outputs[index]})
    return samples
