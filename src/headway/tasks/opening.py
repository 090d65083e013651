"""`headway.load(folder)`: which family of models a folder holds, and its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from headway import interop
from headway.bundle import Bundle, TextBundle
from headway.bundle.files import CONFIG_FILE, PACKAGES, check_finite, fill, read_facts, verify_files
from headway.errors import DataError, UsageError, did_you_mean
from headway.files import read_json
from headway.models import shapes_only
from headway.models.registry import MODELS
from headway.settings import flatten, override
from headway.tasks.registry import TASKS, task_of_family
from headway.tasks.task import BundleSpec
from headway.transforms.fast import contiguous_parameters
from headway.transforms.fast import fast as make_fast

FOREIGN = "model_type"
"""A key that config.json has in Hugging Face folders and not in ours."""

FOREIGN_KEYS = {
    *("architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path"),
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "n_embd", "n_layer", "n_head"),
    *("vocab_size", "id2label", "max_position_embeddings"),
}
"""Others that only they have: enough to recognise a folder whose `model_type` is missing."""

B = TypeVar("B")


def load(
    folder: str | Path,
    device: str = "cpu",
    *,
    verify: bool = True,
    family: str | None = None,
    fast: bool = True,
) -> Bundle:
    """Open a bundle, the best model of a run folder, a Hugging Face folder of a language model, of
    an encoder of BERT's family or of pictures (ViT, DINO, DINOv2), of a captioner, or a llama2.c
    file (its tokenizer, tok*.bin, beside it).

    verify: compare the files of a Headway model with the hashes in its manifest; False saves about
    a second for each GB. family: the `model_type` of a Hugging Face folder whose config.json has
    none, such as "bert". A Hugging Face folder without a tokenizer is loaded too; using the
    tokenizer raises UsageError. DataError if a file is missing or damaged, if a weight is not
    finite, or if model and tokenizer do not belong together.

    fast: replace plain classes by their fast twins (`transforms/fast/`), and on a CPU move the
    parameters into one block of memory (`contiguous_parameters`); False runs the textbook's code.
    """
    bundle = _open(folder, device, verify, family)
    check_finite(bundle.model, Path(folder))
    if fast:
        contiguous_parameters(make_fast(bundle.model))
    return bundle


def _open(folder: str | Path, device: str, verify: bool, family: str | None) -> Bundle:
    place = _place_of(folder)
    if place.is_file():
        _check_family(family, "llama2.c", place)
        return _llama2c(place, device)
    if verify:
        verify_files(place)
    values = read_json(place / CONFIG_FILE)
    if isinstance(values, dict) and values.get(FOREIGN) is not None:
        _check_family(family, str(values[FOREIGN]), place)
        return _foreign(place, device, str(values[FOREIGN]))
    if isinstance(values, dict) and "format" not in values and _is_hugging_face(values):
        return _foreign(place, device, _named_type(family, place / CONFIG_FILE))
    facts = read_facts(place)
    _check_family(family, str(facts.get("family")), place)
    spec, config = _family(facts, place / CONFIG_FILE)
    with shapes_only():
        model: Any = MODELS[config.family].make(config)
    fill(model, place)
    return spec.bundle.open(model.to(device), place, facts)


def family_of(folder: str | Path) -> str:
    """The family of the model in a folder that `load` opens, as its config.json names it.

    A model of another library is opened for it: which of ours it becomes follows from more than its
    config.json.
    """
    place = _place_of(folder)
    if place.is_dir():
        values = read_json(place / CONFIG_FILE)
        if isinstance(values, dict) and FOREIGN not in values and "format" in values:
            return str(values.get("family"))
    model: Any = load(folder).model
    return str(model.config.family)


def _place_of(folder: str | Path) -> Path:
    """The file, or the folder with the config.json. UsageError if there is none."""
    place = Path(folder)
    if place.is_file():
        return place
    if (place / "model" / CONFIG_FILE).is_file():
        place = place / "model"
    if not (place / CONFIG_FILE).is_file():
        place = interop.read_sentence_folder(place).encoder
    if not (place / CONFIG_FILE).is_file():
        raise UsageError(
            f"{folder} holds no model: there is no {CONFIG_FILE}",
            hint="name a run folder (headway runs ls) or the model folder inside it",
        )
    return place


def _check_family(requested: str | None, found: str, place: Path) -> None:
    if requested not in (None, found):
        raise UsageError(f"family {requested} was requested, and this is {found}", str(place))


def _named_type(family: str | None, path: Path) -> str:
    """The `model_type` of a Hugging Face folder whose config.json has none: the requested one."""
    known = ", ".join(interop.FAMILIES)
    if family is None:
        raise DataError(
            f"this looks like a Hugging Face folder, but {FOREIGN} is missing in its {CONFIG_FILE}",
            str(path),
            f'name the type of the model: --family bert, or family="bert" in Python; or add it '
            f'there as "{FOREIGN}": "bert"; known: {known}',
        )
    if family not in interop.FAMILIES:
        meant = did_you_mean(family, interop.FAMILIES)
        raise UsageError(f"unknown family {family}{meant}", hint=f"one of: {known}")
    return family


def _is_hugging_face(values: dict[str, Any]) -> bool:
    """Whether config.json has keys that Hugging Face's configurations have and ours have not."""
    return not FOREIGN_KEYS.isdisjoint(values)


