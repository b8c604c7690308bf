"""``python -m benchmarks peers STORE``: measures other libraries and the board on one server, in turn."""

from __future__ import annotations

import argparse
import importlib
import platform
from pathlib import Path

from benchmarks.curves import check_chart
from benchmarks.peers.peer import Peer
from benchmarks.peers.report import Results, Table, print_table
from benchmarks.peers.running import run_script
from benchmarks.stores import STORES

_HERE = Path(__file__).parent


def main(words: list[str] | None = None) -> None:
    given = _parser().parse_args(words)
    package = importlib.import_module(f"benchmarks.peers.on_{given.store}")
    peers: list[Peer] = package.PEERS
    unknown = set(given.only or ()) - {peer.name for peer in peers}
    if unknown:
        there_are = ", ".join(peer.name for peer in peers)
        raise SystemExit(f"no such peer: {', '.join(sorted(unknown))}; there are {there_are}")
    check_chart(given.chart)
    store = STORES[getattr(package, "STORE", given.store)]
    print(f"# Python {platform.python_version()}, {platform.platform()}")
    if store.version is not None:
        print(f"# {store.version()}")
    table: Table = {peer: Results() for peer in peers if not given.only or peer.name in given.only}
    with store.space() as space:
        assert space.uri is not None, "peers are other processes"
        for _ in range(given.rounds):
            for peer, results in table.items():
                count = max(1, int(given.count * peer.share))
                run_script(peer, given.store, [space.uri, str(count), str(given.pings)], given.core, results)
    print_table(table)
    if given.chart is not None:
        from benchmarks.peers.charts import draw

        draw(table, f"{given.store}: medians of {given.rounds} rounds in turn, and quartiles", given.chart)


def _parser() -> argparse.ArgumentParser:
    stores = sorted(folder.name.removeprefix("on_") for folder in _HERE.glob("on_*"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("store", choices=stores)
    parser.add_argument("--only", action="append", metavar="PEER", help="only this one; may be repeated")
    parser.add_argument("--count", type=int, default=5000, help="jobs to post and to drain (5000)")
    parser.add_argument("--pings", type=int, default=200, help="jobs to pick up (200)")
    parser.add_argument("--rounds", type=int, default=1, help="how often each is measured, one after the other (1)")
    parser.add_argument("--core", help="the processor that posters and workers share; the server has the others")
    parser.add_argument(
        "--chart", type=Path, metavar="FILE", help="draw the table, such as peers.svg; needs matplotlib"
    )
    return parser


if __name__ == "__main__":
    main()
