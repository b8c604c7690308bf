"""What else keeps jobs on ZooKeeper; each runs one worker process."""

from benchmarks.peers.peer import JOBBOARD, Peer, Promises

PEERS = [
    JOBBOARD,
    Peer(
        "TaskFlow",
        "with_taskflow.py",
        ("taskflow", "kazoo"),
        "a loop over wait: claim, consume",
        Promises("by the owner's name", "two jobs", "again after its session"),
        share=0.1,
    ),
    Peer(
        "kazoo",
        "with_kazoo.py",
        ("kazoo",),
        "a loop over LockingQueue: get, consume",
        Promises("by its session", "two jobs", "again after its session"),
        share=0.1,
    ),
]
