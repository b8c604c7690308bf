"""Build the documentation without a warning, and ask its search for the field's words.

The argument is a folder for the documentation as HTML.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

#: What people look for, and a page that must come first.
SEARCHES = {
    "rate limit": "guides/limits",
    "throttle": "guides/limits",
    "tenant": "guides/limits",
    "debounce": "guides/producers",
    "arguments": "guides/producers",
    "queue": "guides/producers",
    "fan-in": "guides/dependencies",
    "workflow": "guides/durable-handlers",
    "cron": "guides/schedules",
    "dead letter": "guides/operators",
    "dead letters": "guides/operators",
    "exactly once": "guides/exactly-once",
    "worker": "guides/workers",
    "outbox": "guides/cookbook",
}


def main() -> int:
    folder = Path(sys.argv[1])
    # Everything is read anew (-E): a build in which no page has changed leaves the entries out of the search's index.
    build = [sys.executable, "-m", "sphinx", "-E", "-q", "-W", "-b", "html", "doc", str(folder)]
    if status := subprocess.run(build, check=False).returncode:
        return status
    index = json.loads((folder / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    missed = [words for words, page in SEARCHES.items() if page not in first_pages(index, words)]
    for words in missed:
        sys.stdout.write(
            f"a search for {words!r} must begin with {SEARCHES[words]}: write '.. index:: ! {words}' there\n"
        )
    return int(bool(missed))


def first_pages(index: dict[str, Any], words: str) -> set[str]:
    """Return the pages that the search lists before all others, by the rule of Sphinx's ``searchtools.js``.

    Main entries of the index (with a ``!``) come first: those with the words that have the fewest others beside them.
    """
    found: dict[int, set[str]] = {}
    for entry, places in index["indexentries"].items():
        if words in entry and len(words) >= len(entry) / 2:
            score = round(100 * len(words) / len(entry))
            found.setdefault(score, set()).update(
                index["docnames"][page] for page, _anchor, is_main in places if is_main
            )
    return next((pages for _score, pages in sorted(found.items(), reverse=True) if pages), set())


if __name__ == "__main__":
    sys.exit(main())
