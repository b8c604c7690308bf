"""Runs a peer's script in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.environments import NotInstalled, python_of, variables_of
from benchmarks.peers.peer import Peer
from benchmarks.peers.report import Results

_HERE = Path(__file__).parent
_RUN_TIMEOUT = 600


def command_of(peer: Peer, store: str, words: list[str]) -> list[str]:
    """Return the command of a peer's script.

    :raises NotInstalled: its packages can't be had.
    """
    return [python_of(peer, store), os.path.normpath(_HERE / f"on_{store}" / peer.script), *words]


def environment_of(peer: Peer, store: str) -> dict[str, str]:
    """Return the environment in which a peer's script finds what it imports."""
    return {**os.environ, **variables_of(peer, store)}


def run_script(peer: Peer, store: str, words: list[str], core: str | None, results: Results) -> None:
    """Run a peer's script once, and add what it tells."""
    try:
        command = command_of(peer, store, words)
    except NotInstalled as error:
        results.fault = f"not installed: {error}"
        print(json.dumps({"peer": peer.name, "fault": results.fault}), flush=True)
        return
    if core is not None:
        taskset = shutil.which("taskset")
        if taskset is None:
            raise SystemExit("--core needs the program taskset")
        command = [taskset, "-c", core, *command]
    fault = ""
    try:
        said = subprocess.run(
            command,
            env=environment_of(peer, store),
            stdout=subprocess.PIPE,
            text=True,
            timeout=_RUN_TIMEOUT,
            check=False,
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
