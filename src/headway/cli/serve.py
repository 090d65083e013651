"""`headway serve`: models behind HTTP."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headway.base.errors import UsageError
from headway.base.files import read_bytes
from headway.base.settings import MOST, Most
from headway.cli.console import talk
from headway.cli.flags import ON_THIS_MACHINE, Loader, MachineFlags, Port, between
from headway.tasks.model_names import model_names

if TYPE_CHECKING:
    from headway.bundle import Bundle
    from headway.serving.engine import EngineSettings
    from headway.serving.model_server import ServerSettings

LOCAL = ("127.0.0.1", "localhost", "::1")
KEY_BYTES, SHORTEST_KEY = 4096, 16
SLOTS = Most(1024, "more outputs at once are slower than one after the other")
SECONDS = Most(86_400, "a day")
MEGABYTES = Most(2**20, "a terabyte")


def _from(least: int, most: Most, help: str) -> Parameter:
    return Parameter(validator=between(least, most), help=help)


@Parameter(name="*")
@dataclass(frozen=True)
class LimitFlags:
    """How much the server does at once, and for how long."""

    slots: Annotated[
        int | None,
        _from(
            1,
            SLOTS,
            "Maximum number of outputs of a model that are decoded together. If unset, 16 on a "
            "CPU, and up to 256 in the memory of a GPU, which decodes many nearly as fast as one.",
        ),
    ] = None
    queue: Annotated[
        int | None,
        _from(
            1,
            MOST,
            "Maximum number of waiting requests of a model; further ones get 429. If unset, four "
            "times the number of slots.",
        ),
    ] = None
    seconds: Annotated[int, _from(1, SECONDS, "Seconds after which a request fails.")] = 300
    grace: Annotated[
        int, _from(0, SECONDS, "Seconds to finish what was begun, after the first signal.")
    ] = 30
    prefix_cache: Annotated[
        int, _from(0, MEGABYTES, "Size of the prefix cache of each model in MB; 0 is none.")
    ] = 256
    exact: Annotated[
        bool,
        Parameter(
            help="Results have the same bits whatever else is computed; a lone output takes longer."
        ),
    ] = False


USUAL = LimitFlags()


def serve(
    *runs: str,
    name: list[str] | None = None,
    host: str = "127.0.0.1",
    port: Port = 8000,
    key_file: Path | None = None,
    allow_host: list[str] | None = None,
    allow_origin: list[str] | None = None,
    log: bool = False,
    limits: LimitFlags = USUAL,
    machine: MachineFlags = ON_THIS_MACHINE,
) -> None:
    """Serve models over HTTP: headway serve runs/translator runs/gpt.

    Speaks OpenAI's API (/v1/completions, /v1/embeddings), the form of Hugging Face's inference API
    (/translate, /classify, /fill, ...) and that of LibreTranslate. Requests of many clients are
    computed together. A signal (Ctrl-C, SIGTERM) ends the server after its last answers.

    Parameters
    ----------
    runs
        Run folders, model folders, or Hugging Face folders that Headway loads.
    name
        Name of each model in requests, in the same order. If unset, the names of the folders.
    host
        Address to listen at. Another one than this machine's own needs --key-file.
    port
        Port; 0 selects a free one.
    key_file
        File with the key that every request must send: Authorization: Bearer KEY.
    allow_host
        Further names of this server in the Host header, such as that of a proxy.
    allow_origin
        Other origins whose pages may use this server, such as https://app.example; if unset, none.
    log
        Write a line of JSON per request to standard error: method, path, status, time, no texts.
    """
    if not runs:
        raise UsageError("no model is named", hint="headway serve runs/NAME")
    names, loader = model_names(runs, name), machine.prepare()
    settings = _settings(limits, loader, host, port, _key(key_file, host))
    settings = _reachable(settings, allow_host, allow_origin)
    if loader.device == "cpu":
        settings = _with_threads(settings, loader.threads)
    bundles = dict(zip(names, map(loader.load, runs), strict=True))
    settings = replace(settings, engine=_with_room(limits, settings.engine, list(bundles.values())))

    from headway.serving.http.chat_templates import template_of
    from headway.serving.http.request_log import write_log
    from headway.serving.model_server import serve_bundles

    write_log(requests=log)
    templates = dict(zip(names, map(template_of, runs), strict=True))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until it has its own handler
    if not serve_bundles(bundles, settings, _announce(bundles), templates):
        raise SystemExit(1)


def _announce(bundles: Mapping[str, Bundle]) -> Callable[[str, object], None]:
    """Return a function that names the models and the address once the server listens."""

    def ready(address: str, _: object) -> None:
        for name, bundle in bundles.items():
            talk.print(f"serving   {name}: {bundle.kind} on {bundle.device}", markup=False)
        talk.print(f"open      {address}   (Ctrl-C ends the server)", markup=False)

    return ready


def _with_threads(settings: ServerSettings, number: int) -> ServerSettings:
    """Return settings with the number of CPU threads of an engine, and leave one to this thread.

    OpenMP keeps the threads that once computed for a thread. When there are more of them than
    cores, GNU's puts them to sleep after every operation, and a step of decoding with a small model
    takes 1.7 times as long. So only the engines' threads compute with several.
    """
    import torch

    talk.print(f"threads   {number} (--threads)", markup=False)
    torch.set_num_threads(1)
    return replace(settings, engine=replace(settings.engine, threads=number))


def _settings(
    limits: LimitFlags, loader: Loader, host: str, port: int, key: str | None
) -> ServerSettings:
    """Return the settings of the server. UsageError if its packages are not installed."""
    try:
        from headway.serving.engine import EngineSettings
        from headway.serving.http.server import Address
        from headway.serving.model_server import ServerSettings
    except ImportError as error:
        raise UsageError(
            f"the server needs the package extra 'serve': {error}",
            hint="pip install 'headway[serve]'",
        ) from None
    engine = EngineSettings(
        prefix_bytes=limits.prefix_cache * 2**20,
        precision=loader.precision,
        exact=limits.exact,
    )
    return ServerSettings(
        address=Address(host=host, port=port),
        key=key,
        seconds=float(limits.seconds),
        grace=float(limits.grace),
        engine=engine,
    )


def _reachable(
    settings: ServerSettings, hosts: Sequence[str] | None, origins: Sequence[str] | None
) -> ServerSettings:
    """Return the settings of a server with further names, and for pages of other origins.

    UsageError for a text that is no origin.
    """
    from headway.serving.guard import checked_origin

    checked = tuple(checked_origin(origin) for origin in origins or ())
    return replace(settings, hosts=tuple(hosts or ()), origins=checked)


def _with_room(
    limits: LimitFlags, engine: EngineSettings, bundles: Sequence[Bundle]
) -> EngineSettings:
    """Return the settings with the number of slots, and of waiting requests."""
    from headway.serving.engine import default_slots

    slots = limits.slots or min(default_slots(bundle, len(bundles)) for bundle in bundles)
    return replace(engine, slots=slots, queue=limits.queue or 4 * slots)


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
