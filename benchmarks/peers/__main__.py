"""``python -m benchmarks peers STORE``: measures other libraries and the board on one server, one after the other."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import NotInstalled, python_of
from benchmarks.peers.peer import Peer
from benchmarks.stores import STORES

_HERE = Path(__file__).parent
_LONGEST_RUN = 600

Results = dict[str, Any]


def main(words: list[str] | None = None) -> None:
    stores = sorted(folder.name.removeprefix("on_") for folder in _HERE.glob("on_*"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks peers", description=__doc__)
    parser.add_argument("store", choices=stores)
    parser.add_argument("--only", action="append", metavar="PEER", help="only this one; may be repeated")
    parser.add_argument("--count", type=int, default=5000, help="jobs to post and to drain")
    parser.add_argument("--pings", type=int, default=200, help="jobs to pick up")
    given = parser.parse_args(words)
    peers: list[Peer] = importlib.import_module(f"benchmarks.peers.on_{given.store}").PEERS
    unknown = set(given.only or ()) - {peer.name for peer in peers}
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(peer.name for peer in peers)}")
    store = STORES[given.store]
    print(f"# Python {platform.python_version()}, {platform.platform()}")
    if store.version is not None:
        print(f"# {store.version()}")
    table: dict[Peer, Results] = {}
    with store.space() as space:
        assert space.uri is not None, "peers are other processes"
        for peer in peers:
            if not given.only or peer.name in given.only:
                count = max(1, int(given.count * peer.share))
                table[peer] = _results_of(peer, given.store, space.uri, count, given.pings)
    _print_table(table)


def _results_of(peer: Peer, store: str, uri: str, count: int, pings: int) -> Results:
    folder = _HERE / f"on_{store}"
    try:
        python = python_of(peer, store)
    except NotInstalled as error:
        print(json.dumps({"peer": peer.name, "fault": f"not installed: {error}"}), flush=True)
        return {"version": f"not installed: {error}"}
    paths = [str(folder), str(_HERE)]
    if not peer.requirements:
        paths.append(str(_HERE.parent.parent))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, str(folder / peer.script), uri, str(count), str(pings)]
    results: Results = {}
    try:
        said = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=_LONGEST_RUN, check=False
        )
        output, fault = said.stdout, f"ended with {said.returncode}" if said.returncode else ""
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        fault = f"took longer than {_LONGEST_RUN} s"
    for line in output.splitlines():
        told = json.loads(line)
        results[told["what"]] = told["value"]
        print(json.dumps({"peer": peer.name, **told}), flush=True)
    if fault:
        print(json.dumps({"peer": peer.name, "fault": fault}), flush=True)
        results["fault"] = fault
    return results


_COLUMNS = {
    "post/s": "post one by one",
    "in 100s/s": "post in batches of 100",
    "drain/s": "drain",
    "p50 ms": "pick-up p50",
    "p99 ms": "pick-up p99",
}


def _print_table(table: dict[Peer, Results]) -> None:
    rows = [("peer", *_COLUMNS, "version", "one worker process")]
    for peer, results in table.items():
        figures = [_short(results.get(what)) for what in _COLUMNS.values()]
        version = str(results.get("version", "")) + (f" ({results['fault']})" if "fault" in results else "")
        rows.append((peer.name, *figures, version, peer.setting))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for peer, results in table.items():
        for what, value in results.items():
            if what not in {*_COLUMNS.values(), "version", "fault"}:
                print(f"{peer.name}: {what}: {_short(value)}")


def _short(value: Any) -> str:
    if not isinstance(value, (int, float)):
        return "-" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main(sys.argv[1:])
