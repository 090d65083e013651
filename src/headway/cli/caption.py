"""`headway caption`: what pictures show, in words; and how far people said the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, BeamWidth, Count, LengthPenalty, MachineFlags, number
from headway.cli.pictures import CHUNK, picture_paths
from headway.errors import DataError, UsageError
from headway.files import check_new_file

if TYPE_CHECKING:
    from headway.bundle import Caption, CaptionerBundle
    from headway.data.formats.captions import CaptionedImage


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SampleFlags:
    """Captions drawn by chance, instead of the best."""

    sample: Annotated[int, number("So many captions of each picture are drawn.")] = 0
    temperature: Annotated[
        float, number("Of these: below 1 bolder, above 1 wilder; 0 is greedy.")
    ] = 0.8
    top_k: Annotated[int | None, number("Of these: so many likeliest pieces.")] = None
    top_p: Annotated[
        float | None, number("Of these: the likeliest pieces of this probability.")
    ] = None
    seed: Annotated[int, number("Of these: sample i is drawn from seed + i.")] = 0


BEST = SampleFlags()


def caption(
    run: Path,
    /,
    *picture: str,
    language: str | None = None,
    beam: BeamWidth = 4,
    top: Count = 1,
    length_penalty: LengthPenalty = 1.0,
    plot: Path | None = None,
    layer: int | None = None,
    json: bool = False,
    drawn: SampleFlags = BEST,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Say what pictures show: a line each, its file, a tab, the caption.

    headway caption RUN a.png folder/ --language fr

    Parameters
    ----------
    run
        A run folder or a model folder.
    picture
        Pictures (.png .jpg .webp), or folders of them.
    language
        One that the model was trained on (a column of its captions), or several with commas; the
        first unless given.
    top
        So many captions of each picture, best first, their scores before them.
    plot
        A new file (.png, .svg, .pdf): where in the picture the model looks for each word. One
        picture and one language then.
    layer
        Of the plot: decoder block, from 0; the last unless given.
    json
        One JSON object a line.
    """
    from headway.bundle import CaptionerBundle

    if not 1 <= top <= beam:
        raise UsageError(f"--top {top}: must be between 1 and the beam width, {beam}")
    if drawn.sample < 0:
        raise UsageError(f"--sample {drawn.sample}: how many captions of each picture")
    paths = picture_paths(picture)
    languages: list[str | None] = [*language.split(",")] if language else [None]
    if plot is not None:
        _check_plot(plot, len(paths) * len(languages))
    place = machine.prepare()
    bundle = place.load_as(CaptionerBundle, run)
    with place.precision():
        for what, found in _captions(bundle, paths, languages, (beam, top, length_penalty), drawn):
            _show(what if len(languages) > 1 else (*what[:2], None), found, json)
            if plot is not None:
                _draw(plot, bundle, what[1], (found[0].text, what[2], layer))


def _captions(
    bundle: CaptionerBundle,
    paths: Sequence[Path],
    languages: Sequence[str | None],
    how: tuple[int, int, float],
    drawn: SampleFlags,
) -> Iterator[tuple[tuple[int, Path, str | None], list[Caption]]]:
    """((number, file, language), captions), picture by picture. how: beam, captions of each, length
    penalty."""
    for each in languages:
        bundle.reader.first(each)  # refuses one that it does not speak, before anything is shown
    beam, top, penalty = how
    settings = {("samples" if k == "sample" else k): v for k, v in vars(drawn).items()}
    for start in range(0, len(paths), CHUNK):
        chunk = paths[start : start + CHUNK]
        found = [
            bundle.sample(chunk, language=each, **settings)
            if drawn.sample
            else bundle.search(
                chunk, language=each, beam=beam, num_best=top, length_penalty=penalty
            )
            for each in languages
        ]
        for i, path in enumerate(chunk):
            for each, captions in zip(languages, found, strict=True):
                yield (start + i + 1, path, each), captions[i]


