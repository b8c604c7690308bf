"""What else keeps jobs on etcd, and its two doors: the JSON gateway, and gRPC."""

from benchmarks.peers.peer import Peer

PEERS = [
    Peer("jobboard", "../with_jobboard.py", setting="conductor, 64 threads"),
    Peer("TaskFlow", "with_taskflow.py", ("taskflow", "etcd3gw"), "a loop over iterjobs: claim, consume", share=0.1),
    # The code that protoc made for this library long ago is not what newer protobufs take.
    Peer("doors", "with_doors.py", ("etcd3", "protobuf<3.21", "etcd3gw"), "the same bare requests by both", share=0.2),
]
