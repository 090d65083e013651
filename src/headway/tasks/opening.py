"""`headway.load(folder)`: detects the family of a model and loads its bundle."""

import warnings
from pathlib import Path
from typing import cast

from torch import nn
from typing_extensions import TypeVar

from headway import interop
from headway.base.config_files import RUN_FILE, read_run_file
from headway.base.devices import select_device, set_up_gpu
from headway.base.errors import DataError, HeadwayWarning, UsageError, did_you_mean
from headway.base.files import read_json
from headway.base.folders import newest_verified
from headway.base.settings import flatten, override
from headway.base.threads import settle_threads_once
from headway.bundle import Bundle, EncoderBundle, TextBundle
from headway.bundle.arguments import checked
from headway.bundle.files import (
    CONFIG_FILE,
    PACKAGES,
    check_finite,
    fill,
    read_config_file,
    verify_files,
)
from headway.interop.gguf_reader import SUFFIX, gguf_file
from headway.models import shapes_only
from headway.models.registry import MODELS
from headway.tasks.registry import TASKS, task_of_family
from headway.tasks.task import AnyBundleSpec
from headway.text import EncoderTokenizer
from headway.training import CHECKPOINTS, MODEL
from headway.transforms.fast.table import prepare_for_inference
from headway.transforms.graphs import can_replay, replay_steps
from headway.transforms.quantize import NUMBERS, dequantize, numbers_of, quantize
from headway.transforms.recorder import CudaRecorder

LLAMA2C = ".bin"
"""Suffix of a model of llama2.c."""
FOREIGN = "model_type"
"""A key of config.json in Hugging Face folders, which Headway's folders do not have."""

FOREIGN_KEYS = {
    *("architectures", "transformers_version", "torch_dtype", "dtype", "_name_or_path"),
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "n_embd", "n_layer", "n_head"),
    *("vocab_size", "id2label", "max_position_embeddings"),
}
"""Further keys of Hugging Face only, by which a folder without `model_type` is recognised."""


DTYPES = ("float32", *NUMBERS)

B = TypeVar("B", bound=Bundle, default=Bundle)


@checked
def load(
    folder: str | Path,
    device: str = "auto",
    *,
    kind: type[B] | None = None,
    verify: bool = True,
    family: str | None = None,
    dtype: str | None = None,
    fast: bool = True,
) -> B:
    """Load a model.

    folder: a bundle, a run folder (whose best model is loaded; before its first evaluation that of
    its newest checkpoint, with a HeadwayWarning), a Hugging Face folder of a language
    model, an encoder-decoder (MarianMT, Pegasus, BART, T5), an encoder of BERT's family,
    an image encoder (ViT, DINO, DINOv2), a model of images and texts (CLIP, SigLIP) or a
    captioner, a GGUF file of llama.cpp with a language
    model, or a llama2.c file with its tokenizer tok*.bin in the same folder. device: auto, cpu,
    cuda, cuda:1 or mps; auto is a GPU if torch can use one, and `Bundle.device` is the selected
    one. kind: the class of the bundle, such as TranslatorBundle, which editors and type checkers
    then know; a model of another class raises UsageError. verify: compare the files of a Headway
    model with the hashes in its manifest; False saves about a second per GB. family: the
    `model_type` of a Hugging Face folder whose config.json has none, such as "bert".

    dtype: quantise the matrices to int8, int4 or bfloat16, or dequantise those of a quantised model
    (float32); if None, as saved. Products with weights that are not quantised are in float32 on
    every device, so predictions are the same on every machine up to rounding; call the model under
    `torch.autocast` for bfloat16.

    fast: replace plain classes by their fast twins (`transforms/fast/`), and arrange the weights on
    a CPU for products without gradients (`prepare_for_inference`). A model with a Transformer
    decoder decodes by CUDA graphs on a CUDA device (`replay_steps`). False keeps the plain code.

    A Hugging Face folder without a tokenizer is loaded too; using the tokenizer raises UsageError.
    On a CPU, the first call sets the fastest number of threads, unless the user has set a number
    (`headway.base.threads`). Raises DataError if a file is missing or damaged, if a weight is not
    finite, or if model and tokenizer do not match; UsageError if the device is not available.
    """
    if dtype not in (None, *DTYPES):
        raise UsageError(f"unknown dtype {dtype}", hint=f"one of: {', '.join(DTYPES)}")
    device = select_device(device)
    if device == "cpu":
        settle_threads_once()
    if device.startswith("cuda"):
        set_up_gpu()
    opened = _open(folder, device, verify, family)
    if kind is not None and not isinstance(opened, kind):
        raise other_kind(opened, folder, getattr(kind, "kind", kind.__name__))
    bundle = cast(B, opened)
    check_finite(bundle.model, Path(folder))
    if dtype is not None and dtype != numbers_of(bundle.model):
        dequantize(bundle.model)
        if dtype != "float32":
            quantize(bundle.model, dtype)
    if fast:
        prepare_for_inference(bundle.model)
        if bundle.device.type == CudaRecorder.device_type:
            _prepare_on_cuda(bundle, folder)
    return bundle


