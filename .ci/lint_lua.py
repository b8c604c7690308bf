"""Check the Lua scripts as they are sent, with their fragments put in: ``python .ci/lint_lua.py``.

Needs luacheck: ``apt-get install lua-check``, or ``luarocks install luacheck``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from jobboard.backends.redis.scripts import load_scripts

#: A loop that goes on until something happens may go on for ever, and the server with it. A ``for`` is counted before.
UNBOUNDED = re.compile(r"\b(while|repeat)\b")
LITERAL = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|--.*")

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
    scripts = load_scripts().values()
    endless = [found for script in scripts for found in unbounded(script.name, script.source.decode())]
    if endless:
        sys.stderr.write(
            "a loop whose count is not known before it begins; make it a for:\n" + "\n".join(endless) + "\n"
        )
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for script in scripts:
            (Path(folder) / f"{script.name}.lua").write_bytes(script.source)
        return subprocess.run([program, *OPTIONS, folder], check=False).returncode


def unbounded(name: str, source: str) -> list[str]:
    """Return the lines that begin a loop by ``while`` or ``repeat``."""
    return [
        f"{name}.lua, as it is sent, line {number}: {line.strip()}"
        for number, line in enumerate(source.splitlines(), 1)
        if UNBOUNDED.search(LITERAL.sub("", line))
    ]


if __name__ == "__main__":
    raise SystemExit(main())
