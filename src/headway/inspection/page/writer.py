"""The page as one file that makes no network requests.

The file contains styles, script, header and blocks (base64 of gzip). Its content security policy
allows only this script and this style, by their hashes.
"""

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from headway.base.files import check_new, write_file
from headway.inspection.glossary import sentences
from headway.inspection.page.bundling import bundle
from headway.inspection.page.encoding import Encoded, header_json

_ASSETS = files("headway.inspection.page") / "assets"
_STYLES = ("theme.css", "layout.css", "views.css")


def write_page(path: Path, encoded: Encoded, *, overwrite: bool = False) -> int:
    """Write the page and return its size in bytes; raises UsageError if the file exists."""
    if not overwrite:
        check_new(path)
    write_file(path, page_parts(encoded))
    return page_size(encoded)


def page_size(encoded: Encoded) -> int:
    """Return the size of the page in bytes without writing it."""
    fixed = sum(len(part) for part in page_parts(Encoded(encoded.header, {})))
    blocks = encoded.blocks.items()
    return fixed + sum(len(_before(name)) + -(-len(b) // 3) * 4 + len(_AFTER) for name, b in blocks)


def page_parts(encoded: Encoded) -> Iterator[bytes]:
    """Yield the parts of the page. Blocks are last, so that the page is shown while they load."""
    script, style = _script(), page_style()
    yield page_top(script, style, connect="'none'")
    yield b'<script type="application/json" id="header">'
    yield header_json(encoded.header)
    yield b"</script>\n<script>" + script + b"</script>\n"
    for name, data in encoded.blocks.items():
        yield _before(name)
        yield base64.b64encode(data)
        yield _AFTER
    yield b"</body>\n</html>\n"


def page_text(encoded: Encoded) -> str:
    """Return the whole page."""
    return b"".join(page_parts(encoded)).decode()


def served_page() -> bytes:
    """Return the page without a document; it requests the document from its server."""
    script = _script()
    top = page_top(script, page_style(), connect="'self'")
    return top + b"<script>" + script + b"</script>\n</body>\n</html>\n"


_AFTER = b"</script>\n"


def _before(name: str) -> bytes:
    return f'<script type="text/plain" class="block" id="{name}">'.encode()


def page_top(script: bytes, style: bytes, connect: str, scripts: str = "") -> bytes:
    """Return the beginning of a page that runs this script and no other, with its style.

    connect: the addresses that the script may request, as in a Content Security Policy. scripts:
    further sources of scripts.
    """
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_digest(script)}' {scripts}".rstrip(),
            f"style-src '{_digest(style)}'",
            "img-src data: blob:",
            "media-src blob:",
            "worker-src blob:",
            f"connect-src {connect}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return (
        b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        + f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'.encode()
        + b'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        + b'<meta name="color-scheme" content="light dark">\n<title>Headway</title>\n'
        + b'<link rel="icon" href="data:,">\n<style>'
        + style
        + b"</style>\n</head>\n<body>\n"
        + b'<div id="page"><p class="loading">Loading \xe2\x80\xa6</p></div>\n'
        + b"<noscript>This page needs JavaScript, which is disabled in this browser.</noscript>\n"
    )


def _digest(text: bytes) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text).digest()).decode()


@cache
def _script() -> bytes:
    return b"\n" + bundle(dict(sorted(page_modules().items()))).encode()


@cache
def page_modules() -> dict[str, str]:
    """Return the JavaScript modules of the page by name."""
    scripts = (entry for entry in _ASSETS.iterdir() if entry.name.endswith(".js"))
    modules = {entry.name.removesuffix(".js"): entry.read_text("utf-8") for entry in scripts}
    sentences_of_terms = header_json(sentences()).decode()
    return {**modules, "sentences": f"export const SENTENCES = {sentences_of_terms};\n"}


@cache
def page_style() -> bytes:
    """Return the style of the page."""
    return "".join((_ASSETS / name).read_text("utf-8") for name in _STYLES).encode()


def theme() -> bytes:
    """Return the style that all pages share: colours in light and dark, type, controls."""
    return (_ASSETS / "theme.css").read_bytes()