def _prepare_on_cuda(bundle: Bundle, folder: str | Path) -> None:
    """Decode by graphs; warn of numbers that are slow there."""
    if can_replay(bundle.model):
        replay_steps(bundle.model)
    if (numbers := numbers_of(bundle.model)) in ("int8", "int4"):
        warnings.warn(
            f"{folder}: {numbers} saves memory on a GPU, and is slower than bfloat16 there, "
            "since each step decodes the matrices; its fast products are for CPUs",
            HeadwayWarning,
            stacklevel=3,
        )


def _open(folder: str | Path, device: str, verify: bool, family: str | None) -> Bundle:
    path, adapter = _model_and_adapter(folder)
    if path.parent.parent == Path(folder) / CHECKPOINTS:
        warnings.warn(
            f"{folder} has no evaluated model yet: {path.parent.name}, its newest checkpoint, is "
            "used",
            HeadwayWarning,
            stacklevel=3,
        )
    if adapter is not None:
        _check_adapter(path, adapter)
    if path.suffix == SUFFIX:
        _check_family(family, "gguf", path)
        return _gguf(path, device)
    if path.is_file():
        _check_family(family, "llama2.c", path)
        return _llama2c(path, device)
    if verify:
        verify_files(path)
    values = read_json(path / CONFIG_FILE)
    if isinstance(values, dict) and values.get(FOREIGN) is not None:
        _check_family(family, str(values[FOREIGN]), path)
        return _foreign(path, device, str(values[FOREIGN]), adapter)
    if isinstance(values, dict) and "format" not in values and _is_hugging_face(values):
        return _foreign(path, device, _named_type(family, path / CONFIG_FILE), adapter)
    if adapter is not None:
        raise DataError(
            "an adapter of PEFT can only be merged into a model of Hugging Face's format",
            str(adapter),
        )
    metadata = read_config_file(path)
    _check_family(family, str(metadata.get("family")), path)
    spec, config = family_and_config(metadata, path / CONFIG_FILE)
    name = str(metadata["family"])
    with shapes_only():
        model = MODELS.call(name, MODELS[name].make, nn.Module, config)
    fill(model, path)
    bundle: Bundle = spec.bundle.open(model.to(device), path, metadata)
    return bundle


def family_of(folder: str | Path) -> str:
    """Return the family of the model in a folder that `load` can load, as config.json names it.

    A model of another library is loaded for it: its family follows from more than config.json.
    """
    path = model_path(folder)
    if path.is_dir():
        values = read_json(path / CONFIG_FILE)
        if isinstance(values, dict) and FOREIGN not in values and "format" in values:
            return str(values.get("family"))
    return str(load(folder, "cpu").config.family)


def model_path(folder: str | Path) -> Path:
    """Return the model file, or the folder with the config.json, that `load` reads for `folder`.

    That of a run is its best model, or before its first evaluation the model of its newest
    checkpoint; that of an adapter is its base model. Raises UsageError if there is none.
    """
    return _model_and_adapter(folder)[0]


