"""Check the Lua scripts as they are sent, with their fragments put in: ``python .ci/lint_lua.py``.

Needs luacheck: ``apt-get install lua-check``, or ``luarocks install luacheck``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from jobboard.backends.redis.scripts import load_scripts

#: What Redis gives a script; and what includes leave over: functions and variables that this script does not need.
OPTIONS = [
    "--std", "lua51", "--globals", "KEYS", "ARGV", "redis", "cmsgpack", "--ignore", "211", "241",
    "--max-line-length", "120", "--no-color", "--quiet",
]  # fmt: skip


def main() -> int:
    """Return luacheck's verdict on all scripts."""
    program = shutil.which("luacheck")
    if program is None:
        sys.stderr.write(str(__doc__))
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for script in load_scripts().values():
            (Path(folder) / f"{script.name}.lua").write_bytes(script.source)
        return subprocess.run([program, *OPTIONS, folder], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
