"""`headway export`: a model as a folder that other libraries load."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from headway.base.errors import UsageError
from headway.base.settings import required, setting
from headway.bundle import Bundle
from headway.cli.flags import OUTPUT, RUN, as_flags
from headway.exporting.target import export as run_export
from headway.exporting.targets import TARGETS, WEB
from headway.exporting.web.export import web_page
from headway.interop import fitting
from headway.runs.card import CARD, write_card
from headway.serving.examples import examples_of
from headway.tasks.opening import load, spec_of
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
        "Q8_0, int4 is Q4_0); onnx and web: float32, float16, int8 and int4. If unset, float32.",
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
    and captioners. ctranslate2 and gguf support language models, ctranslate2 translators, too, and
    gguf text encoders with BERT's WordPiece. onnx and pt2 support all of these but recurrent
    translators and linear attention. web supports language models, translators, masked words,
    classifiers of texts and images, and captioners: index.html answers and draws the attention,
    from a file and without a network.

    The target's own program runs the folder before it is kept: transformers, if it is installed,
    CTranslate2, llama.cpp, onnxruntime, OpenVINO, if it is installed, Node or torch. In float32
    outputs must agree to 1e-5 (llama.cpp: 5e-4 for GPT-2 and 2e-3 for BERT, whose activation it
    rounds), tokens that are written greedily must be the same, and so must the ids of texts and,
    but for llama.cpp, the score on the held-out data of the run. Otherwise the folder is removed
    and the command fails.
    """
    _check(flags)
    bundle, target = load(run, "cpu"), TARGETS[flags.to]
    if flags.to == WEB:
        target = web_page(flags.runtime, examples_of(run), run.resolve().name)
    folder = run / flags.to if flags.output is None else flags.output
    with progress(f"writing {folder.name}, and running it") as report:
        exported = run_export(
            bundle,
            folder,
            target,
            flags.dtype or "float32",
            flags.family,
            run,
            report,
            _other_formats(run, bundle),
        )
    files, size = ", ".join(exported.files), exported.size / 1e6
    say(f"written   {exported.folder}: {files}, {exported.dtype}, {size:,.1f} MB")
    say(f"as        {exported.architecture}")
    call = target.call(exported.folder, exported.architecture)
    write_card(
        bundle,
        run,
        exported.folder,
        use=call,
        checked=exported.checked,
        facts=exported.facts,
    )
    say(f"checked   {exported.checked}")
    say(f"card      {exported.folder / CARD}: add the licence")
    say(f"next      {call}")
    if flags.json:
        data_json({**asdict(exported), "folder": str(exported.folder)})


def _check(flags: ExportFlags) -> None:
    """Raise UsageError for a flag of another target."""
    if flags.dtype is not None and len(TARGETS[flags.to].dtypes) == 1:
        *several, last = [name for name, one in TARGETS.items() if len(one.dtypes) > 1]
        raise UsageError(
            f"--dtype {flags.dtype} is for --to {', '.join(several)} and {last}; "
            f"--to {flags.to} writes float32 weights"
        )
    if flags.to != "hf" and flags.family is not None:
        raise UsageError(
            f"--family {flags.family} is for --to hf; the family of --to {flags.to} follows from "
            "the model"
        )
    if flags.to != WEB and flags.runtime is not None:
        raise UsageError(f"--runtime is for --to web; --to {flags.to} needs no such packages")


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
