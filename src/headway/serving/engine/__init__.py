"""The engine of the server: one thread for each model, which decodes many requests together.

`Engine.submit` takes a job from any thread and reports on it by events. No module of this package
knows HTTP, and none names a task.
"""

from headway.serving.engine.computations import Computation as Computation
from headway.serving.engine.computations import at_once as at_once
from headway.serving.engine.engine import Engine as Engine
from headway.serving.engine.engine import EngineSettings as EngineSettings
from headway.serving.engine.jobs import Cancelled as Cancelled
from headway.serving.engine.jobs import Event as Event
from headway.serving.engine.jobs import Expired as Expired
from headway.serving.engine.jobs import Failed as Failed
from headway.serving.engine.jobs import Finished as Finished
from headway.serving.engine.jobs import Generation as Generation
from headway.serving.engine.jobs import Grown as Grown
from headway.serving.engine.jobs import Job as Job
from headway.serving.engine.jobs import PromptScores as PromptScores
from headway.serving.engine.measurements import Measurements as Measurements
from headway.serving.engine.measurements import Metrics as Metrics
from headway.serving.engine.slots import default_slots as default_slots
from headway.serving.engine.waiting import Refused as Refused
