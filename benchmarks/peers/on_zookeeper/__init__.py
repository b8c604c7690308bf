"""What else keeps jobs on ZooKeeper; each runs one worker process."""

from benchmarks.peers.peer import Peer

PEERS = [
    Peer("jobboard", "../with_jobboard.py", setting="conductor, 64 threads"),
    Peer("TaskFlow", "with_taskflow.py", ("taskflow", "kazoo"), "a loop over wait: claim, consume", share=0.1),
    Peer("kazoo", "with_kazoo.py", ("kazoo",), "a loop over LockingQueue: get, consume", share=0.1),
]
