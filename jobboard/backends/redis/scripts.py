"""The scripts of ``jobboard.lua``, with the fragments that they include put in."""

from __future__ import annotations

import hashlib
import importlib.resources
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_INCLUDE = re.compile(r"^-- include: (\w+)$")


@dataclass(frozen=True, slots=True)
class Script:
    """One operation, ready to be sent; ``sha`` is what the server calls it."""

    name: str
    source: bytes = field(repr=False)
    sha: str


def load_scripts() -> dict[str, Script]:
    """Return all operations by name; fragments, whose file names begin with ``_``, are no operations."""
    files = {
        item.name.removesuffix(".lua"): item.read_text("utf-8")
        for item in importlib.resources.files("jobboard.lua").iterdir()
        if item.name.endswith(".lua")
    }
    return {name: _script_of(name, files) for name in sorted(files) if not name.startswith("_")}


def _script_of(name: str, files: dict[str, str]) -> Script:
    source = "\n".join([*_lines_of(name, files, set()), "end)()", ""]).encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


def _lines_of(name: str, files: dict[str, str], included: set[str]) -> Iterator[str]:
    """Go through the lines of a file, and through each fragment at the place where it is included first."""
    for line in files[name].splitlines():
        fragment = _INCLUDE.match(line)
        if fragment is None:
            yield line
        elif fragment[1] not in included:
            included.add(fragment[1])
            yield from _lines_of(f"_{fragment[1]}", files, included)
