"""The same bare requests through the JSON gateway and by gRPC, in turn: what the gateway costs."""

from __future__ import annotations

import importlib.metadata
import statistics
import time
from base64 import b64encode
from collections.abc import Callable

import grpc
from etcd3 import etcdrpc
from etcd3gw.client import Etcd3Client
from measuring import arguments, tell

_KEY, _VALUE = b"/doors/key", b"x" * 190
_ROUNDS = 5


def main() -> None:
    uri, count, _ = arguments()
    host, _, port = uri.removeprefix("etcd://").partition("/")[0].partition(":")
    gateway = Etcd3Client(host, int(port))
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("etcd3gw", "grpcio", "protobuf")]
    tell("version", ", ".join(versions))
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        stub = etcdrpc.KVStub(channel)
        for what, by_gateway, by_grpc in (
            ("read", lambda: _read(gateway), lambda: stub.Range(etcdrpc.RangeRequest(key=_KEY))),
            ("change", lambda: _change(gateway), lambda: stub.Txn(_txn())),
        ):
            ours, theirs = [], []
            for _ in range(_ROUNDS):
                ours.append(_time_of(by_gateway, count // _ROUNDS))
                theirs.append(_time_of(by_grpc, count // _ROUNDS))
            ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
            tell(f"a {what} by the gateway", statistics.median(ours) * 1e6, "us")
            tell(f"a {what} by gRPC", statistics.median(theirs) * 1e6, "us")
            tell(f"a {what}, gateway to gRPC", ratio)


def _time_of(request: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        request()
    return (time.perf_counter() - begin) / count


def _read(client: Etcd3Client) -> None:
    client.post(client.get_url("/kv/range"), json={"key": b64encode(_KEY).decode()})


def _change(client: Etcd3Client) -> None:
    key = b64encode(_KEY).decode()
    client.transaction(
        {
            "compare": [{"key": key, "target": "VERSION", "result": "GREATER", "version": "-1"}],
            "success": [{"request_put": {"key": key, "value": b64encode(_VALUE).decode()}}],
            "failure": [],
        }
    )


def _txn() -> etcdrpc.TxnRequest:
    compare = etcdrpc.Compare(key=_KEY, target=etcdrpc.Compare.VERSION, result=etcdrpc.Compare.GREATER, version=-1)
    put = etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=_KEY, value=_VALUE))
    return etcdrpc.TxnRequest(compare=[compare], success=[put])


if __name__ == "__main__":
    main()
