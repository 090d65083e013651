"""`headway eval`: a number that can be compared."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headway.cli.answer import evaluate_answerer
from headway.cli.caption import evaluate_captioner
from headway.cli.classify import evaluate_classifier
from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.likeness import judges_likeness, show_likeness
from headway.cli.pictures import evaluate_pictures
from headway.cli.surprise import show_surprise
from headway.cli.tag import evaluate_tagger
from headway.errors import DataError, UsageError

if TYPE_CHECKING:
    from headway.bundle import Bundle, TranslatorBundle
    from headway.data.formats import PairFiles
    from headway.machine import Machine


def evaluate(
    run: Path,
    path: Path | None = None,
    /,
    *,
    split: Literal["test", "valid"] = "test",
    source: str | None = None,
    target: str | None = None,
    beam: int = 5,
    length_penalty: float = 1.0,
    sentences: int = 300,
    confusion: Path | None = None,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """BLEU and chrF, by sacrebleu, of a translator on held-out pairs; of a classifier accuracy,
    macro F1 and Matthews' correlation, or Pearson's and Spearman's and the mean squared error; F1
    of a tagger's spans; exact matches and F1 of an answerer; of an encoder, how surprised it is by
    text (pseudo-perplexity), or whether the cosines of its vectors say how alike texts are. Of a
    classifier of pictures accuracy, macro F1, and how often the right class is among the first 5;
    of a captioner CIDEr-D, BLEU and chrF.

    Parameters
    ----------
    run
        A run folder or a model folder.
    path
        Pairs to translate; without it, the run's own test (or validation) pairs. Of a classifier:
        texts with labels, of a tagger sentences with tags, of an answerer questions; without it,
        those that the run held out. Of an encoder: a text file or a folder of them, or a table of
        pairs (.tsv .csv .jsonl) with the columns first and second, and score if there is one. Of a
        classifier of pictures: a folder with a folder for each class, .zip or .npz; without it, the
        pictures that the run held out; so of a captioner, or a table like its own.
    split
        Which of the run's own pairs.
    source
        Column or file ending of the source language.
    target
        Column or file ending of the target language.
    beam
        Beam width; 1 is greedy.
    length_penalty
        Exponent of ((5 + length) / 6).
    sentences
        Of an encoder: the most sentences that are looked at.
    confusion
        Of a classifier of pictures: a plot (.png, .svg, .pdf) of what was taken for what.
    json
        One JSON object.
    """
    from headway.bundle import TranslatorBundle, expect, load

    place, how = machine.prepare(), (beam, length_penalty)
    bundle = load(run, place.device)
    with place.precision():
        if _of_pictures(bundle, (run, path), confusion, how, json):
            return
        if _of_an_encoder(bundle, (run, path), place, sentences, json):
            return
        translator = expect(TranslatorBundle, bundle, run)
        _scores(translator, _files(run, path, split, (source, target)), *how, json)


def _of_pictures(
    bundle: Bundle,
    places: tuple[Path, Path | None],
    confusion: Path | None,
    how: tuple[int, float],
    json: bool,
) -> bool:
    """Whether it is a classifier of pictures, or a captioner; then its scores were shown."""
    from headway.bundle import CaptionerBundle, ImageClassifierBundle

    if isinstance(bundle, ImageClassifierBundle):
        evaluate_pictures(bundle, places, confusion, json)
        return True
    if confusion is not None:
        raise UsageError("--confusion is for classifiers of pictures")
    if isinstance(bundle, CaptionerBundle):
        evaluate_captioner(bundle, *places, how, json)
        return True
    return False


def _of_an_encoder(
    bundle: Bundle, places: tuple[Path, Path | None], machine: Machine, sentences: int, json: bool
) -> bool:
    """Whether it is an encoder or made of one; then its scores were shown."""
    from headway.bundle import AnswererBundle, ClassifierBundle, EncoderBundle, TaggerBundle

    if isinstance(bundle, ClassifierBundle):
        evaluate_classifier(bundle, *places, json)
    elif isinstance(bundle, TaggerBundle):
        evaluate_tagger(bundle, *places, json)
    elif isinstance(bundle, AnswererBundle):
        evaluate_answerer(bundle, *places, json)
    elif not isinstance(bundle, EncoderBundle):
        return False
    elif judges_likeness(*places):
        show_likeness(bundle, places, machine, json)
    else:
        show_surprise(bundle, *places, sentences, json)
    return True


def _scores(
    bundle: TranslatorBundle, files: PairFiles, beam: int, length_penalty: float, json: bool
) -> None:
    """BLEU and chrF of what the model makes of the source sides."""
    from headway.data.formats import read_pairs
    from headway.evaluation import score_translations

    pairs = [pair for pair in read_pairs(files) if pair.source and pair.target]
    if not pairs:
        raise DataError("there is no pair to evaluate on", files.describe())
    with talk.status(f"translating {len(pairs):,} sentences, beam {beam}"):
        outputs = bundle.translate(
            [pair.source for pair in pairs], beam=beam, length_penalty=length_penalty
        )
    scores = score_translations(outputs, [pair.target for pair in pairs])
    if json:
        data_json({**asdict(scores), "beam": beam, "length_penalty": length_penalty})
        return
    how = f"beam {beam}, length penalty {length_penalty:g}"
    data(f"{files.describe()}: {scores.sentences:,} sentences, {how}")
    data(f"BLEU {scores.bleu:.2f}   {scores.bleu_signature}")
    data(f"chrF {scores.chrf:.2f}   {scores.chrf_signature}")


def _files(
    run: Path, path: Path | None, split: str, sides: tuple[str | None, str | None]
) -> PairFiles:
    """The pairs to evaluate on."""
    from headway.data.formats import pair_files
    from headway.recipes.config import DataConfig
    from headway.recipes.prepare import splits_of
    from headway.settings import override, read_yaml

    saved: dict[str, Any] = {}
    if (run / "run.yaml").is_file():
        values = read_yaml(run / "run.yaml")
        start = "data."
        saved = {k.removeprefix(start): v for k, v in values.items() if k.startswith(start)}
    source, target = sides[0] or saved.get("source"), sides[1] or saved.get("target")
    if path is not None:
        return pair_files(path, source, target)
    if not saved:
        raise UsageError(f"{run} does not say what it was trained on", hint="name a file of pairs")
    splits = splits_of(override(DataConfig(), saved, str(run / "run.yaml")))
    files = splits.test if split == "test" else splits.valid
    if files is None:
        raise UsageError(f"the run has no {split} pairs", hint="name a file, or --split valid")
    return files
