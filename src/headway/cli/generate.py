"""`headway generate` and `headway chat`: text generation with a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.base.errors import DataError, UsageError
from headway.base.files import read_bytes
from headway.base.settings import COMMAND_LINE, override
from headway.cli.console import data, data_json, data_part
from headway.cli.flags import ON_THIS_MACHINE, Loader, MachineFlags
from headway.cli.inputs import arguments_or_lines, standard_input
from headway.cli.train import split_words

if TYPE_CHECKING:
    from headway.bundle import TextGenerating
    from headway.decoding import Continuation, GenerationConfig

PROMPT_LIMIT = 2**24
TEMPLATE = "User: {user}\nAssistant:"


def generate(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    few_shot: Path | None = None,
    draft: str | None = None,
    echo: bool = False,
    json: bool = False,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Generate text from prompts: headway generate RUN [PROMPT ...] [--SETTING VALUE ...].

    RUN is a run folder, a model folder or a Hugging Face folder, whose generation_config.json has
    the defaults of the settings. Without PROMPT, standard input is
    read, one prompt per line; an empty prompt generates a text from its beginning. A single output
    is printed token by token.

    Settings: --max-tokens 200 --min-tokens --temperature 0.8 (0: greedy) --top-k --top-p --min-p
    --typical --repetition-penalty --frequency-penalty --presence-penalty --no-repeat N --stop TEXT
    --forbid WORDS --force TEXT --bias WORD=NUMBER --beam --beam-groups --diversity
    --length-penalty --early-stopping true --contrastive 0.6 --dola low|high --samples --seed
    --alternatives N --lookup N (prompt lookup decoding) --draft-tokens 4. Lists are separated by
    commas; \\n is a line feed.
    headway config explain NAME explains a setting.

    Parameters
    ----------
    few_shot
        File of few-shot examples, whose text precedes each prompt.
    draft
        Draft model for speculative decoding: a smaller model with the same tokenizer, which
        proposes tokens. The output distribution is the same, in less time.
    echo
        Print the prompt before the generated text.
    json
        Print one JSON object for each output, with its tokens and their log-probabilities.
    """
    bundle, settings, prompts, loader = _opened(words, machine)
    examples = "" if few_shot is None else _text(few_shot)
    prompts = list(arguments_or_lines(prompts, "prompt", _hint_for_file))
    draft_model = None if draft is None else _loaded(draft, loader)
    is_single = len(prompts) == 1 and settings.samples == 1 and settings.beam_groups == 1
    with loader.precision():
        if is_single and not json:
            shown = prompts[0] if echo else ""
            _show_live(bundle, shown, examples + prompts[0], settings, draft_model)
            return
        texts = [examples + prompt for prompt in prompts]
        continuations = bundle.generate(texts, draft=draft_model, **vars(settings))
    for number, (prompt, outputs) in enumerate(zip(prompts, continuations, strict=True), start=1):
        for sample, output in enumerate(outputs, start=1):
            if json:
                data_json(_as_dict(bundle, prompt, sample, output))
                continue
            if not is_single:
                data(f"[{number}.{sample}]")
            data((prompt if echo else "") + output.text)


def chat(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    template: str = TEMPLATE,
    system: str = "",
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Chat with a language model: headway chat RUN [--SETTING VALUE ...].

    The prompt of each turn is the conversation so far; the oldest turns are dropped when the
    context is full. Settings are those of `headway generate`. Only a model that was trained on
    dialogues answers like one; others continue the text.

    Parameters
    ----------
    template
        Template of one turn: {user} is replaced by the message, and the model generates what
        follows. \\n is a line feed.
    system
        System prompt: text before the first turn.
    """
    bundle, settings, rest, loader = _opened(words, machine)
    if rest:
        raise UsageError(
            f"unexpected argument {rest[0]!r}: messages are read from standard input",
            hint="headway chat RUN",
        )
    template = template.replace("\\n", "\n")
    if template.count("{user}") != 1:
        raise UsageError("--template must contain {user} exactly once", hint=repr(TEMPLATE))
    before = template.split("{user}")[0].rstrip()
    stop = (*settings.stop, *([f"\n{before}"] if before.strip() else ["\n"]))
    settings = override(settings, {"stop": stop}, COMMAND_LINE)
    turns: list[str] = []
    for line in standard_input("turn"):
        turns.append(template.replace("{user}", line))
        prompt = _fitting(bundle, system, turns, settings.max_tokens)
        with loader.precision():
            answer = _show_live(bundle, "", prompt, settings)
        turns[-1] += answer.rstrip("\n") + "\n"


def _opened(
    words: Sequence[str], machine: MachineFlags
) -> tuple[TextGenerating, GenerationConfig, list[str], Any]:
    from headway.decoding import GenerationConfig

    arguments, flags = split_words(words, {})
    if not arguments:
        raise UsageError("the model is missing", hint="headway generate runs/NAME PROMPT")
    model, *prompts = arguments
    changes: dict[str, Any] = dict(flags)
    if "force" in flags:
        changes["force"] = flags["force"].replace("\\n", "\n")
    if "stop" in flags:  # split here: a stop string may be blank, or begin with a space
        changes["stop"] = tuple(flags["stop"].replace("\\n", "\n").split(","))
    override(GenerationConfig(), changes, COMMAND_LINE)  # a typo is an error before the model loads
    loader = machine.prepare()
    bundle = _loaded(model, loader)
    settings = bundle.with_defaults(changes, COMMAND_LINE)
    return bundle, settings, [prompt.replace("\\n", "\n") for prompt in prompts], loader


def _hint_for_file(path: str) -> str:
    return f"< {path} reads one prompt per line, --few-shot {path} puts the text before each prompt"


def _text(path: Path) -> str:
    try:
        return read_bytes(path, PROMPT_LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", str(path)) from error


def _loaded(folder: str, loader: Loader) -> TextGenerating:
    """The language model in a folder. UsageError if it holds another kind of model."""
    from headway.bundle import TextGenerating
    from headway.tasks.opening import other_kind

    bundle = loader.load(folder)
    if not isinstance(bundle, TextGenerating):
        raise other_kind(bundle, folder, "language model")
    return bundle


def _show_live(
    bundle: TextGenerating,
    shown: str,
    prompt: str,
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
) -> dict[str, Any]:
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


def _fitting(bundle: TextGenerating, system: str, turns: list[str], answer: int) -> str:
    """The conversation as a prompt that fits the context: the oldest turns are dropped, never the
    last one."""
    room = bundle.config.max_length - min(answer, bundle.config.max_length // 2)

    def texts() -> Iterator[str]:
        yield system
        yield from turns

    while len(turns) > 1 and len(bundle.tokenizer.begin("".join(texts()))) > room:
        del turns[0]
    return "".join(texts())
