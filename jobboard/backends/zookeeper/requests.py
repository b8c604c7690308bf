"""Requests that ZooKeeper knows and kazoo does not offer: many reads in one request (since ZooKeeper 3.6), and a
transaction whose results are numbers and stats instead of exceptions.

kazoo's own transaction makes an object for each part and an exception for each part that failed; kazoo has no request
that reads many znodes. :mod:`~jobboard.backends.zookeeper.kazoo_internals` sends these requests, or the same by kazoo's
public methods.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

_INT = struct.Struct("!i")
_HEADER = struct.Struct("!iBi")
#: A header, and the length of the path that follows it.
_PART = struct.Struct("!iBii")
_STAT = struct.Struct("!qqqqiiiqiiq")
_END = _HEADER.pack(-1, 1, -1)

_CREATE, _DELETE, _GET, _SET, _CHILDREN, _CHECK, _MULTI, _MULTI_READ = 1, 2, 4, 5, 8, 13, 14, 22

#: Codes of errors, as the server sends them for one part of a request.
ROLLED_BACK, INCONSISTENT, NO_NODE, NO_AUTH, BAD_VERSION, NODE_EXISTS, NOT_EMPTY = 0, -2, -101, -102, -103, -110, -111


class Stat(NamedTuple):
    """A znode's stat, under the server's names."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeralOwner: int
    dataLength: int
    numChildren: int
    pzxid: int

    @property
    def creations(self) -> int:
        """How many children were ever created here, which is the number that the next sequential one gets."""
        # The server shows twice the number of creations, less the number of children.
        return ((self.cversion + self.numChildren) % (1 << 32)) // 2


class Data(NamedTuple):
    """What a read of a znode found."""

    data: bytes
    stat: Stat


class MultiRead:
    """Many reads in one request; for each path its :class:`Data`, its children, or None if it is not there.

    :param root: the client's chroot.
    """

    type = _MULTI_READ
    __slots__ = ("_parts", "_root", "operations", "refusal")

    def __init__(self, root: str) -> None:
        self._root = root
        self._parts: list[bytes] = []
        #: The same reads as methods of kazoo's client, and their paths.
        self.operations: list[tuple[str, str]] = []
        #: The code of an error that was none of "there is no such znode".
        self.refusal: int | None = None

    def get(self, path: str) -> None:
        self._add(_GET, path)
        self.operations.append(("get", path))

    def children(self, path: str) -> None:
        self._add(_CHILDREN, path)
        self.operations.append(("get_children", path))

    def _add(self, kind: int, path: str) -> None:
        name = (self._root + path).encode()
        self._parts.append(_PART.pack(kind, 0, -1, len(name)) + name + b"\0")

    def serialize(self) -> bytes:
        return b"".join(self._parts) + _END

    def deserialize(self, reply: bytes, offset: int) -> list[Any]:
        answers: list[Any] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(reply, offset)
            offset += _HEADER.size
            if done:
                return answers
            if kind == _GET:
                data, offset = _buffer(reply, offset)
                answers.append(Data(data, Stat._make(_STAT.unpack_from(reply, offset))))
                offset += _STAT.size
            elif kind == _CHILDREN:
                names, offset = _names(reply, offset)
                answers.append(names)
            else:
                (code,) = _INT.unpack_from(reply, offset)
                offset += _INT.size
                if code != NO_NODE:
                    self.refusal = code
                answers.append(None)


def _buffer(reply: bytes, offset: int) -> tuple[bytes, int]:
    (length,) = _INT.unpack_from(reply, offset)
    offset += _INT.size
    if length <= 0:
        return b"", offset
    return bytes(reply[offset : offset + length]), offset + length


def _names(reply: bytes, offset: int) -> tuple[list[str], int]:
    (count,) = _INT.unpack_from(reply, offset)
    offset += _INT.size
    names = []
    for _ in range(count):
        name, offset = _buffer(reply, offset)
        names.append(name.decode())
    return names, offset


class Multi:
    """A transaction; for each part the name of what was created, the :class:`Stat` of what was set, or True.

    If it did not happen, for each part the code of an error.

    :param root: the client's chroot.
    :param acl: that of what is created, as kazoo has it.
    """

    type = _MULTI
    __slots__ = ("_acl", "_packed_acl", "_parts", "_root", "operations", "size")

    def __init__(self, root: str, acl: Sequence[Any]) -> None:
        self._root = root
        self._acl = tuple(acl)
        self._packed_acl = pack_acl(self._acl)
        self._parts: list[bytes] = []
        #: The same parts as methods of kazoo's transaction, and their arguments.
        self.operations: list[tuple[Any, ...]] = []
        #: How many bytes it has so far.
        self.size = len(_END)

    def create(self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False) -> int:
        self.operations.append(("create", path, data, self._acl, ephemeral, sequential))
        flags = ephemeral + 2 * sequential
        return self._add(_CREATE, path, _INT.pack(len(data)) + data + self._packed_acl + _INT.pack(flags))

    def set(self, path: str, data: bytes, version: int = -1) -> int:
        self.operations.append(("set_data", path, data, version))
        return self._add(_SET, path, _INT.pack(len(data)) + data + _INT.pack(version))

    def delete(self, path: str, version: int = -1) -> int:
        self.operations.append(("delete", path, version))
        return self._add(_DELETE, path, _INT.pack(version))

    def check(self, path: str, version: int = -1) -> int:
        self.operations.append(("check", path, version))
        return self._add(_CHECK, path, _INT.pack(version))

    def _add(self, kind: int, path: str, rest: bytes) -> int:
        """Add a part, and return its place."""
        name = (self._root + path).encode()
        part = _PART.pack(kind, 0, -1, len(name)) + name + rest
        self._parts.append(part)
        self.size += len(part)
        return len(self._parts) - 1

    def serialize(self) -> bytes:
        return b"".join(self._parts) + _END

    def deserialize(self, reply: bytes, offset: int) -> list[Any]:
        answers: list[Any] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(reply, offset)
            offset += _HEADER.size
            if done:
                return answers
            if kind == _CREATE:
                name, offset = _buffer(reply, offset)
                answers.append(name)
            elif kind == _SET:
                answers.append(Stat._make(_STAT.unpack_from(reply, offset)))
                offset += _STAT.size
            elif kind == -1:
                answers.append(_INT.unpack_from(reply, offset)[0])
                offset += _INT.size
            else:
                answers.append(True)


def fault_in(answers: Sequence[Any]) -> tuple[int, int] | None:
    """Return the place and the code of what kept a transaction from happening; None if it happened.

    The parts before it say that they were rolled back, those behind it that they were not tried.
    """
    codes = [(place, answer) for place, answer in enumerate(answers) if type(answer) is int]
    if not codes:
        return None
    return next(((place, code) for place, code in codes if code not in (ROLLED_BACK, INCONSISTENT)), codes[-1])


@lru_cache(maxsize=64)
def pack_acl(acl: tuple[Any, ...]) -> bytes:
    parts = [_INT.pack(len(acl))]
    for row in acl:
        scheme, id = row.id.scheme.encode(), row.id.id.encode()
        parts += [_INT.pack(row.perms), _INT.pack(len(scheme)), scheme, _INT.pack(len(id)), id]
    return b"".join(parts)
