"""`headway train chat`, and the answers that rewards are computed for, beside TRL.

Both sides load the same Hugging Face folder: a GPT of 3 million parameters with a chat template and
untrained weights. float32.

- Fine-tuning: the same conversations of four questions and answers, at most 128 tokens each.
  Headway's side is its command, which packs conversations into sequences; TRL's is `SFTTrainer`
  with the loss on the answers, without recomputed activations, in the fastest of its ways to make
  batches. The unit is tokens of answers, which both count in each update after the first 20.
- Sampling: 16 answers of 64 tokens to each of 8 prompts. Headway's engine reads a prompt once for
  its group. TRL's `GRPOTrainer` calls `generate` of transformers with each prompt 16 times; so does
  this side. The tokens up to the end of an answer are counted; an untrained model ends few answers.
"""

import json
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import torch

from bench.commands import STEPS, steady, train
from bench.goals import goal
from bench.report import COMMANDS, INTERFACE, Row, row
from bench.sides import Answer, Settings, Side, Worker, fastest, interleave
from headway.base.files import write_file
from headway.base.folders import new_folder

BY = INTERFACE
PEERS = {"trl": "TRL"}
REQUIRES = {"trl": ("trl", "accelerate", "datasets", "transformers")}
CONVERSATIONS, TURNS = 1000, 4
ROWS, LENGTH = 16, 128
PROMPTS, SAMPLES, TOKENS = 8, 16, 64
VOCABULARY = 1000
WAYS = ("none", "wrapped")
"""TRL's ways to make a batch: a conversation in each row, or sequences cut at the length."""
MODEL, DATA = "chat", "conversations.jsonl"


def measure(ours: Side, peer: Side, rounds: int, device: str) -> Iterator[Row]:
    """Measure sampling and fine-tuning."""
    needed, name = goal("chat beside TRL"), PEERS["trl"]
    pairs = interleave(ours, peer, rounds, what="sampling")
    title = f"{SAMPLES} answers to each of {PROMPTS} prompts"
    yield row(
        title, pairs, "tokens/s", f"{name}'s sampling (transformers generate)", device, goal=needed
    )
    ways = [{"packing": way} for way in WAYS]
    chosen = fastest(peer, ways, warm_up=False, what="training")
    pairs = interleave(ours, peer, rounds, warm_up=False, what="training", **chosen)
    peer_name, note = f"{name} SFTTrainer", f"the peer's packing: {chosen['packing']}"
    trained = row(
        "headway train chat", pairs, "answer tokens/s", peer_name, device, goal=needed, note=note
    )
    yield replace(trained, by=COMMANDS)


def write_inputs(folder: Path) -> None:
    """Write the conversations and the model that are not there yet."""
    from headway.bundle import TextBundle
    from headway.data.instructions import KINDS, instruction
    from headway.interop import ChatTemplate, write_text_model
    from headway.models import GPT, GPTConfig
    from headway.tasks.dialogue_store import with_vocabulary
    from headway.tasks.target_mask import TEMPLATE, with_role_tokens
    from headway.text import TextBPE

    source, kinds = random.Random(1), [*KINDS]
    drawn = [
        [instruction(source.choice(kinds), source, held_out=False) for _ in range(TURNS)]
        for _ in range(CONVERSATIONS)
    ]
    talks = [
        [
            {"role": role, "content": content}
            for one in talk
            for role, content in (("user", one.question), ("assistant", one.answer))
        ]
        for talk in drawn
    ]
    if not (folder / DATA).exists():
        lines = (json.dumps({"messages": talk}) + "\n" for talk in talks)
        write_file(folder / DATA, "".join(lines).encode())
    if (folder / MODEL).exists():
        return
    trained = TextBPE.train([turn["content"] for talk in talks for turn in talk], VOCABULARY)
    tokenizer = with_role_tokens(trained)
    torch.manual_seed(0)
    size = {**GPTConfig.sizes["modern-micro"], "vocabulary": trained.size, "max_length": 256}
    model = with_vocabulary(GPT(GPTConfig(**size)), tokenizer.size)
    template = ChatTemplate(by_name={"default": TEMPLATE})
    settings = replace(TextBundle(model, tokenizer).settings, template=template)
    with new_folder(folder / MODEL) as made:
        write_text_model(model, tokenizer, made, settings=settings)


def prompts(folder: Path) -> list[list[dict[str, str]]]:
    """Return the first questions of some conversations."""
    with open(folder / DATA, encoding="utf-8") as file:
        return [
            json.loads(line)["messages"][:1] for line, _ in zip(file, range(PROMPTS), strict=False)
        ]


