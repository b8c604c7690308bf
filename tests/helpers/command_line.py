"""How tests run the command line as users do, and read what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Run = Callable[..., str]


def as_json(text: str) -> Any:
    return json.loads(text)


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command line as users do."""
    command = [sys.executable, "-m", "jobboard", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(command, text=True, timeout=60, check=False, **{**pipes, **options})
