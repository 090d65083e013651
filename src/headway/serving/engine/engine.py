"""The engine of one model: a thread that turns jobs into results.

A turn of its loop: forget the jobs that no client waits for; read blocks of the next prompts; begin
the next computations; take one step of all that decodes, which is one token of every output.
So an output waits for at most one block and one computation between two tokens, and an output that
ends makes room for the next at once.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from headway.base.errors import HeadwayError
from headway.base.memory import return_freed_memory
from headway.base.shapes import Tensor
from headway.bundle import Bundle, TextGenerating
from headway.models.contracts import DecodeState
from headway.serving.engine.computations import watched
from headway.serving.engine.continuous import ContinuousBatch, Stream
from headway.serving.engine.jobs import Cancelled, Expired, Failed, Job
from headway.serving.engine.measurements import Measurements
from headway.serving.engine.prefix_cache import BLOCK, PrefixCache
from headway.serving.engine.prompts import PromptReader, news, read_together
from headway.serving.engine.searches import RunningSearch
from headway.serving.engine.waiting import Refused, Waiting
from headway.transforms.batch_invariant import make_batch_invariant

STUCK = 2.0  # seconds without a heartbeat, with work to do
PROMPTS_AT_ONCE = {"cuda": 64}
"""Maximum number of short prompts that are read together on a device, where it takes about as long
as to read one. On a CPU it would keep other outputs waiting."""
TOKENS_AT_ONCE = {"cuda": 1024}
"""Number of tokens of a long prompt that are read at once on a device, which 64 of them would leave
mostly idle. Other outputs wait for this number of tokens at most."""
LONG_IDLE = 10  # turns without work, each of half a second, until freed memory is given back


@dataclass(frozen=True)
class EngineSettings:
    """slots: maximum number of outputs, or of searches, that are decoded together. queue: maximum
    number of waiting requests. prefix_bytes: size of the prefix cache. budget: maximum number of
    tokens of computations that are done together. precision: the context of every forward pass.
    exact: results have the same bits whatever else is computed (`make_batch_invariant`). threads:
    number of CPU threads; None: as torch has it."""

    slots: int = 16
    queue: int = 64
    prefix_bytes: int = 2**28
    budget: int = 4096
    precision: Callable[[], AbstractContextManager[object]] = nullcontext
    exact: bool = False
    threads: int | None = None


class Engine:
    """Runs the jobs of one bundle in a thread of its own."""

    def __init__(self, bundle: Bundle, settings: EngineSettings, measured: Measurements) -> None:
        self.bundle, self.settings, self.measured = bundle, settings, measured
        context = getattr(bundle.config, "max_length", None) or 4096
        self.waiting = Waiting(settings.queue, settings.queue * context)
        self.error: BaseException | None = None
        generates = isinstance(bundle, TextGenerating)
        if settings.exact and generates:
            make_batch_invariant(bundle.model)
        self._batch = ContinuousBatch(bundle.model, exact=settings.exact and generates)
        self._reading: list[PromptReader] = []
        device = next(bundle.model.parameters()).device.type
        together = generates and not settings.exact
        self._prompts_at_once = PROMPTS_AT_ONCE.get(device, 1) if together else 1
        self._tokens_at_once = TOKENS_AT_ONCE.get(device, BLOCK) if together else BLOCK
        self._prefixes = PrefixCache(settings.prefix_bytes)
        self._current: RunningSearch | None = None  # the one that computes now
        self._watch = ExitStack()
        self._last_beat = time.monotonic()
        self._idle_turns = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

    def start(self) -> None:
        """Watch the model from now on, and start the thread."""
        self._watch.enter_context(watched(self.bundle.model, self._beat))
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Put a job into the queue. Raises Refused if it is full, draining, or the engine dead."""
        if self.error is not None:
            raise Refused("dead", 1)
        try:
            self.waiting.put(job)
        except Refused as refused:
            if refused.why == "full":
                self.measured.count("refused")
            raise

    @property
    def busy(self) -> bool:
        """Whether there is work to do."""
        at_work = self._reading or self._batch.streams or self._batch.searches
        return bool(at_work) or len(self.waiting) > 0

    @property
    def healthy(self) -> bool:
        """Whether the thread is alive and, if there is work, has made progress in the last `STUCK`
        seconds."""
        if self.error is not None or not self._thread.is_alive():
            return False
        return not self.busy or time.monotonic() - self._last_beat < STUCK

    def stop(self) -> None:
        """End the thread after its present turn; waiting jobs get no answer."""
        self._stopping = True
        self.waiting.wake()
        if self._thread.is_alive():
            self._thread.join(timeout=STUCK)

    def _run(self) -> None:
        if self.settings.threads is not None:
            torch.set_num_threads(self.settings.threads)
        try:
            with self._watch:
                while not self._stopping:
                    self._turn()
        except BaseException as error:
            self.error = error
            for job in self._unfinished():
                job.report(Failed(error if isinstance(error, Exception) else RuntimeError()))

    def _turn(self) -> None:
        self._last_beat = time.monotonic()
        self.measured.state(len(self._batch.streams), len(self.waiting), self._cache_share)
        if not self.busy:
            self.waiting.wait(seconds=0.5)
        self._idle_turns = 0 if self.busy else self._idle_turns + 1
        if self._idle_turns == LONG_IDLE:
            return_freed_memory()
        with torch.inference_mode(), self.settings.precision():
            self._forget_ended()
            self._read_prompts()
        self._begin_computations()
        with torch.inference_mode(), self.settings.precision():
            answers = self._decode()
        for search, answer in answers:
            self._advance(search, partial(search.resume, answer))
        self._forget_done()

    def _forget_ended(self) -> None:
        for job in self.waiting.remove_ended():
            self._end(job)
        for reader in [reader for reader in self._reading if reader.job.ended is not None]:
            self._end(reader.job)
            self._reading.remove(reader)
        ended = {stream.source.job for stream in self._batch.streams if stream.source.job.ended}
        for job in ended:
            self._drop(job)
            self._end(job)

    def _end(self, job: Job) -> None:
        """Report why a job ends early."""
        why = job.ended or Cancelled()
        self.measured.count("expired" if isinstance(why, Expired) else "cancelled")
        job.report(Failed(why))

    def _drop(self, job: Job) -> None:
        """Release the rows of all outputs of a job."""
        for stream in [s for s in self._batch.streams if s.source.job is job]:
            self._batch.release(stream)
            self.measured.finished(id(stream), "dropped")

    def _read_prompts(self) -> None:
        """Read the next prompts: short ones together, or one block of a long one. Their outputs
        join the batch.

        The other outputs wait for it: on a CPU for at most 64 tokens, on a GPU for one long block,
        or for some short prompts and one long block.
        """
        rest = self._prompts_at_once * BLOCK
        while rest > 0:
            if not self._reading and not self._open_next():
                return
            while self._may_join(rest) and self._open_next():
                pass
            short = [reader for reader in self._reading if reader.is_short]
            if len(short) > 1:
                rest -= len(short) * BLOCK
                self._admit(*read_together(short))
                self._reading = self._reading[len(short) :]
            elif self._reading:
                reader = self._reading[0]
                if not reader.done:
                    count = reader.read_block()
                    rest -= count if self._prompts_at_once == 1 else rest
                if reader.done:
                    self._admit(*reader.finish())
                    self._reading = self._reading[1:]

    def _may_join(self, rest: int) -> bool:
        """Whether the next prompt may be read with those that are being read. rest: the number of
        tokens that may still be read in this turn."""
        has_room = (len(self._reading) + 1) * BLOCK <= rest
        return has_room and all(reader.is_short for reader in self._reading)

    def _open_next(self) -> bool:
        """Begin with the next generation; return whether there was one."""
        opened = sum(len(reader.outputs) for reader in self._reading)
        job = self.waiting.next_generation(self.settings.slots - len(self._batch.streams) - opened)
        if job is None:
            return False
        assert isinstance(self.bundle, TextGenerating)
        try:
            model: Any = self.bundle.model
            tokenizer, at_once = self.bundle.tokenizer, self._tokens_at_once
            reader = PromptReader(model, tokenizer, job, self._prefixes, at_once)
        except HeadwayError as error:
            job.report(Failed(error))
        else:
            self._reading.append(reader)
            self.measured.prompt(len(job.prompt), reader.cached)
        return True

    def _admit(self, streams: Sequence[Stream], state: DecodeState) -> None:
        """Add streams to the batch; those without a token to generate leave at once."""
        self._batch.admit(streams, state)
        for stream in [stream for stream in streams if not stream.live]:
            self._leave(stream)

    def _decode(self) -> Sequence[tuple[RunningSearch, Tensor | Exception]]:
        """Decode one token of every output; those that end leave. Return the logits of the
        searches."""
        streams = self._batch.streams
        if not streams and not self._batch.searches:
            return []
        before = [len(stream.row.tokens) for stream in streams]
        try:
            answers = self._batch.step()
        except Exception as error:
            if not self._batch.searches:
                raise
            return self._fail_together(error)
        counted = zip(streams, before, strict=True)
        grown = [stream for stream, count in counted if len(stream.row.tokens) > count]
        self.measured.tokens((id(stream), stream.source.job.created) for stream in grown)
        for stream in streams:
            if stream.live:
                self._show(stream)
            elif stream in self._batch.streams:  # a job that fails takes all its outputs along
                self._leave(stream)
        return answers

    def _fail_together(self, error: Exception) -> Sequence[tuple[RunningSearch, Exception]]:
        """End the outputs of a step that failed, perhaps because of a search; the searches get the
        error, and those of several jobs begin again."""
        streams = self._batch.streams
        self._batch.forget()
        for stream in streams:
            self.measured.finished(id(stream), "dropped")
        for job in dict.fromkeys(stream.source.job for stream in streams):
            job.report(Failed(error))
        return [(search, error) for search in self._batch.searches]

    def _show(self, stream: Stream) -> None:
        job = stream.source.job
        grown = news(stream) if job.shown else None
        if grown is not None:
            job.report(grown)

    def _leave(self, stream: Stream) -> None:
        """Remove an output that has ended; report its job if it was the last one of it."""
        job = stream.source.job
        if stream.error is not None:
            self._drop(job)
            job.report(Failed(stream.error))
            return
        self._batch.release(stream)
        self.measured.finished(id(stream), str(stream.row.reason))
        self._show(stream)
        if not any(other.source is stream.source for other in self._batch.streams):
            result = stream.source.result()
            self.waiting.finished(job.cost, time.monotonic() - job.created)
            job.report(result)

    def _begin_computations(self) -> None:
        """End searches that no client waits for. Begin the next computations: they run to their
        end, or to the first step of a search."""
        for search in [s for s in self._batch.searches if all(job.ended for job in s.jobs)]:
            self._end_all(search)
            self._advance(search, partial(search.resume, Cancelled()))
        self._forget_done()
        exact = self.settings.exact
        if len(self._batch.searches) >= (1 if exact else self.settings.slots):
            return
        jobs = self.waiting.next_computations(0 if exact else self.settings.budget)
        if jobs:
            search = RunningSearch(jobs)
            self._batch.searches.append(search)
            self._advance(search, search.start)
            self._forget_done()

    def _advance(self, search: RunningSearch, run: Callable[[], None]) -> None:
        """Let a search run until its next step, or to its end."""
        self._current = search
        try:
            with self.settings.precision():
                run()
        finally:
            self._current = None

    def _forget_done(self) -> None:
        done = [search for search in self._batch.searches if search.done]
        for search in done:
            self._batch.searches.remove(search)
            seconds = time.monotonic() - search.begun
            cost = sum(job.cost for job in search.jobs)
            self.waiting.finished(cost, seconds)
            self.measured.count("computed", sum(len(job.inputs) for job in search.jobs))
        if done and not self._batch.searches and not self._batch.streams:
            self._batch.forget()

    def _beat(self) -> None:
        """Note that the engine makes progress; cancel a computation of which no job may go on."""
        if threading.current_thread() is not self._thread:
            return  # another thread uses the model, too
        self._last_beat, search = time.monotonic(), self._current
        if search is not None and all(job.ended for job in search.jobs):
            self._end_all(search)
            raise Cancelled

    def _end_all(self, search: RunningSearch) -> None:
        for job in search.jobs:
            self._end(job)

    @property
    def _cache_share(self) -> float:
        return self._prefixes.num_bytes / max(1, self.settings.prefix_bytes)

    def _unfinished(self) -> list[Job]:
        jobs: list[Job] = [job for search in self._batch.searches for job in search.jobs]
        jobs += [stream.source.job for stream in self._batch.streams]
        jobs += [reader.job for reader in self._reading]
        return [*dict.fromkeys(jobs), *self.waiting.take_all()]