def template_of(folder: str | Path) -> interop.ChatTemplate | None:
    """Return the chat templates of the model that `load` reads for `folder`, or None."""
    folder, path = Path(folder), model_path(folder)
    if path.suffix == SUFFIX:
        return interop.read_gguf_template(path)
    # the model of an adapter, with its tokenizer and templates, is elsewhere
    folders = (folder, path) if path.is_relative_to(folder) else (path,)
    return interop.read_chat_template(*folders)


def _model_and_adapter(folder: str | Path) -> tuple[Path, Path | None]:
    """Return `model_path`, and the folder of the adapter that is merged into this model."""
    path = gguf_file(Path(folder))
    if path.is_file():
        return path, None
    if (path / MODEL / CONFIG_FILE).is_file():
        path = path / MODEL
    elif not (path / CONFIG_FILE).is_file() and (path / RUN_FILE).is_file():
        return _newest_checkpoint(path), None
    if not (path / CONFIG_FILE).is_file():
        path = interop.read_sentence_folder(path).encoder
    if (adapter := interop.find_adapter(path)) is not None:
        return adapter.base, adapter.folder
    if not (path / CONFIG_FILE).is_file():
        kind = "file" if path.suffix == SUFFIX else "folder"
        missing = f"there is no {CONFIG_FILE}" if path.exists() else f"there is no such {kind}"
        raise UsageError(
            f"{folder} holds no model: {missing}",
            hint="name a run folder (headway runs ls) or the model folder inside it",
        )
    return path, None


def _newest_checkpoint(run: Path) -> Path:
    """Return the model in the newest intact checkpoint of a run without an evaluated model.

    Raises UsageError if the run has no checkpoint, DataError if it has none with a model.
    """
    folder = run / CHECKPOINTS
    newest, damaged = newest_verified(folder, "step-*")
    if newest is not None and (newest / MODEL / CONFIG_FILE).is_file():
        return newest / MODEL
    hint = f"headway train --resume {run}"
    if newest is not None:
        raise DataError(
            f"the best model of the run is missing, and {newest.name} holds no model",
            str(run / MODEL),
            f"{hint} evaluates the checkpoint and saves its model",
        )
    if damaged:
        reasons = "; ".join(f"{path.name}: {reason}" for path, reason in damaged.items())
        raise DataError(f"every checkpoint of the run is damaged: {reasons}", str(folder))
    every = read_run_file(run).get("checkpoint.every")
    when = f"at step {every:,}" if isinstance(every, int) else "after checkpoint.every steps"
    raise UsageError(
        f"{run} holds no model yet: the run has not saved its first checkpoint",
        hint=f"wait until it is saved, {when} or when the training is interrupted (Ctrl-C); if the "
        f"run has ended, {hint}",
    )


def _check_family(requested: str | None, actual: str, path: Path) -> None:
    if requested not in (None, actual):
        raise UsageError(
            f"family {requested} was requested, and this is a model of family {actual}", str(path)
        )


def _named_type(family: str | None, path: Path) -> str:
    """Check and return the requested `model_type` of a folder whose config.json has none."""
    known = ", ".join(interop.FAMILIES)
    if family is None:
        raise DataError(
            f"this looks like a Hugging Face folder, but {FOREIGN} is missing in its {CONFIG_FILE}",
            str(path),
            f'name the type of the model: --family bert, or family="bert" in Python; or add it '
            f'there as "{FOREIGN}": "bert"; known: {known}',
        )
    if family not in interop.FAMILIES:
        suggestion = did_you_mean(family, interop.FAMILIES)
        raise UsageError(f"unknown family {family}{suggestion}", hint=f"one of: {known}")
    return family


def _is_hugging_face(values: dict[str, object]) -> bool:
    """Return whether config.json has keys that only Hugging Face's configurations have."""
    return not FOREIGN_KEYS.isdisjoint(values)


def _check_adapter(base: Path, adapter: Path) -> None:
    """Warn if the folder of an adapter has another tokenizer or chat template than its base, which
    are used."""
    for name in ("tokenizer.json", "chat_template.jinja"):
        theirs, ours = (adapter / name, base / name)
        if theirs.is_file() and not (ours.is_file() and ours.read_bytes() == theirs.read_bytes()):
            text = f"{theirs} is ignored: {name} of the base model, {base}, is used"
            warnings.warn(text, HeadwayWarning, stacklevel=2)


