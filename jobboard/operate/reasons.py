"""What the reasons of trashed jobs have in common."""

from __future__ import annotations

import re

_ERROR_CLASS = re.compile(r"[A-Za-z_][\w.]*(?=: |$)")
_MAX_KIND = 100


def kind_of_reason(reason: str | None) -> str:
    """Return what a reason has in common with others: the class of its error, or its first line without numbers."""
    line = (reason or "").strip().partition("\n")[0]
    if not line:
        return "no reason"
    match = _ERROR_CLASS.match(line)
    return match.group() if match else re.sub(r"\d+", "#", line)[:_MAX_KIND]