def _show(what: tuple[int, Path, str | None], found: Sequence[Caption], json: bool) -> None:
    number, path, language = what
    if json:
        captions = [
            {name: value for name, value in asdict(one).items() if name != "tokens"}
            for one in found
        ]
        named = {} if language is None else {"language": language}
        data_json({"line": number, "file": str(path), **named, "captions": captions})
        return
    for one in found:
        cells = [str(path), *([language] if language else [])]
        score = [f"{one.score:.4f}"] if len(found) > 1 else []
        # one caption, one line, whatever the model wrote
        data("\t".join([*cells, *score, " ".join(one.text.split())]))


def _check_plot(plot: Path, count: int) -> None:
    check_new_file(plot)
    if count != 1:
        raise UsageError("--plot is for one picture in one language")


def _draw(
    plot: Path, bundle: CaptionerBundle, path: Path, what: tuple[str, str | None, int | None]
) -> None:
    from headway.inspection.looking import look
    from headway.inspection.overlays import overlays

    text, language, layer = what
    seen = look(bundle, path, text, language=language, layer=layer)
    overlays(plot, seen, title=text, one_scale=True)
    talk.print(f"drawn     {plot}", markup=False)


def evaluate_captioner(
    bundle: CaptionerBundle,
    run: Path,
    path: Path | None,
    how: tuple[int, float, int],
    json: bool,
) -> None:
    """CIDEr-D, BLEU and chrF of what is written of held-out pictures, a line a language.

    how: width of the beam, length penalty, and how many of the worst captions are shown.
    """
    from headway.evaluation import cider_d, score_against_several

    images, columns, called = _held_out(bundle, run, path)
    beam, length_penalty, most = how
    for column in columns:
        chosen = [each for each in images if column in each.captions]
        if len(chosen) < 2:
            raise DataError(f"{len(chosen)} pictures with a caption in {column}: two are needed")
        pixels = [each.image.pixels() for each in chosen]
        references = [each.captions[column] for each in chosen]
        with talk.status(f"captioning {len(chosen):,} pictures, beam {beam}"):
            outputs = bundle.caption(
                pixels,
                language=column if bundle.languages else None,
                beam=beam,
                length_penalty=length_penalty,
            )
        scores = score_against_several(outputs, references)
        ciders = cider_d(outputs, references)
        cider = sum(ciders) / len(ciders)
        order = sorted(range(len(chosen)), key=lambda i: ciders[i])[:most]
        worst = [
            _Failure(chosen[i].image.where, ciders[i], outputs[i], list(references[i]))
            for i in order
        ]
        if json:
            told: dict[str, Any] = {"language": column, "split": called, "cider": cider}
            told |= {**asdict(scores), "beam": beam, "length_penalty": length_penalty}
            told |= {"worst": [vars(each) for each in worst]} if most else {}
            data_json({("pictures" if k == "sentences" else k): v for k, v in told.items()})
            continue
        data(f"{column}: {len(chosen):,} pictures ({called}), beam {beam}")
        data(f"CIDEr-D {cider:.2f}")
        data(f"BLEU {scores.bleu:.2f}   {scores.bleu_signature}")
        data(f"chrF {scores.chrf:.2f}   {scores.chrf_signature}")
        for each in worst:
            data(f"{each.cider:.2f}  {each.picture}")
            data(f"      said    {each.said}")
            data(f"      should  {' | '.join(each.should)}")


@dataclass(frozen=True)
class _Failure:
    """A caption that was not what should have been said."""

    picture: str
    cider: float
    said: str
    should: list[str]


def _held_out(
    bundle: CaptionerBundle, run: Path, path: Path | None
) -> tuple[list[CaptionedImage], tuple[str, ...], str]:
    """Pictures, the columns of their captions, and what they are called."""
    from headway.recipes import saved
    from headway.recipes.caption_config import CaptionRunConfig
    from headway.recipes.caption_data import captioned_images

    config: Any = saved(run) if (run / "run.yaml").is_file() else None
    if not isinstance(config, CaptionRunConfig):
        raise UsageError(
            f"{run} does not say what it was trained on", hint="name a run folder: runs/NAME"
        )
    columns = config.data.text
    if path is None:
        splits = captioned_images(config.data)
        called = "test" if splits["test"] else "valid"
        return splits[called], columns, called
    from headway.data.formats.captions import CaptionColumns, read_captions

    wanted = CaptionColumns(text=columns, image=config.data.image, split=None)
    return read_captions(path, wanted), columns, str(path)
