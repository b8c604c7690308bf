"""The format that ``sha256sum -c`` reads."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from jobboard.errors import JobBoardError

_ESCAPES = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\r", b"\\r"))


def line_of(digest: str, path: bytes) -> bytes:
    """Return one line; as GNU coreutils do it, it begins with a backslash if the name had to be escaped."""
    escaped = path
    for character, escape in _ESCAPES:
        escaped = escaped.replace(character, escape)
    mark = b"\\" if escaped != path else b""
    return mark + digest.encode() + b"  " + escaped + b"\n"


def check_output(file: Path) -> None:
    """Raise ``JobBoardError`` for what can't be written to: better now than after the work."""
    directory = file.absolute().parent
    if file.is_dir():
        raise JobBoardError(f"{file} is a directory; name a file to write to")
    if not directory.is_dir():
        raise JobBoardError(f"there is no directory {directory} to write to")
    if not os.access(file if _is_written_in_place(file) and file.exists() else directory, os.W_OK):
        raise JobBoardError(f"{file} can't be written to; name another with -o")


def write_sums(file: Path, lines: Iterable[bytes]) -> None:
    """Write a file as a whole, or not at all; through links, and to what is no file (``/dev/stdout``), as it comes."""
    if _is_written_in_place(file):
        with file.open("wb") as stream:
            stream.writelines(lines)
        return
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=".jobboard-demo-")
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


def _is_written_in_place(file: Path) -> bool:
    return file.is_symlink() or (file.exists() and not stat.S_ISREG(file.stat().st_mode))
