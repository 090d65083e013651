"""`headway export`: a model as a folder that other libraries load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from headway.base.errors import UsageError
from headway.base.settings import required, setting
from headway.bundle import Bundle
from headway.cli.flags import OUTPUT, RUN, as_flags
from headway.exporting.onnx.export import ExportedONNX, export_onnx
from headway.exporting.web.export import PAGE, ExportedWeb, export_web
from headway.interop import Exported, ExportedCTranslate2, ExportedGGUF, fitting
from headway.interop.gguf import FILE as GGUF_FILE
from headway.models.contracts import parameter_count
from headway.runs.card import CARD, write_card
from headway.serving.examples import examples_of
from headway.tasks.opening import load, spec_of, with_article
from headway.terminal.console import data_json, say
from headway.terminal.progress import progress

KEEP = "keep it as a Headway model"


@as_flags
class ExportFlags:
    to: Literal["hf", "ctranslate2", "gguf", "onnx", "web"] = required(
        "Target format; hf: a Hugging Face folder (config.json, model.safetensors, "
        "tokenizer.json); ctranslate2: a CTranslate2 folder (config.json, model.bin, "
        "vocabularies); gguf: a folder with model.gguf, for llama.cpp; onnx: a folder with graphs "
        "for onnxruntime, OpenVINO and transformers.js; web: a folder with index.html, a page that "
        "computes without a network."
    )
    output: Annotated[Path | None, OUTPUT] = setting(
        None,
        "New folder for the exported model. If unset, RUN/hf, RUN/ctranslate2, RUN/gguf, RUN/onnx, "
        "RUN/web.",
    )
    family: str | None = setting(
        None,
        "Architecture of the exported model, for hf: gpt2, openai-gpt, llama, qwen3, bert, "
        "roberta, distilbert, albert, marian, pegasus, bart, mbart, m2m_100, t5, mt5, vit, dinov2 "
        "or vision-encoder-decoder. If unset, the first one that can represent the model.",
    )
    dtype: Literal["float32", "float16", "bfloat16", "int16", "int8", "int4"] | None = setting(
        None,
        "Numbers of the weight matrices. ctranslate2: all but int4; gguf: all but int16 (int8 is "
        "Q8_0, int4 is Q4_0); onnx and web: float32, float16 and int8. If unset, float32.",
    )
    runtime: Path | None = setting(
        None,
        "Folder with the npm packages onnxruntime-web and @huggingface/tokenizers, for web. If "
        "unset, node_modules here or in a folder above, or the global one of npm.",
    )
    json: bool = setting(False, "Print the result of the verification as one JSON object.")


def export(run: Annotated[Path, RUN], /, *, flags: ExportFlags) -> None:
    """Export a model to the format of another library, and verify the result.

    headway export runs/NAME --to hf

    hf supports language models, translators (as MarianMT or Pegasus), encoders of the BERT family
    with their heads (text encoders also for sentence-transformers), image encoders and classifiers,
    and captioners. The exported model is loaded again: its logits must agree to 1e-4, and its
    tokenizer must give the same ids. ctranslate2 supports translators and language models.
    CTranslate2 loads the exported model: its log-probabilities must agree to 1e-4 in float32.
    gguf supports language models. llama.cpp loads the file: it must give texts the same ids, and
    its log-probabilities must agree to 1e-4 in float32 (to 5e-3 for GPT-2, whose activation it
    rounds). onnx supports all of these but recurrent translators and linear attention. onnxruntime,
    and OpenVINO if it is installed, run the graphs: outputs must agree to 1e-5, 32 tokens that are
    written greedily must be the same, and so must the score on the held-out data of the run. web
    supports language models, translators, masked words, classifiers of texts and images, and
    captioners: index.html answers and draws the attention, from a file and without a network. Node
    runs its code: ids, logits, attention and greedy tokens must be those of the model. Otherwise
    the folder is removed and the command fails.
    """
    if flags.to == "hf" and flags.dtype is not None:
        raise UsageError(
            f"--dtype {flags.dtype} is for --to ctranslate2, gguf, onnx and web; "
            "a Hugging Face folder has float32 weights"
        )
    if flags.to != "hf" and flags.family is not None:
        raise UsageError(
            f"--family {flags.family} is for --to hf; the family of --to {flags.to} follows from "
            "the model"
        )
    if flags.to != "web" and flags.runtime is not None:
        raise UsageError(f"--runtime is for --to web; --to {flags.to} needs no such packages")
    bundle, folder = load(run, "cpu"), run / flags.to if flags.output is None else flags.output
    exported: Exported | ExportedCTranslate2 | ExportedGGUF | ExportedONNX | ExportedWeb
    if flags.to == "hf":
        exported = _to_hugging_face(bundle, run, folder, flags.family)
    elif flags.to == "gguf":
        exported = _to_gguf(bundle, run, folder, flags.dtype or "float32")
    elif flags.to == "onnx":
        exported = _to_onnx(bundle, run, folder, flags.dtype or "float32")
    elif flags.to == "web":
        exported = _to_web(bundle, run, folder, flags.dtype or "float32", flags.runtime)
    else:
        exported = _to_ctranslate2(bundle, run, folder, flags.dtype or "float32")
    if flags.json:
        data_json({**asdict(exported), "folder": str(exported.folder)})


def _to_hugging_face(bundle: Bundle, run: Path, folder: Path, family: str | None) -> Exported:
    spec = spec_of(bundle.config.family)
    if spec is None or spec.export is None:
        raise UsageError(
            f"{run} is {with_article(bundle.kind)}, which cannot be exported: Hugging Face has no "
            "such model",
            hint=KEEP,
        )
    with progress(f"writing {folder.name}, and comparing its results"):
        exported = spec.export(bundle, folder, family)
    is_image_model = bundle.inputs.modality == "image"
    part = "image preprocessing" if is_image_model else "tokenizer"
    say(f"written   {exported.folder}: {exported.architecture}, {part}")
    same = (
        "the image preprocessing is the same"
        if is_image_model
        else f"{exported.texts} texts have the same token ids"
    )
    difference = f"logits differ by at most {exported.difference:.1e}"
    call = f"transformers.{exported.architecture}.from_pretrained({str(exported.folder)!r})"
    _finish(bundle, run, exported.folder, f"{difference}, {same}", call)
    return exported


def _to_ctranslate2(bundle: Bundle, run: Path, folder: Path, dtype: str) -> ExportedCTranslate2:
    spec = spec_of(bundle.config.family)
    if spec is None or spec.export_to_ctranslate2 is None:
        raise UsageError(
            f"{run} is {with_article(bundle.kind)}; only translators and language models can be "
            "exported to CTranslate2",
            hint=_other_formats(run, bundle),
        )
    with progress(f"writing {folder.name}, and comparing its results"):
        exported = spec.export_to_ctranslate2(bundle, folder, dtype)
    say(f"written   {exported.folder}: {exported.dtype}, tokenizer")
    rounding = "" if dtype == "float32" else f", in {dtype} by {exported.rounding:.2g}"
    same = (
        f"log-probabilities of {exported.sequences} random sequences differ by at most "
        f"{exported.difference:.1e} in float32{rounding}"
    )
    call = f"ctranslate2.{exported.loader}({str(exported.folder)!r})"
    _finish(bundle, run, exported.folder, same, call)
    return exported


def _to_gguf(bundle: Bundle, run: Path, folder: Path, dtype: str) -> ExportedGGUF:
    spec = spec_of(bundle.config.family)
    if spec is None or spec.export_to_gguf is None:
        raise UsageError(
            f"{run} is {with_article(bundle.kind)}; only language models can be exported to GGUF",
            hint=_other_formats(run, bundle),
        )
    with progress(f"writing {folder.name}, and comparing its results"):
        exported = spec.export_to_gguf(bundle, folder, dtype)
    file = exported.folder / GGUF_FILE
    size = file.stat().st_size / 1e6
    say(f"written   {file}: {exported.architecture}, {exported.dtype}, {size:,.1f} MB")
    rounding = "" if dtype == "float32" else f", in {dtype} by {exported.rounding:.2g}"
    same = (
        f"llama.cpp gives {exported.texts} texts the same token ids; log-probabilities of "
        f"{exported.steps} tokens differ by at most {exported.difference:.1e} in float32{rounding}"
    )
    _finish(bundle, run, exported.folder, same, f"llama-cli -m {file}")
    return exported


def _to_onnx(bundle: Bundle, run: Path, folder: Path, dtype: str) -> ExportedONNX:
    with progress(f"writing {folder.name}, and running it") as report:
        exported = export_onnx(bundle, folder, dtype, run, report)
    graphs = ", ".join(exported.files)
    say(f"written   {exported.folder}: {graphs}, {exported.dtype}, {exported.size / 1e6:,.1f} MB")
    say(f"beside    files of transformers and transformers.js: {exported.architecture}")
    by_runtime = [f"{name} by {value:.1e}" for name, value in exported.difference.items()]
    parts = [f"outputs differ at most in {', in '.join(by_runtime)} (float32)"]
    if dtype != "float32":
        parts.append(f"in {dtype} by {exported.rounding:.2g}")
    if exported.tokens:
        parts.append(f"{exported.tokens} greedy tokens are the same")
    if exported.texts:
        parts.append(f"{exported.texts} texts have the same token ids")
    parts += _scores(exported.here.scores, exported.there.scores)
    graph = exported.folder / "onnx" / exported.files[0]
    call = f"onnxruntime.InferenceSession({str(graph)!r})"
    _finish(bundle, run, exported.folder, "; ".join(parts), call)
    return exported


def _to_web(
    bundle: Bundle, run: Path, folder: Path, dtype: str, runtime: Path | None
) -> ExportedWeb:
    examples = examples_of(run)
    with progress(f"writing {folder.name}, and running it") as report:
        exported = export_web(
            bundle, folder, dtype, run, report, runtime=runtime, examples=examples
        )
    page, found = exported.folder / PAGE, exported.in_node
    say(
        f"written   {page}: {exported.onnx.dtype}, {exported.size / 1e6:,.1f} MB, without a network"
    )
    parts = [
        f"logits differ at most by {found.difference:.1e} in {found.version}",
        f"attention weights by {found.of_attention:.1e}",
    ]
    if found.tokens:
        parts.append(f"{found.tokens} greedy tokens are the same")
    if found.texts:
        parts.append(f"{found.texts} texts have the same token ids")
    parts += _scores(exported.onnx.here.scores, exported.onnx.there.scores)
    _finish(bundle, run, exported.folder, "; ".join(parts), f"open {page} in a browser")
    return exported


def _scores(here: Mapping[str, float], there: Mapping[str, float]) -> list[str]:
    """Return the scores of the model and of the exported one, in words."""
    return [f"{name} {there[name]:.4g}, of the run {value:.4g}" for name, value in here.items()]


def _finish(bundle: Bundle, run: Path, folder: Path, same: str, call: str) -> None:
    """Write the model card, and say how the model was checked and how it is loaded."""
    kind, size = with_article(bundle.kind), parameter_count(bundle.model)
    description = f"{kind[0].upper()}{kind[1:]} with {size:,} parameters"
    # a path of this machine is not that of a reader
    use = f"```\n{call.replace(str(folder), folder.name)}\n```"
    write_card(run, folder, description=description, checked=same, use=use)
    say(f"checked   {same}")
    say(f"card      {folder / CARD}: add the licence")
    say(f"next      {call}")


def _other_formats(run: Path, bundle: Bundle) -> str:
    """Return how the model can be exported, if a Hugging Face model has its architecture."""
    spec = spec_of(bundle.config.family)
    if spec is None or spec.export is None:
        return KEEP
    try:
        fitting(bundle.config, None)
    except UsageError:
        return KEEP
    return f"headway export {run} --to hf writes a folder for other libraries"
