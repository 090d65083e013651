"""The page's modules as one script.

A page opened from a file may not import its modules, so they are put into one script: each becomes
a function that is called once and gives what it exports, in the order in which they need another.
Only two forms are understood, and the modules keep to them:

    import {a, b} from "./name.js";
    export function a / export async function a / export class a / export const a
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

_IMPORT = re.compile(r'^import \{([\w, \n]+)\} from "\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const)\*? (\w+))", re.MULTILINE)
_STRAY = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundle(modules: Mapping[str, str]) -> str:
    """One classic script of modules by name (without ".js"). ValueError for what is not understood:
    another form of import or export, a module that is missing or exports too little, a circle."""
    found = {name: _IMPORT.findall(text) for name, text in modules.items()}
    exports = {name: _EXPORT.findall(text) for name, text in modules.items()}
    for name, imports in found.items():
        for wanted, other in imports:
            if lost := _names(wanted) - set(exports.get(other, ())):
                raise ValueError(f"{name}.js: {other}.js does not export {', '.join(sorted(lost))}")
    needs = {name: [other for _, other in imports] for name, imports in found.items()}
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise ValueError(f"modules import each other: {' > '.join(error.args[1])}") from error
    parts = [_wrapped(name, modules[name], exports[name]) for name in order]
    return '"use strict";\n' + "".join(parts)


def _wrapped(name: str, text: str, exports: list[str]) -> str:
    text = _IMPORT.sub(
        lambda m: f"const {{{', '.join(sorted(_names(m[1])))}}} = {_slot(m[2])};\n", text
    )
    text = _EXPORT.sub("", text)
    if stray := _STRAY.search(text):
        raise ValueError(f"{name}.js: not understood: {stray[0]}")
    return f"const {_slot(name)} = (() => {{\n{text}return {{{', '.join(exports)}}};\n}})();\n"


def _slot(name: str) -> str:
    return "module_" + name.replace("-", "_")


def _names(listed: str) -> set[str]:
    return {name.strip() for name in listed.split(",") if name.strip()}
