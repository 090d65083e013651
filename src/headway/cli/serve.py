"""`headway serve`: models behind HTTP."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import torch

from headway.base.errors import UsageError
from headway.base.files import read_bytes
from headway.base.settings import Most, count, setting
from headway.bundle import Bundle
from headway.cli.flags import PORTS, as_flags
from headway.cli.machine import Loader, MachineFlags
from headway.serving.engine import EngineSettings, default_slots
from headway.serving.examples import examples_of
from headway.serving.guard import checked_origin
from headway.serving.http.request_log import write_log
from headway.serving.http.server import Address
from headway.serving.model_server import ServerSettings, serve_bundles
from headway.tasks.model_names import model_names
from headway.tasks.opening import template_of
from headway.terminal.console import say

LOCAL = ("127.0.0.1", "localhost", "::1")
KEY_BYTES, SHORTEST_KEY = 4096, 16
SLOTS = Most(1024, "more outputs at once are slower than one after the other")
SECONDS = Most(86_400, "a day")
MEGABYTES = Most(2**20, "a terabyte")


@as_flags
class ServeFlags(MachineFlags):
    name: list[str] | None = setting(
        None,
        "Name of each model in requests, in the same order. If unset, the names of the folders.",
    )
    host: str = setting(
        "127.0.0.1", "Address to listen at. Another one than this machine's own needs --key-file."
    )
    port: int = setting(8000, "Port; 0 selects a free one.", ge=0, le=PORTS)
    key_file: Path | None = setting(
        None, "File with the key that every request must send: Authorization: Bearer KEY."
    )
    allow_host: list[str] | None = setting(
        None, "Further names of this server in the Host header, such as that of a proxy."
    )
    allow_origin: list[str] | None = setting(
        None,
        "Other origins whose pages may use this server, such as https://app.example; if unset, "
        "none.",
    )
    log: bool = setting(
        False,
        "Write a line of JSON per request to standard error: method, path, status, time, no texts.",
    )
    slots: int | None = count(
        None,
        "Maximum number of outputs of a model that are decoded together. If unset, 16 on a CPU, "
        "and up to 256 in the memory of a GPU, which decodes many nearly as fast as one.",
        SLOTS,
    )
    queue: int | None = setting(
        None,
        "Maximum number of waiting requests of a model; further ones get 429. If unset, four "
        "times the number of slots.",
        ge=1,
    )
    seconds: int = count(300, "Seconds after which a request fails.", SECONDS)
    grace: int = count(
        30, "Seconds to finish what was begun, after the first signal.", SECONDS, least=0
    )
    prefix_cache: int = count(
        256, "Size of the prefix cache of each model in MB; 0 is none.", MEGABYTES, least=0
    )
    exact: bool = setting(
        False, "Results have the same bits whatever else is computed; a lone output takes longer."
    )


def serve(*runs: str, flags: ServeFlags = ServeFlags()) -> None:
    """Serve models over HTTP: headway serve runs/translator runs/gpt.

    Speaks OpenAI's API (/v1/completions, /v1/embeddings), the form of Hugging Face's inference API
    (/translate, /classify, /fill, ...) and that of LibreTranslate. Requests of many clients are
    computed together. A signal (Ctrl-C, SIGTERM) ends the server after its last answers.

    Parameters
    ----------
    runs
        Run folders, model folders, or Hugging Face folders that Headway loads.
    """
    if not runs:
        raise UsageError("no model is named", hint="headway serve runs/NAME")
    names, loader = model_names(runs, flags.name), flags.prepare()
    settings = _settings(flags, loader)
    bundles = dict(zip(names, map(loader.load, runs), strict=True))
    slots = flags.slots or min(default_slots(bundle, len(bundles)) for bundle in bundles.values())
    engine = replace(settings.engine, slots=slots, queue=flags.queue or 4 * slots)
    write_log(requests=flags.log)
    templates = dict(zip(names, map(template_of, runs), strict=True))
    examples = dict(zip(names, map(examples_of, runs), strict=True))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until it has its own handler
    settings = replace(settings, engine=engine)
    if not serve_bundles(bundles, settings, _announce(bundles), templates, examples):
        raise SystemExit(1)


def _announce(bundles: Mapping[str, Bundle]) -> Callable[[str, object], None]:
    """Return a function that names the models and the address once the server listens."""

    def ready(address: str, _: object) -> None:
        for name, bundle in bundles.items():
            say(f"serving   {name}: {bundle.kind} on {bundle.device}")
        say(f"open      {address}   (Ctrl-C ends the server)")

    return ready


def _settings(flags: ServeFlags, loader: Loader) -> ServerSettings:
    """Return the settings of the server. UsageError for a bad key, or an origin that is none."""
    engine = EngineSettings(
        prefix_bytes=flags.prefix_cache * 2**20, precision=loader.precision, exact=flags.exact
    )
    if loader.device == "cpu":
        _leave_threads(loader.threads)
        engine = replace(engine, threads=loader.threads)
    return ServerSettings(
        address=Address(host=flags.host, port=flags.port),
        key=_key(flags.key_file, flags.host),
        seconds=float(flags.seconds),
        grace=float(flags.grace),
        hosts=tuple(flags.allow_host or ()),
        origins=tuple(map(checked_origin, flags.allow_origin or ())),
        engine=engine,
    )


def _leave_threads(number: int) -> None:
    """Leave the CPU threads to the engines: this thread computes with one.

    OpenMP keeps the threads that once computed for a thread. When there are more of them than
    cores, GNU's puts them to sleep after every operation, and a step of decoding with a small model
    takes 1.7 times as long. So only the engines' threads compute with several.
    """
    say(f"threads   {number} (--threads)")
    torch.set_num_threads(1)


def _key(path: Path | None, host: str) -> str | None:
    """Return the key in a file. UsageError if it is too short to be safe, or no plain text, or if
    there is none and other machines can connect."""
    if path is None:
        if host in LOCAL:
            return None
        raise UsageError(
            f"--host {host}: other machines could use this server without a key",
            hint="write a long random text into a file, and name it with --key-file",
        )
    key = read_bytes(path, KEY_BYTES).decode("ascii", errors="replace").strip()
    if len(key) < SHORTEST_KEY or not key.isprintable() or not key.isascii() or " " in key:
        raise UsageError(
            f"the key must have at least {SHORTEST_KEY} ASCII characters, without spaces",
            str(path),
            "head -c 32 /dev/urandom | base64 > key.txt",
        )
    return key
