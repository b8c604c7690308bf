"""The harness of the etcd board, on one server or on several."""

from __future__ import annotations

from harnesses.server_harness import GARBAGE, ServerHarness
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.stored import stored_job_of
from jobboard.backends.etcd.txn import Found, Txn, get, put, result_of
from jobboard.board import JobBoard


class EtcdHarness(ServerHarness):
    backend_class = EtcdBackend

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        backend = self.backend(board.name)
        assert isinstance(backend, EtcdBackend)
        backend.open(5.0)
        order = overwrite(backend, uuid)
        assert order
        backend.close()

    def write_layout(self, board: JobBoard, number: str) -> str:
        backend = board._backend
        assert isinstance(backend, EtcdBackend)
        key = backend.keys.layout
        txn = Txn(then=[get(key), put(key, number.encode())])
        ((before,),) = (
            found.kvs for found in result_of(backend.http.call("/kv/txn", txn.payload(), changes=True)).found()
        )
        return before.value.decode()


def overwrite(backend: EtcdBackend, uuid: str, *, whole: bool = False) -> bytes:
    """Overwrite a live job's posting by garbage, or the whole record of it; return its place."""
    keys = backend.keys
    ((pointer,),) = (found.kvs for found in read(backend, keys.job(uuid)))
    order = pointer.value
    ((record,),) = (found.kvs for found in read(backend, keys.live + order))
    row = stored_job_of(record.value)
    row.body = GARBAGE
    payload = Txn(then=[put(keys.live + order, GARBAGE if whole else row.packed())]).payload()
    backend.http.call("/kv/txn", payload, changes=True)
    return order


def read(backend: EtcdBackend, key: bytes) -> list[Found]:
    reply = backend.http.call("/kv/txn", Txn(then=[get(key)]).payload(), changes=False)
    return list(result_of(reply).found())