def ours(settings: Settings) -> Worker:
    """Headway: the command, or the function by which rewards sample answers."""
    import headway
    from headway.data.dialogues import Turn
    from headway.tasks.dialogue_store import template_of_bundle
    from headway.tasks.sampled_answers import sampled_groups
    from headway.tasks.target_mask import renderer_of

    folder, numbers = Path(settings.folder), count()
    write_inputs(folder)
    runs = Path(tempfile.mkdtemp(prefix="headway-bench-"), "runs")
    runs.mkdir()
    flags = {
        "--from": folder / MODEL,
        "--dtype": "float32",
        "--training.batch-size": ROWS,
        "--training.length": LENGTH,
        "--evaluation.every": settings.work,
        "--evaluation.answers": 0,
    }
    words = ["chat", str(folder / DATA), *(str(word) for pair in flags.items() for word in pair)]
    bundle: Any = headway.load(str(folder / MODEL), "cpu")
    with renderer_of(bundle.tokenizer, template_of_bundle(bundle)) as renderer:
        encoded = [
            renderer.prompt(tuple(Turn(turn["role"], turn["content"]) for turn in asked))
            for asked in prompts(folder)
        ]

    def work(question: dict[str, Any]) -> Answer:
        if question["what"] == "training":
            return train(words, settings.work, runs / f"run-{next(numbers)}")
        first, began = next(numbers), time.perf_counter()
        seeds = [range(start, start + SAMPLES) for start in _starts(first)]
        with torch.inference_mode():
            groups = sampled_groups(bundle.model, bundle.tokenizer, encoded, seeds, TOKENS)
        seconds = time.perf_counter() - began
        sampled = sum(len(answer.tokens) for group in groups for answer in group)
        return {"work": sampled, "seconds": seconds}

    return work


def _starts(round_number: int) -> range:
    """Return the random seed of the first answer to each prompt."""
    start = round_number * PROMPTS * SAMPLES
    return range(start, start + PROMPTS * SAMPLES, SAMPLES)


def trl(settings: Settings) -> Worker:
    """TRL: its trainer in a process of its own, or the call by which its GRPOTrainer samples."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

    torch.set_flush_denormal(True)
    folder = Path(settings.folder)
    write_inputs(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder / MODEL, padding_side="left")
    model: Any = AutoModelForCausalLM.from_pretrained(folder / MODEL, dtype=torch.float32).eval()
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token  # as in GRPOTrainer
    end = tokenizer.eos_token_id
    config = GenerationConfig(
        max_new_tokens=TOKENS,
        do_sample=True,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=end,
        disable_compile=True,
    )
    ids = [
        tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=True)[
            "input_ids"
        ]
        for asked in prompts(folder)
    ]
    repeated = [one for one in ids for _ in range(SAMPLES)]

    def work(question: dict[str, Any]) -> Answer:
        if question["what"] == "training":
            rates = train_by_trl(folder, settings.work, question["packing"])
            return {"work": steady(rates), "seconds": 1.0}
        began = time.perf_counter()
        batch = tokenizer.pad({"input_ids": repeated}, return_tensors="pt")
        with torch.no_grad():
            output = model.generate(**batch, generation_config=config)
        written = output[:, batch["input_ids"].shape[1] :]
        seconds = time.perf_counter() - began
        before_end = (written == end).cumsum(1) - (written == end).long() == 0
        return {"work": int(before_end.sum()), "seconds": seconds}

    return work


def train_by_trl(folder: Path, steps: int, packing: str) -> list[float]:
    """Return the answer tokens per second of every `STEPS` updates of TRL's SFTTrainer."""
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    rates: list[float] = []
    targets, began = 0, time.perf_counter()

    class Counting(SFTTrainer):  # type: ignore[misc]  # the package is untyped
        """A trainer that counts the answers' tokens and the time."""

        def training_step(self, model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
            nonlocal targets, began
            now = time.perf_counter()
            if self.state.global_step % STEPS == 0:  # the update before is done
                rates.append(targets / (now - began))
                targets, began = 0, now
            targets += int((inputs["labels"] != -100).sum())
            return super().training_step(model, inputs, *rest, **more)

    rows = [json.loads(line) for line in (folder / DATA).read_text(encoding="utf-8").splitlines()]
    packs = {} if packing == "none" else {"packing": True, "packing_strategy": packing}
    with tempfile.TemporaryDirectory() as output:
        trainer = Counting(
            model=AutoModelForCausalLM.from_pretrained(folder / MODEL, dtype=torch.float32),
            args=SFTConfig(
                output_dir=output,
                assistant_only_loss=True,
                per_device_train_batch_size=ROWS,
                max_length=LENGTH,
                max_steps=steps + 1,  # the last one ends the time of those before
                gradient_checkpointing=False,
                learning_rate=1e-4,
                save_strategy="no",
                logging_strategy="no",
                report_to="none",
                disable_tqdm=True,
                use_cpu=True,
                bf16=False,
                **packs,
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=AutoTokenizer.from_pretrained(folder / MODEL),
        )
        trainer.train()
    return rates[1:]  # the first one is the start
