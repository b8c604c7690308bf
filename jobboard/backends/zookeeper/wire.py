"""What stands in the znodes: msgpack."""

from __future__ import annotations

from typing import Any

import msgpack


def pack(value: Any) -> bytes:
    data: bytes = msgpack.packb(value, use_bin_type=True)
    return data


def unpack(data: bytes) -> Any:
    """Return what was packed; raises ``ValueError`` if it is nothing of the kind."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=False)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"can't be decoded: {error}") from None
