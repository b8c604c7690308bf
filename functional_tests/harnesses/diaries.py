"""Files to which several processes append lines, while a test reads them."""

from __future__ import annotations

from pathlib import Path


def whole_lines(diary: Path) -> list[str]:
    """Return the lines but for one that is only begun: a reader may see a part of what goes across two pages."""
    return diary.read_text().rpartition("\n")[0].splitlines() if diary.exists() else []
