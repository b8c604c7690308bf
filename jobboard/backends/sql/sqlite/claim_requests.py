"""Claim requests of waiters: a poster takes one, and claims for its owner in the same transaction.

Each owner has two FIFOs in a folder beside the file: one holds the request until somebody takes it, the other brings
the answers. To take a request is to read it, which one reader can; only transactions that write take some, and they
follow one another. The owner withdraws a request by reading it. It vanishes with its process, since a FIFO that
nobody has open is empty. Answers carry jobs, so only those may use the FIFOs who may write to the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from jobboard.backends.rows import ClaimRequest
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.sqlite.notifications import FLAGS, share

#: How many requests are looked at to find one that suits.
MAX_LOOKED_AT = 8
#: More seconds than the clock by which a file system dates its changes takes to move on.
_MAX_TICK = 2.0
_REQUEST, _ANSWERS = ".request", ".answers"
#: What is written at once, and read at once.
_LARGEST = select.PIPE_BUF
#: The answer that says nothing: its reader looks for itself.
_LOOK: bytes = msgpack.packb(None)


_KINDS: tuple[Any, ...] = (int, (list, type(None)), str, str, (int, float), (int, float))


class StandingRequest(NamedTuple):
    """A wish to own one job of a board.

    :param names: of which names; None: of any.
    :param until: the store's time after which its owner no longer relies on it.
    """

    board: int
    names: list[str] | None
    who: str
    claim_id: str
    expiry: float
    until: float

    @property
    def claim(self) -> ClaimRequest:
        return ClaimRequest(self.who, self.claim_id, self.expiry)

    def check(self) -> None:
        """Raise ``TypeError`` for what nobody writes."""
        for value, kinds in zip(self, _KINDS, strict=True):
            if not isinstance(value, kinds):
                raise TypeError("not a claim request")
        if not all(isinstance(name, str) for name in self.names or ()):
            raise TypeError("not a claim request")


class TakenRequest:
    """A request that nobody else can take, in the transaction that has taken it."""

    def __init__(self, path: str, request: StandingRequest) -> None:
        self._path = path
        self.request = request
        self._announced_to: int | None = None

    def put_back(self) -> None:
        """Let it stand again."""
        if (fd := self._open(_REQUEST)) is not None:
            _write(fd, msgpack.packb(self.request))
            os.close(fd)

    def announce(self, row: Row) -> None:
        """Say what is claimed if this transaction commits: the owner reads it while this one waits for the disk."""
        data = msgpack.packb([self.request.claim_id, row])
        if len(data) <= _LARGEST and (fd := self._open(_ANSWERS)) is not None:
            self._announced_to = fd
            _write(fd, data)

    def answer(self, *, is_committed: bool) -> None:
        """Say that what was announced is committed; or that the owner is to look for itself."""
        fd = self._open(_ANSWERS) if self._announced_to is None else self._announced_to
        if fd is not None:
            _write(fd, msgpack.packb(self.request.claim_id) if is_committed else _LOOK)
            os.close(fd)

    def _open(self, kind: str) -> int | None:
        try:
            return os.open(self._path + kind, os.O_WRONLY | FLAGS)
        except OSError:
            # He is gone.
            return None


def _write(fd: int, data: bytes) -> None:
    # An owner that hears nothing finds the commit by itself.
    with contextlib.suppress(OSError):
        os.write(fd, data)


class _Folder:
    def __init__(self, file: Path) -> None:
        self._file = file.resolve()
        self.path = f"{self._file}-waiting"
        self._version: tuple[int, int, int] | None = None
        self._requests: list[str] = []

    def make(self) -> None:
        """Make it unless it is there; raises ``OSError`` if it is, or would be, another user's than the file."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
            os.close(share(fd, self._file, lambda mode: (mode & 0o222) // 2 * 7))
        if not self.is_ours():
            raise PermissionError(self.path)

    def is_ours(self) -> bool:
        """Whether it has the file's owner: in a directory that many may write to, anybody could have made it."""
        return os.lstat(self.path).st_uid == os.stat(self._file).st_uid

    def requests(self) -> list[str]:
        """Return the paths of some requests, without their endings; for one thread at a time.

        The folder is read only when it has changed, since that takes several times as long as to look whether it has.
        """
        found = os.lstat(self.path)
        version = found.st_ino, found.st_uid, found.st_mtime_ns
        if version != self._version:
            # A change in the same tick of the file system's clock as the last one leaves the version as it is.
            is_stable = time.time() - found.st_mtime > _MAX_TICK
            names = os.listdir(self.path) if self.is_ours() else []
            asked = [f"{self.path}/{name.removesuffix(_REQUEST)}" for name in names if name.endswith(_REQUEST)]
            self._requests, self._version = asked[:MAX_LOOKED_AT], version if is_stable else None
        return self._requests

    def make_fifo(self, path: str) -> int:
        """Return a FIFO, open; under its own name nobody finds it before it is."""
        draft = f"{path}-new"
        os.mkfifo(draft, 0o600)
        try:
            fd = os.open(draft, os.O_RDWR | FLAGS)
        except OSError:
            os.unlink(draft)
            raise
        share(fd, self._file, lambda mode: (mode & 0o222) * 3)
        os.rename(draft, path)
        return fd

    def sweep(self) -> None:
        """Delete the FIFOs of those who were killed: nobody has them open."""
        for name in os.listdir(self.path):
            if name.endswith((_REQUEST, _ANSWERS)):
                path = f"{self.path}/{name}"
                try:
                    os.close(os.open(path, os.O_WRONLY | FLAGS))
                except OSError as error:
                    if error.errno == errno.ENXIO:
                        os.unlink(path)


class ClaimRequests:
    """The requests that stand beside one file."""

    def __init__(self, file: Path) -> None:
        self._folder = _Folder(file)

    def take(self) -> Iterator[TakenRequest]:
        """Take some, one after the other, each to be used or put back; only in a transaction that writes."""
        try:
            paths = self._folder.requests()
        except OSError:
            return
        for path in paths:
            try:
                request = StandingRequest(*msgpack.unpackb(_read(path)))
                request.check()
            except (OSError, ValueError, TypeError):
                # It is taken, withdrawn, another user's, or garbage.
                continue
            yield TakenRequest(path, request)


def _read(path: str) -> bytes:
    fd = os.open(path + _REQUEST, os.O_RDONLY | FLAGS)
    try:
        data = os.read(fd, _LARGEST)
    finally:
        os.close(fd)
    if not data:
        # Its owner was killed, or it would be open for writing.
        for kind in (_REQUEST, _ANSWERS):
            os.unlink(path + kind)
    return data


class RequestFifos:
    """The two FIFOs of a waiter, which anything that is written to the second wakes.

    :raises OSError: there can be none.
    """

    def __init__(self, file: Path) -> None:
        if sys.platform != "linux":
            raise OSError("elsewhere a FIFO that one process reads and writes has no meaning")
        self._folder = _Folder(file)
        self._path = f"{self._folder.path}/{uuid.uuid4().hex}"
        try:
            self._open()
        except FileNotFoundError:
            # The last waiter has just deleted the folder.
            self._open()
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        self._unpacker = msgpack.Unpacker()
        # Of two numbers of files: one that is closed may be another file's next.
        self._lock = threading.Lock()
        self._is_closed = False

    def _open(self) -> None:
        self._folder.make()
        self._folder.sweep()
        self._answers = self._folder.make_fifo(self._path + _ANSWERS)
        try:
            self._request = self._folder.make_fifo(self._path + _REQUEST)
        except OSError:
            # The next waiter deletes what is left of it.
            os.close(self._answers)
            raise

    def put(self, request: StandingRequest) -> bool:
        """Let a request stand; False if it is too large."""
        data = msgpack.packb(request)
        return len(data) <= _LARGEST and os.write(self._request, data) > 0

    def withdraw(self) -> bool:
        """Whether the request still stood; it does no longer."""
        try:
            return bool(os.read(self._request, _LARGEST))
        except BlockingIOError:
            return False

    def wait(self, seconds: float) -> None:
        """Sleep until there is an answer."""
        self._poll.poll(seconds * 1000)

    def wake(self) -> None:
        """End the present or the next sleep; from any thread."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if not self._is_closed:
                os.write(self._answers, _LOOK)

    def answers(self) -> list[Any]:
        """Return all that came.

        A list of a claim id and a row announces a claim, its claim id alone says that it is committed, and anything
        else says nothing.
        """
        try:
            self._unpacker.feed(os.read(self._answers, 1 << 16))
            return list(self._unpacker)
        except BlockingIOError:
            return []
        except ValueError:
            # Somebody else has written to it.
            self._unpacker = msgpack.Unpacker()
            return [None]

    def close(self) -> None:
        """Delete them, and the folder after the last ones."""
        for path in (self._path + _REQUEST, self._path + _ANSWERS):
            with contextlib.suppress(OSError):
                os.unlink(path)
        with contextlib.suppress(OSError):
            os.rmdir(self._folder.path)
        with self._lock:
            self._is_closed = True
            os.close(self._request)
            os.close(self._answers)
