"""The files of the deployment page do what the page says, as far as a machine without a cluster can tell."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobboard import fetch
from jobboard.testing import eventually

DEPLOYMENT = Path(__file__).parent.parent / "doc" / "deployment"
HANDLERS = """
from jobboard import Handlers
handlers = Handlers()

@handlers.handler("resize")
def resize(job):
    pass
"""


def containers() -> dict[str, dict[str, Any]]:
    manifests = yaml.safe_load_all((DEPLOYMENT / "kubernetes.yaml").read_text())
    return {each["name"]: each for one in manifests for each in one["spec"]["template"]["spec"]["containers"]}


def start(name: str, folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Run a container's command with its environment, on any free port; return the process and the port."""
    container = containers()[name]
    program, *arguments = container["args"]
    assert program == "jobboard"
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    free = {name: "0" for name in environment if name.endswith("_PORT")}
    process = subprocess.Popen(
        [sys.executable, "-m", "jobboard", *arguments],
        cwd=folder,
        env={**os.environ, **environment, **free, "JOBBOARD_URI": f"sqlite:///{folder}/jobs.db"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://0\.0\.0\.0:(\d+)/", line):
            return process, int(found[1])
    raise AssertionError(f"it ended with {process.wait()}")


def get(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refused:
        return str(refused.read().decode())


def stop(process: subprocess.Popen[str], within: float) -> None:
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=within)
    assert process.returncode == 0, rest


def test_the_containers_of_kubernetes_work_and_stop_within_their_grace(tmp_path: Path) -> None:
    (tmp_path / "mywork").mkdir()
    (tmp_path / "mywork" / "jobs.py").write_text(HANDLERS)
    with fetch("orders", f"sqlite:///{tmp_path}/jobs.db") as board:
        board.post("resize")
        conductor, port = start("conductor", tmp_path)
        probes = [containers()["conductor"][kind]["httpGet"]["path"] for kind in ("livenessProbe", "readinessProbe")]
        # It answers before its handlers can run.
        eventually(lambda: [get(port, path) for path in probes] == ["ok\n", "ok\n"], within=30)
        eventually(lambda: board.job_count == 0, within=30)
        metrics, metrics_port = start("metrics", tmp_path)
        assert 'jobboard_slots{board="orders",state="all"} 8.0' in get(metrics_port, "/metrics")
        assert json.loads(get(metrics_port, "/scale?name=resize"))["wanted"] == 0
    stop(metrics, 30)
    stop(conductor, 30)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOYMENT / "conductor.service").read_text()
    unit = tmp_path / "conductor.service"
    # Its program and its user are the reader's.
    unit.write_text(re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", text).replace("User=mywork", "User=root"))
    try:
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("there is no systemd")
    complaints = [line for line in done.stderr.splitlines() if "conductor.service" in line]
    assert complaints == []
    drain, limit = re.search(r"JOBBOARD_DRAIN=(\d+)s", text), re.search(r"TimeoutStopSec=(\d+)", text)
    assert drain is not None
    assert limit is not None
    assert int(drain[1]) < int(limit[1])
    assert "\nStartLimitIntervalSec=0\n" in text, "while the store is away each start ends at once"


def test_all_start_the_same_command() -> None:
    docker = json.loads((DEPLOYMENT / "Dockerfile").read_text().split("CMD ")[1])
    unit = re.search(r"^ExecStart=\S+/(jobboard .*)$", (DEPLOYMENT / "conductor.service").read_text(), re.MULTILINE)
    assert unit is not None
    assert docker == shlex.split(unit[1])[:3] == containers()["conductor"]["args"][:3]
