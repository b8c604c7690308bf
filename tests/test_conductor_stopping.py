"""What operators see of a conductor that stops, while it finishes what it runs."""

from __future__ import annotations

import threading

from jobboard import Conductor, Handlers, RunningJob
from jobboard.operate.overview import overview
from jobboard.operate.why import why
from jobboard.testing import eventually, memory_board


def test_a_conductor_that_stops_takes_no_further_job() -> None:
    begun, may_end = threading.Event(), threading.Event()
    handlers = Handlers()

    @handlers.handler("a")
    def hold(job: RunningJob) -> None:
        begun.set()
        may_end.wait(30)

    with memory_board() as board, Conductor("worker", board, handlers, concurrency=4) as conductor:
        board.post("a")
        assert begun.wait(30)
        stop = threading.Thread(target=conductor.stop)
        stop.start()
        assert eventually(lambda: [one.metadata["stopping"] for one in board.entities()] == [True], 30)
        assert [reason.kind for reason in why(board, board.post("a"))] == ["no_conductor"]
        assert overview(board).names[0].conductors == 0
        may_end.set()
        stop.join()
        assert board.entities() == []
