"""Transactions of etcd as data: comparisons, operations and results."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: One comparison, or one operation, as the gateway's JSON has it.
Compare = dict[str, Any]
Op = dict[str, Any]

#: The server's default limit of operations in a transaction; a nested transaction has what the outer one leaves.
MAX_OPS = 128

#: Reads in one transaction: it may hold 64 nested ones, and each of these 64 reads.
_MAX_READS = 64 * 64

#: How large an operation is without its keys, in bytes.
_OVERHEAD = 50

#: Bytes of keys and values in one request; the server's limit is 1.5 MiB.
MAX_BYTES = 1_000_000


class KeyValue(NamedTuple):
    """A key as it is stored, and the revisions in which it was made and last written."""

    key: bytes
    value: bytes
    created: int
    modified: int
    lease: int

    @property
    def last_part(self) -> bytes:
        """What follows the last slash of the key: in most keys of a job its order."""
        return self.key.rpartition(b"/")[2]


class Found(NamedTuple):
    """What a range holds; ``total`` is the number of all keys in it, ``revision`` that of the store at the read."""

    kvs: list[KeyValue]
    total: int
    more: bool
    revision: int = 0

    @property
    def first(self) -> KeyValue | None:
        return self.kvs[0] if self.kvs else None

    @property
    def modified(self) -> int:
        """The revision in which the first key was written; 0: there is none."""
        return self.kvs[0].modified if self.kvs else 0

    @property
    def cursor(self) -> bytes | None:
        """The last key that was read of a page; None: there are no more."""
        return self.kvs[-1].key if self.more else None


@dataclass(slots=True)
class Txn:
    """One atomic step: ``then`` if all comparisons hold, else ``otherwise``.

    ``apart`` are transactions of one comparison and one operation that belong to ``then``, but can't be nested deeper.
    """

    compares: list[Compare] = field(default_factory=list)
    then: list[Op] = field(default_factory=list)
    otherwise: list[Op] = field(default_factory=list)
    apart: list[Op] = field(default_factory=list)

    def payload(self) -> dict[str, Any]:
        return {"compare": self.compares, "success": [*self.then, *self.apart], "failure": self.otherwise}


class TxnResult(NamedTuple):
    """The result of a transaction: one answer for each of its operations, in their order."""

    succeeded: bool
    revision: int
    answers: list[Any]

    def found(self) -> Iterator[Found]:
        """Iterate over what was read, also in nested transactions."""
        for answer in self.answers:
            if isinstance(answer, TxnResult):
                yield from answer.found()
            elif isinstance(answer, Found):
                yield answer


def kvs_of(found: Iterable[Found]) -> list[KeyValue]:
    """Return the keys of several ranges in one list."""
    return [kv for part in found for kv in part.kvs]


def b64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()


def after(prefix: bytes) -> bytes:
    """Return the first key behind all that begin with ``prefix``, which never ends in 0xff here."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


# -- operations ----------------------------------------------------------------------------------------------------


def put(key: bytes, value: bytes, lease: int = 0) -> Op:
    request = {"key": b64(key), "value": b64(value)}
    if lease:
        request["lease"] = str(lease)
    return {"request_put": request}


def delete(key: bytes) -> Op:
    return {"request_delete_range": {"key": b64(key)}}


def moved_timer(before: bytes | None, after: bytes | None) -> list[Op]:
    """Return the operations that write a timer in place of an earlier one; None: there is none.

    Two moments may make one key, and etcd refuses a transaction that changes a key twice.
    """
    ops = [] if before is None or before == after else [delete(before)]
    return ops if after is None else [*ops, put(after, b"")]


def delete_range(start: bytes, end: bytes) -> Op:
    return {"request_delete_range": {"key": b64(start), "range_end": b64(end)}}


def get(key: bytes, *, keys_only: bool = False) -> Op:
    return {"request_range": {"key": b64(key), "keys_only": True} if keys_only else {"key": b64(key)}}


def scan(start: bytes, end: bytes, limit: int = 0, *, keys_only: bool = False) -> Op:
    """Read from ``start`` to before ``end``, in the order of the keys; no more than ``limit``, if there is one."""
    return {"request_range": {"key": b64(start), "range_end": b64(end), "limit": limit, "keys_only": keys_only}}


def scan_prefix(prefix: bytes, limit: int = 0, *, keys_only: bool = False) -> Op:
    return scan(prefix, after(prefix), limit, keys_only=keys_only)


def count_prefix(prefix: bytes) -> Op:
    return {"request_range": {"key": b64(prefix), "range_end": b64(after(prefix)), "count_only": True}}


def nested(txn: Txn) -> Op:
    return {"request_txn": txn.payload()}


