"""`headway export`: a model as a folder that other libraries load."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from headway.base.errors import UsageError
from headway.base.settings import required, setting
from headway.bundle import Bundle
from headway.cli.flags import OUTPUT, RUN, as_flags
from headway.exporting.ctranslate2 import CTRANSLATE2
from headway.exporting.hugging_face import HUGGING_FACE
from headway.exporting.onnx.export import ONNX
from headway.exporting.pt2 import PT2
from headway.exporting.target import Exported, Target
from headway.exporting.target import export as run_export
from headway.exporting.web.export import PAGE, ExportedWeb, export_web
from headway.interop import ExportedGGUF, fitting
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
    to: Literal["hf", "ctranslate2", "gguf", "onnx", "web", "pt2"] = required(
        "Target format; hf: a Hugging Face folder (config.json, model.safetensors, "
        "tokenizer.json); ctranslate2: a CTranslate2 folder (config.json, model.bin, "
        "vocabularies); gguf: a folder with model.gguf, for llama.cpp; onnx: a folder with graphs "
        "for onnxruntime, OpenVINO and transformers.js; web: a folder with index.html, a page "
        "that computes without a network; pt2: a folder with packages that AOTInductor compiles "
        "for this machine's processor, and loaders in Python and C++."
    )
    output: Annotated[Path | None, OUTPUT] = setting(
        None,
        "New folder for the exported model. If unset, RUN/hf, RUN/onnx and so on.",
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
    and captioners. ctranslate2 and gguf support language models, ctranslate2 translators, too. onnx
    and pt2 support all of these but recurrent translators and linear attention. web supports
    language models, translators, masked words, classifiers of texts and images, and captioners:
    index.html answers and draws the attention, from a file and without a network.

    The target's own program runs the folder before it is kept: transformers, if it is installed,
    CTranslate2, llama.cpp, onnxruntime, OpenVINO, if it is installed, Node or torch. In float32
    outputs must agree to 1e-5 (llama.cpp: 1e-4, and 5e-3 for GPT-2, whose activation it rounds),
    tokens that are written greedily must be the same, and so must the ids of texts and, but for
    llama.cpp, the score on the held-out data of the run. Otherwise the folder is removed and the
    command fails.
    """
    if flags.to in ("hf", "pt2") and flags.dtype is not None:
        raise UsageError(
            f"--dtype {flags.dtype} is for --to ctranslate2, gguf, onnx and web; "
            f"--to {flags.to} writes float32 weights"
        )
    if flags.to != "hf" and flags.family is not None:
        raise UsageError(
            f"--family {flags.family} is for --to hf; the family of --to {flags.to} follows from "
            "the model"
        )
    if flags.to != "web" and flags.runtime is not None:
        raise UsageError(f"--runtime is for --to web; --to {flags.to} needs no such packages")
    bundle, folder = load(run, "cpu"), run / flags.to if flags.output is None else flags.output
    dtype = flags.dtype or "float32"
    if flags.to == "gguf":
        result: ExportedGGUF | ExportedWeb | Exported = _to_gguf(bundle, run, folder, dtype)
    elif flags.to == "web":
        result = _to_web(bundle, run, folder, dtype, flags.runtime)
    else:
        result = _to(TARGETS[flags.to], bundle, run, folder, dtype, flags.family)
    if flags.json:
        data_json({**asdict(result), "folder": str(result.folder)})


TARGETS: dict[str, Target] = {
    "hf": HUGGING_FACE,
    "ctranslate2": CTRANSLATE2,
    "onnx": ONNX,
    "pt2": PT2,
}
"""Name of a target -> how it is written and run."""


def _to(
    target: Target, bundle: Bundle, run: Path, folder: Path, dtype: str, family: str | None
) -> Exported:
    with progress(f"writing {folder.name}, and running it") as report:
        hint = _other_formats(run, bundle)
        exported = run_export(bundle, folder, target, dtype, family, run, report, hint)
    files, size = ", ".join(exported.files), exported.size / 1e6
    say(f"written   {exported.folder}: {files}, {exported.dtype}, {size:,.1f} MB")
    say(f"as        {exported.architecture}")
    call = target.call(exported.folder, exported.architecture)
    _finish(bundle, run, exported.folder, exported.checked, call, exported.facts)
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
    facts = [("dtype", exported.dtype), ("size", f"{size:,.1f} MB")]
    _finish(bundle, run, exported.folder, same, f"llama-cli -m {file}", facts)
    return exported


def _to_web(
    bundle: Bundle, run: Path, folder: Path, dtype: str, runtime: Path | None
) -> ExportedWeb:
    examples = examples_of(run)
    with progress(f"writing {folder.name}, and running it") as report:
        exported = export_web(
            bundle, folder, dtype, run, report, runtime=runtime, examples=examples
        )
    page, found, size = exported.folder / PAGE, exported.in_node, exported.size / 1e6
    say(f"written   {page}: {exported.onnx.dtype}, {size:,.1f} MB, without a network")
    in_node = f"in {found.version} logits differ at most by {found.difference:.1e}"
    same = f"{in_node}, attention weights by {found.of_attention:.1e}; {exported.onnx.checked}"
    call = f"open {page} in a browser"
    _finish(bundle, run, exported.folder, same, call, exported.onnx.facts)
    return exported


def _finish(
    bundle: Bundle, run: Path, folder: Path, same: str, call: str, facts: list[tuple[str, str]]
) -> None:
    """Write the model card, and say how the model was checked and how it is loaded."""
    kind, size = with_article(bundle.kind), parameter_count(bundle.model)
    description = f"{kind[0].upper()}{kind[1:]} with {size:,} parameters"
    # a path of this machine is not that of a reader
    use = f"```\n{call.replace(str(folder), folder.name)}\n```"
    write_card(run, folder, description=description, checked=same, use=use, facts=facts)
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
