"""`headway eval`: a number that can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, BeamWidth, LengthPenalty, MachineFlags, number
from headway.errors import DataError, UsageError
from headway.files import check_new_file
from headway.settings import COMMAND_LINE, override
from headway.tasks.registry import evaluating_task, tasks_of_kind

if TYPE_CHECKING:
    from headway.bundle import Bundle, TranslatorBundle
    from headway.data.formats import Pair, PairFiles
    from headway.evaluation.scores import Scores


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SearchFlags:
    """How translations and captions are sought."""

    beam: BeamWidth = 5
    length_penalty: LengthPenalty = 1.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PairFlags:
    """Of a translator: on which pairs it is scored."""

    split: Annotated[
        Literal["test", "valid"],
        Parameter(
            help="Which of the run's own pairs: the test pairs, or the validation pairs that "
            "were translated while training (--beam 1 gives the logged scores)."
        ),
    ] = "test"
    source: Annotated[
        str | None, Parameter(help="Column or file ending of the source language.")
    ] = None
    target: Annotated[
        str | None, Parameter(help="Column or file ending of the target language.")
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SightFlags:
    """Of what looks at pictures."""

    confusion: Annotated[
        Path | None,
        Parameter(
            help="New file (.png, .svg, .pdf) for a plot of the confusion matrix, if there is one."
        ),
    ] = None
    known: Annotated[
        Path | None,
        Parameter(
            help="Of an image encoder: pictures whose classes are told, those at PATH are asked; "
            "without it, nine tenths of those at PATH, or the run's training pictures."
        ),
    ] = None
    worst: Annotated[
        int,
        number("Of a captioner: so many captions of least CIDEr-D, with what was said."),
    ] = 0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WindowFlags:
    """How a text is cut, and how much of it is evaluated."""

    length: Annotated[
        int | None,
        number(
            "Of a language model: window length in tokens; if unset, training.length of the "
            "run, or the model's context, at most 1,024."
        ),
    ] = None
    sentences: Annotated[
        int, number("Of an encoder: maximum number of sentences that are evaluated.")
    ] = 300


FIVE_BEAMS, OF_THE_RUN, NO_PICTURES = SearchFlags(), PairFlags(), SightFlags()
OF_THE_MODEL = WindowFlags()


def evaluate(
    run: Path,
    path: Path | None = None,
    /,
    *,
    search: SearchFlags = FIVE_BEAMS,
    pairs: PairFlags = OF_THE_RUN,
    sight: SightFlags = NO_PICTURES,
    windows: WindowFlags = OF_THE_MODEL,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """How good a model is on what it was not trained on; what is measured follows from its kind.

    Translators: BLEU and chrF, by sacrebleu. Classifiers: accuracy, macro F1, Matthews', or
    Pearson's, Spearman's and the mean squared error; taggers: F1 of spans; answerers: exact matches
    and F1. Encoders: pseudo-perplexity, or whether cosines say how alike texts are; of pictures,
    whether neighbours have the same class. Captioners: CIDEr-D, BLEU and chrF.

    Language models: perplexity and nats per token, bits per byte of text in UTF-8. The text is cut
    into consecutive windows that do not overlap, as in training's validation: each token is
    predicted once, from the earlier tokens of its window and its document. Shorter windows give
    higher perplexity. Perplexities are comparable between models of the same tokenizer only, bits
    per byte between all.

    Parameters
    ----------
    run
        A run folder or a model folder.
    path
        Pairs to translate; without it, the run's own test (or validation) pairs. Of a classifier:
        texts with labels, of a tagger sentences with tags, of an answerer questions; without it,
        those that the run held out. Of an encoder: a text file or a folder of them, or a table of
        pairs (.tsv .csv .jsonl) with the columns first and second, and score if there is one. Of a
        language model: a text file or a folder of them (.txt .md .jsonl). Of a
        classifier of pictures: a folder with a folder for each class, .zip or .npz; without it, the
        pictures that the run held out. Of a captioner: a table as the run's own, whose pictures are
        files; without it, the run's pictures called test, or those that it held out.
    json
        One JSON object.
    """
    from headway.bundle import TranslatorBundle
    from headway.tasks.opening import expect

    place = machine.prepare()
    bundle = place.load(run)
    with place.precision():
        usual = (FIVE_BEAMS, OF_THE_RUN, NO_PICTURES, OF_THE_MODEL)
        chosen = _chosen((search, pairs, sight, windows), usual)
        if _of_a_task(bundle, run, path, chosen, json):
            return
        _check_sight(bundle, sight)
        translator = expect(TranslatorBundle, bundle, run)
        _scores(translator, _pairs(translator, run, path, pairs), search, json)


def _chosen(flags: Sequence[Any], usual: Sequence[Any]) -> dict[str, Any]:
    """The flags that are not at their defaults."""
    return {
        name: value
        for group, defaults in zip(flags, usual, strict=True)
        for name, value in vars(group).items()
        if value != getattr(defaults, name)
    }


def _of_a_task(
    bundle: Bundle, run: Path, path: Path | None, chosen: dict[str, Any], json: bool
) -> bool:
    """Whether a task evaluates it; then its scores on the examples of a file, or on those that the
    run held out, were shown. chosen: flags that are not at their defaults."""
    from headway.recipes import saved

    config = saved(run) if (run / "run.yaml").is_file() else None
    task = evaluating_task(bundle.kind, path, config)
    if task is None and tasks_of_kind(bundle.kind):
        raise UsageError(
            f"{run} does not say what it was trained on",
            hint=f"name a file: headway eval {run} FILE",
        )
    if task is None:
        return False
    plot = chosen.pop("confusion", None)
    if plot is not None:
        check_new_file(plot)
    options = override(task.evaluation(), chosen, COMMAND_LINE)
    if path is not None:
        examples = task.read(bundle, [path], config, options)
    elif config is not None:
        examples = task.held_out(bundle, run, config, options)
    else:
        raise UsageError(
            f"{run} has no run.yaml, which names the data it was trained on",
            hint=f"name a file: headway eval {run} FILE",
        )
    if not examples:
        raise DataError("there is no example to evaluate on", str(path or run))
    with talk.status(f"evaluating on {len(examples):,} examples"):
        scores = task.evaluate(bundle, examples, options)
    if json:
        data_json(scores.as_dict())
    else:
        for line in task.show_scores(scores):
            data(line)
    if plot is not None:
        _draw_confusion(plot, scores, bundle, len(examples))
    return True


def _draw_confusion(path: Path, scores: Scores, bundle: Bundle, count: int) -> None:
    """The confusion matrix of the scores, as a plot. UsageError if they have none."""
    from headway.inspection.plots import confusion_matrix

    if scores.confusion is None:
        raise _no_confusion(bundle)
    metric = scores.metrics[0]
    title = f"{count:,} examples, {metric.name.replace('_', ' ')} {metric.value:.3f}"
    confusion_matrix(path, scores.confusion.counts, scores.confusion.labels, title=title)
    talk.print(f"drawn     {path}", markup=False)


def _no_confusion(bundle: Bundle) -> UsageError:
    return UsageError(
        f"--confusion: the evaluation of a {bundle.kind} has no confusion matrix",
        hint="that of a classifier has one",
    )


def _check_sight(bundle: Bundle, sight: SightFlags) -> None:
    """UsageError for a flag of image tasks; the model is of none."""
    if sight.confusion is not None:
        raise _no_confusion(bundle)
    if sight.known is not None:
        raise UsageError("--known is for image encoders")
    if sight.worst:
        raise UsageError("--worst is for captioners")


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs to translate, and what they are called on the screen."""

    pairs: Sequence[Pair]
    name: str


