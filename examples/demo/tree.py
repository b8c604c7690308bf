"""Which files are below a directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


class Tree:
    """Walks a directory; names are bytes throughout, and paths begin as the directory was given.

    A link to a file stands for the file. Links to directories are not followed; they, and what is no file (sockets,
    pipes, devices), are counted in :attr:`skipped`. Directories that can't be listed are kept in :attr:`unreadable`.

    :param leave_out: a file that is not part of it: the one that the sums are written to.
    """

    def __init__(self, directory: str, leave_out: Path) -> None:
        self._directory = os.fsencode(directory)
        self._leave_out = os.fsencode(leave_out)
        self.skipped = 0
        self.unreadable: list[tuple[bytes, str]] = []

    def files(self) -> Iterator[bytes]:
        """Iterate over the paths, in order."""
        for directory, below, names in os.walk(self._directory, onerror=self._note):
            below.sort()
            self.skipped += sum(os.path.islink(os.path.join(directory, name)) for name in below)
            for path in (os.path.join(directory, name) for name in sorted(names)):
                if not _is_file(path):
                    self.skipped += 1
                elif not self._is_left_out(path):
                    yield path

    def _note(self, error: OSError) -> None:
        self.unreadable.append((os.fsencode(error.filename), error.strerror or str(error)))

    def _is_left_out(self, path: bytes) -> bool:
        try:
            if not os.path.samefile(path, self._leave_out):
                return False
        except OSError:
            return False
        # Another hard link of it is a file of its own: a new output leaves it as it is.
        return os.path.realpath(path) == os.path.realpath(self._leave_out)


def _is_file(path: bytes) -> bool:
    """A link that leads nowhere counts as a file: reading it fails, and that has to be seen."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True
