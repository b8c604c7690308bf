"""Prometheus' own tool reads what is scraped, and the rules in the documentation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from jobboard import Conductor, Handlers, fetch, telemetry
from jobboard.telemetry.prometheus import PrometheusRecorder
from jobboard.testing import eventually

MONITORING = Path(__file__).parent.parent / "doc" / "monitoring"


def promtool(*arguments: str, given: bytes = b"") -> str:
    done = subprocess.run(["promtool", *arguments], input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout.decode() + done.stderr.decode()


def test_the_alert_rules_are_sound() -> None:
    assert "SUCCESS: 12 rules found" in promtool("check", "rules", str(MONITORING / "alerts.yaml"))


def test_the_gauges_of_a_board_are_sound(tmp_path: Path) -> None:
    board = ["-m", "jobboard", "--board", f"sqlite:///{tmp_path}/jobs.db"]
    subprocess.run([sys.executable, *board, "post", "resize"], check=True, capture_output=True, timeout=60)
    scrape = subprocess.run([sys.executable, *board, "metrics"], check=True, capture_output=True, timeout=60)
    assert b'jobboard_jobs{board="jobs",name="resize",state="unclaimed"} 1.0' in scrape.stdout
    assert promtool("check", "metrics", given=scrape.stdout) == ""


def test_the_counters_of_a_process_are_sound() -> None:
    registry, handlers = CollectorRegistry(), Handlers()
    handlers.add("resize", lambda job: None)
    remove = telemetry.add(PrometheusRecorder(registry))
    try:
        with fetch("of metrics", "memory://") as board:
            board.post("resize")
            conductor = Conductor("crew", board, handlers)
            conductor.start()
            eventually(lambda: b"jobboard_ended_total{" in generate_latest(registry))
            assert conductor.stop()
    finally:
        remove()
    assert promtool("check", "metrics", given=generate_latest(registry)) == ""
