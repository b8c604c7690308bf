"""What else keeps jobs in an SQLite file; each runs one worker process.

Both have ``synchronous=NORMAL``, which honker sets by itself; ``on_sqlite_full`` has ``FULL``.
honker's wheels need glibc 2.38.
"""

from benchmarks.peers.peer import JOBBOARD, Peer, Promises

STORE = "sqlite-normal"

PEERS = [
    JOBBOARD,
    Peer(
        "honker",
        "with_honker.py",
        ("honker>=0.5",),
        "claims and acks of 128, woken by its watcher",
        Promises("by the owner's name", "two jobs", "claimed again after its expiry"),
    ),
]
