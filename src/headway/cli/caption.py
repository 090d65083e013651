"""`headway caption`: what pictures show, in words; and how far people said the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli.console import data, data_json, talk
from headway.cli.flags import ON_THIS_MACHINE, MachineFlags
from headway.cli.pictures import CHUNK, picture_paths
from headway.errors import DataError, UsageError

if TYPE_CHECKING:
    from headway.bundle import Caption, CaptionerBundle
    from headway.data.formats.captions import CaptionedImage


def caption(
    run: Path,
    /,
    *picture: str,
    language: str | None = None,
    beam: int = 4,
    top: int = 1,
    length_penalty: float = 1.0,
    sample: int = 0,
    temperature: float = 0.8,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    plot: Path | None = None,
    layer: int | None = None,
    json: bool = False,
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
    beam
        Beam width; 1 is greedy.
    top
        So many captions of each picture, best first, their scores before them.
    length_penalty
        Exponent of ((5 + length) / 6), by which sums of log-probabilities are divided.
    sample
        So many captions of each picture are drawn by chance, instead of the best.
    temperature
        Of these: below 1 bolder, above 1 wilder; 0 is greedy.
    top_k
        Of these: only so many likeliest pieces.
    top_p
        Of these: the likeliest pieces of this probability.
    seed
        Of these: sample i is drawn from seed + i.
    plot
        A new file (.png, .svg, .pdf): where in the picture the model looks for each word. One
        picture and one language then.
    layer
        Of the plot: decoder block, from 0; the last unless given.
    json
        One JSON object a line.
    """
    from headway.bundle import CaptionerBundle, load_as

    if not 1 <= top <= beam:
        raise UsageError(f"--top {top}: must be between 1 and the beam width, {beam}")
    if sample < 0:
        raise UsageError(f"--sample {sample}: how many captions of each picture")
    paths = picture_paths(picture)
    place = machine.prepare()
    bundle = load_as(CaptionerBundle, run, place.device)
    languages = language.split(",") if language else [None]
    for each in languages:
        bundle.reader.first(each)  # refuses one that it does not speak, before anything is shown
    if plot is not None:
        _check_plot(plot, len(paths) * len(languages))
    drawn: dict[str, Any] = {"samples": sample, "temperature": temperature, "seed": seed}
    drawn |= {"top_k": top_k, "top_p": top_p}
    number = 0
    for start in range(0, len(paths), CHUNK):
        chunk = paths[start : start + CHUNK]
        with place.precision():
            found = [
                bundle.sample(chunk, language=each, **drawn)
                if sample
                else bundle.search(
                    chunk, language=each, beam=beam, num_best=top, length_penalty=length_penalty
                )
                for each in languages
            ]
        for path, *texts in zip(chunk, *found, strict=True):
            number += 1
            for each, best in zip(languages, texts, strict=True):
                _show((number, path, each if len(languages) > 1 else None), best, json)
                if plot is not None:
                    _draw(plot, bundle, path, (best[0].text, each, layer))


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
    if plot.exists():
        raise UsageError(f"{plot} exists already", hint="choose another name, or remove it first")
    if count != 1:
        raise UsageError("--plot is for one picture in one language")


def _draw(
    plot: Path, bundle: CaptionerBundle, path: Path, what: tuple[str, str | None, int | None]
) -> None:
    from headway.inspection.looking import look
    from headway.inspection.plots import looked_at

    text, language, layer = what
    seen = look(bundle, path, text, language=language, layer=layer)
    looked_at(plot, seen.pixels, seen.words, seen.maps.tolist(), reach=seen.reach, title=text)
    talk.print(f"drawn     {plot}", markup=False)


def evaluate_captioner(
    bundle: CaptionerBundle,
    run: Path,
    path: Path | None,
    how: tuple[int, float],
    json: bool,
) -> None:
    """CIDEr-D, BLEU and chrF of what is written of held-out pictures, a line a language."""
    from headway.evaluation import cider_d, score_against_several

    images, columns, called = _held_out(bundle, run, path)
    beam, length_penalty = how
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
        if json:
            told: dict[str, Any] = {"language": column, "split": called, "cider": cider}
            told |= {**asdict(scores), "beam": beam, "length_penalty": length_penalty}
            data_json({("pictures" if k == "sentences" else k): v for k, v in told.items()})
            continue
        data(f"{column}: {len(chosen):,} pictures ({called}), beam {beam}")
        data(f"CIDEr-D {cider:.2f}")
        data(f"BLEU {scores.bleu:.2f}   {scores.bleu_signature}")
        data(f"chrF {scores.chrf:.2f}   {scores.chrf_signature}")


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
