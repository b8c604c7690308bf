"""Check the Lua scripts as they are sent, with their fragments included: ``python .ci/lint_lua.py``.

Needs luacheck: ``apt-get install lua-check``, or ``luarocks install luacheck``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from jobboard.backends.redis.scripts import Script, load_scripts

#: A loop that runs until something happens may never end, and block the server; a ``for`` is counted before.
UNBOUNDED = re.compile(r"\b(while|repeat)\b")
#: Where a script begins anew as one function, whose end the loader appends, and what names a variable of it.
FUNCTION = re.compile(r"^return \(function\(\)$", re.MULTILINE)
LOCALS = re.compile(r"^local (?:function )?([\w, \n]*?)(?= =|\(|$)", re.MULTILINE)
#: Lua compiles no function with more, and luacheck does not count.
MOST_LOCALS = 200
LITERAL = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|--.*")

#: Redis gives a script four globals; an include may define functions and variables that this script does not use.
OPTIONS = "--std lua51 --globals KEYS ARGV redis cmsgpack --ignore 211 241 --max-line-length 120 --no-color --quiet"


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
    crowded = [f"{script.name}.lua: {count}" for script in scripts if (count := locals_of(script)) > MOST_LOCALS]
    if crowded:
        sys.stderr.write(
            f"more than {MOST_LOCALS} variables of one function; wrap some in one:\n{'; '.join(crowded)}\n"
        )
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for script in scripts:
            (Path(folder) / f"{script.name}.lua").write_bytes(script.source)
        return subprocess.run([program, *OPTIONS.split(), folder], check=False).returncode


def unbounded(name: str, source: str) -> list[str]:
    """Return the lines that begin a loop by ``while`` or ``repeat``."""
    return [
        f"{name}.lua, as it is sent, line {number}: {line.strip()}"
        for number, line in enumerate(source.splitlines(), 1)
        if UNBOUNDED.search(LITERAL.sub("", line))
    ]


def locals_of(script: Script) -> int:
    """Return how many variables the fullest function at the top of a script has."""
    parts = FUNCTION.split(script.source.decode())
    return max(sum(len(names.split(",")) for names in LOCALS.findall(part)) for part in parts)


if __name__ == "__main__":
    raise SystemExit(main())