def many(ops: Sequence[Op], compares: int = 0, apart: int = 0, most: int = MAX_OPS) -> list[Op]:
    """Pack more operations than a transaction may list, by nesting them.

    :param compares: how many comparisons the transaction lists; a nested one may list this many fewer operations.
    :param apart: how many small transactions stand beside the operations.
    :param most: how many operations this transaction may list.
    """
    if len(ops) + apart <= most - (1 if apart else 0):
        return list(ops)
    size = min(64, most - compares, most - 2 * apart)
    return [nested(Txn(then=list(ops[start : start + size]))) for start in range(0, len(ops), size)]


def combined(txns: Sequence[Txn], first: Sequence[Op], apart: Sequence[Op] = ()) -> Txn:
    """Return one transaction that does ``first`` and then all of these, or nothing."""
    # The claims of one client compare the same session.
    compares = list({compared_in(compare): compare for txn in txns for compare in txn.compares}.values())
    steps = [step for txn in txns for step in txn.then]
    return Txn(compares, many([*first, *steps], len(compares), len(apart)), apart=list(apart))


def parts_of(ops: Sequence[Op]) -> list[Sequence[Op]]:
    """Cut reads into parts of which each fits one request."""
    parts: list[list[Op]] = [[]]
    size = 0
    for op in ops:
        request = op["request_range"]
        length = len(request["key"]) + len(request.get("range_end", "")) + _OVERHEAD
        size += length
        if parts[-1] and (size > MAX_BYTES or len(parts[-1]) == _MAX_READS):
            parts.append([])
            size = length
        parts[-1].append(op)
    return list(parts)


def at_revision(op: Op, revision: int) -> Op:
    """Return a read of an earlier revision."""
    return {"request_range": {**op["request_range"], "revision": str(revision)}}


# -- comparisons ---------------------------------------------------------------------------------------------------


def present(key: bytes) -> Compare:
    return {"key": b64(key), "target": "VERSION", "result": "GREATER", "version": "0"}


def absent(key: bytes) -> Compare:
    return {"key": b64(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}


def none_in(prefix: bytes) -> Compare:
    """Hold if no key begins with this."""
    return none_between(prefix, after(prefix))


def none_between(start: bytes, end: bytes) -> Compare:
    """Hold if there is no key from ``start`` to before ``end``."""
    return {**absent(start), "range_end": b64(end)}


def none_newer(start: bytes, end: bytes, revision: int) -> Compare:
    """Hold if no key from ``start`` to before ``end`` was written after this revision."""
    bounds = {"key": b64(start), "range_end": b64(end)}
    return {**bounds, "target": "MOD", "result": "LESS", "mod_revision": str(revision + 1)}


def modified_at(key: bytes, revision: int) -> Compare:
    """Hold if the key was last written in this revision; 0: if there is no such key."""
    return {"key": b64(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def less(key: bytes, value: bytes) -> Compare:
    """Hold if the key exists, and its value sorts before this one by bytes."""
    return {"key": b64(key), "target": "VALUE", "result": "LESS", "value": b64(value)}


def value_is(key: bytes, value: bytes) -> Compare:
    """Hold if the key exists, and has this value."""
    return {"key": b64(key), "target": "VALUE", "result": "EQUAL", "value": b64(value)}


def created_at(key: bytes, revision: int) -> Compare:
    """Hold if the key exists since this revision."""
    return {"key": b64(key), "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}


def compared_in(compare: Compare) -> tuple[str, ...]:
    """Return what tells a comparison from others; of several that are the same, one is sent."""
    return tuple(compare.values())


# -- answers -------------------------------------------------------------------------------------------------------


def result_of(reply: dict[str, Any], revision: int | None = None) -> TxnResult:
    """Read the gateway's answer to a transaction; it leaves out what is false, empty or zero."""
    at = int(reply["header"]["revision"]) if revision is None else revision
    return TxnResult(reply.get("succeeded", False), at, [_answer(part, at) for part in reply.get("responses", ())])


def _answer(part: dict[str, Any], revision: int) -> TxnResult | Found | None:
    if "response_range" in part:
        return found_of(part["response_range"], revision)
    if "response_txn" in part:
        return result_of(part["response_txn"], revision)
    return None


def found_of(reply: dict[str, Any], revision: int) -> Found:
    kvs = [kv_of(kv) for kv in reply.get("kvs", ())]
    return Found(kvs, int(reply.get("count", 0)), reply.get("more", False), revision)


def kv_of(kv: dict[str, Any]) -> KeyValue:
    return KeyValue(
        a2b_base64(kv["key"]),
        a2b_base64(kv.get("value", "")),
        int(kv.get("create_revision", 0)),
        int(kv.get("mod_revision", 0)),
        int(kv.get("lease", 0)),
    )


def size_of(ops: Iterable[Op]) -> int:
    """Return about how many bytes these operations are in the server's log."""
    total = 0
    for op in ops:
        for request in op.values():
            total += 3 * (len(request.get("key", "")) + len(request.get("value", ""))) // 4
            total += size_of(request.get("success", ())) + size_of(request.get("failure", ()))
    return total