def _scores(bundle: TranslatorBundle, scored: ScoredPairs, search: SearchFlags, json: bool) -> None:
    """BLEU and chrF of what the model makes of the source sides."""
    from headway.evaluation import score_translations

    beam, length_penalty, pairs = search.beam, search.length_penalty, scored.pairs
    if not pairs:
        raise DataError("there is no pair to evaluate on", scored.name)
    with talk.status(f"translating {len(pairs):,} sentences, beam {beam}"):
        outputs = bundle.translate(
            [pair.source for pair in pairs], beam=beam, length_penalty=length_penalty
        )
    scores = score_translations(outputs, [pair.target for pair in pairs])
    if json:
        data_json({**asdict(scores), "beam": beam, "length_penalty": length_penalty})
        return
    how = f"beam {beam}, length penalty {length_penalty:g}"
    data(f"{scored.name}: {scores.sentences:,} sentences, {how}")
    data(f"BLEU {scores.bleu:.2f}   {scores.bleu_signature}")
    data(f"chrF {scores.chrf:.2f}   {scores.chrf_signature}")


def _pairs(bundle: TranslatorBundle, run: Path, path: Path | None, flags: PairFlags) -> ScoredPairs:
    """The pairs to evaluate on."""
    from headway.data.formats import pair_files
    from headway.recipes import RunConfig, saved
    from headway.recipes.config import DataConfig
    from headway.recipes.prepare import splits_of, validation_pairs
    from headway.recipes.translate import translatable

    config = saved(run) if (run / "run.yaml").is_file() else None
    languages = config.data if isinstance(config, RunConfig) else DataConfig()
    if path is not None:
        source, target = flags.source or languages.source, flags.target or languages.target
        return _of_files(pair_files(path, source, target))
    if not isinstance(config, RunConfig):
        raise UsageError(f"{run} does not say what it was trained on", hint="name a file of pairs")
    if flags.split == "valid":
        name = f"validation pairs of {run}"
        return ScoredPairs(translatable(validation_pairs(config.data), config, bundle), name)
    files = splits_of(config.data).test
    if files is None:
        raise UsageError("the run has no test pairs", hint="name a file, or --split valid")
    return _of_files(files)


def _of_files(files: PairFiles) -> ScoredPairs:
    from headway.data.formats import read_pairs

    pairs = [pair for pair in read_pairs(files) if pair.source and pair.target]
    return ScoredPairs(pairs, files.describe())
