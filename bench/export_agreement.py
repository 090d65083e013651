"""Whether a language model writes the same tokens in every runtime to which it is exported.

    python -m bench.export_agreement RUN [TEXT.txt]

Each runtime continues 100 prompts greedily by 32 tokens, with its own decoding loop if it has one:
onnxruntime, OpenVINO, transformers, AOTInductor, llama.cpp, CTranslate2, transformers.js in Node,
and the exported page in Chromium without a network. Those that are not installed are named. The
first other token of a runtime is printed with the margin: how much more probable ours is, by the
logits of Headway. A margin near 0 is a tie, which no computation in float32 decides.

The prompts are the beginnings of the lines of TEXT.txt, or of the held-out text of the run. npm
packages are found as for `headway export --to web`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from headway.base.errors import HeadwayError
from headway.bundle import TextBundle
from headway.exporting.ctranslate2 import ONLY
from headway.exporting.llama_cpp import PACKAGE, running_server
from headway.exporting.target import export
from headway.exporting.targets import TARGETS, WEB
from headway.exporting.web.packages import FOLDER, find_packages
from headway.interop.gguf_reader import FILE
from headway.runs.held_out_inputs import held_out_passages
from headway.tasks.opening import load_as

PROMPTS, TOKENS, LONGEST = 100, 32, 12
TIE = 1e-4
TRANSFORMERS_JS = "@huggingface/transformers"
CHROMIUM = "chromium"

Ids = list[list[int]]


@dataclass(frozen=True)
class Divergence:
    """The first prompt after which a runtime writes another token. prompt, token: numbers from 1.
    ours, theirs: the tokens as text. margin: the logit of ours minus that of theirs."""

    prompt: int
    token: int
    ours: str
    theirs: str
    margin: float


@dataclass(frozen=True)
class Agreement:
    """One runtime against Headway. equal: number of prompts that are continued the same way."""

    runtime: str
    equal: int
    divergence: Divergence | None


@dataclass(frozen=True)
class Question:
    """What every runtime continues: texts, their ids with the tokens before a text, and by how many
    tokens."""

    bundle: TextBundle
    texts: Sequence[str]
    ids: Ids
    tokens: int

    @classmethod
    def of(cls, bundle: TextBundle, texts: Sequence[str], tokens: int) -> Question:
        """Return the question of texts that leave room for the tokens."""
        room = (bundle.model.max_length or 10**6) - tokens - 1
        begun = {text: bundle.tokenizer.begin(text) for text in texts}
        chosen = [text for text, ids in begun.items() if 0 < len(ids) <= room]
        return cls(bundle, chosen, [begun[text] for text in chosen], tokens)

    def cut(self, ids: Sequence[int]) -> list[int]:
        """Return tokens up to one that ends a text."""
        ends = self.bundle.tokenizer.ends
        return list(takewhile(lambda one: one not in ends, ids))


def by_network(question: Question, network: Any) -> Ids:
    """Continue with the cache of a model, or of a runtime behind its methods."""
    written = []
    with torch.inference_mode():
        for prompt in question.ids:
            state, new = network.start(torch.tensor([prompt[:-1]], dtype=torch.long)), prompt[-1]
            ids: list[int] = []
            for _ in range(question.tokens):
                logits, state = network.step(torch.tensor([[new]]), state)
                new = int(logits[0, -1].argmax())
                ids.append(new)
            written.append(question.cut(ids))
    return written


def by_target(name: str, question: Question, folder: Path) -> Iterator[tuple[str, Ids]]:
    target = TARGETS[name]
    export(question.bundle, folder, target)
    with closing(target.run(question.bundle, folder)) as runtimes:
        for one in runtimes:
            yield one.version, by_network(question, one.bundle.model)


def by_ctranslate2(question: Question, folder: Path) -> Iterator[tuple[str, Ids]]:
    import ctranslate2

    export(question.bundle, folder, TARGETS["ctranslate2"])
    names = json.loads((folder / ONLY).read_text())
    generator = ctranslate2.Generator(str(folder), intra_threads=1)
    results = [
        generator.generate_batch(
            [[names[i] for i in prompt]],
            max_length=question.tokens,
            sampling_topk=1,
            include_prompt_in_result=False,
        )[0]
        for prompt in question.ids
    ]
    ids = [question.cut(result.sequences_ids[0]) for result in results]
    yield f"ctranslate2 {version('ctranslate2')}", ids


def by_llama_cpp(question: Question, folder: Path) -> Iterator[tuple[str, Ids]]:
    export(question.bundle, folder, TARGETS["gguf"])
    settings = {"n_predict": question.tokens, "temperature": 0, "return_tokens": True}
    with running_server(folder / FILE, question.bundle.model.max_length or 1024) as server:
        answers = [
            server.answer("completion", {"prompt": prompt, "cache_prompt": False, **settings})
            for prompt in question.ids
        ]
    yield f"llama.cpp, {PACKAGE} {version(PACKAGE)}", [question.cut(a["tokens"]) for a in answers]


def by_transformers_js(question: Question, folder: Path) -> Iterator[tuple[str, Ids]]:
    package = _beside(TRANSFORMERS_JS)
    export(question.bundle, folder, TARGETS["onnx"])
    script = """
