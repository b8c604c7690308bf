"""``python -m benchmarks peers STORE``: measures other libraries and the board on one server, in turn."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.environments import NotInstalled, python_of, variables_of
from benchmarks.peers.peer import Peer
from benchmarks.peers.report import Results, Table, print_table
from benchmarks.stores import STORES

_HERE = Path(__file__).parent
_RUN_TIMEOUT = 600


def main(words: list[str] | None = None) -> None:
    given = _parser().parse_args(words)
    peers: list[Peer] = importlib.import_module(f"benchmarks.peers.on_{given.store}").PEERS
    unknown = set(given.only or ()) - {peer.name for peer in peers}
    if unknown:
        there_are = ", ".join(peer.name for peer in peers)
        raise SystemExit(f"no such peer: {', '.join(sorted(unknown))}; there are {there_are}")
    if given.chart is not None and importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("--chart needs matplotlib: pip install matplotlib")
    store = STORES[given.store]
    print(f"# Python {platform.python_version()}, {platform.platform()}")
    if store.version is not None:
        print(f"# {store.version()}")
    table: Table = {peer: Results() for peer in peers if not given.only or peer.name in given.only}
    with store.space() as space:
        assert space.uri is not None, "peers are other processes"
        for _ in range(given.rounds):
            for peer, results in table.items():
                count = max(1, int(given.count * peer.share))
                _measure(peer, given.store, [space.uri, str(count), str(given.pings)], given.core, results)
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


def _measure(peer: Peer, store: str, words: list[str], core: str | None, results: Results) -> None:
    """Run a peer's script once, and add what it tells."""
    try:
        python = python_of(peer, store)
    except NotInstalled as error:
        results.fault = f"not installed: {error}"
        print(json.dumps({"peer": peer.name, "fault": results.fault}), flush=True)
        return
    command = [python, str(_HERE / f"on_{store}" / peer.script), *words]
    if core is not None:
        taskset = shutil.which("taskset")
        if taskset is None:
            raise SystemExit("--core needs the program taskset")
        command = [taskset, "-c", core, *command]
    environment = {**os.environ, **variables_of(peer, store)}
    fault = ""
    try:
        said = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=_RUN_TIMEOUT, check=False
        )
        output, fault = said.stdout, f"ended with {said.returncode}" if said.returncode else ""
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        fault = f"took longer than {_RUN_TIMEOUT} s"
    for line in output.splitlines():
        told = json.loads(line)
        print(json.dumps({"peer": peer.name, **told}), flush=True)
        if told["what"] == "version":
            results.version = told["value"]
        else:
            results.values[told["what"]].append(told["value"])
    if fault:
        results.fault = fault
        print(json.dumps({"peer": peer.name, "fault": fault}), flush=True)


if __name__ == "__main__":
    main()
