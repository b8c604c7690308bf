"""For tests of the console's pages about jobs: a board, a user, what a page lists, and what its forms send."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers.console import Asking, asking, text_of
from jobboard import Job, JobBoard, backend
from jobboard.console import allow

on_both = pytest.mark.parametrize("board", ["memory", "sqlite"], indirect=True)


@pytest.fixture
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobBoard]:
    is_sqlite = getattr(request, "param", "memory") == "sqlite"
    uri = f"sqlite:///{tmp_path}/jobs.db?synchronous=OFF" if is_sqlite else "memory"
    with backend(request.node.name, uri) as board:
        yield board


def ask_as(board: JobBoard, *rights: str, **options: Any) -> Asking:
    return asking({"jobs": board}, access=allow(*rights), who=lambda request: "ann", **options)


def uuids_in(page: httpx.Response) -> list[str]:
    """Return the jobs of a list, in its order."""
    return re.findall(r'href="/b/jobs/jobs/([0-9a-f-]{36})"><code', page.text)


def next_of(page: httpx.Response) -> str | None:
    match = re.search(r'rel="next" href="([^"]*)"', page.text)
    return match and match[1].replace("&amp;", "&")


def trash(board: JobBoard, job: Job, reason: str = "ValueError: bad") -> Job:
    board.trash(job, by="worker", reason=reason)
    return job


def preview(ask: Asking, path: str) -> dict[str, str]:
    """Look at what a bulk action would change, and return the fields of its form."""
    page = ask.get(path)
    assert page.status_code == 200, text_of(page)
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
