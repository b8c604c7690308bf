"""etcd keeps every revision: who looks at a board is told before the space is full."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest
from servers.etcd_servers import EtcdServer

from jobboard import BoardUnavailable, JobBoard, JobState, fetch
from jobboard.backends.etcd import space
from jobboard.operate.doctor import examine
from jobboard.operate.overview import overview
from jobboard.operate.verdict import Verdict, findings

_QUOTA = 16 * 1024**2


def _without_sizes(text: str) -> str:
    return re.sub(r"\d+ MiB", "", text)


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdServer]:
    with EtcdServer("--quota-backend-bytes", str(_QUOTA)) as server:
        yield server


@pytest.fixture
def board(server: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobBoard]:
    # The server of Debian does not tell what its quota is.
    monkeypatch.setattr(space, "DEFAULT_QUOTA", _QUOTA)
    with fetch("space", server.uri) as board:
        yield board


def test_who_looks_is_told_before_the_space_is_full(
    server: EtcdServer, board: JobBoard, caplog: pytest.LogCaptureFixture
) -> None:
    assert "short" not in [finding.kind for finding in findings(overview(board))]
    for _ in range(25):
        board.post("resize", {"data": "x" * 500_000})
    with caplog.at_level(logging.WARNING, "jobboard.etcd"):
        [fault] = [each for each in examine(fetch(board.name, server.uri)) if each.well is False]
    # What is used may grow between two looks.
    assert _without_sizes(fault.text) in map(_without_sizes, caplog.messages)
    [finding] = [finding for finding in findings(overview(board)) if finding.kind == "short"]
    for text in (fault.text, finding.text):
        assert "etcdctl compact" in text
        assert "etcdctl defrag" in text


def test_a_board_without_any_space_is_looked_at_by_a_new_client_and_says_so() -> None:
    with EtcdServer("--quota-backend-bytes", str(_QUOTA)) as server, fetch("full", server.uri) as board:
        with pytest.raises(BoardUnavailable, match="its space is used up"):
            for _ in range(60):
                board.post("resize", {"data": "x" * 500_000})
        posted = board.stats().unclaimed
        with fetch("full", server.uri) as new:
            [finding] = [finding for finding in findings(overview(new)) if finding.kind == "short"]
            assert (finding.verdict, "etcdctl alarm disarm" in finding.text) == (Verdict.BAD, True)
            states = [job.state for job in new.iterjobs()]
            assert (states, new.audit()) == ([JobState.UNCLAIMED] * posted, [])
