"""The least rights that a board needs on Redis, as the documentation says them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "doc" / "backends" / "redis.rst"


def least_rights() -> str:
    """Return the rule of the documentation's ``user`` line, behind the password."""
    found = re.search(r"^ *user jobboard on >SECRET (.*?)\n\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, "the documentation shows no user line"
    return " ".join(found[1].replace("\\\n", " ").split())
