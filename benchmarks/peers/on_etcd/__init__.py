"""What else keeps jobs on etcd, and its two doors: the JSON gateway, and gRPC."""

from benchmarks.peers.peer import JOBBOARD, Peer, Promises

PEERS = [
    JOBBOARD,
    Peer(
        "TaskFlow",
        "with_taskflow.py",
        ("taskflow", "etcd3gw"),
        "a loop over iterjobs: claim, consume",
        Promises("by the owner's name", "two jobs", "again after its expiry"),
        share=0.1,
    ),
    # Not a library of jobs: what one request costs by HTTP and by gRPC. The code that protoc made for etcd3 long ago
    # is not what newer protobufs take.
    Peer(
        "doors",
        "with_doors.py",
        ("etcd3", "protobuf<3.21", "etcd3gw"),
        "the same bare requests by both",
        Promises("-", "-", "-"),
        share=0.2,
    ),
]
