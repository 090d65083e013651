"""The engine of the server: one thread for each model, which decodes many requests together.

`Engine.submit` takes a job from any thread and reports on it by events. No module of this package
knows HTTP, and none names a task.
"""

from headway.serving.engine.computations import Computation, at_once
from headway.serving.engine.engine import Engine, EngineSettings
from headway.serving.engine.jobs import (
    Cancelled,
    Event,
    Expired,
    Failed,
    Finished,
    Generation,
    Grown,
    Job,
    PromptScores,
)
from headway.serving.engine.measurements import Measurements, Metrics
from headway.serving.engine.slots import default_slots
from headway.serving.engine.waiting import Refused

__all__ = [
    "Cancelled",
    "Computation",
    "Engine",
    "EngineSettings",
    "Event",
    "Expired",
    "Failed",
    "Finished",
    "Generation",
    "Grown",
    "Job",
    "Measurements",
    "Metrics",
    "PromptScores",
    "Refused",
    "at_once",
    "default_slots",
]