const {env, AutoModelForCausalLM, Tensor} = await import("@huggingface/transformers");
env.allowRemoteModels = false; env.localModelPath = process.argv[1];
const {prompts, tokens} = JSON.parse((await import("node:fs")).readFileSync(process.argv[3]));
const model = await AutoModelForCausalLM.from_pretrained(process.argv[2], {dtype: "fp32"});
const of = (values) => new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
const written = [];
for (const prompt of prompts) {
  const inputs = {input_ids: of(prompt), attention_mask: of(prompt.map(() => 1))};
  const ids = await model.generate({...inputs, max_new_tokens: tokens, do_sample: false});
  written.push(ids.tolist()[0].slice(prompt.length).map(Number));
}
console.log(JSON.stringify(written));
"""
    asked = folder.with_suffix(".json")
    asked.write_text(json.dumps({"prompts": question.ids, "tokens": question.tokens}))
    words = ["node", "--input-type=module", "-e", script, str(folder.parent), folder.name]
    done = subprocess.run(
        [*words, str(asked)], cwd=package.parents[2], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise HeadwayError(f"transformers.js fails: {done.stderr[-300:]}")
    about = json.loads((package / "package.json").read_text())
    found = [question.cut(ids) for ids in json.loads(done.stdout.splitlines()[-1])]
    yield f"transformers.js {about['version']} in Node", found


def by_chromium(question: Question, folder: Path) -> Iterator[tuple[str, Ids]]:
    from playwright.sync_api import sync_playwright

    browser_path = shutil.which(CHROMIUM)
    if browser_path is None:
        raise HeadwayError(f"the command {CHROMIUM} is not found")
    export(question.bundle, folder, TARGETS[WEB])
    kept = "const remove = Element.prototype.remove; Element.prototype.remove = function () { "
    kept += "if (!this.matches('script.block')) remove.call(this); };"
    ask = """async ([texts, tokens]) => {
  const source = module_source.servedSource();
  await source.header();
  const written = [];
  for (const text of texts)
    written.push((await module_answers.answer(source.model, {text}, {tokens})).written);
  return written;
}"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        context = browser.new_context()
        context.set_offline(True)
        page = context.new_page()
        page.add_init_script(kept)  # the page removes the model's files after it has read them
        page.goto(f"file://{folder}/index.html")
        page.locator(".live").wait_for(timeout=120_000)
        written = page.evaluate(ask, [list(question.texts), question.tokens])
        name = f"the page in Chromium {browser.version}"
        browser.close()
    yield name, written


def _beside(package: str) -> Path:
    """Return the folder of an npm package beside those of the page. HeadwayError without it."""
    for one in find_packages(None).values():
        above = next(part for part in one.folder.parents if part.name == FOLDER)
        if (above / package).is_dir():
            return above / package
    raise HeadwayError(f"the npm package {package} is not installed")


RUNTIMES: dict[str, Callable[[Question, Path], Iterator[tuple[str, Ids]]]] = {
    "hf": partial(by_target, "hf"),
    "onnx": partial(by_target, "onnx"),
    "pt2": partial(by_target, "pt2"),
    "gguf": by_llama_cpp,
    "ctranslate2": by_ctranslate2,
    "node": by_transformers_js,
    "chromium": by_chromium,
}


def agreements(
    bundle: TextBundle,
    texts: Sequence[str],
    tokens: int = TOKENS,
    names: Sequence[str] = (*RUNTIMES,),
) -> Iterator[Agreement | str]:
    """Yield how each runtime agrees with Headway, or why it does not run. names: of `RUNTIMES`."""
    question = Question.of(bundle, texts, tokens)
    ours = by_network(question, bundle.model)
    with TemporaryDirectory() as scratch:
        for name in names:
            try:
                for runtime, theirs in RUNTIMES[name](question, Path(scratch, name)):
                    yield _agreement(question, runtime, ours, theirs)
            except (HeadwayError, ImportError) as error:
                yield f"{name}: {error}"


def _agreement(question: Question, runtime: str, ours: Ids, theirs: Ids) -> Agreement:
    found = None
    pairs = [*zip(ours, theirs, strict=True)]
    for number, (mine, yours) in enumerate(pairs):
        if mine != yours and found is None:
            found = _divergence(question, number, mine, yours)
    return Agreement(runtime, sum(mine == yours for mine, yours in pairs), found)


def _divergence(question: Question, number: int, ours: list[int], theirs: list[int]) -> Divergence:
    tokenizer = question.bundle.tokenizer
    # a list that is shorter was ended there by a token that `cut` removed
    mine, yours = [*ours, tokenizer.eos], [*theirs, tokenizer.eos]
    at = next(i for i, (a, b) in enumerate(zip(mine, yours, strict=False)) if a != b)
    read = torch.tensor([[*question.ids[number], *mine[:at]]])
    with torch.inference_mode():
        logits = question.bundle.model(read)[0, -1]
    return Divergence(
        prompt=number + 1,
        token=at + 1,
        ours=tokenizer.decode([mine[at]]),
        theirs=tokenizer.decode([yours[at]]),
        margin=float(logits[mine[at]] - logits[yours[at]]),
    )


def main(run: str, text: str | None = None) -> None:
    torch.set_num_threads(1)
    bundle = load_as(TextBundle, run)
    lines = (
        Path(text).read_text(encoding="utf-8").splitlines()
        if text is not None
        else [line for one in held_out_passages(Path(run), bundle) for line in one.split("\n")]
    )
    starts = [" ".join(line.split()[:LONGEST]) for line in lines if len(line.split()) > 2]
    texts = [*dict.fromkeys(starts)][:PROMPTS]
    print(f"{len(texts)} prompts, {TOKENS} greedy tokens")
    for one in agreements(bundle, texts):
        if isinstance(one, str):
            print(f"not run   {one}")
            continue
        print(f"{one.runtime:40} {one.equal} of {len(texts)} equal")
        if (first := one.divergence) is not None:
            print(f"   first: {first}")


if __name__ == "__main__":
    main(*sys.argv[1:])
