"""`headway ui`: the page of `headway inspect`, live."""

import webbrowser
from pathlib import Path

from headway.base.settings import setting
from headway.cli.flags import PORTS, as_flags
from headway.cli.inputs import check_no_file
from headway.cli.machine import MachineFlags
from headway.runs.held_out_inputs import held_out_inputs, held_out_passages
from headway.serving import BundleViewer, serve, viewer_app
from headway.terminal.console import say


@as_flags
class UiFlags(MachineFlags):
    port: int = setting(8765, "Port of the server; 0 selects a free port.", ge=0, le=PORTS)
    browser: bool = setting(True, "Open the page in the browser.")


def ui(run: str, text_or_image: str | None = None, /, *, flags: UiFlags = UiFlags()) -> None:
    """Serve the page of `headway inspect` live: type a text or drop an image.

    Heads can be switched off, words changed, and each computation followed step by step. The page
    of a run offers texts that the run held out, and starts with one of them. The
    server can be reached from this machine only (127.0.0.1); Ctrl-C stops it.

    Parameters
    ----------
    run
        A run folder or a model folder of any model with attention.
    text_or_image
        First input of the page: a text, or the path of an image. If unset, a held-out text.
    """
    bundle = flags.prepare().load(run)
    examples = held_out_inputs(Path(run)) if bundle.inputs.modality == "text" else []
    viewer = BundleViewer(
        bundle, Path(run).name, examples, passages=held_out_passages(Path(run), bundle)
    )
    if text_or_image is not None and not viewer.takes_images:
        check_no_file(text_or_image, "write the text itself in quotes")
    first = viewer.first() if text_or_image is None else viewer.open(text_or_image)

    def ready(address: str) -> None:
        say(f"open      {address}   (Ctrl-C stops the server)")
        if flags.browser:
            webbrowser.open(address)

    serve(viewer_app(viewer, first), flags.port, ready)
