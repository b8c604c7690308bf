"""Runs the same arrivals without limits and with them; many arrivals at the same time, in two processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection

from jobboard.limit import Limit
from jobboard.simulation.arrivals import Arrival
from jobboard.simulation.report import Comparison
from jobboard.simulation.run import Slots, Step, run
from jobboard.simulation.tally import Outcome

#: From so many arrivals on a second process is worth its start.
_MANY = 20_000


def compare(arrivals: Sequence[Arrival], limits: Sequence[Limit], slots: Sequence[Slots], step: Step) -> Comparison:
    """Run arrivals without the limits and with them; arguments as of :func:`~jobboard.simulation.run.run`.

    :param step: is told of the run with the limits only.
    :raises RuntimeError: the second process was killed.
    """
    if len(arrivals) < _MANY:
        return Comparison(run(arrivals, [], slots, _say_nothing), run(arrivals, limits, slots, step))
    # A fork would copy the threads of a progress bar halfway through whatever they do.
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_send, args=(sender, arrivals, slots), daemon=True)
    process.start()
    sender.close()
    try:
        limited = run(arrivals, limits, slots, step)
        without: Outcome = receiver.recv()
    except EOFError:
        raise RuntimeError("the process that ran the arrivals without the limits has ended before its time") from None
    finally:
        process.terminate()
        process.join()
    return Comparison(without, limited)


def _run_and_send(sender: Connection, arrivals: Sequence[Arrival], slots: Sequence[Slots]) -> None:
    # The parent is told of Ctrl-C, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sender.send(run(arrivals, [], slots, _say_nothing))


def _say_nothing(_: int) -> None:
    """Nobody looks at the progress of this run."""
