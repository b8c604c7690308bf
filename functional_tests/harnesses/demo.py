"""How the tests run the demo: as ``bin/demo`` does, on the installed jobboard."""

from __future__ import annotations

import os
import sys
from pathlib import Path

COMMAND = [sys.executable, "-P", "-m", "demo"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent / "examples")}
