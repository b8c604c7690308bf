"""What most goals are measured by: the peers' scripts, rates of batches, and conductors that have nothing to do."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from benchmarks.goals.goal import BEFORE, Setting, Sides
from benchmarks.peers.environments import board_of
from benchmarks.peers.peer import JOBBOARD, Peer
from benchmarks.peers.report import Results
from benchmarks.peers.running import run_script
from benchmarks.space import Space
from benchmarks.stores import STORES
from jobboard import Conductor, Handlers, JobEvent

#: Conductors look more often just after they have started.
_SETTLE = 15.0


def scripts(
    store: str, extra: str, count: int, pings: int, beside: dict[str, float]
) -> Callable[[Setting], AbstractContextManager[Sides]]:
    """Measure as ``python -m benchmarks peers`` does: the board, and peers or the board of another checkout.

    :param count: how many jobs; 0 measures no rates.
    :param pings: how many jobs are picked up; 0 measures no pick-ups.
    :param beside: what share of the jobs each of them gets.
    """

    @contextmanager
    def sides(setting: Setting) -> Iterator[Sides]:
        with ExitStack() as stack:
            uri = stack.enter_context(STORES[store].space()).uri

            def side(peer: Peer, uri: str) -> Callable[[Results], None]:
                sizes = [str(setting.scaled(int(size)) if size else 0) for size in (count * peer.share, pings)]
                return partial(run_script, peer, store, [uri, *sizes], setting.core)

            found = {peer.name: side(peer, uri) for peer in (JOBBOARD, *_peers_of(store, beside))}
            if BEFORE in beside and setting.against is not None:
                # It may not read what this checkout writes.
                own = stack.enter_context(STORES[store].space()).uri
                found[BEFORE] = side(board_of(setting.against, extra), own)
            yield found

    return sides


def _peers_of(store: str, shares: dict[str, float]) -> Iterator[Peer]:
    if not shares.keys() - {BEFORE}:
        return
    for peer in importlib.import_module(f"benchmarks.peers.on_{store}").PEERS:
        if peer.name in shares:
            yield replace(peer, share=shares[peer.name])


def telling(what: str, measure: Callable[[], float]) -> Callable[[Results], None]:
    """Return a side of one figure."""
    return lambda results: results.values[what].append(measure())


@contextmanager
def idle_conductors(space: Space, count: int, listener: Callable[[JobEvent], None] | None = None) -> Iterator[None]:
    """Keep this many conductors waiting; their boards' events go to the listener."""
    handlers = Handlers()
    handlers.add("ping", lambda _job: None)
    with ExitStack() as stack:
        for number in range(count):
            board = stack.enter_context(space.open("idle"))
            if listener is not None:
                board.subscribe(listener)
            conductor = Conductor(f"idle-{number}", board, handlers)
            conductor.start()
            stack.callback(conductor.stop, drain=False)
        time.sleep(_SETTLE)
        yield


def a_second(read: Callable[[], float], seconds: float) -> float:
    """Return by how much a counter grows in a second, measured for this many seconds."""
    before, began = read(), time.monotonic()
    time.sleep(seconds)
    return (read() - before) / (time.monotonic() - began)
