"""What the reasons of trashed jobs have in common."""

from __future__ import annotations

import re

_ERROR_CLASS = re.compile(r"[A-Za-z_][\w.]*(?=: |$)")
#: What lifecycle writes before the reason of the last attempt.
_USED_UP = re.compile(r"all \d+ attempts are used up; the last: ")
_MAX_KIND = 100


def kind_of_reason(reason: str | None) -> str:
    """Return what a reason has in common with others: the class of its error, or its first line without numbers."""
    line = _USED_UP.sub("", (reason or "").strip().partition("\n")[0])
    if not line:
        return "no reason"
    match = _ERROR_CLASS.match(line)
    return match.group() if match else re.sub(r"\d+", "#", line)[:_MAX_KIND]