def _foreign(path: Path, device: str, kind: str, adapter: Path | None = None) -> Bundle:
    """Load the model and the tokenizer of a Hugging Face folder. kind: its `model_type`. adapter:
    the folder of an adapter that is merged into the model."""
    model = interop.build(*interop.read(path, kind, adapter))
    spec = spec_of(model.config.family)
    if spec is None or spec.foreign is None:
        raise DataError(
            f"no task can load a {model.config.family} model of another library", str(path)
        )
    bundle: Bundle = spec.foreign(model.to(device), path, kind)
    return bundle


def _llama2c(path: Path, device: str) -> TextBundle:
    if path.suffix != LLAMA2C:
        raise UsageError(
            f"{path} holds no model: files of models end in {SUFFIX} (llama.cpp) or {LLAMA2C} "
            "(llama2.c)",
            hint="name a run folder (headway runs ls) or the model folder inside it",
        )
    tokenizers = sorted(path.parent.glob("tok*.bin"))
    if len(tokenizers) != 1:
        raise UsageError(
            "a llama2.c file needs exactly one tokenizer, tok*.bin, in its folder; there are "
            f"{len(tokenizers)}",
            str(path),
        )
    model = interop.build(*interop.read_llama2c(path)).to(device)
    return TextBundle(model, interop.read_llama2c_tokenizer(tokenizers[0]))


def _gguf(path: Path, device: str) -> TextBundle | EncoderBundle:
    config, tensors, tokenizer, settings = interop.read_gguf(path)
    model = interop.build(config, tensors).to(device)
    if isinstance(tokenizer, EncoderTokenizer):
        return EncoderBundle(model, tokenizer, interop.read_gguf_pooling(path))
    return TextBundle(model, tokenizer, settings)


def load_as(kind: type[B], folder: str | Path) -> B:
    """Load the bundle in `folder` with float32 weights, from which training can start.

    Raises UsageError if it is not of this class.
    """
    return load(folder, "cpu", kind=kind, dtype="float32")


def check_kind(bundle: Bundle, folder: str | Path, *kinds: str) -> None:
    """Raise UsageError if a bundle that was loaded from `folder` is of none of these kinds."""
    if bundle.kind not in kinds:
        raise other_kind(bundle, folder, *kinds)


def other_kind(bundle: Bundle, folder: str | Path, *kinds: str) -> UsageError:
    """Return the error for a bundle, loaded from `folder`, that is of none of these kinds."""
    expected = " or ".join(map(with_article, kinds))
    return UsageError(
        f"{folder} holds {with_article(bundle.kind)}, and this needs {expected}",
        hint="headway runs ls lists the runs with their recipes",
    )


def with_article(kind: str) -> str:
    """Return the noun with its indefinite article."""
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


def spec_of(family: object) -> AnyBundleSpec | None:
    """Return how models of that family are loaded, or None if no task loads them."""
    task = task_of_family(family)
    return None if task is None else task.bundles[str(family)]


def families() -> list[str]:
    """Return the families of models that tasks can load, as config.json names them."""
    return [family for entry in TASKS.values() for family in entry.families]


def family_and_config(metadata: dict[str, object], path: Path) -> tuple[AnyBundleSpec, object]:
    """Return how the family in config.json is loaded, and the configuration of the model."""
    family, settings = metadata.get("family"), metadata.get("model")
    spec = spec_of(family)
    if spec is None or not isinstance(family, str) or not isinstance(settings, dict):
        known = ", ".join(families())
        raise DataError(f"unknown family {family!r}; known: {known}", str(path))
    try:
        config = MODELS.call(family, MODELS[family].config, object)
        return spec, override(config, flatten(settings), str(path))
    except UsageError as error:
        names = metadata.get(PACKAGES)
        packages = ", ".join(map(str, names if isinstance(names, list) else []))
        hint = f"it was saved with the package {packages}: install that" if packages else error.hint
        raise DataError(error.what, str(path), hint) from error