def _foreign(place: Path, device: str, kind: str) -> Bundle:
    """A Hugging Face folder's model with the tokenizer there. kind: its `model_type`."""
    model: Any = interop.build(*interop.read(place, kind))
    spec = spec_of(model.config.family)
    if spec is None or spec.foreign is None:
        raise DataError(f"no task opens a {model.config.family} of another library", str(place))
    return spec.foreign(model.to(device), place, kind)


def _llama2c(path: Path, device: str) -> TextBundle:
    beside = sorted(path.parent.glob("tok*.bin"))
    if len(beside) != 1:
        raise UsageError(
            f"{len(beside)} files tok*.bin stand beside it, and one must, its tokenizer",
            str(path),
            "name a folder if this is no llama2.c file",
        )
    model = interop.build(*interop.read_llama2c(path)).to(device)
    return TextBundle(model, interop.read_llama2c_tokenizer(beside[0]))


def load_as(wanted: type[B], folder: str | Path, device: str = "cpu") -> B:
    """The bundle in `folder`, which must be of this class."""
    return expect(wanted, load(folder, device), folder)


def expect(wanted: type[B], bundle: Bundle, folder: str | Path) -> B:
    """The bundle, loaded from `folder`, as one of this class; UsageError if it is another."""
    if not isinstance(bundle, wanted):
        raise other_kind(bundle, folder, getattr(wanted, "kind", "model"))
    return bundle


def check_kind(bundle: Bundle, folder: str | Path, *kinds: str) -> None:
    """UsageError if the bundle, loaded from `folder`, is of another kind than these."""
    if bundle.kind not in kinds:
        raise other_kind(bundle, folder, *kinds)


def other_kind(bundle: Bundle, folder: str | Path, *kinds: str) -> UsageError:
    """The error for a bundle, loaded from `folder`, of another kind than these."""
    needed = " or ".join(map(with_article, kinds))
    return UsageError(
        f"{folder} holds {with_article(bundle.kind)}, and this needs {needed}",
        hint="headway runs ls says which recipe a run came from",
    )


def with_article(kind: str) -> str:
    """With its article."""
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


def spec_of(family: object) -> BundleSpec | None:
    """How models of that family are opened; None if no task does."""
    task = task_of_family(family)
    return None if task is None else task.bundles[str(family)]


def families() -> list[str]:
    """The families of models that are opened, as their config.json names them."""
    return [family for entry in TASKS.values() for family in entry.families]


def _family(facts: dict[str, Any], path: Path) -> tuple[BundleSpec, Any]:
    """How the family that config.json names is opened, and the configuration of the model."""
    spec = spec_of(facts.get("family"))
    if spec is None or not isinstance(facts.get("model"), dict):
        known = ", ".join(families())
        raise DataError(f"unknown family {facts.get('family')!r}; known: {known}", str(path))
    try:
        return spec, override(MODELS[facts["family"]].config(), flatten(facts["model"]), str(path))
    except UsageError as error:
        packages = ", ".join(map(str, facts.get(PACKAGES) or []))
        hint = f"it was saved with the package {packages}: install that" if packages else error.hint
        raise DataError(error.what, str(path), hint) from error
