"""Bundling of the JavaScript modules of the page into one script.

A page that was opened from a file cannot import modules. Each module therefore becomes a function
that is called once and returns its exports, in the order of their dependencies. Only these forms of
import and export are supported:

    import {a, b} from "./name.js";
    export function a / export async function a / export class a / export const a
"""

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

_IMPORT = re.compile(r'^import \{([\w, \n]+)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\*? (\w+))", re.MULTILINE)
_STRAY = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle(modules: Mapping[str, str]) -> str:
    """Return one classic script of all modules, given by name (without ".js").

    Raises ValueError for another form of import or export, for a missing module or export, and for
    circular imports.
    """
    imports_of = {name: _IMPORT.findall(text) for name, text in modules.items()}
    exports = {name: _EXPORT.findall(text) for name, text in modules.items()}
    for name, imports in imports_of.items():
        for imported, module in imports:
            if missing := _names(imported) - set(exports.get(module, ())):
                raise ValueError(
                    f"{name}.js imports {', '.join(sorted(missing))}, "
                    f"but {module}.js does not export it"
                )
    needs = {name: [module for _, module in imports] for name, imports in imports_of.items()}
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise ValueError(
            f"modules import each other in a circle: {' > '.join(error.args[1])}"
        ) from error
    parts = [_wrapped(name, modules[name], exports[name]) for name in order]
    return '"use strict";\n' + "".join(parts)


def _wrapped(name: str, text: str, exports: list[str]) -> str:
    text = _IMPORT.sub(
        lambda m: f"const {{{', '.join(sorted(_names(m[1])))}}} = {_slot(m[2])};\n", text
    )
    text = _EXPORT.sub("", text)
    if stray := _STRAY.search(text):
        raise ValueError(f"{name}.js: this form of import or export is not supported: {stray[0]}")
    return f"const {_slot(name)} = (() => {{\n{text}return {{{', '.join(exports)}}};\n}})();\n"


def _slot(name: str) -> str:
    return "module_" + name.replace("-", "_")


def _names(listed: str) -> set[str]:
    return {name.strip() for name in listed.split(",") if name.strip()}
