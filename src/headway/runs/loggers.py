"""The log of a run for other tools: TensorBoard, Weights & Biases, MLflow and trackio.

`headway train RECIPE DATA --log tensorboard,wandb` writes the numbers that metrics.jsonl has, too,
to runs/NAME/logs. Nothing is sent to another machine unless an environment variable of the tool
says so (WANDB_MODE=online, MLFLOW_TRACKING_URI). A tool that fails is left out after one warning.
"""

import json
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from headway.base.config_files import read_run_file
from headway.base.errors import HeadwayWarning, UsageError
from headway.base.files import write_file
from headway.base.metrics_file import Event

FOLDER = "logs"
LOGGED = ("train", "valid")
"""The kinds of events whose numbers are written, as train/loss, valid/bleu."""
NO_NUMBERS_OF_A_CURVE = {"kind", "step", "time", "is_best"}


@dataclass(frozen=True)
class Place:
    """Where the log of one run is. folder: of the tool's files. id: of the run in the tool."""

    folder: Path
    name: str
    id: str
    settings: Mapping[str, object]


class Writer(Protocol):
    """A log of one tool. Rows arrive in the order of their steps, each of them once."""

    def row(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """tensorboard --logdir runs"""

    def __init__(self, place: Place) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(place.folder))

    def row(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()  # so that a run that is killed has lost no row that counts as written

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """wandb sync runs/NAME/logs/wandb/wandb/offline-run-*"""

    def __init__(self, place: Place) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        place.folder.mkdir(exist_ok=True)
        self._run: Any = wandb.init(
            project="headway",
            name=place.name,
            id=place.id,
            resume="allow",
            dir=place.folder,
            config=dict(place.settings),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=wandb.Settings(console="off", silent=True),
        )

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """mlflow ui --backend-store-uri runs/NAME/logs/mlflow"""

    def __init__(self, place: Place) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # needs no database
        from mlflow import MlflowClient

        own = place.folder.resolve().as_uri()
        self._client: Any = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", own))
        known = self._client.get_experiment_by_name("headway")
        number = known.experiment_id if known else self._client.create_experiment("headway")
        tag = f"tags.headway = '{place.id}'"
        runs = self._client.search_runs([number], tag)
        tags = {"headway": place.id}
        run = runs[0] if runs else self._client.create_run(number, run_name=place.name, tags=tags)
        self._id = run.info.run_id
        for key, value in ({} if runs else place.settings).items():
            self._client.log_param(self._id, key, value)

    def row(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._id, name, value, step=step)

    def close(self) -> None:
        self._client.set_terminated(self._id)


class Trackio:
    """TRACKIO_DIR=runs/NAME/logs/trackio trackio show"""

    def __init__(self, place: Place) -> None:
        os.environ.setdefault("TRACKIO_DIR", str(place.folder))
        os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        import trackio

        self._run: Any = trackio.init(
            project="headway", name=place.name, config=dict(place.settings), resume="allow"
        )

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


WRITERS: Mapping[str, tuple[str, Callable[[Place], Writer]]] = {
    "tensorboard": ("tensorboard", TensorBoard),
    "wandb": ("wandb", WeightsAndBiases),
    "mlflow": ("mlflow", MLflow),
    "trackio": ("trackio", Trackio),
}
"""Name in --log -> module that has to be installed, and the writer."""


class Logger:
    """Passes the numbers of a run's events to a writer, each of them once, also after a resume.

    runs/NAME/logs/TOOL.json has the id of the run in the tool, and the last step of each kind that
    was written: a run that was killed trains the steps since its checkpoint again. The writer is
    made at the first number, when the run has its folder and settings.
    """

    def __init__(self, name: str, folder: Path, make: Callable[[Place], Writer]) -> None:
        self._name, self._folder, self._make = name, folder, make
        self._writer: Writer | None = None
        self._noted: dict[str, Any] = {}
        self._has_failed = False

    def __call__(self, event: Event) -> None:
        kind = event["kind"]
        if self._has_failed or kind not in LOGGED:
            return
        values = {
            f"{kind}/{name}": float(value)
            for name, value in event.items()
            if isinstance(value, int | float) and name not in NO_NUMBERS_OF_A_CURVE
        }
        with self._warning_once():
            writer = self._writer = self._writer or self._open()
            step = event["step"]
            if step > self._noted.get(kind, -1):
                writer.row(step, values)
                self._noted[kind] = step
                write_file(self._note, json.dumps(self._noted).encode())

    def close(self) -> None:
        if self._writer is not None and not self._has_failed:
            with self._warning_once():
                self._writer.close()

    @property
    def _note(self) -> Path:
        return self._folder / FOLDER / f"{self._name}.json"

    def _open(self) -> Writer:
        if self._note.is_file():
            self._noted = json.loads(self._note.read_text("utf-8"))
        self._noted.setdefault("id", uuid.uuid4().hex[:12])
        self._note.parent.mkdir(exist_ok=True)
        settings = read_run_file(self._folder)
        place = Place(self._note.with_suffix(""), self._folder.name, self._noted["id"], settings)
        return self._make(place)

    @contextmanager
    def _warning_once(self) -> Iterator[None]:
        try:
            with redirect_stdout(sys.stderr):  # where messages belong; some tools print them
                yield
        except Exception as error:  # of another package: the run goes on whatever it raises
            self._has_failed = True
            text = f"--log {self._name}: {type(error).__name__}: {error}; this log ends here"
            warnings.warn(text, HeadwayWarning, stacklevel=3)


@contextmanager
def loggers(names: Sequence[str], folder: Path) -> Iterator[list[Callable[[Event], None]]]:
    """Yield a listener of a run for each tool, and close their logs at the end.

    UsageError for a tool that is not installed.
    """
    for name in names:
        if find_spec(WRITERS[name][0]) is None:
            raise UsageError(
                f"--log {name}: {name} is not installed",
                hint="pip install 'headway[log]'",
            )
    opened = [Logger(name, folder, WRITERS[name][1]) for name in dict.fromkeys(names)]
    try:
        yield [*opened]
    finally:
        for logger in opened:
            logger.close()
