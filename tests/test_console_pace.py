"""How fast a board gets on, and the small charts of it, which the server draws."""

from __future__ import annotations

import time

import pytest
from helpers.console import asking, text_of
from helpers.memory_seam import fresh_name

from jobboard import Entity, Posting, fetch
from jobboard.console.charting import SPANS
from jobboard.console.pace import Backlog, Tile, pace_of
from jobboard.console.sparklines import sparkline
from jobboard.operate.sampling import Bucket, Figures, Sampler


class Known(Sampler):
    """A sampler that knows these minutes, the last one of which is the present."""

    def __init__(self, *minutes: Figures | None, heard: float = 60.0, name: str | None = None) -> None:
        now = int(time.time() // 60) * 60
        first = now - 60 * (len(minutes) - 1)
        self._known = [
            Bucket(first + 60 * index, figures, {name: figures} if name else {}, heard)
            for index, figures in enumerate(minutes)
            if figures is not None
        ]

    def minutes(self, since: float) -> list[Bucket]:
        return [bucket for bucket in self._known if bucket.at + 60 > since]

    def ten_minutes(self, since: float) -> list[Bucket]:
        return []


def busy(waiting: int = 0, finished: int = 0, failed: int = 0, paused: int = 0, wait: float | None = None) -> Figures:
    figures = Figures(waiting=waiting, finished=finished, failed=failed, paused=paused)
    if wait is not None:
        figures.wait.add(wait)
    return figures


def told(sampler: Sampler, waiting: int = 0, name: str = "") -> dict[str, tuple[str | None, str]]:
    tiles = pace_of(sampler, SPANS["1h"], name, Backlog(waiting))
    return {tile.title: (tile.value, tile.note) for tile in tiles}


def test_a_new_console_says_that_nothing_was_heard_and_draws_nothing() -> None:
    for sampler in (Known(), Known(Figures(waiting=0), heard=0.0)):
        tiles = pace_of(sampler, SPANS["1h"], "", Backlog(0))
        assert [tile.course for tile in tiles] == [None] * 4
        assert [tile.value for tile in tiles] == [None, None, None, "done"]
    assert told(Known())["Throughput"] == (None, "not heard yet")
    assert told(Known(busy(waiting=5), heard=0.0), 5)["Backlog"] == (None, "5 wait")


@pytest.mark.parametrize("name", ["", "mail"])
def test_rates_are_of_what_was_heard(name: str) -> None:
    minutes = [busy(30, 10, 0, wait=2.0), None, busy(20, 20, 10, wait=40.0), busy(10, 30, 2, wait=2.0)]
    seen = told(Known(*minutes, name="mail"), 10, name)
    assert seen["Throughput"] == ("20 a minute", "60 finished")
    assert seen["Failure rate"] == ("17 %", "12 of 72 attempts")
    assert seen["Wait"][0] == "2s"
    assert seen["Backlog"] == ("done in 30s", "10 wait, 6.7 fewer a minute")
    assert told(Known(*minutes, name="mail"), 10, "other")["Failure rate"][1] == "no attempt has ended"


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        ([busy(5), busy(9)], ("growing", "9 wait, 4 more a minute")),
        ([busy(9, 3), busy(9, 3)], ("done in 3m", "9 wait, as many as before")),
        ([busy(9, 3)], ("done in 3m", "9 wait")),
    ],
)
def test_a_backlog_says_when_it_is_done(minutes: list[Figures], said: tuple[str, str]) -> None:
    assert told(Known(*minutes), 9)["Backlog"] == said


@pytest.mark.parametrize(
    ("paused", "unserved", "said"),
    [
        (9, 0, ("paused", "9 wait until a resume")),
        (0, 9, ("no conductor", "9 wait, and nobody claims them")),
        (4, 5, ("not claimed", "9 wait, 4 paused and 5 without a conductor")),
        (6, 0, ("done in 1m", "9 wait, 6 paused, as many as before")),
        (0, 6, ("done in 1m", "9 wait, 6 without a conductor, as many as before")),
        (3, 3, ("done in 1m", "9 wait, 3 paused and 3 without a conductor, as many as before")),
        (0, 0, ("done in 3m", "9 wait, as many as before")),
    ],
)
def test_what_nobody_claims_is_never_done(paused: int, unserved: int, said: tuple[str, str]) -> None:
    tiles = pace_of(Known(busy(9, 3), busy(9, 3)), SPANS["1h"], "", Backlog(9, paused, unserved))
    assert (tiles[-1].value, tiles[-1].note) == said


@pytest.mark.parametrize("span", SPANS)
def test_each_span_is_drawn_in_60_points_at_most(span: str) -> None:
    tiles: list[Tile] = pace_of(Known(*[busy(7, 10)] * 60), SPANS[span], "", Backlog(7))
    assert tiles[0].course is not None
    assert 1 <= tiles[0].course.paths[0].count("L") + 1 <= 60 or tiles[0].course.paths[0].endswith("h0")


def test_lines_have_gaps_dots_and_bands() -> None:
    drawn = sparkline([[0, 10, None, 5, None]], [False, False, True, True, False])
    assert drawn is not None
    assert drawn.paths == ("M20 33L60 3M140 18h0",)
    assert drawn.bands == ((80.0, 80.0),)
    assert sparkline([[None, 0]], [True, True]) is None


def test_the_overview_marks_when_something_was_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    with fetch(fresh_name(), "memory://") as board:
        sampler = Sampler(board, interval=3600.0)
        monkeypatch.setattr("jobboard.console.pages.overview.sampler_of", lambda _view: sampler)
        board.post_many([Posting("mail")] * 3)
        board.pause("mail")
        sampler.look()
        page, of_other = (asking({"shop": board}).get(f"/b/shop/?name={name}") for name in ("", "other"))
        sampler.stop(20)
    assert "Backlog paused 3 wait until a resume" in text_of(page)
    assert "Shaded: the board, or a name, was paused." in text_of(page)
    assert page.text.count('<rect class="pause"') == 1
    assert ("Shaded" in of_other.text, "style=" in page.text) == (False, False)


def test_the_overview_knows_which_jobs_nobody_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    with fetch(fresh_name(), "memory://") as board:
        sampler = Known(busy(3, 3), name="own")
        sampler_of_all = Sampler(board, interval=3600.0)
        monkeypatch.setattr(sampler_of_all, "minutes", sampler.minutes)
        monkeypatch.setattr("jobboard.console.pages.overview.sampler_of", lambda _view: sampler_of_all)
        names = ("paused", "gone", "served", "own")
        board.post_many([Posting(name) for name in names])
        board.pause("paused")
        board.register_entity(Entity("conductor", "worker", {"names": ["served"], "concurrency": 1}, ttl=600.0))
        sampler_of_all.look()
        told = {name: text_of(asking({"shop": board}).get(f"/b/shop/?name={name}")) for name in ("", *names)}
        sampler_of_all.stop(20)
    assert "Backlog done in 40s 4 wait, 1 paused and 1 without a conductor" in told[""]
    assert "Backlog paused 1 wait until a resume" in told["paused"]
    assert "Backlog no conductor 1 wait, and nobody claims them" in told["gone"]
    # Nothing of it has ended, but a conductor claims it; and what a program without a conductor claims.
    assert "Backlog - 1 wait; nothing finishes" in told["served"]
    assert "Backlog done in 20s 1 wait" in told["own"]
