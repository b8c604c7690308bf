"""How many requests a board sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobboard import JobBoard
from jobboard.board import client_of


def count_requests(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with each request of this board object."""
    client, sent = client_of(board), list[str]()
    call = client.call_until_certain

    def counted(primitive: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        sent.append(primitive.__name__)
        return call(primitive, *args, **kwargs)

    monkeypatch.setattr(client, "call_until_certain", counted)
    return sent
