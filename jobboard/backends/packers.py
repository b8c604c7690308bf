"""msgpack's packers, used again: to make one, with its buffer, takes ten times as long as to pack a job's details."""

from __future__ import annotations

from typing import Any

import msgpack

#: A packer keeps a buffer as large as what it has packed; after more bytes than this it is dropped.
_MAX_KEPT = 128 * 1024


class Packers:
    """Each packs for one call at a time, since a packer is not thread-safe; there are as many as calls at a time.

    :param options: of :class:`msgpack.Packer`.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._idle: list[Any] = []

    def pack(self, value: Any) -> bytes:
        """Return the value as msgpack; raises whatever that does."""
        try:
            packer = self._idle.pop()
        except IndexError:
            packer = msgpack.Packer(**self._options)
        # One that fails is not used again.
        data: bytes = packer.pack(value)
        if len(data) <= _MAX_KEPT:
            self._idle.append(packer)
        return data
