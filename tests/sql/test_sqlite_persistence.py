"""A file that no commit waits for is told, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobboard import fetch
from jobboard.board import client_of
from jobboard.operate.doctor import examine
from jobboard.operate.status import status


@pytest.mark.parametrize(
    ("synchronous", "kept", "said"),
    [
        ("FULL", True, ""),
        ("EXTRA", True, ""),
        ("NORMAL", True, "synchronous=NORMAL"),
        ("OFF", False, "synchronous=OFF"),
    ],
)
def test_what_a_crash_costs_is_said(tmp_path: Path, synchronous: str, kept: bool, said: str) -> None:
    uri = f"sqlite:///{tmp_path}/jobs.db?synchronous={synchronous}"
    with fetch("x", uri) as board:
        found = client_of(board).backend.persistence()
        assert (found.kept, said in found.text, bool(found.text)) == (kept, True, bool(said))
        assert [finding["kind"] for finding in status(board)["findings"]] == ["not_durable"] * (not kept)
    subjects = [each.subject for each in examine(fetch("x", uri))]
    assert ("not_durable" in subjects, "durable" in subjects) == (not kept, kept)
