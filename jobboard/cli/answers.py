"""What is answered by HTTP to probes and scrapes, apart from the server, whose import takes a while."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


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


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request: the query's parameters, of which each counts once, and the header ``Accept``."""

    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""


#: Makes the answer of a path.
Route = Callable[[Request], Answer]
