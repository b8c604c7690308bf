"""What is answered by HTTP to probes and scrapes, apart from the server, whose import takes a while."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer."""

    status: int
    kind: str
    body: bytes


def text(status: int, line: str) -> Answer:
    """Return an answer of one line."""
    return Answer(status, "text/plain; charset=utf-8", f"{line}\n".encode())


def as_json(status: int, value: object) -> Answer:
    return Answer(status, "application/json", json.dumps(value).encode())


#: Makes the answer of a path from the query's parameters, of which each counts once.
Route = Callable[[Mapping[str, str]], Answer]
