"""A board of shards is opened with all of its shards in their order, or not at all."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

import jobboard
from jobboard.backends.shards.table import TABLE
from jobboard.errors import BoardUnavailable, UnknownBackend


def uri_of(folder: Path, *names: str) -> str:
    return "shards://?" + "&".join(f"uri={quote(f'sqlite:///{folder}/{name}.db', safe='')}" for name in names)


def test_a_board_is_spread_over_the_stores_that_its_uri_names(tmp_path: Path) -> None:
    with jobboard.backend("jobs", uri_of(tmp_path, "a", "b", "c")) as board:
        posted = {board.post("resize").uuid for _ in range(60)}
        assert {job.uuid for job in board.iterjobs()} == posted
        assert board.store == "shards"
        assert list(board.books()) == []
    counts = []
    for name in "abc":
        with jobboard.backend("jobs", f"sqlite:///{tmp_path}/{name}.db") as part:
            counts.append(part.job_count)
    assert sum(counts) == 60
    assert min(counts) > 5


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("ab", "has 3 shards, not 2"),
        ("abcd", "has 3 shards, not 4"),
        ("acb", "named as shard 1 .* is its shard 2"),
        ("xyz", None),
    ],
)
def test_other_shards_are_refused_by_name(tmp_path: Path, names: str, told: str | None) -> None:
    with jobboard.backend("jobs", uri_of(tmp_path, *"abc")) as board:
        board.post("resize")
    other = jobboard.fetch("jobs", uri_of(tmp_path, *names))
    if told is None:
        other.connect()
        assert other.job_count == 0
        other.close()
        return
    with pytest.raises(BoardUnavailable, match=told):
        other.connect()
    assert not other.connected


def test_a_board_with_jobs_becomes_no_shard(tmp_path: Path) -> None:
    with jobboard.backend("jobs", f"sqlite:///{tmp_path}/a.db") as plain:
        plain.post("resize")
    with pytest.raises(BoardUnavailable, match="shard 0 .* has jobs, and is no shard"):
        jobboard.fetch("jobs", uri_of(tmp_path, *"ab")).connect()
    with jobboard.backend("jobs", f"sqlite:///{tmp_path}/a.db") as plain:
        assert plain.job_count == 1


def test_an_opening_that_was_interrupted_is_finished_by_the_next_one(tmp_path: Path) -> None:
    with jobboard.backend("jobs", uri_of(tmp_path, *"abc")) as board:
        board._backend.fleet.shards[2].books.destroy(TABLE)  # type: ignore[attr-defined]
    with jobboard.backend("jobs", uri_of(tmp_path, *"abc")) as board:
        assert board._backend.fleet.shards[2].books.load(TABLE, None, 1) is not None  # type: ignore[attr-defined]


def test_other_boards_of_the_stores_are_none_of_its_own(tmp_path: Path) -> None:
    with jobboard.backend("jobs", uri_of(tmp_path, *"ab")), jobboard.backend("others", uri_of(tmp_path, *"ba")):
        pass


def test_what_is_no_list_of_stores_is_refused() -> None:
    with pytest.raises(ValueError, match="name 1 to 1024 stores"):
        jobboard.fetch("jobs", "shards://")
    with pytest.raises(ValueError, match="must be a list of URIs"):
        jobboard.fetch("jobs", "shards://", uris=[1])
    with pytest.raises(UnknownBackend, match="'nostore'"):
        jobboard.fetch("jobs", "shards://?uri=nostore://h/secret")
    with pytest.raises(ValueError, match="unknown option 'tims' for memory"):
        jobboard.fetch("jobs", "shards://", uris=["memory://a?tims=3"])
