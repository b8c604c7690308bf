"""The format that ``sha256sum -c`` reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

_ESCAPES = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\r", b"\\r"))


def line_of(digest: str, path: bytes) -> bytes:
    """Return one line; as GNU coreutils do it, it begins with a backslash if the name had to be escaped."""
    escaped = path
    for character, escape in _ESCAPES:
        escaped = escaped.replace(character, escape)
    mark = b"\\" if escaped != path else b""
    return mark + digest.encode() + b"  " + escaped + b"\n"


def write_sums(file: Path, lines: Iterable[bytes]) -> None:
    """Write the file as a whole, or not at all."""
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.writelines(lines)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise
