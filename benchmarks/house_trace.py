"""``python -P house_trace.py PACKAGE URI``: what one post, claim and consume run in ``jobboard`` and on Redis, as JSON.

A script of its own, which imports nothing else of the benchmarks: it runs with another checkout's ``jobboard``.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import jobboard

#: A command as MONITOR shows it: who sent it, then its words, quoted as in C.
_COMMAND = re.compile(rb"^\+[\d.]+ \[\d+ (?!lua)[^\]]*\] (.*)\r$")
_WORD = re.compile(rb'"(?:[^"\\]|\\.)*"')
#: The lines of a Lua file that the loader replaces.
_REPLACED = re.compile(r"^(?:-- include:|.*-- each .*field|.*FIELD_COUNT).*$", re.MULTILINE)


class Monitor:
    """What a Redis server is asked, in the order of its replies."""

    def __init__(self, host: str, port: int) -> None:
        self._listener = socket.create_connection((host, port), timeout=10)
        self._speaker = socket.create_connection((host, port), timeout=10)
        self._listener.sendall(b"MONITOR\r\n")
        assert self._listener.recv(64) == b"+OK\r\n"
        self._lines = self._listener.makefile("rb")
        self._marks = 0

    def commands(self) -> list[list[bytes]]:
        """Return the commands since the last call, without those that scripts call."""
        self._marks += 1
        mark = b"mark-%d" % self._marks
        self._speaker.sendall(b"ECHO %b\r\n" % mark)
        found: list[list[bytes]] = []
        for line in self._lines:
            if (told := _COMMAND.match(line.removesuffix(b"\n"))) is not None:
                words = [ast.literal_eval("b" + word.decode("ascii")) for word in _WORD.findall(told[1])]
                if words == [b"ECHO", mark]:
                    return found
                found.append(words)
        raise SystemExit("redis-server closed the connection")


def trace(work: Callable[[], Any]) -> tuple[Any, set[tuple[str, str, int]]]:
    """Return what ``work`` returns, and the file, name and line of each function that it enters in this thread."""
    entered = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            code = frame.f_code
            entered.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    sys.setprofile(note)
    try:
        return work(), entered
    finally:
        sys.setprofile(None)


def functions_below(folder: Path, entered: set[tuple[str, str, int]]) -> set[tuple[str, str, int]]:
    """Leave out other packages, and comprehensions, which are functions only in the interpreter."""
    plain = re.compile(r"(.*\.)?(<lambda>|[^<>.]+)")
    return {one for one in entered if Path(one[0]).is_relative_to(folder) and plain.fullmatch(one[1])}


def files_of(script: str, folder: Path) -> list[str]:
    """Return the Lua files of a script: its lines stand in it, but for what the loader replaces."""
    found = []
    for path in folder.rglob("*.lua"):
        parts = [part.strip() for part in _REPLACED.split(path.read_text("utf-8"))]
        if any(parts) and all(part in script for part in parts):
            found.append(str(path.relative_to(folder)))
    return found


def scripts_of(commands: list[list[bytes]]) -> set[str]:
    """Return the hashes of the scripts that these commands run."""
    texts = {words[1] for words in commands if words[0].upper() == b"EVAL"}
    hashes = {words[1].decode() for words in commands if words[0].upper() == b"EVALSHA"}
    return hashes | {_hash_of(text) for text in texts}


def _hash_of(script: bytes) -> str:
    return hashlib.sha1(script, usedforsecurity=False).hexdigest()


def main(package: Path, uri: str) -> None:
    assert jobboard.__file__ is not None
    assert Path(jobboard.__file__).is_relative_to(package), f"{jobboard.__file__} is not below {package}"
    address = urlsplit(uri)
    monitor = Monitor(str(address.hostname), address.port or 6379)
    found: dict[str, Any] = {}
    with jobboard.fetch("house", uri) as board:
        steps: dict[str, Callable[[], Any]] = {
            "post": lambda: board.post("work"),
            "claim": lambda: board.claim_next("me"),
            "consume": lambda: board.consume(job, "me"),
        }
        # The first turn imports what is imported late, and loads the scripts.
        steps["post"]()
        (job,) = steps["claim"]()
        steps["consume"]()
        loading = monitor.commands()
        sources = {_hash_of(words[-1]): words[-1].decode() for words in loading if words[0].upper() == b"SCRIPT"}
        sources |= {_hash_of(words[1]): words[1].decode() for words in loading if words[0].upper() == b"EVAL"}
        for name, step in steps.items():
            result, entered = trace(step)
            if name == "claim":
                (job,) = result
            functions = functions_below(package, entered)
            lua = {path for one in scripts_of(monitor.commands()) for path in files_of(sources[one], package / "lua")}
            assert lua, f"the scripts of {name} are made of no Lua file"
            found[name] = {
                "files": sorted({str(Path(one[0]).relative_to(package)) for one in functions}),
                "functions": len(functions),
                "lua": sorted(lua),
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
