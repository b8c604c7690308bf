"""The libraries that keep jobs on PostgreSQL; each runs one worker process, at the setting that was fastest for it."""

from benchmarks.peers.peer import Peer

PEERS = [
    Peer("jobboard", "../with_jobboard.py", setting="conductor, 64 threads"),
    Peer("Procrastinate", "with_procrastinate.py", ("procrastinate",), "64 coroutines, LISTEN, jobs kept"),
    Peer("PgQueuer", "with_pgqueuer.py", ("pgqueuer[asyncpg]", "uvloop"), "asyncpg and uvloop, batches of 100, LISTEN"),
]
