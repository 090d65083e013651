"""The page as one HTML file: the views of the inspection page, and a model that answers in it."""

import base64
import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from headway.exporting.web.packages import (
    BINARY,
    LOADER,
    RUNTIME,
    RUNTIME_SCRIPT,
    TOKENIZER_SCRIPT,
    TOKENIZERS,
    Package,
)
from headway.inspection.page import page_top
from headway.inspection.page.bundling import bundle
from headway.inspection.page.writer import page_modules, page_style

_BROWSER = files(__package__) / "browser"
IN_NODE = "check"
"""The module that only the verification runs."""
BROWSER_ONLY = ("source", "live", "views")
SHARED = ("weights",)
"""Modules of the inspection page that the verification runs, too."""

_RUN = b"""
const {readFileSync} = require("node:fs");
const {files, probes} = JSON.parse(readFileSync(process.argv[2]));
module_check.check(globalThis.libraries, files, probes, (file) => readFileSync(file)).then(
  (result) => { process.stdout.write(JSON.stringify(result), () => process.exit(0)); },
  (error) => { console.error(error.message || error); process.exit(1); },
);
"""
"""The end of the script for Node."""


def page(
    packages: Mapping[str, Package], description: Mapping[str, object], graphs: Mapping[str, bytes]
) -> bytes:
    """Return the page. graphs: name -> ONNX file."""
    modules = {**page_modules(), **web_modules()}
    del modules[IN_NODE]
    script = b"\n" + libraries(packages) + bundle(dict(sorted(modules.items()))).encode()
    style = page_style() + (_BROWSER / "style.css").read_bytes()
    runtime = packages[RUNTIME]
    blocks = {
        "description": json.dumps(description).encode(),
        "runtime-loader": runtime.read(LOADER),
        "runtime-wasm": runtime.read(BINARY),
        **{f"graph-{name}": data for name, data in graphs.items()},
    }
    # WebAssembly is compiled here, and its loader is a module, which only an address can import
    scripts = "'wasm-unsafe-eval' blob:"
    parts = [page_top(script, style, connect="'none'", scripts=scripts)]
    for name, data in blocks.items():
        packed = base64.b64encode(gzip.compress(data, 6, mtime=0))
        parts.append(b'<script type="text/plain" class="block" id="%s">' % name.encode())
        parts += [packed, b"</script>\n"]
    parts += [b"<script>", script, b"</script>\n</body>\n</html>\n"]
    return b"".join(parts)


def libraries(packages: Mapping[str, Package]) -> bytes:
    """Return the script that defines `globalThis.libraries`, of the installed packages."""
    wrapped = (
        b"(() => {\nconst module = {exports: {}};\nconst exports = module.exports;\n%s\n"
        b"return module.exports;\n})()"
    )
    scripts = packages[RUNTIME].read(RUNTIME_SCRIPT), packages[TOKENIZERS].read(TOKENIZER_SCRIPT)
    # the end of a script inside a script would end the page's own
    runtime, tokenizers = (text.replace(b"</script", b"<\\/script") for text in scripts)
    return b"globalThis.libraries = {ort: %s, Tokenizer: %s.Tokenizer};\n" % (
        wrapped % runtime,
        wrapped % tokenizers,
    )


def checking_script(packages: Mapping[str, Package]) -> bytes:
    """Return the page's own code as a script for Node, which runs it on the files of its argument
    and prints the outputs as JSON."""
    modules = {name: text for name, text in web_modules().items() if name not in BROWSER_ONLY}
    modules |= {name: text for name, text in page_modules().items() if name in SHARED}
    return libraries(packages) + bundle(dict(sorted(modules.items()))).encode() + _RUN


@cache
def web_modules() -> dict[str, str]:
    """Return the JavaScript modules of this package by name; some replace those of the inspection
    page."""
    scripts = (entry for entry in _BROWSER.iterdir() if entry.name.endswith(".js"))
    return {entry.name.removesuffix(".js"): entry.read_text("utf-8") for entry in scripts}
