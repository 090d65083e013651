"""Few-shot prompting: examples in the prompt tell a model which task to do. Claim (i).

A small GPT is trained on sequences x f(x) y f(y) ..., in each of which f is one of 16 fixed random
functions of 16 symbols, and the sequence does not say which. Its accuracy at the next f(z), without
any further training, is measured after 0 to 8 examples: those of f, and examples with random
answers as a control. The best possible accuracy is computed, too: after k examples, a function has
the posterior probability 1 / m if it is one of m that agree with all of them.

Brown et al. 2020 (GPT-3), sections 1 and 2; Xie et al. 2022 for in-context learning as inference.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from headway.base.shapes import Float, Int, Tensor
from headway.inspection.work import Report, Work, unreported
from headway.lectures.claim import Result, judged, table
from headway.models import GPT, GPTConfig

TITLE = "Examples in the prompt"
CLAIM = "a language model does a task better the more examples of it are in the prompt"

SYMBOLS = TASKS = 16
SHOTS = (0, 1, 2, 4, 8)
BATCH = 64
CONFIG = GPTConfig(
    model_dim=64,
    num_heads=4,
    ffn_dim=128,
    num_layers=2,
    max_length=2 * max(SHOTS) + 2,
    vocabulary=SYMBOLS,
    tie_output=False,
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Accuracies after a number of examples: of the model, of the best possible prediction, and of
    the model after examples with random answers."""

    shots: int
    accuracy: float
    best: float
    random_answers: float


@dataclass(frozen=True, kw_only=True)
class FewShotResult(Result):
    """Rows by number of examples. prompts: the number of prompts of each row."""

    rows: tuple[Row, ...]
    steps: int
    prompts: int
    chance: float = 1 / SYMBOLS

    @property
    def verdict(self) -> str:
        """Holds if accuracy rises with the number of examples, up to 99 % of the best possible,
        and random answers do not help."""
        first, last = self.rows[0], self.rows[-1]
        rises = all(
            a.accuracy < b.accuracy or b.accuracy >= 0.99 * b.best
            for a, b in zip(self.rows, self.rows[1:], strict=False)
        )
        return judged(
            rises and last.random_answers < (first.accuracy + last.accuracy) / 2,
            f"accuracy is {first.accuracy:.2f} without examples and {last.accuracy:.2f} after "
            f"{last.shots}, of at most {last.best:.2f}; after {last.shots} examples with random "
            f"answers it is {last.random_answers:.2f}",
        )

    def markdown(self) -> str:
        """A Markdown table with a line for each number of examples."""
        cells = [tuple(asdict(row).values()) for row in self.rows]
        return (
            table(("examples", "accuracy", "best possible", "random answers"), cells)
            + f"\n\nGPT of 2 layers and width {CONFIG.model_dim}, trained for {self.steps:,} steps "
            f"of {BATCH} sequences over {TASKS} random functions of {SYMBOLS} symbols; chance "
            f"{self.chance:.3f}; {self.prompts:,} prompts for each number of examples."
        )


def measure(
    *,
    steps: int = 1500,
    prompts: int = 2000,
    shots: Sequence[int] = SHOTS,
    seed: int = 0,
    report: Report = unreported,
) -> FewShotResult:
    """Train the model and measure its accuracy after each number of examples.

    ValueError for a number of examples that sequences of the training do not have.
    """
    if not shots or min(shots) < 0 or max(shots) > max(SHOTS):
        raise ValueError(f"{shots=} must be numbers from 0 to {max(SHOTS)}")
    work = Work(steps + len(shots), report)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        functions = torch.randint(SYMBOLS, (TASKS, SYMBOLS))
        model = _trained(functions, steps, work)
        rows = []
        for number in sorted(shots):
            rows.append(_row(model, functions, number, prompts))
            work.done()
    return FewShotResult(rows=tuple(rows), steps=steps, prompts=prompts)


def plot(result: FewShotResult, path: Path) -> None:
    """Plot the accuracies over the number of examples."""
    from headway.inspection.plots import line_plot

    names = {"accuracy": "model", "best": "best possible", "random_answers": "random answers"}
    series = {
        title: [(float(row.shots), getattr(row, name)) for row in result.rows]
        for name, title in names.items()
    }
    series["chance"] = [(float(row.shots), result.chance) for row in result.rows]
    line_plot(path, series, title=TITLE, x_label="examples in the prompt", y_label="accuracy")


def _sequences(
    functions: Int[Tensor, "K V"], count: int, pairs: int
) -> tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]:
    """Return sequences of `pairs` pairs x f(x) without a repeated x, and the index of each f."""
    tasks = torch.randint(len(functions), (count,))
    inputs = torch.rand(count, functions.shape[1]).argsort(1)[:, :pairs]
    outputs = functions[tasks[:, None], inputs]
    return torch.stack((inputs, outputs), dim=2).flatten(1), tasks


def _trained(functions: Int[Tensor, "K V"], steps: int, work: Work) -> GPT:
    """Train a GPT to predict each f(x) of a sequence."""
    model = GPT(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    for _ in range(steps):
        tokens, _ = _sequences(functions, BATCH, max(SHOTS) + 1)
        logits = model(tokens)[:, ::2]  # after each x
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1::2].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        work.done()
    return model.eval()


@torch.no_grad()
def _row(model: GPT, functions: Int[Tensor, "K V"], shots: int, prompts: int) -> Row:
    tokens, _ = _sequences(functions, prompts, shots + 1)
    prompt, answers = tokens[:, :-1], tokens[:, -1]
    wrong = prompt.clone()
    wrong[:, 1::2] = torch.randint(functions.shape[1], (prompts, shots))

    def accuracy(chosen: Int[Tensor, " B"]) -> float:
        return float((chosen == answers).float().mean())

    return Row(
        shots=shots,
        accuracy=accuracy(model(prompt)[:, -1].argmax(-1)),
        best=accuracy(_posterior(functions, prompt).argmax(-1)),
        random_answers=accuracy(model(wrong)[:, -1].argmax(-1)),
    )


def _posterior(functions: Int[Tensor, "K V"], prompt: Int[Tensor, "B T"]) -> Float[Tensor, "B V"]:
    """Return P(f(z) | examples): each function that agrees with all examples counts equally."""
    inputs, outputs, last = prompt[:, :-1:2], prompt[:, 1::2], prompt[:, -1]
    agrees = (functions[:, inputs] == outputs).all(2).T.float()  # B K
    answers = F.one_hot(functions[:, last].T, functions.shape[1])  # B K V
    return (agrees[:, :, None] * answers).sum(1)
