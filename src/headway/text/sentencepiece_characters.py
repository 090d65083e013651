"""How a SentencePiece model replaces characters: by a table, except in user-defined pieces.

The steps are normalizers of a `tokenizer.json`.
"""

import base64
import re
import struct
from collections.abc import Sequence
from typing import Any

_MARK = "\U000f0000"
"""A character for private use, which follows a user-defined piece; the next ones replace its
characters."""
_SEPARATOR = "\U000ffffd"
"""A character for private use between a letter and its combining marks."""


def character_steps(charsmap: bytes, defined: Sequence[str]) -> list[dict[str, Any]]:
    """Return the steps that replace characters by those of a compiled table, which may be empty.

    defined: user-defined pieces, the longest first, whose characters are not replaced.

    Where several pieces match, the longest is taken. First, a mark is put after each of them. Then
    each character of a piece that such a mark follows becomes one that the table does not contain,
    and becomes itself again after the table was applied.
    """
    if not charsmap:
        return []
    table = _table(charsmap)
    if not defined:
        return table
    letters = sorted({letter for piece in defined for letter in piece} - {" "})
    stand_ins = {letter: chr(ord(_MARK) + 1 + n) for n, letter in enumerate(letters)}
    either = {
        letter: f"[{re.escape(letter)}{stand_in}]" for letter, stand_in in stand_ins.items()
    } | {" ": " "}
    occurrences: dict[str, list[str]] = {letter: [] for letter in letters}
    for piece in defined:
        for at, letter in enumerate(piece):
            before, after = (
                "".join(either[other] for other in part) for part in (piece[:at], piece[at + 1 :])
            )
            behind = f"(?<={before})" if before else ""
            if letter != " ":
                occurrences[letter].append(f"{behind}{re.escape(letter)}(?={after}{_MARK})")
    return [
        replacement({"Regex": f"(?>{alternatives(defined)})\\K"}, _MARK),
        *(
            replacement({"Regex": "|".join(occurrences[letter])}, stand_ins[letter])
            for letter in letters
        ),
        *table,
        *(replacement({"String": stand_ins[letter]}, letter) for letter in letters),
        replacement({"String": _MARK}, ""),
    ]


def _table(charsmap: bytes) -> list[dict[str, Any]]:
    """Return the steps that replace characters by those of a compiled table.

    The engine looks a letter up together with its combining marks, and loses the marks if only the
    letter is in the table. So the marks are separated from it, and composed with it afterwards if
    the table does so.
    """
    compiled = base64.b64encode(charsmap).decode()
    composed = [{"type": "NFC"}] if _in_table(charsmap, "e\u0301".encode()) else []
    return [
        replacement({"Regex": r"(?!\A)(?=[\p{M}\x{200C}\x{200D}\n])"}, _SEPARATOR),
        {"type": "Precompiled", "precompiled_charsmap": compiled},
        replacement({"String": _SEPARATOR}, ""),
        *composed,
    ]


def _in_table(charsmap: bytes, key: bytes) -> bool:
    """Return whether a compiled table replaces a key.

    The table is a double array: a size in bytes, then units of 32 bits of that size. The child
    of a unit for a byte is at the position of the unit, xor its offset, xor the byte; bit 8 of a
    unit says that its key is complete.
    """
    size = int.from_bytes(charsmap[:4], "little") // 4
    if size == 0 or len(charsmap) < 4 * (size + 1):
        return False  # damaged: the engine refuses it
    units = struct.unpack(f"<{size}I", charsmap[4 : 4 * (size + 1)])
    position, unit = 0, units[0]
    for byte in key:
        position ^= (unit >> 10) << ((unit & 0x200) >> 6) ^ byte
        if position >= size or units[position] & 0x800000FF != byte:
            return False
        unit = units[position]
    return bool(unit & 0x100)


def alternatives(pieces: Sequence[str]) -> str:
    """Return a pattern that matches one of some pieces, the first that fits."""
    return "|".join(map(re.escape, pieces))


def replacement(pattern: dict[str, str], content: str) -> dict[str, Any]:
    """Return a step that replaces what a pattern matches."""
    return {"type": "Replace", "pattern": pattern, "content": content}
