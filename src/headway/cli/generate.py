"""`headway generate`: text generation with a language model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.base.errors import DataError
from headway.base.files import read_bytes
from headway.base.settings import COMMAND_LINE, declared, override, setting
from headway.bundle import TextGenerating
from headway.cli.flags import as_flags, takes
from headway.cli.inputs import arguments_or_lines
from headway.cli.machine import Loader, MachineFlags
from headway.decoding import Continuation, GenerationConfig
from headway.terminal.console import data, data_json, data_part
from headway.terminal.progress import progress

PROMPT_LIMIT = 2**24


@as_flags
class GenerateFlags(MachineFlags):
    few_shot: Path | None = setting(
        None, "File of few-shot examples, whose text precedes each prompt."
    )
    draft: str | None = setting(
        None,
        "Draft model for speculative decoding: a smaller model with the same tokenizer, which "
        "proposes tokens. The output distribution is the same, in less time.",
    )
    echo: bool = setting(False, "Print the prompt before the generated text.")
    json: bool = setting(
        False, "Print one JSON object for each output, with its tokens and their log-probabilities."
    )


SETTINGS = declared(GenerationConfig)
SETTINGS["stop"] = replace(SETTINGS["stop"], type=str, default="")
"""Split here: a stop string may be blank, or begin with a space."""


@takes(SETTINGS)
def generate(
    run: str,
    /,
    *prompts: str,
    flags: GenerateFlags = GenerateFlags(),
    **settings: object,
) -> None:
    """Generate text from prompts: headway generate RUN [PROMPT ...] [--SETTING VALUE ...].

    Without a prompt, standard input is read, one prompt per line; an empty prompt generates a text
    from its beginning. A single output is printed token by token. The generation_config.json of a
    Hugging Face folder has the defaults of the settings. Lists are separated by commas; \\n is a
    line feed.

    Parameters
    ----------
    run
        A run folder, a model folder or a Hugging Face folder.
    prompts
        Texts to continue.
    """
    bundle, config, loader = opened(run, settings, flags)
    examples = "" if flags.few_shot is None else _text(flags.few_shot)
    given = [prompt.replace("\\n", "\n") for prompt in prompts]
    starts = list(arguments_or_lines(given, "prompt", _hint_for_file))
    draft = None if flags.draft is None else _loaded(flags.draft, loader)
    is_single = len(starts) == 1 and config.samples == 1 and config.beam_groups == 1
    with loader.precision():
        if is_single and not flags.json:
            shown = starts[0] if flags.echo else ""
            show_live(bundle, shown, examples + starts[0], config, draft)
            return
        texts = [examples + start for start in starts]
        with progress(f"generating for {len(texts):,} prompt{'' if len(texts) == 1 else 's'}"):
            continuations = bundle.generate(texts, draft=draft, **vars(config))
    for number, (start, outputs) in enumerate(zip(starts, continuations, strict=True), start=1):
        for sample, output in enumerate(outputs, start=1):
            if flags.json:
                data_json(_as_dict(bundle, start, sample, output))
                continue
            if not is_single:
                data(f"[{number}.{sample}]")
            data((start if flags.echo else "") + output.text)


def opened(
    run: str, settings: dict[str, object], flags: MachineFlags
) -> tuple[TextGenerating, GenerationConfig, Loader]:
    """The model, the settings completed by its defaults, and the machine."""
    changes = {name: _unescaped(value) for name, value in settings.items()}
    if "stop" in changes:
        changes["stop"] = tuple(changes["stop"].split(","))
    override(GenerationConfig(), changes, COMMAND_LINE)  # an error before the model loads
    loader = flags.prepare()
    bundle = _loaded(run, loader)
    return bundle, bundle.with_defaults(changes, COMMAND_LINE), loader


def _unescaped(value: object) -> Any:
    """A text, or a list of texts, with line feeds instead of \\n."""
    if isinstance(value, tuple):
        return tuple(map(_unescaped, value))
    return value.replace("\\n", "\n") if isinstance(value, str) else value


def _hint_for_file(path: str) -> str:
    return f"< {path} reads one prompt per line, --few-shot {path} puts the text before each prompt"


def _text(path: Path) -> str:
    try:
        return read_bytes(path, PROMPT_LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", str(path)) from error


def _loaded(folder: str, loader: Loader) -> TextGenerating:
    return loader.expect(TextGenerating, folder, "language model")  # type: ignore[type-abstract]


def show_live(
    bundle: TextGenerating,
    shown: str,
    prompt: str | Sequence[int],
    settings: GenerationConfig,
    draft: TextGenerating | None = None,
) -> str:
    """Print the output while it is generated, and return it."""
    data_part(shown)
    parts: list[str] = []
    for part in bundle.stream(prompt, draft=draft, **vars(settings)):
        parts.append(part)
        data_part(part)
    data("")
    return "".join(parts)


def _as_dict(
    bundle: TextGenerating, prompt: str, sample: int, output: Continuation
) -> dict[str, object]:
    return {
        "prompt": prompt,
        "sample": sample,
        "text": output.text,
        "tokens": bundle.tokenizer.token_strings(output.tokens),
        "log_probabilities": list(output.log_probabilities),
        "reason": output.reason,
        "seed": output.seed,
        "alternatives": [
            dict(
                zip(
                    bundle.tokenizer.token_strings([t for t, _ in best]),
                    [p for _, p in best],
                    strict=True,
                )
            )
            for best in output.alternatives
        ],
    }
