"""`headway generate` and `headway chat`: a language model writes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from headway.cli.console import data, data_json, data_part
from headway.cli.flags import ON_THIS_MACHINE, Loader, MachineFlags
from headway.cli.inputs import arguments_or_lines, standard_input
from headway.cli.train import split_words
from headway.errors import DataError, UsageError
from headway.files import read_bytes
from headway.settings import COMMAND_LINE, override

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
    """Continue texts: headway generate RUN [PROMPT ...] [--SETTING VALUE ...].

    RUN is a run, a model, or a Hugging Face folder. Without PROMPT, standard input is read, a
    prompt a line; an empty prompt begins a text. One output of one prompt appears as it is
    written.

    Settings: --max-tokens 200 --min-tokens --temperature 0.8 (0: the likeliest) --top-k --top-p
    --min-p --typical --repetition-penalty --frequency-penalty --presence-penalty --no-repeat N
    --stop TEXT --forbid WORDS --force TEXT --bias WORD=NUMBER --beam --beam-groups --diversity
    --length-penalty --samples --seed --alternatives N --lookup N (tokens copied
    from the text as proposals) --draft-tokens 4. Lists are separated by commas; \\n is a line feed.

    Parameters
    ----------
    few_shot
        A file whose text stands before each prompt: examples of what is wanted.
    draft
        A smaller model with the same tokenizer, which proposes tokens: the same law, less time.
    echo
        Print the prompt before what follows it.
    json
        One JSON object for each output, with its tokens and their log-probabilities.
    """
    bundle, settings, prompts, place = _opened(words, machine)
    examples = "" if few_shot is None else _text(few_shot)
    prompts = list(arguments_or_lines(prompts, "prompt"))
    proposer = None if draft is None else _loaded(draft, place)
    alone = len(prompts) == 1 and settings.samples == 1 and settings.beam == 1
    with place.precision():
        if alone and not json:
            shown = prompts[0] if echo else ""
            _show_live(bundle, shown, examples + prompts[0], settings, proposer)
            return
        texts = [examples + prompt for prompt in prompts]
        found = bundle.generate(texts, draft=proposer, **vars(settings))
    for number, (prompt, outputs) in enumerate(zip(prompts, found, strict=True), start=1):
        for sample, output in enumerate(outputs, start=1):
            if json:
                data_json(_as_dict(bundle, prompt, sample, output))
                continue
            if not alone:
                data(f"[{number}.{sample}]")
            data((prompt if echo else "") + output.text)


def chat(
    *words: Annotated[str, Parameter(allow_leading_hyphen=True, show=False)],
    template: str = TEMPLATE,
    system: str = "",
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Talk with a language model: headway chat RUN [--SETTING VALUE ...].

    What was said stands before each answer; the oldest turns are dropped when the model's context
    is full. Settings are those of `headway generate`. A model answers only as its training text
    did: one that never saw a dialogue will write on as it likes.

    Parameters
    ----------
    template
        One turn: {user} is what you said, the answer follows. \\n is a line feed.
    system
        Text that stands before everything.
    """
    bundle, settings, rest, place = _opened(words, machine)
    if rest:
        raise UsageError(f"what is {rest[0]!r}? What you say is read from standard input")
    template = template.replace("\\n", "\n")
    if template.count("{user}") != 1:
        raise UsageError("--template must hold {user} once", hint=repr(TEMPLATE))
    before = template.split("{user}")[0].rstrip()
    stop = (*settings.stop, *([f"\n{before}"] if before.strip() else ["\n"]))
    asked = override(settings, {"stop": stop}, COMMAND_LINE)
    turns: list[str] = []
    for line in standard_input("turn"):
        turns.append(template.replace("{user}", line))
        prompt = _fitting(bundle, system, turns, asked.max_tokens)
        with place.precision():
            answer = _show_live(bundle, "", prompt, asked)
        turns[-1] += answer.rstrip("\n") + "\n"


def _opened(
    words: Sequence[str], machine: MachineFlags
) -> tuple[TextGenerating, GenerationConfig, list[str], Any]:
    from headway.decoding import GenerationConfig

    things, flags = split_words(words, {})
    if not things:
        raise UsageError("which model?", hint="headway generate runs/NAME PROMPT")
    written: dict[str, Any] = dict(flags)
    if "force" in flags:
        written["force"] = flags["force"].replace("\\n", "\n")
    if "stop" in flags:  # split here: a stop string may be blank, or begin with a space
        written["stop"] = tuple(flags["stop"].replace("\\n", "\n").split(","))
    settings = override(GenerationConfig(), written, COMMAND_LINE)
    place = machine.prepare()
    bundle = _loaded(things[0], place)
    return bundle, settings, [thing.replace("\\n", "\n") for thing in things[1:]], place


def _text(path: Path) -> str:
    try:
        return read_bytes(path, PROMPT_LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8: {error}", str(path)) from error


def _loaded(folder: str, place: Loader) -> TextGenerating:
    """The language model of a run or a folder."""
    from headway.bundle import TextGenerating
    from headway.tasks.opening import other_kind

    bundle = place.load(folder)
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
    """Write the output as it comes, and return it."""
    data_part(shown)
    pieces: list[str] = []
    for piece in bundle.stream(prompt, draft=draft, **vars(settings)):
        pieces.append(piece)
        data_part(piece)
    data("")
    return "".join(pieces)


def _as_dict(
    bundle: TextGenerating, prompt: str, sample: int, output: Continuation
) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "sample": sample,
        "text": output.text,
        "tokens": bundle.tokenizer.pieces(output.tokens),
        "log_probabilities": list(output.log_probabilities),
        "reason": output.reason,
        "seed": output.seed,
        "alternatives": [
            dict(
                zip(
                    bundle.tokenizer.pieces([t for t, _ in best]), [p for _, p in best], strict=True
                )
            )
            for best in output.alternatives
        ],
    }


def _fitting(bundle: TextGenerating, system: str, turns: list[str], answer: int) -> str:
    """The conversation, without its oldest turns if there is no room; the last one always stays."""
    room = bundle.config.max_length - min(answer, bundle.config.max_length // 2)

    def texts() -> Iterator[str]:
        yield system
        yield from turns

    while len(turns) > 1 and len(bundle.tokenizer.begin("".join(texts()))) > room:
        del turns[0]
    return "".join(texts())
