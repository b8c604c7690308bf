"""Loads the scripts of ``jobboard.lua``, and puts the fragments of ``lua/include`` into them."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable

from jobboard.errors import BoardUnavailable

_INCLUDE = re.compile(r"^-- include: (\w+)$")
#: The fields, or ties, that a fragment lists ("name kind...", ...), and a line that is written once for each of them.
_LISTED = re.compile(r"^-- (field|tie)s: (.*?),?$", re.MULTILINE)
_EACH = re.compile(r'^( *)-- each (?:(\w+) )?(field|tie)(?:, by "(.*)")?: (.*)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """One operation, ready to be sent; the server knows it by its ``sha``."""

    name: str
    source: bytes = field(repr=False)
    sha: str


@functools.cache
def load_scripts() -> Mapping[str, Script]:
    """Return all operations by name; they are put together once for a process, which takes some 20 ms."""
    folder = _folder()
    sources = _sources_in(folder / "include")
    lists: dict[str, list[list[str]]] = {"field": [], "tie": []}
    for word, line in _LISTED.findall("".join(sources.values())):
        lists[word] += [entry.split() for entry in line.split(", ")]
    fragments = {name: _write_lists(source, lists) for name, source in sources.items()}
    return {name: _script_of(name, source, fragments) for name, source in _sources_in(folder).items()}


def _folder() -> Traversable:
    """Return where the scripts are: in the package, or beside it in a checkout, which a program run there imports."""
    try:
        return importlib.resources.files("jobboard.lua")
    except ModuleNotFoundError:
        beside = importlib.resources.files("jobboard").joinpath("..", "lua")
        if not (beside / "include").is_dir():
            raise BoardUnavailable(
                f"this jobboard, {importlib.resources.files('jobboard')}, has no scripts for Redis; install it anew: "
                "pip install --force-reinstall 'jobboard[redis]'"
            ) from None
        return beside


def _sources_in(folder: Traversable) -> dict[str, str]:
    files = sorted((item.name, item) for item in folder.iterdir() if item.name.endswith(".lua"))
    return {name.removesuffix(".lua"): item.read_text("utf-8") for name, item in files}


def _write_lists(source: str, lists: Mapping[str, list[list[str]]]) -> str:
    """Write the lines for each field or tie: in Lua, a loop over the fields makes every script some 5% slower."""

    def lines_of(match: re.Match[str]) -> str:
        indent, wanted, word, separator, template = match.groups("")
        names = [name for name, *kinds in lists[word] if not wanted or wanted in kinds]
        lines = (template.replace(word.upper(), name).replace("NUMBER", str(n)) for n, name in enumerate(names, 1))
        return f"{separator}\n".join(indent + line for line in lines)

    return _EACH.sub(lines_of, source).replace("FIELD_COUNT", str(len(lists["field"])))


def _script_of(name: str, operation: str, fragments: dict[str, str]) -> Script:
    included: set[str] = set()
    lines = [*_expand(operation, fragments, included)]
    # The prelude begins a function that has the rest of the script.
    source = "\n".join([*lines, "end)()" if "prelude" in included else "", ""]).encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


def _expand(source: str, fragments: dict[str, str], included: set[str]) -> Iterator[str]:
    """Yield the lines of a source, and those of each fragment at the place where it is included first."""
    for line in source.splitlines():
        fragment = _INCLUDE.match(line)
        if fragment is None:
            yield line
        elif fragment[1] not in included:
            included.add(fragment[1])
            yield from _expand(fragments[fragment[1]], fragments, included)
