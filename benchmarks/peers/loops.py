"""``python -m benchmarks loops STORE``: the guide's loop, by one worker, on TaskFlow's board and on this one."""

from __future__ import annotations

import argparse
import importlib
import platform

from benchmarks.peers.report import Results, Table, print_figures
from benchmarks.peers.running import run_script
from benchmarks.stores import STORES


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks loops", description=__doc__)
    parser.add_argument("store", choices=["etcd", "redis", "zookeeper"])
    parser.add_argument("--count", type=int, default=1000, help="jobs to work through (1000)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured, in turn (5)")
    parser.add_argument("--core", help="the processor that the worker uses; the server has the others")
    given = parser.parse_args(words)
    store = STORES[given.store]
    print(f"# Python {platform.python_version()}, {platform.platform()}")
    if store.version is not None:
        print(f"# {store.version()}")
    peers = importlib.import_module(f"benchmarks.peers.on_{given.store}").PEERS
    table: Table = {peer: Results() for peer in peers if peer.name in ("jobboard", "TaskFlow")}
    with store.space() as space:
        assert space.uri is not None, "peers are other processes"
        for _ in range(given.rounds):
            for peer, results in table.items():
                run_script(peer, given.store, ["loop", space.uri, str(given.count)], given.core, results)
    print_figures(table)
