"""The command line; needs the extra ``jobboard[cli]``."""

from __future__ import annotations

import gc
import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line, or say what it needs."""
    for name in ("click", "rich"):
        if find_spec(name) is None:
            print(f"jobboard: the command line needs {name}: pip install 'jobboard[cli]'", file=sys.stderr)
            sys.exit(2)
    try:
        from jobboard.cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    status = run()
    # Its end would look through all that was imported, several times: a third of the time of a short command.
    gc.freeze()
    sys.exit(status)
