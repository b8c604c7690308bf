"""Which files are below a directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


class Tree:
    """Walks a directory; names are bytes throughout, and paths begin as the directory was given.

    Links to directories are not followed; what is neither a file nor a link to one (sockets, pipes, devices) is
    counted in :attr:`skipped`, and directories that can't be listed are kept in :attr:`unreadable`.

    :param leave_out: a file that is not part of it: the one that the sums are written to.
    """

    def __init__(self, directory: str, leave_out: Path) -> None:
        self._directory = os.fsencode(directory)
        self._leave_out = os.path.realpath(os.fsencode(leave_out))
        self.skipped = 0
        self.unreadable: list[tuple[bytes, str]] = []

    def files(self) -> Iterator[bytes]:
        """Iterate over the paths, in order."""
        for directory, below, names in os.walk(self._directory, onerror=self._note):
            below.sort()
            for name in sorted(names):
                path = os.path.join(directory, name)
                if os.path.realpath(path) == self._leave_out:
                    continue
                if _is_file(path):
                    yield path
                else:
                    self.skipped += 1

    def _note(self, error: OSError) -> None:
        self.unreadable.append((os.fsencode(error.filename), error.strerror or str(error)))


def _is_file(path: bytes) -> bool:
    """A link that leads nowhere counts as a file: reading it fails, and that has to be seen."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True
